//! Owns the files of a pipeline's work on their way into a project of the user's: which differ, which of
//! them the user has changed meanwhile, and how they are laid out.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::git::hub::{Hub, parse_id};
use crate::world::git::nul_separated;
use crate::world::git::object::ObjectId;
use crate::world::git::tree::index_row;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::file;

/// The mode of what a tree lacks.
const NOTHING: &str = "000000";

/// A file as a tree has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    mode: String,
    object: ObjectId,
}

/// What a file was and becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportChange {
    /// What it was, if it was there.
    pub before: Option<TreeFile>,
    /// What it becomes, if it is there then.
    pub after: Option<TreeFile>,
}

/// How the ends of lines on the disk differ from those in the repository, by the user's settings: words
/// that git takes before a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineEndings(Vec<String>);

impl LineEndings {
    /// By values of `core.autocrlf` and `core.eol`; others than git's own say nothing.
    pub(super) fn new(autocrlf: Option<&str>, eol: Option<&str>) -> Self {
        let setting = |name: &str, value: Option<&str>, known: &[&str]| {
            let value = value.filter(|value| known.contains(value))?;
            Some(["-c".to_owned(), format!("{name}={value}")])
        };
        let autocrlf = setting("core.autocrlf", autocrlf, &["true", "input"]);
        let eol = setting("core.eol", eol, &["lf", "crlf"]);
        Self(autocrlf.into_iter().chain(eol).flatten().collect())
    }

    /// A command that goes by them.
    fn with_options<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        let settings = self.0.iter().map(String::as_str);
        settings.chain(command.iter().copied()).collect()
    }
}

/// The files of a user, and how lines end there.
#[derive(Clone, Copy, Debug)]
pub struct WorkingTree<'a> {
    /// The directory that they are in.
    pub root: &'a AbsPath,
    /// How lines end there.
    pub line_ends: &'a LineEndings,
}

/// Files that change, by their paths in the tree.
pub type ImportChanges = BTreeMap<RelPath, ImportChange>;

impl Hub {
    /// The files in which two trees differ.
    ///
    /// # Errors
    /// A path is none that massgen can write to.
    pub async fn changes(&self, from: &ObjectId, to: &ObjectId) -> Result<ImportChanges> {
        let changes = self.diff_trees((from, to), change).await?;
        Ok(changes.into_iter().collect())
    }

    /// The files among `changes` that are on the disk neither as they were nor as they become: somebody
    /// else has changed them.
    pub async fn user_changed(
        &self,
        disk: WorkingTree<'_>,
        changes: &ImportChanges,
    ) -> Result<Vec<RelPath>> {
        let stage = StagingDirectory::new(self.dir())?;
        let before = (disk, stage.path().join("before"));
        let after = (disk, stage.path().join("after"));
        let unlike_before = self
            .differing_files(before, changes, |change| change.before.as_ref())
            .await?;
        let unlike_after = self
            .differing_files(after, changes, |change| change.after.as_ref())
            .await?;
        let both = unlike_before.intersection(&unlike_after);
        Ok(both.cloned().collect())
    }

    /// The files among `changes` that are not on the disk as they become.
    pub async fn missing(
        &self,
        disk: WorkingTree<'_>,
        changes: &ImportChanges,
    ) -> Result<Vec<RelPath>> {
        let stage = StagingDirectory::new(self.dir())?;
        let after = (disk, stage.path().join("after"));
        let unlike = self.differing_files(after, changes, |change| change.after.as_ref());
        Ok(unlike.await?.into_iter().collect())
    }

    /// The files that are not on the disk in a version of theirs; where that is nothing, those that are
    /// there.
    async fn differing_files(
        &self,
        (disk, index): (WorkingTree<'_>, AbsPath),
        changes: &ImportChanges,
        version: impl Fn(&ImportChange) -> Option<&TreeFile>,
    ) -> Result<BTreeSet<RelPath>> {
        let files = (disk.root, &index);
        let mut rows = Vec::new();
        let mut unlike = BTreeSet::new();
        for (path, change) in changes {
            match version(change) {
                Some(version) => rows.extend(row(version, path)),
                None if !exists(disk.root, path) => {}
                None if file::is_directory(&disk.root.join(path.as_path()))
                    && self.are_all_changed(files, path, changes).await? => {}
                None => drop(unlike.insert(path.clone())),
            }
        }
        self.fill_index(files, &rows).await?;
        // Unlike `git diff-files`, it looks into files whose dates it does not know.
        let ask = [
            "diff",
            "--name-only",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            // Looking into a submodule runs what its settings name.
            "--ignore-submodules=dirty",
        ];
        let told = self
            .query_worktree(files, &disk.line_ends.with_options(&ask))
            .await?;
        unlike.extend(paths(&told));
        Ok(unlike)
    }

    /// Whether all files on the disk below a directory are among `changes`.
    async fn are_all_changed(
        &self,
        (root, index): (&AbsPath, &AbsPath),
        dir: &RelPath,
        changes: &ImportChanges,
    ) -> Result<bool> {
        let below = dir.to_string();
        // Nothing is known to an index that is not there, so these are all.
        let unknown = index.parent().unwrap_or_else(AbsPath::top).join("none");
        let list = ["ls-files", "--others", "-z", "--", &below];
        let told = self.query_worktree((root, &unknown), &list).await?;
        Ok(paths(&told).all(|path| changes.contains_key(&path)))
    }

    /// Writes what `changes` make of files of `tree` into the empty directory of `to`, as its
    /// `.gitattributes` say.
    pub async fn lay_out(
        &self,
        (tree, changes): (&ObjectId, &ImportChanges),
        to: WorkingTree<'_>,
    ) -> Result<()> {
        let dir = to.root;
        dir::create_all(dir, DirectoryAudience::User)?;
        let stage = StagingDirectory::new(self.dir())?;
        let index = stage.path().join("index");
        let all = ["read-tree", tree.as_str()];
        self.query_worktree((dir, &index), &all).await?;
        let after = changes.iter().filter(|(_, change)| change.after.is_some());
        let paths: Vec<&[u8]> = after
            .map(|(path, _)| path.as_path().as_os_str().as_bytes())
            .collect();
        let write = ["checkout-index", "--force", "--quiet", "-z", "--stdin"];
        let write = to.line_ends.with_options(&write);
        let paths = paths.join(&0);
        self.query_worktree_with_input((dir, &index), &write, &paths)
            .await
    }

    /// What stands in the way of files that `changes` make: a name above one of them is a directory no
    /// more, or holds a repository of its own. By their paths, with what they are.
    pub fn obstacles(
        &self,
        root: &AbsPath,
        changes: &ImportChanges,
    ) -> BTreeMap<RelPath, &'static str> {
        let mut looked_at = BTreeSet::new();
        let mut found = BTreeMap::new();
        let made = changes.iter().filter(|(_, change)| change.after.is_some());
        for (path, _) in made {
            let mut above = path.parent();
            while let Some(dir) = above.filter(|dir| !dir.is_root()) {
                above = dir.parent();
                if !looked_at.insert(dir.clone()) {
                    break;
                }
                let makes_way = changes.get(&dir).is_some_and(|own| own.after.is_none());
                match obstacle(&root.join(dir.as_path())) {
                    Some(what) if !makes_way => drop(found.insert(dir, what)),
                    Some(_) | None => {}
                }
            }
        }
        found
    }
}

/// A row of `git diff-tree --raw -z`: `:MODE MODE OBJECT OBJECT STATUS`, and the path.
fn change(about: &str, path: &[u8]) -> Option<(RelPath, ImportChange)> {
    let mut words = about.strip_prefix(':')?.split(' ');
    let mut word = || words.next();
    let (before, after) = (word()?, word()?);
    let (old, new) = (word()?, word()?);
    let version = |mode: &str, object: &str| match mode {
        NOTHING => Some(None),
        mode => Some(Some(TreeFile {
            mode: mode.to_owned(),
            object: parse_id(object.as_bytes()).ok()?,
        })),
    };
    let change = ImportChange {
        before: version(before, old)?,
        after: version(after, new)?,
    };
    let path = RelPath::new(OsStr::from_bytes(path)).filter(|path| !path.is_root())?;
    Some((path, change))
}

/// The paths of an answer that ends each with a NUL.
pub(super) fn paths(answer: &[u8]) -> impl Iterator<Item = RelPath> {
    nul_separated(answer).filter_map(|name| RelPath::new(OsStr::from_bytes(name)))
}

fn row(version: &TreeFile, path: &RelPath) -> Vec<u8> {
    index_row(
        &version.mode,
        &version.object,
        path.as_path().as_os_str().as_bytes(),
    )
}

/// What stands at the path of a directory of the project's, if it is none.
fn obstacle(path: &AbsPath) -> Option<&'static str> {
    if file::is_link(path) {
        return Some("a link");
    }
    match file::kind(path) {
        Ok(kind) if !kind.is_dir() => Some("a file"),
        Ok(_) if file::exists(&path.join(".git")) => Some("a repository of its own"),
        Ok(_) | Err(_) => None,
    }
}

fn exists(root: &AbsPath, path: &RelPath) -> bool {
    let path = root.join(path.as_path());
    file::exists(&path)
}
