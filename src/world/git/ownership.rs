//! Checks whether a repository belongs to the directory that names it. The files of an untrusted
//! directory may name any repository of the user: that repository's files would become those of a
//! pipeline, and agents would read its objects.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::io::files::read_regular_file;
use crate::world::sys::state_files::{dir, file};

/// The longest file that names another path, in bytes.
const PATH_FILE_BYTES_MAX: u64 = 64 * 1024;
/// The name by which a directory refers to its repository.
const DOT_GIT: &str = ".git";

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
        let listed_text = read_regular_file(&self.git_dir.join("gitdir"), PATH_FILE_BYTES_MAX)?
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let listed_path = listed_text.map(|text| self.git_dir.join(text.trim_end_matches('\n')));
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
