//! Changes the user's index. The next index is built separately, with the settings of massgen's git
//! alone, and replaces the user's with one rename, under the lock file that keeps every other git
//! out.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::git::bare_repository::BareRepository;
use crate::world::git::object::ObjectId;
use crate::world::git::project::ProjectRepository;
use crate::world::git::{GitInvocation, lossy_text, nul_separated};
use crate::world::sys::state_files::dir::{self, DirLock, DirLockAttempt, StagingDirectory};
use crate::world::sys::state_files::lockfile::{GitLockFile, copy_with_mtime, version_of};

/// The user's next index, and the lock on the present one.
#[derive(Debug)]
pub(super) struct NextIndex {
    lock: GitLockFile,
    /// Keeps other massgen processes out; `None` if the file system does not support locks.
    _massgen_lock: Option<DirLock>,
}

impl NextIndex {
    /// Builds the project's index as it is when `commit` is checked out, keeps what the user has
    /// staged, and locks the user's index.
    ///
    /// # Errors
    /// Another git holds the lock, or has changed the index meanwhile.
    pub(super) async fn lock(
        bare_repository: &BareRepository,
        project: &ProjectRepository,
        commit: &ObjectId,
    ) -> Result<Self> {
        let massgen_lock = lock_index(project)?;
        let old_version = version_of(&project.index);
        let staging = StagingDirectory::new(bare_repository.dir())?;
        let next_index = staging.path().join("index");
        project.copy_index(bare_repository, &next_index).await?;
        // The files exist already, and git need not look at them.
        let mut arguments = vec!["read-tree", "-m", "-i"];
        arguments.extend(project.head.as_ref().map(ObjectId::as_str));
        arguments.push(commit.as_str());
        let worktree = bare_repository.worktree(&project.root, &next_index);
        worktree.run(&arguments, b"").await?;
        // Its exit status shows whether files differ, which is the user's business.
        let refresh = ["update-index", "-q", "--refresh", "--ignore-submodules"];
        worktree.try_run(&refresh, b"").await?;
        let lock = GitLockFile::acquire(&project.index, &next_index)?
            .ok_or_else(|| busy_error(&project.index))?;
        if version_of(&project.index) != old_version {
            return Err(repository_changed_error());
        }
        Ok(Self {
            lock,
            _massgen_lock: massgen_lock,
        })
    }

    /// Replaces the user's index with it.
    pub(super) fn install(self) -> Result<()> {
        self.lock.commit()
    }

    /// Checks that no other git is working on the user's index.
    pub(super) fn expect_unlocked(project: &ProjectRepository) -> Result<()> {
        if GitLockFile::is_taken(&project.index)? {
            return Err(busy_error(&project.index));
        }
        Ok(())
    }

    /// Recovers from a killed process: releases its lock, and replaces the user's index by the next
    /// one if the process had already advanced the branch. Returns whether it was replaced.
    pub(super) fn recover(project: &ProjectRepository, is_advanced: bool) -> Result<bool> {
        let _lock = lock_index(project)?;
        let Some(lock) = GitLockFile::find_stale(&project.index) else {
            return Ok(false);
        };
        if is_advanced {
            lock.commit()?;
        }
        Ok(is_advanced)
    }
}

/// Locks the index against other massgen processes.
fn lock_index(project: &ProjectRepository) -> Result<Option<DirLock>> {
    match dir::try_lock(&project.worktree_git_dir())? {
        DirLockAttempt::Acquired(lock) => Ok(Some(lock)),
        DirLockAttempt::Unsupported => Ok(None),
        DirLockAttempt::Taken => {
            let message = format!("another massgen commits to `{}`", project.root);
            Err(Error::new(ErrorKind::Environment, message)
                .with_hint("apply again when it has ended"))
        }
    }
}

fn busy_error(index: &AbsPath) -> Error {
    let message = format!("another git process holds `{index}.lock`");
    Error::new(ErrorKind::Environment, message)
        .with_hint("apply again when it has ended; if none runs, remove that file first")
}

/// Creates the error for a repository that the user's git has changed since massgen inspected it.
pub(super) fn repository_changed_error() -> Error {
    let message =
        "the repository has changed while the files were applied, so nothing is committed";
    Error::new(ErrorKind::Environment, message)
        .with_hint("the files are there; apply again, and they are committed on what there is now")
}

/// The prefix of the files in which git keeps parts of a split index, if the user enabled that.
const INDEX_PART: &str = "sharedindex.";

impl ProjectRepository {
    /// Returns the tracked files that differ from the head commit, as far as git's index shows
    /// that. `bare_repository` is created on top of the repository.
    pub async fn list_uncommitted(&self, bare_repository: &BareRepository) -> Result<Vec<String>> {
        let staging = StagingDirectory::new(bare_repository.dir())?;
        let index = staging.path().join("index");
        let Some(head) = &self.head else {
            return Ok(Vec::new());
        };
        if !self.copy_index(bare_repository, &index).await? {
            return Ok(Vec::new());
        }
        // Inspecting a submodule would run programs that its settings name.
        let submodules = "--ignore-submodules=dirty";
        let arguments = ["diff-index", "--name-only", "-z", submodules, head.as_str()];
        let listing = bare_repository
            .worktree(&self.root, &index)
            .run(&arguments, b"")
            .await?;
        Ok(nul_separated(&listing).map(lossy_text).collect())
    }

    /// Copies git's index to `to`, with all its parts in this one file. Returns whether there is an
    /// index.
    pub(super) async fn copy_index(
        &self,
        bare_repository: &BareRepository,
        to: &AbsPath,
    ) -> Result<bool> {
        if !copy_with_mtime(&self.index, to)? {
            return Ok(false);
        }
        let parts = dir::names(&self.worktree_git_dir())?;
        if parts.iter().any(|name| name.starts_with(INDEX_PART)) {
            let to = to.to_string();
            let merge_arguments = [
                "-c",
                "core.splitIndex=false",
                "update-index",
                "--no-split-index",
            ];
            let call = GitInvocation {
                env: &[("GIT_INDEX_FILE", &to)],
                ..GitInvocation::new(&self.root, &merge_arguments)
            };
            bare_repository.git().run_without_hooks(call).await?;
        }
        Ok(true)
    }
}
