//! Checkouts of a bare repository: a tree of files on the disk. Git's index of the files is stored
//! next to the bare repository, never in the tree: nothing in the tree affects how git runs.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::git::bare_repository::{BareRepository, GitWorktree, parse_id};
use crate::world::git::object::ObjectId;
use crate::world::git::tree::{ABSENT_MODE, FILE_MODE, index_row};
use crate::world::git::{GitOutput, nul_separated};
use crate::world::sys::state_files::clear::make_accessible;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::{clear, file};

/// How deep repositories may be nested.
const NESTED_MAX: usize = 64;
/// The name of a file that is added to git's index and need not exist.
const PLACEHOLDER_NAME: &[u8] = b"/.massgen-known";
/// The prefix of index entries that are gitlinks, commits of another repository.
const GITLINK_PREFIX: &[u8] = b"160000 ";

/// The name of the files that list what git ignores.
const GITIGNORE: &str = ".gitignore";

/// The name of an agent's repository in its checkout.
pub const PRIVATE_GIT_DIR: &str = ".git";

/// The files of a commit, in a directory.
#[derive(Clone, Debug)]
pub struct Checkout {
    bare_repository: BareRepository,
    dir: AbsPath,
    index: AbsPath,
}

/// The captured state of the files of a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedTree {
    /// The tree of the files.
    pub tree: ObjectId,
    /// Why git cannot store some of them, one line each; empty if it stored all.
    pub left_out: Vec<String>,
}

/// A directory that is captured although a `.gitignore` above it lists it.
#[derive(Clone, Copy, Debug)]
pub struct ForcedDirectory<'a> {
    /// The directory.
    pub dir: &'a RelPath,
    /// A file in it that is always captured, by its path in the tree.
    pub output: Option<&'a RelPath>,
}

impl Checkout {
    /// Creates a checkout of the files in `dir`; git's index of them is the file `index`, which no
    /// agent may write to.
    pub fn new(bare_repository: BareRepository, dir: AbsPath, index: AbsPath) -> Self {
        Self {
            bare_repository,
            dir,
            index,
        }
    }

    /// Returns the directory of the files.
    pub fn dir(&self) -> &AbsPath {
        &self.dir
    }

    /// Replaces the files by those of `commit`. Other files that git ignores stay.
    pub async fn show(&self, commit: &ObjectId) -> Result<()> {
        dir::create_all(&self.dir, DirectoryAudience::User)?;
        if let Some(index_dir) = self.index.parent() {
            dir::create_all(&index_dir, DirectoryAudience::User)?;
        }
        // Unlike `git checkout`, it does not move the repository's HEAD, which all checkouts share.
        let arguments = ["read-tree", "--reset", "-u", commit.as_str()];
        if self.worktree().try_run(&arguments, b"").await?.code == 0 {
            return Ok(());
        }
        // A command may have made a directory with changed files inaccessible.
        self.make_all_accessible()?;
        self.worktree().run(&arguments, b"").await.map(drop)
    }

    /// Creates a directory among the files, if it is missing.
    ///
    /// # Errors
    /// Something else is on the way to it, such as a symlink that leads elsewhere.
    pub fn make_directory(&self, rel: &RelPath) -> Result<()> {
        let mut path = self.dir.clone();
        for name in rel.as_path() {
            path = path.join(name);
            // Nothing is created behind a symlink; where it leads is checked below.
            if file::is_link(&path)? {
                break;
            }
            dir::create_all(&path, DirectoryAudience::Umask)?;
        }
        self.refuse_symlinks(rel)
    }

    /// Refuses a directory among the files that a symlink leads to, or away from: files would be
    /// opened elsewhere.
    pub fn refuse_symlinks(&self, rel_path: &RelPath) -> Result<()> {
        let path = self.dir.join(rel_path.as_path());
        let (real, root) = (dir::resolve(&path)?, dir::resolve(&self.dir)?);
        if real == root.join(rel_path) {
            return Ok(());
        }
        let message = format!("`{rel_path}` in the tree is a symlink to `{real}`");
        Err(Error::new(ErrorKind::Environment, message)
            .with_hint(
                "if another role merged it, revert that: massgen pipeline revert RUN --role OTHER",
            )
            .with_hint("or reset the role: massgen pipeline reset --role NAME"))
    }

    /// Removes the agent's repository from the checkout, if there is one.
    pub fn remove_private_repository(&self) -> Result<()> {
        let git_dir = self.dir.join(PRIVATE_GIT_DIR);
        if file::exists(&git_dir)? && clear::remove(&git_dir).is_err() {
            self.make_all_accessible()?;
            return clear::remove(&git_dir);
        }
        Ok(())
    }

    /// Captures the present state of the files. Untracked files that the tree's own `.gitignore`
    /// lists are skipped, except that an entry for the directory of `forced` has no effect. A
    /// repository that was created in the tree is captured as its plain files: its commits exist
    /// nowhere else. A submodule keeps its commit, whatever is in its directory.
    pub async fn capture(&self, forced: Option<ForcedDirectory<'_>>) -> Result<CapturedTree> {
        let submodules = self.gitlinks().await?;
        self.mark_skip_worktree(&submodules).await?;
        let left_out = self.add_all(&submodules).await?;
        if let Some(forced) = forced {
            self.add_forced(forced).await?;
        }
        let tree = parse_id(&self.worktree().run(&["write-tree"], b"").await?)?;
        Ok(CapturedTree { tree, left_out })
    }

    /// Adds all files except those of `submodules`. Returns what git does not accept, one line
    /// each.
    ///
    /// Git runs `git status` in the directory of every gitlink in its index, with the settings
    /// found there, which an agent may have written. So whenever git examines the files, no gitlink
    /// may be in the index without being marked `skip-worktree`.
    async fn add_all(&self, submodules: &BTreeSet<Vec<u8>>) -> Result<Vec<String>> {
        let arguments = ["add", "--all", "--sparse", "--ignore-errors", "."];
        let mut has_full_access = false;
        for _ in 0..NESTED_MAX {
            let unreachable = self.descend_into_nested().await?;
            let output = self.worktree().try_run(&arguments, b"").await?;
            let gitlinks = self.gitlinks().await?;
            let new_gitlinks: Vec<_> = gitlinks.difference(submodules).cloned().collect();
            let errors = add_errors(&output);
            if !new_gitlinks.is_empty() {
                // A file became a directory with a repository in it: `list_nested` does not
                // return those.
                self.descend_into(&new_gitlinks).await?;
            } else if !errors.is_empty() && !has_full_access {
                self.make_all_accessible()?;
                has_full_access = true;
            } else if output.code != 0 && errors.is_empty() {
                let message = format!("`git add` failed in `{}`: {}", self.dir, output.stderr);
                return Err(Error::new(ErrorKind::Environment, message));
            } else {
                return Ok([unreachable, errors].concat());
            }
        }
        Ok(vec![too_deep_message()])
    }

    /// Returns the paths in the index that git treats as separate repositories.
    async fn gitlinks(&self) -> Result<BTreeSet<Vec<u8>>> {
        let arguments = ["ls-files", "-z", "--format=%(objectmode) %(path)"];
        let listing = self.worktree().run(&arguments, b"").await?;
        let gitlinks = nul_separated(&listing).filter_map(|row| row.strip_prefix(GITLINK_PREFIX));
        Ok(gitlinks.map(<[u8]>::to_owned).collect())
    }

    /// Makes git leave these paths of the index as they are, without looking at the disk.
    async fn mark_skip_worktree(&self, paths: &BTreeSet<Vec<u8>>) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        let arguments = ["update-index", "--skip-worktree", "-z", "--stdin"];
        let paths = paths.join(&0);
        self.worktree().run(&arguments, &paths).await.map(drop)
    }

    /// Adds the files of `forced` that are ignored because of a rule above it.
    async fn add_forced(&self, forced: ForcedDirectory<'_>) -> Result<()> {
        let dir = self.dir.join(forced.dir.as_path());
        if !file::kind(&dir)?.is_some_and(|kind| kind.is_dir())
            || self.refuse_symlinks(forced.dir).is_err()
        {
            return Ok(());
        }
        let staging = StagingDirectory::new(self.bare_repository.dir())?;
        let empty_index = staging.path().join("index");
        // Git runs in the directory, so no rule matches it itself; rules for its content apply.
        let gitignore = self.dir.join(GITIGNORE);
        let has_rules = !file::is_link(&gitignore)?
            && file::kind(&gitignore)?.is_some_and(|kind| kind.is_file());
        let exclude_option = has_rules.then(|| format!("--exclude-from={gitignore}"));
        let per_directory = format!("--exclude-per-directory={GITIGNORE}");
        let mut list_arguments = vec!["ls-files", "--others", "-z", &per_directory];
        list_arguments.extend(exclude_option.as_deref());
        let listing = self
            .bare_repository
            .worktree(&dir, &empty_index)
            .run(&list_arguments, b"")
            .await?;
        let files = nul_separated(&listing).filter(|name| !name.ends_with(b"/"));
        let prefix = forced.dir.as_path().as_os_str().as_bytes();
        let mut paths: Vec<Vec<u8>> = files.map(|name| [prefix, b"/", name].concat()).collect();
        let output_name = forced.output.map(|output| output.as_path().as_os_str());
        if let Some(output) = output_name
            && file::kind(&self.dir.join(output))?.is_some_and(|kind| !kind.is_dir())
        {
            paths.push(output.as_bytes().to_vec());
        }
        let paths = paths.join(&0);
        let add_arguments = ["update-index", "--add", "-z", "--stdin"];
        self.worktree().run(&add_arguments, &paths).await.map(drop)
    }

    /// Makes git descend into the repositories that were created among the files. Returns what it
    /// cannot reach.
    async fn descend_into_nested(&self) -> Result<Vec<String>> {
        for _ in 0..NESTED_MAX {
            let nested_dirs = self.list_nested().await?;
            if nested_dirs.is_empty() {
                return Ok(Vec::new());
            }
            self.descend_into(&nested_dirs).await?;
        }
        Ok(vec![too_deep_message()])
    }

    /// Gives massgen access to all of the files, whatever mode a command set.
    fn make_all_accessible(&self) -> Result<()> {
        make_accessible(&self.dir).map_err(|error| {
            let message = format!("cannot open `{}`: {error}", self.dir);
            Error::new(ErrorKind::Io, message)
        })
    }

    /// Returns the untracked directories that git treats as separate repositories.
    async fn list_nested(&self) -> Result<Vec<Vec<u8>>> {
        let arguments = ["ls-files", "--others", "--exclude-standard", "-z"];
        let output = self.worktree().run(&arguments, b"").await?;
        let paths = output.split(|byte| *byte == 0);
        let nested_dirs = paths.filter_map(|path| path.strip_suffix(b"/"));
        Ok(nested_dirs.map(<[u8]>::to_owned).collect())
    }

    /// Makes git descend into these directories: it does so if it knows a file there. The file that
    /// is added for this is gone when the files are captured.
    async fn descend_into(&self, nested_dirs: &[Vec<u8>]) -> Result<()> {
        let arguments = ["hash-object", "-w", "--stdin"];
        let empty_blob = parse_id(&self.worktree().run(&arguments, b"").await?)?;
        let rows = nested_dirs.iter().map(|dir| {
            let path_inside = [dir, PLACEHOLDER_NAME].concat();
            let row_inside = index_row(FILE_MODE, &empty_blob, &path_inside);
            [index_row(ABSENT_MODE, &empty_blob, dir), row_inside].concat()
        });
        let rows = rows.collect::<Vec<_>>().concat();
        self.bare_repository
            .fill_index(&self.dir, &self.index, &rows)
            .await
    }

    fn worktree(&self) -> GitWorktree<'_> {
        self.bare_repository.worktree(&self.dir, &self.index)
    }
}

fn too_deep_message() -> String {
    format!("repositories are in each other, more than {NESTED_MAX} deep")
}

/// Extracts git's complaints about files that `git add` does not accept, without its second message
/// about each.
fn add_errors(output: &GitOutput) -> Vec<String> {
    let lines = output.stderr.lines().filter_map(|line| {
        let error_line = line.strip_prefix("error: ");
        let complaint = error_line.filter(|complaint| !complaint.starts_with("unable to"));
        let warning = line.strip_prefix("warning: ");
        complaint.or(warning.filter(|warning| warning.starts_with("could not open directory")))
    });
    lines.map(str::to_owned).collect()
}
