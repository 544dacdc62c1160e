//! Inspects the user's own repository: where it is, what its head is, and what in it a pipeline
//! cannot work with. Nothing in it is changed, and nothing that comes with it is run.

use std::os::unix::ffi::OsStrExt;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::git::object::ObjectId;
use crate::world::git::ownership::FoundRepository;
use crate::world::git::{GitInvocation, GitOutput, GitProgram, text};
use crate::world::io::files::read_regular_file;
use crate::world::sys::state_files::{dir, file};

/// The longest list of commits at which a shallow repository ends, in bytes.
pub(super) const SHALLOW_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The prefix of every branch's reference.
pub(super) const BRANCH_PREFIX: &str = "refs/heads/";
/// Git's message about a repository of another user that this user has not marked as trusted.
const UNTRUSTED_MESSAGE: &str = "dubious ownership";
/// Git's message about a directory that no repository contains. Its message about a file `.git`
/// whose repository is missing continues in another way.
pub(super) const NO_REPOSITORY_MESSAGE: &str = "not a git repository (or any ";
/// The exit status of `git config`, `git rev-parse --quiet --verify` and `git symbolic-ref --quiet`
/// for what does not exist.
pub(super) const NOT_FOUND_STATUS: i32 = 1;

/// A repository of the user with a working tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectRepository {
    /// The root of its working tree.
    pub root: AbsPath,
    /// The directory of its objects.
    pub objects: AbsPath,
    /// The commit that is checked out; `None` if there is no commit yet.
    pub head: Option<ObjectId>,
    /// The branch that is checked out; `None` if the head is detached.
    pub branch: Option<String>,
    /// The hash function of its object IDs: `sha1` or `sha256`.
    pub format: String,
    /// The path of its index.
    pub(super) index: AbsPath,
    /// The commits at which a shallow repository ends, as git lists them; empty if it is complete.
    pub(super) shallow: Vec<u8>,
}

impl ProjectRepository {
    /// Finds the repository that contains `dir`; `None` if there is none.
    ///
    /// # Errors
    /// It is unusable: it has no working tree, or some of its objects are only on another machine.
    pub async fn discover(git: &GitProgram, dir: &AbsPath) -> Result<Option<Self>> {
        if dir.as_path().as_os_str().as_bytes().contains(&b'\n') {
            return Err(unusable_repository(dir, "its path contains a line break"));
        }
        let arguments = [
            "rev-parse",
            "--path-format=absolute",
            "--show-toplevel",
            "--absolute-git-dir",
            "--git-common-dir",
            "--git-path",
            "objects",
            "--git-path",
            "index",
            "--git-path",
            "shallow",
            "--show-object-format",
        ];
        let probe = RepositoryProbe { git, dir };
        probe.expect_trusted().await?;
        let output = probe.run(&arguments).await?;
        if output.code != 0 {
            if output.stderr.contains(NO_REPOSITORY_MESSAGE) {
                return Ok(None);
            }
            let bare_arguments = ["rev-parse", "--is-bare-repository"];
            let bare_output = probe.run(&bare_arguments).await?;
            return Err(match bare_output.code {
                0 => unusable_repository(dir, "it is a bare repository")
                    .with_hint("start in a clone with a work tree"),
                _ => GitInvocation::new(dir, &bare_arguments).git_error(&bare_output.stderr),
            });
        }
        let mut lines = text(&output.stdout)?.lines();
        let mut path = || lines.next().and_then(AbsPath::new);
        let (
            Some(root),
            Some(git_dir),
            Some(common_dir),
            Some(objects),
            Some(index),
            Some(shallow),
        ) = (path(), path(), path(), path(), path(), path())
        else {
            return Err(unusable_repository(
                dir,
                "git does not print the paths of the repository",
            ));
        };
        probe.expect_inside(&root)?;
        expect_own(&FoundRepository {
            root: &root,
            git_dir: &git_dir,
            common_dir: &common_dir,
            objects: &objects,
            worktree: probe.worktree(&git_dir).await?,
        })?;
        let format = lines.next().unwrap_or("sha1").to_owned();
        if let Some(remote) = probe.setting("extensions.partialClone").await? {
            let reason = format!("some of its objects are only at `{remote}`");
            return Err(unusable_repository(&root, &reason)
                .with_hint("fetch them: git fetch --refetch --no-filter"));
        }
        let head = probe.line(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        let head = head.await?.as_deref().and_then(ObjectId::parse);
        let reference = probe.line(&["symbolic-ref", "--quiet", "HEAD"]).await?;
        let branch = reference
            .as_deref()
            .and_then(|reference| reference.strip_prefix(BRANCH_PREFIX));
        Ok(Some(Self {
            head,
            branch: branch.map(str::to_owned),
            shallow: read_regular_file(&shallow, SHALLOW_BYTES_MAX)?.unwrap_or_default(),
            root,
            objects,
            format,
            index,
        }))
    }

    /// Returns whether some of its objects are in another repository.
    pub fn has_alternates(&self) -> Result<bool> {
        file::exists(&self.objects.join("info/alternates"))
    }

    /// Returns the directory in which git keeps the index and the state of unfinished operations.
    pub(super) fn worktree_git_dir(&self) -> AbsPath {
        self.index.parent().unwrap_or_else(AbsPath::root)
    }
}

/// Queries about the repository that contains a directory.
#[derive(Clone, Copy)]
struct RepositoryProbe<'a> {
    git: &'a GitProgram,
    dir: &'a AbsPath,
}

impl RepositoryProbe<'_> {
    async fn run(self, arguments: &[&str]) -> Result<GitOutput> {
        self.git
            .try_run(GitInvocation::new(self.dir, arguments))
            .await
    }

    /// Returns the output without the newline at its end; `None` if what is asked for does not
    /// exist.
    async fn line(self, arguments: &[&str]) -> Result<Option<String>> {
        let output = self.run(arguments).await?;
        match output.code {
            0 => text(&output.stdout).map(|line| Some(line.to_owned())),
            NOT_FOUND_STATUS => Ok(None),
            _ => Err(GitInvocation::new(self.dir, arguments).git_error(&output.stderr)),
        }
    }

    async fn setting(self, name: &str) -> Result<Option<String>> {
        self.line(&["config", "--local", "--get", name]).await
    }

    /// Refuses a working tree that does not contain the directory.
    fn expect_inside(self, root: &AbsPath) -> Result<()> {
        let cwd = dir::resolve(self.dir)?;
        if !cwd.as_path().starts_with(root.as_path()) {
            let reason =
                format!("its work tree is `{root}`, which does not contain this directory");
            return Err(
                unusable_repository(self.dir, &reason).with_hint("see `git config core.worktree`")
            );
        }
        Ok(())
    }

    /// Returns the working tree that a repository sets in its config.
    async fn worktree(self, git_dir: &AbsPath) -> Result<Option<AbsPath>> {
        let config = git_dir.join("config").to_string();
        let arguments = ["config", "--file", &config, "--get", "core.worktree"];
        Ok(self.line(&arguments).await?.map(|path| git_dir.join(path)))
    }

    /// Checks that the user trusts the repository: git requires that for a repository of another
    /// user.
    async fn expect_trusted(self) -> Result<()> {
        let call = GitInvocation::new(self.dir, &["rev-parse", "--git-dir"]);
        let output = self.git.try_run_as_user(call).await?;
        if output.code == 0 || !output.stderr.contains(UNTRUSTED_MESSAGE) {
            return Ok(());
        }
        let reason = "it belongs to another user and is not trusted";
        Err(unusable_repository(self.dir, reason)
            .with_hint("run `git status` there to see how to trust it")
            .with_hint("or do not use it: `project: none` under `workflow`"))
    }
}

/// Refuses a repository that belongs to another directory.
fn expect_own(repository: &FoundRepository<'_>) -> Result<()> {
    let Some(reason) = repository.foreign_reason()? else {
        return Ok(());
    };
    let reason = format!("{reason}, which does not refer to it");
    Err(unusable_repository(repository.root, &reason)
        .with_hint("start in that repository")
        .with_hint("or make it refer to this directory: `git config core.worktree DIRECTORY`"))
}

fn unusable_repository(dir: &AbsPath, reason: &str) -> Error {
    let message = format!("the repository at `{dir}` cannot be used: {reason}");
    Error::new(ErrorKind::Environment, message)
}
