//! Imports the files of a pipeline's work into a project of the user: which files differ, which of
//! them the user has changed meanwhile, and writing them to a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::git::bare_repository::{BareRepository, parse_id};
use crate::world::git::nul_separated;
use crate::world::git::object::ObjectId;
use crate::world::git::tree::index_row;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::file;

/// The mode that git prints for a file that a tree lacks.
const ABSENT_FILE_MODE: &str = "000000";

/// The version of a file in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    mode: String,
    object: ObjectId,
}

/// The old and the new version of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportChange {
    /// The old version, if the file existed.
    pub before: Option<TreeFile>,
    /// The new version, if the file exists afterwards.
    pub after: Option<TreeFile>,
}

/// How line endings on the disk differ from those in the repository, by the user's settings:
/// options that git accepts before a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineEndings(Vec<String>);

impl LineEndings {
    /// Converts values of `core.autocrlf` and `core.eol`; unknown values are ignored.
    pub(super) fn new(autocrlf: Option<&str>, eol: Option<&str>) -> Self {
        let setting = |name: &str, value: Option<&str>, known_values: &[&str]| {
            let value = value.filter(|value| known_values.contains(value))?;
            Some(["-c".to_owned(), format!("{name}={value}")])
        };
        let autocrlf = setting("core.autocrlf", autocrlf, &["true", "input"]);
        let eol = setting("core.eol", eol, &["lf", "crlf"]);
        Self(autocrlf.into_iter().chain(eol).flatten().collect())
    }

    /// Returns a command with these options.
    fn with_options<'a>(&'a self, command: &[&'a str]) -> Vec<&'a str> {
        let settings = self.0.iter().map(String::as_str);
        settings.chain(command.iter().copied()).collect()
    }
}

/// The files of a user, and their line endings.
#[derive(Clone, Copy, Debug)]
pub struct WorkingTree<'a> {
    /// The directory of the files.
    pub root: &'a AbsPath,
    /// Their line endings.
    pub line_endings: &'a LineEndings,
}

/// Changed files, by their paths in the tree.
pub type ImportChanges = BTreeMap<RelPath, ImportChange>;

impl BareRepository {
    /// Returns the files in which two trees differ.
    ///
    /// # Errors
    /// massgen cannot write to one of the paths.
    pub async fn changes(&self, from: &ObjectId, to: &ObjectId) -> Result<ImportChanges> {
        let changes = self.diff_trees(from, to, parse_change).await?;
        Ok(changes.into_iter().collect())
    }

    /// Returns the files among `changes` whose state on the disk is neither the old nor the new
    /// version: someone else has changed them.
    pub async fn find_user_changes(
        &self,
        disk: WorkingTree<'_>,
        changes: &ImportChanges,
    ) -> Result<Vec<RelPath>> {
        let staging = StagingDirectory::new(self.dir())?;
        let (old_index, new_index) = (staging.path().join("before"), staging.path().join("after"));
        let differing_from_old = self
            .differing_files(disk, &old_index, changes, |change| change.before.as_ref())
            .await?;
        let differing_from_new = self
            .differing_files(disk, &new_index, changes, |change| change.after.as_ref())
            .await?;
        let common_paths = differing_from_old.intersection(&differing_from_new);
        Ok(common_paths.cloned().collect())
    }

    /// Returns the files among `changes` that do not have their new version on the disk.
    pub async fn unwritten_files(
        &self,
        disk: WorkingTree<'_>,
        changes: &ImportChanges,
    ) -> Result<Vec<RelPath>> {
        let staging = StagingDirectory::new(self.dir())?;
        let index = staging.path().join("after");
        let differing_paths =
            self.differing_files(disk, &index, changes, |change| change.after.as_ref());
        Ok(differing_paths.await?.into_iter().collect())
    }

    /// Returns the files whose state on the disk differs from the given version; if the version is
    /// `None`, the files that exist.
    async fn differing_files(
        &self,
        disk: WorkingTree<'_>,
        index: &AbsPath,
        changes: &ImportChanges,
        version: impl Fn(&ImportChange) -> Option<&TreeFile>,
    ) -> Result<BTreeSet<RelPath>> {
        let mut rows = Vec::new();
        let mut differing_paths = BTreeSet::new();
        for (path, change) in changes {
            match version(change) {
                Some(version) => rows.extend(version_row(version, path)),
                None if !file::exists(&disk.root.join(path.as_path()))? => {}
                None if file::is_directory(&disk.root.join(path.as_path()))?
                    && self
                        .are_all_changed(disk.root, index, path, changes)
                        .await? => {}
                None => drop(differing_paths.insert(path.clone())),
            }
        }
        self.fill_index(disk.root, index, &rows).await?;
        // Unlike `git diff-files`, it reads files whose timestamps it does not know.
        let arguments = [
            "diff",
            "--name-only",
            "-z",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            // Inspecting a submodule would run programs that its settings name.
            "--ignore-submodules=dirty",
        ];
        let listing = self
            .worktree(disk.root, index)
            .run(&disk.line_endings.with_options(&arguments), b"")
            .await?;
        differing_paths.extend(paths(&listing));
        Ok(differing_paths)
    }

    /// Returns whether all files on the disk below a directory are among `changes`.
    async fn are_all_changed(
        &self,
        root: &AbsPath,
        index: &AbsPath,
        dir: &RelPath,
        changes: &ImportChanges,
    ) -> Result<bool> {
        let dir_text = dir.to_string();
        // A missing index knows no file, so these are all.
        let missing_index = index.parent().unwrap_or_else(AbsPath::root).join("none");
        let list = ["ls-files", "--others", "-z", "--", &dir_text];
        let listing = self.worktree(root, &missing_index).run(&list, b"").await?;
        Ok(paths(&listing).all(|path| changes.contains_key(&path)))
    }

    /// Writes the new versions of `changes` from `tree` into the empty directory of `target`, as
    /// its `.gitattributes` specify.
    pub async fn write_files(
        &self,
        tree: &ObjectId,
        changes: &ImportChanges,
        target: WorkingTree<'_>,
    ) -> Result<()> {
        let dir = target.root;
        dir::create_all(dir, DirectoryAudience::User)?;
        let staging = StagingDirectory::new(self.dir())?;
        let index = staging.path().join("index");
        // This fills only the index; the files that are to be written are named afterwards.
        let read_tree = ["read-tree", tree.as_str()];
        let worktree = self.worktree(dir, &index);
        worktree.run(&read_tree, b"").await?;
        let written_files = changes.iter().filter(|(_, change)| change.after.is_some());
        let paths: Vec<&[u8]> = written_files
            .map(|(path, _)| path.as_path().as_os_str().as_bytes())
            .collect();
        let checkout_index = ["checkout-index", "--force", "--quiet", "-z", "--stdin"];
        let arguments = target.line_endings.with_options(&checkout_index);
        let paths = paths.join(&0);
        worktree.run(&arguments, &paths).await.map(drop)
    }

    /// Returns what blocks files that `changes` create: a parent path that is no longer a
    /// directory, or that holds a nested repository. The result maps each such path to its kind.
    pub fn obstacles(
        &self,
        root: &AbsPath,
        changes: &ImportChanges,
    ) -> Result<BTreeMap<RelPath, &'static str>> {
        let mut visited = BTreeSet::new();
        let mut obstacles = BTreeMap::new();
        let present_paths = changes.iter().filter(|(_, change)| change.after.is_some());
        for (path, _) in present_paths {
            let mut ancestor = path.parent();
            while let Some(dir) = ancestor.filter(|dir| !dir.is_root()) {
                ancestor = dir.parent();
                if !visited.insert(dir.clone()) {
                    break;
                }
                let is_removed = changes
                    .get(&dir)
                    .is_some_and(|change| change.after.is_none());
                match obstacle(&root.join(dir.as_path()))? {
                    Some(kind) if !is_removed => drop(obstacles.insert(dir, kind)),
                    Some(_) | None => {}
                }
            }
        }
        Ok(obstacles)
    }
}

/// Parses a row of `git diff-tree --raw -z`: `:MODE MODE OBJECT OBJECT STATUS`, and the path.
fn parse_change(fields: &str, path: &[u8]) -> Option<(RelPath, ImportChange)> {
    let mut field_list = fields.strip_prefix(':')?.split(' ');
    let mut next_field = || field_list.next();
    let (mode_before, mode_after) = (next_field()?, next_field()?);
    let (object_before, object_after) = (next_field()?, next_field()?);
    // The outer `None` means that the row is invalid, the inner one that there is no file.
    let version = |mode: &str, object: &str| match mode {
        ABSENT_FILE_MODE => Some(None),
        mode => Some(Some(TreeFile {
            mode: mode.to_owned(),
            object: parse_id(object.as_bytes()).ok()?,
        })),
    };
    let change = ImportChange {
        before: version(mode_before, object_before)?,
        after: version(mode_after, object_after)?,
    };
    let path = RelPath::new(OsStr::from_bytes(path)).filter(|path| !path.is_root())?;
    Some((path, change))
}

/// Parses NUL-terminated paths.
pub(super) fn paths(output: &[u8]) -> impl Iterator<Item = RelPath> {
    nul_separated(output).filter_map(|name| RelPath::new(OsStr::from_bytes(name)))
}

/// Returns the row that puts a version of a file into an index.
fn version_row(version: &TreeFile, path: &RelPath) -> Vec<u8> {
    index_row(
        &version.mode,
        &version.object,
        path.as_path().as_os_str().as_bytes(),
    )
}

/// Returns what is at `path` instead of a plain directory of the project, if anything.
fn obstacle(path: &AbsPath) -> Result<Option<&'static str>> {
    if file::is_link(path)? {
        return Ok(Some("a link"));
    }
    Ok(match file::kind(path)? {
        Some(kind) if !kind.is_dir() => Some("a file"),
        Some(_) if file::exists(&path.join(".git"))? => Some("a repository of its own"),
        Some(_) | None => None,
    })
}
