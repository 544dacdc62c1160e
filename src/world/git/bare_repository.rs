//! The bare git repository of one pipeline, which massgen alone creates and changes. If the
//! pipeline works on a project, it uses the project's objects. The project's own repository is only
//! read, until it is sent the objects of the commit that it receives.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::git::object::{BranchName, CommitAuthor, ObjectId};
use crate::world::git::project::{NOT_FOUND_STATUS, ProjectRepository, SHALLOW_BYTES_MAX};
use crate::world::git::{GitInvocation, GitOutput, GitProgram, OUTPUT_BYTES_MAX, lossy_text, text};
use crate::world::io::files::read_regular_file;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// The exit status of `git merge-tree` for conflicts (git-merge-tree(1)).
const CONFLICT_STATUS: i32 = 1;
/// The mode of a tree entry that is a commit of another repository.
const SUBMODULE_MODE: &str = "160000";

/// A bare git repository that only massgen changes.
#[derive(Clone, Debug)]
pub struct BareRepository {
    git: GitProgram,
    dir: AbsPath,
    objects: GitObjectCache,
}

/// A work tree, with the repository and the index that git uses for it.
#[derive(Clone, Copy)]
pub(super) struct GitWorktree<'a> {
    git: &'a GitProgram,
    git_dir: &'a AbsPath,
    dir: &'a AbsPath,
    index: &'a AbsPath,
}

impl GitWorktree<'_> {
    /// Runs git there on `input`.
    pub(super) async fn run(self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>> {
        let output = self.try_run(arguments, input).await?;
        match output.code {
            0 => Ok(output.stdout),
            _ => Err(GitInvocation::new(self.dir, arguments).git_error(&output.stderr)),
        }
    }

    /// Like [`GitWorktree::run`], but returns the output whatever git's exit status.
    pub(super) async fn try_run(self, arguments: &[&str], input: &[u8]) -> Result<GitOutput> {
        let git_dir = self.git_dir.to_string();
        let (tree, index) = (self.dir.to_string(), self.index.to_string());
        let env = [
            ("GIT_DIR", git_dir.as_str()),
            ("GIT_WORK_TREE", &tree),
            ("GIT_INDEX_FILE", &index),
        ];
        let call = GitInvocation {
            env: &env,
            input,
            ..GitInvocation::new(self.dir, arguments)
        };
        self.git.try_run(call).await
    }
}

/// A commit to be created.
#[derive(Clone, Copy, Debug)]
pub struct NewCommit<'a> {
    /// The tree of its files.
    pub tree: &'a ObjectId,
    /// Its parents.
    pub parents: &'a [ObjectId],
    /// Its author.
    pub author: &'a CommitAuthor,
    /// Its subject, and after an empty line the body.
    pub message: &'a str,
}

/// The result of merging two commits. The merge creates nothing but objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// The merged tree.
    Clean(ObjectId),
    /// Both sides changed the same files.
    Conflict {
        /// A tree in which these files contain both sides between conflict markers.
        tree: ObjectId,
        /// The files, each listed once.
        files: Vec<String>,
    },
}

/// A file in which two trees differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its path from the root; invalid UTF-8 is replaced.
    pub path: String,
    /// How it changed.
    pub status: DiffStatus,
    /// Whether it is a commit of another repository rather than a file.
    pub is_submodule: bool,
}

/// How a file changed from one tree to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffStatus {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// Its content, kind or mode changed.
    Modified,
}

impl BareRepository {
    /// Creates a repository without a branch at `dir`. It uses the objects of `project` without
    /// copying them.
    pub async fn create(
        git: GitProgram,
        dir: AbsPath,
        project: Option<&ProjectRepository>,
    ) -> Result<Self> {
        dir::create_all(&dir, DirectoryAudience::User)?;
        let bare_repository = Self::open(git, dir);
        let format = project.map_or("sha1", |project| &project.format);
        let format_option = format!("--object-format={format}");
        // No template: it could contain hooks.
        let branch = "--initial-branch=main";
        let init = [
            "init",
            "--quiet",
            "--bare",
            "--template=",
            branch,
            &format_option,
            ".",
        ];
        bare_repository.run_git(&init, &[], b"").await?;
        if let Some(project) = project {
            // Alternates: objects that this repository lacks are read from the project's.
            let info = bare_repository.dir.join("objects/info");
            dir::create_all(&info, DirectoryAudience::User)?;
            let line = [project.objects.as_path().as_os_str().as_bytes(), b"\n"].concat();
            file::replace(&info.join("alternates"), &line)?;
            // The history ends where the project's does.
            if !project.shallow.is_empty() {
                let shallow = bare_repository.dir.join("shallow");
                file::replace(&shallow, &project.shallow)?;
            }
        }
        Ok(bare_repository)
    }

    /// Opens the existing repository at `dir`.
    pub fn open(git: GitProgram, dir: AbsPath) -> Self {
        Self {
            git,
            dir,
            objects: GitObjectCache::default(),
        }
    }

    /// Returns what is known of its objects.
    pub(super) fn objects(&self) -> &GitObjectCache {
        &self.objects
    }

    /// Returns the git program.
    pub(super) fn git(&self) -> &GitProgram {
        &self.git
    }

    /// Returns its directory.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Returns the newest commit of a branch; `None` if there is no such branch.
    pub async fn tip(&self, branch: &BranchName) -> Result<Option<ObjectId>> {
        let reference = branch.reference();
        let arguments = [
            "rev-parse",
            "--quiet",
            "--verify",
            "--end-of-options",
            &reference,
        ];
        let output = self.try_run_git(&arguments).await?;
        match output.code {
            0 => parse_id(&output.stdout).map(Some),
            NOT_FOUND_STATUS => Ok(None),
            _ => Err(self.git_error(&arguments, &output.stderr)),
        }
    }

    /// Points a branch to `to`, if it still points to `from`, or with `None`, if there is no such
    /// branch.
    ///
    /// # Errors
    /// It points elsewhere.
    pub async fn move_branch(
        &self,
        branch: &BranchName,
        to: &ObjectId,
        from: Option<&ObjectId>,
    ) -> Result<()> {
        let reference = branch.reference();
        let null_id = "0".repeat(to.as_str().len());
        let from = from.map_or(null_id.as_str(), ObjectId::as_str);
        let arguments = ["update-ref", &reference, to.as_str(), from];
        self.run_git(&arguments, &[], b"").await.map(drop)
    }

    /// Creates a commit that no branch points to yet.
    pub async fn commit(&self, new_commit: NewCommit<'_>) -> Result<ObjectId> {
        let parents = new_commit
            .parents
            .iter()
            .flat_map(|parent| ["-p", parent.as_str()]);
        let arguments: Vec<&str> = ["commit-tree", "-F", "-"]
            .into_iter()
            .chain(parents)
            .chain([new_commit.tree.as_str()])
            .collect();
        let env = new_commit.author.variables();
        // Git accepts every byte but this one.
        let message = new_commit.message.replace('\0', "");
        let output = self.run_git(&arguments, &env, message.as_bytes()).await?;
        parse_id(&output)
    }

    /// Returns the tree of a commit.
    pub async fn tree_of(&self, commit: &ObjectId) -> Result<ObjectId> {
        if let Some(tree) = self.objects.tree(commit) {
            return Ok(tree);
        }
        let name = format!("{commit}^{{tree}}");
        let arguments = ["rev-parse", "--verify", "--end-of-options", &name];
        let tree = parse_id(&self.run_git(&arguments, &[], b"").await?)?;
        self.objects.keep_tree(commit, &tree);
        Ok(tree)
    }

    /// Returns the empty tree.
    pub async fn empty_tree(&self) -> Result<ObjectId> {
        parse_id(&self.run_git(&["mktree"], &[], b"").await?)
    }

    /// Merges two commits from their common ancestor. No file, branch or index is touched.
    pub async fn merge(&self, ours: &ObjectId, theirs: &ObjectId) -> Result<MergeResult> {
        let arguments = [
            "merge-tree",
            "--write-tree",
            "--no-messages",
            "--allow-unrelated-histories",
            "--name-only",
            "-z",
            ours.as_str(),
            theirs.as_str(),
        ];
        let output = self.try_run_git(&arguments).await?;
        let mut parts = output.stdout.split(|byte| *byte == 0);
        let tree = parts.next().map(parse_id).transpose()?;
        match (output.code, tree) {
            (0, Some(tree)) => Ok(MergeResult::Clean(tree)),
            (CONFLICT_STATUS, Some(tree)) => {
                let files = parts.filter(|part| !part.is_empty()).map(lossy_text);
                Ok(MergeResult::Conflict {
                    tree,
                    files: files.collect(),
                })
            }
            (_, _) => Err(self.git_error(&arguments, &output.stderr)),
        }
    }

    /// Returns whether `commit` is `ancestor` or descends from it.
    pub async fn is_descendant_of(&self, commit: &ObjectId, ancestor: &ObjectId) -> Result<bool> {
        let arguments = [
            "merge-base",
            "--is-ancestor",
            ancestor.as_str(),
            commit.as_str(),
        ];
        let output = self.try_run_git(&arguments).await?;
        match output.code {
            0 => Ok(true),
            1 => Ok(false),
            _ => Err(self.git_error(&arguments, &output.stderr)),
        }
    }

    /// Returns the files in which two trees (or commits) differ, in the order of their paths.
    pub async fn changed_files(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<ChangedFile>> {
        let parse = |fields: &str, path: &[u8]| parse_changed_file(fields, lossy_text(path));
        self.diff_trees(from, to, parse).await
    }

    /// Applies `parse` to each file in which two trees differ: to the fields that git prints about
    /// the file, and its path.
    pub(super) async fn diff_trees<T>(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        parse: impl Fn(&str, &[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let arguments = [
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=none",
            from.as_str(),
            to.as_str(),
        ];
        let output = self.run_git(&arguments, &[], b"").await?;
        let mut parts = output.split(|byte| *byte == 0);
        let mut rows = Vec::new();
        while let (Some(fields), Some(path)) = (parts.next(), parts.next()) {
            let row = parse(&lossy_text(fields), path);
            rows.push(row.ok_or_else(|| self.git_error(&arguments, "its output is not a list"))?);
        }
        Ok(rows)
    }

    /// Runs git on the repository and returns its output; a failure is an error.
    pub(super) async fn run_git(
        &self,
        arguments: &[&str],
        env: &[(&str, &str)],
        input: &[u8],
    ) -> Result<Vec<u8>> {
        let git_dir = self.dir.to_string();
        let env = [&[("GIT_DIR", git_dir.as_str())], env].concat();
        let call = GitInvocation {
            env: &env,
            input,
            ..self.call(arguments)
        };
        self.git.run(call).await
    }

    /// Returns the work tree `dir` of this repository, with this index.
    pub(super) fn worktree<'a>(&'a self, dir: &'a AbsPath, index: &'a AbsPath) -> GitWorktree<'a> {
        self.worktree_of(&self.dir, dir, index)
    }

    /// Returns the work tree `dir` of the repository at `git_dir`, with this index.
    pub(super) fn worktree_of<'a>(
        &'a self,
        git_dir: &'a AbsPath,
        dir: &'a AbsPath,
        index: &'a AbsPath,
    ) -> GitWorktree<'a> {
        GitWorktree {
            git: &self.git,
            git_dir,
            dir,
            index,
        }
    }

    /// Adds entries in the format of `git update-index -z --index-info` to the index of the files
    /// in `dir`.
    pub(super) async fn fill_index(
        &self,
        dir: &AbsPath,
        index: &AbsPath,
        rows: &[u8],
    ) -> Result<()> {
        let arguments = ["update-index", "-z", "--index-info"];
        let output = self.worktree(dir, index).run(&arguments, rows).await;
        output.map(drop)
    }

    /// Gives `project` all objects that are reachable from `commit` and not from its head, as one
    /// pack. It is written by a git that uses only the settings of the bare repository.
    pub(super) async fn send_objects(
        &self,
        project: &ProjectRepository,
        commit: &ObjectId,
    ) -> Result<()> {
        let packs = project.objects.join("pack/pack").to_string();
        let arguments = ["pack-objects", "--quiet", "--non-empty", "--revs", &packs];
        let objects = project.objects.to_string();
        // It runs in the bare repository, to which this path is relative.
        let env = [
            ("GIT_OBJECT_DIRECTORY", objects.as_str()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "objects"),
        ];
        let known_heads = project.head.iter().map(|head| format!("^{head}\n"));
        let input: String = std::iter::once(format!("{commit}\n"))
            .chain(known_heads)
            .collect();
        self.run_git(&arguments, &env, input.as_bytes())
            .await
            .map(drop)
    }

    /// Runs git on the repository and returns the beginning of its output.
    pub(super) async fn output_prefix(
        &self,
        arguments: &[&str],
        bytes_max: u64,
    ) -> Result<Vec<u8>> {
        let git_dir = self.dir.to_string();
        let call = GitInvocation {
            env: &[("GIT_DIR", &git_dir)],
            // Output of the greatest length is an error.
            output_bytes_max: bytes_max.min(OUTPUT_BYTES_MAX.saturating_sub(1)),
            ..self.call(arguments)
        };
        self.git.run(call).await
    }

    /// Returns the hash function of its object IDs: `sha1` or `sha256`.
    pub(super) async fn format(&self) -> Result<String> {
        let output = self
            .run_git(&["rev-parse", "--show-object-format"], &[], b"")
            .await?;
        text(&output).map(str::to_owned)
    }

    /// Returns the commits at which its history ends, if it is shallow.
    pub(super) fn shallow(&self) -> Result<Option<Vec<u8>>> {
        read_regular_file(&self.dir.join("shallow"), SHALLOW_BYTES_MAX)
    }

    /// Runs git on the repository and returns its output, whatever its exit status.
    async fn try_run_git(&self, arguments: &[&str]) -> Result<GitOutput> {
        let git_dir = self.dir.to_string();
        let call = GitInvocation {
            env: &[("GIT_DIR", &git_dir)],
            ..self.call(arguments)
        };
        self.git.try_run(call).await
    }

    /// Creates the error for a failed run of git.
    fn git_error(&self, arguments: &[&str], reason: &str) -> Error {
        self.call(arguments).git_error(reason)
    }

    fn call<'a>(&'a self, arguments: &'a [&'a str]) -> GitInvocation<'a> {
        GitInvocation::new(&self.dir, arguments)
    }
}

/// Parses the object ID that git printed.
pub(super) fn parse_id(output: &[u8]) -> Result<ObjectId> {
    let text = text(output)?;
    ObjectId::parse(text).ok_or_else(|| {
        let message = "git printed an invalid object name";
        Error::new(ErrorKind::Environment, message)
    })
}

/// Parses a row of `git diff-tree --raw -z`: `:MODE MODE OBJECT OBJECT STATUS`, and the path.
fn parse_changed_file(fields: &str, path: String) -> Option<ChangedFile> {
    let mut field_list = fields.strip_prefix(':')?.split(' ');
    let (mode_before, mode_after) = (field_list.next()?, field_list.next()?);
    let status = match field_list.nth(2)? {
        "A" => DiffStatus::Added,
        "D" => DiffStatus::Removed,
        "M" | "T" => DiffStatus::Modified,
        _ => return None,
    };
    Some(ChangedFile {
        path,
        status,
        is_submodule: [mode_before, mode_after].contains(&SUBMODULE_MODE),
    })
}

/// Maximum number of trees, and of commits, that are kept. Before one more is added, all are
/// removed.
const OBJECTS_MAX: usize = 64;
/// Maximum size of a listing that is kept, in bytes.
const LISTING_BYTES_MAX: usize = 64 * 1024;

/// The objects of one repository; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct GitObjectCache(Arc<Mutex<KnownObjects>>);

#[derive(Debug, Default)]
struct KnownObjects {
    /// The entries directly in each tree, as `git ls-tree -z` prints them.
    listings: BTreeMap<ObjectId, Arc<[u8]>>,
    /// The tree of each commit.
    trees: BTreeMap<ObjectId, ObjectId>,
}

impl GitObjectCache {
    /// Returns the entries of a tree if they are kept.
    pub(super) fn listing(&self, tree: &ObjectId) -> Option<Arc<[u8]>> {
        self.0.lock().listings.get(tree).cloned()
    }

    /// Keeps the entries of a tree unless they are too long.
    pub(super) fn keep_listing(&self, tree: &ObjectId, listing: &Arc<[u8]>) {
        if listing.len() <= LISTING_BYTES_MAX {
            insert_bounded(&mut self.0.lock().listings, tree, Arc::clone(listing));
        }
    }

    /// Returns the tree of a commit if it is kept.
    pub(super) fn tree(&self, commit: &ObjectId) -> Option<ObjectId> {
        self.0.lock().trees.get(commit).cloned()
    }

    /// Keeps the tree of a commit.
    pub(super) fn keep_tree(&self, commit: &ObjectId, tree: &ObjectId) {
        insert_bounded(&mut self.0.lock().trees, commit, tree.clone());
    }
}

fn insert_bounded<T>(cache: &mut BTreeMap<ObjectId, T>, object: &ObjectId, value: T) {
    if cache.len() >= OBJECTS_MAX {
        cache.clear();
    }
    cache.insert(object.clone(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(number: usize) -> ObjectId {
        ObjectId::parse(&format!("{number:040x}")).unwrap()
    }

    #[test]
    fn a_bounded_number_of_objects_is_kept() {
        let cache = GitObjectCache::default();
        for number in 0..=OBJECTS_MAX {
            cache.keep_tree(&object(number), &object(number + 1));
            assert_eq!(cache.tree(&object(number)), Some(object(number + 1)));
        }
        assert_eq!(cache.0.lock().trees.len(), 1);
        assert_eq!(cache.tree(&object(0)), None);
    }

    #[test]
    fn a_long_listing_is_not_kept() {
        let cache = GitObjectCache::default();
        for (number, bytes) in [LISTING_BYTES_MAX, LISTING_BYTES_MAX + 1]
            .into_iter()
            .enumerate()
        {
            let listing: Arc<[u8]> = vec![b'x'; bytes].into();
            cache.keep_listing(&object(number), &listing);
        }
        assert!(cache.clone().listing(&object(0)).is_some());
        assert_eq!(cache.listing(&object(1)), None);
    }
}
