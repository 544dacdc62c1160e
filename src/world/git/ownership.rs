//! Checks whether a repository belongs to the directory that names it. The files of an untrusted
//! directory may name any repository of the user: that repository's files would become those of a
//! pipeline, and agents would read its objects.

use crate::error::Result;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::world::io::files::read_regular_file;
use crate::world::sys::state_files::{dir, file};

/// The longest file that names another path, in bytes.
const PATH_FILE_BYTES_MAX: u64 = 64 * 1024;
/// The name by which a directory refers to its repository.
const DOT_GIT: &str = ".git";
/// What is before the path in a `.git` file.
const GIT_FILE_PREFIX: &str = "gitdir: ";

/// The longest config of a repository that is read, in bytes.
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The repository to which the `.git` file of a working tree points: that of a linked worktree, of
/// a submodule, or one with a separate directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkedRepository {
    /// It names the working tree, which git has thus created, and lies apart from it.
    Own(RealPath),
    /// It does not, cannot be read, or contains the working tree, and so whatever lies around that.
    Foreign(AbsPath),
}

/// Returns the directory of the repository to which the `.git` file of `root` points; `None` if
/// there is no such file.
pub fn linked_repository(root: &AbsPath) -> Result<Option<LinkedRepository>> {
    let dot_git = root.join(DOT_GIT);
    let Some(git_dir) = read_path(&dot_git, GIT_FILE_PREFIX)? else {
        return Ok(None);
    };
    let shared_dir = read_path(&git_dir.join("commondir"), "").unwrap_or_default();
    let common_dir = shared_dir.unwrap_or_else(|| git_dir.clone());
    let found = FoundRepository {
        root,
        git_dir: &git_dir,
        common_dir: &common_dir,
        objects: &common_dir.join("objects"),
        worktree: configured_worktree(&git_dir),
    };
    if !matches!(found.foreign_reason(), Ok(None)) {
        return Ok(Some(LinkedRepository::Foreign(common_dir)));
    }
    let own_dir = dir::resolve(&common_dir)?;
    Ok(Some(if dir::resolve(root)?.is_within(&own_dir) {
        LinkedRepository::Foreign(common_dir)
    } else {
        LinkedRepository::Own(own_dir)
    }))
}

/// Returns the working trees of the repository `common_dir` that lie in its own directory, as below a
/// bare repository: they are not part of it.
pub fn worktrees_inside(common_dir: &RealPath) -> Result<Vec<RelPath>> {
    let list = common_dir.to_abs().join("worktrees");
    let mut inside = Vec::new();
    for name in dir::names_if_exists(&list)? {
        let listed_path = read_path(&list.join(&name).join("gitdir"), "")?;
        let worktree = listed_path.and_then(|dot_git| dot_git.parent());
        let worktree = worktree.map(|worktree| dir::resolve(&worktree)).transpose();
        // One that is gone has no files.
        if let Ok(Some(worktree)) = worktree {
            inside.extend(worktree.below(common_dir).filter(|rel| !rel.is_root()));
        }
    }
    Ok(inside)
}

/// Returns the path that a file consists of after `prefix`; relative ones are relative to its
/// directory. `None` if there is no such regular file.
fn read_path(file: &AbsPath, prefix: &str) -> Result<Option<AbsPath>> {
    if !file::kind(file)?.is_some_and(|kind| kind.is_file()) {
        return Ok(None);
    }
    let text = read_regular_file(file, PATH_FILE_BYTES_MAX)?
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let path = text.as_deref().and_then(|text| text.strip_prefix(prefix));
    let parent = file.parent().unwrap_or_else(AbsPath::root);
    Ok(path.map(|path| parent.join(path.trim_end_matches('\n'))))
}

/// Returns `core.worktree` of a repository's config, as git writes it for a submodule.
fn configured_worktree(git_dir: &AbsPath) -> Option<AbsPath> {
    let bytes = read_regular_file(&git_dir.join("config"), CONFIG_BYTES_MAX).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| *line == "[core]")?;
    let settings = lines.take_while(|line| !line.starts_with('['));
    let mut values = settings.filter_map(|line| line.split_once(" = "));
    let (_, path) = values.find(|(key, _)| *key == "worktree")?;
    Some(git_dir.join(path))
}

/// A repository, as git found it from a directory.
#[derive(Debug)]
pub(super) struct FoundRepository<'a> {
    /// The root of the working tree.
    pub(super) root: &'a AbsPath,
    /// The directory of the repository.
    pub(super) git_dir: &'a AbsPath,
    /// The directory that it shares with other worktrees; the same if there are none.
    pub(super) common_dir: &'a AbsPath,
    /// The directory of its objects.
    pub(super) objects: &'a AbsPath,
    /// The working tree according to the repository, if it sets one.
    pub(super) worktree: Option<AbsPath>,
}

impl FoundRepository<'_> {
    /// Returns why the repository does not belong to the directory; `None` if it does: it is inside
    /// the directory, or names the directory itself.
    pub(super) fn foreign_reason(&self) -> Result<Option<String>> {
        let dot_git = self.root.join(DOT_GIT);
        if file::is_link(&dot_git)? {
            return Ok(Some(format!("its `{DOT_GIT}` is a symlink")));
        }
        let is_inside = file::kind(&dot_git)?.is_some_and(|kind| kind.is_dir());
        let belongs = if is_inside {
            is_same_dir(&dot_git, self.git_dir)? && is_same_dir(&dot_git, self.common_dir)?
        } else if is_same_dir(self.git_dir, self.common_dir)? {
            match &self.worktree {
                Some(worktree) => file::exists(worktree)? && is_same_dir(worktree, self.root)?,
                None => false,
            }
        } else {
            self.is_listed(&dot_git)?
        };
        if !belongs {
            let reason = format!("its `{DOT_GIT}` points to `{}`", self.common_dir);
            return Ok(Some(reason));
        }
        let own_objects = dir::resolve(self.common_dir)?.as_path().join("objects");
        let is_own = dir::resolve(self.objects)?.as_path() == own_objects;
        Ok((!is_own).then(|| "its object directory is a symlink".to_owned()))
    }

    /// Returns whether the shared repository lists this working tree as one of its own.
    fn is_listed(&self, dot_git: &AbsPath) -> Result<bool> {
        let parent = self.git_dir.parent().unwrap_or_else(AbsPath::root);
        let list = self.common_dir.join("worktrees");
        if !file::exists(&list)? || !is_same_dir(&parent, &list)? {
            return Ok(false);
        }
        let listed_path = read_path(&self.git_dir.join("gitdir"), "")?;
        let listed_parent = listed_path.as_ref().and_then(AbsPath::parent);
        let is_dot_git = listed_path.is_some_and(|path| path.as_path().ends_with(DOT_GIT));
        let Some(listed_parent) = listed_parent.filter(|_| is_dot_git) else {
            return Ok(false);
        };
        Ok(file::exists(&listed_parent)?
            && is_same_dir(
                &listed_parent,
                &dot_git.parent().unwrap_or_else(AbsPath::root),
            )?)
    }
}

/// Returns whether two paths lead to the same directory.
fn is_same_dir(one: &AbsPath, other: &AbsPath) -> Result<bool> {
    Ok(dir::resolve(one)? == dir::resolve(other)?)
}
