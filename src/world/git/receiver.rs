//! Commits a pipeline's work in the user's repository, and pushes it; only from here is that
//! repository changed. The user's branch and the user's index move together, even if massgen is
//! killed in between.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelPath;
use crate::world::git::bare_repository::BareRepository;
use crate::world::git::import::{LineEndings, paths};
use crate::world::git::next_index::{NextIndex, repository_changed_error};
use crate::world::git::object::{CommitAuthor, ObjectId};
use crate::world::git::project::{BRANCH_PREFIX, NOT_FOUND_STATUS, ProjectRepository};
use crate::world::git::{GitInvocation, text};
use crate::world::sys::process;
use crate::world::sys::state_files::file;

/// Git's message about an identity that the user has not set.
const UNSET_IDENTITY_MESSAGE: &str = "Author identity unknown";
/// The files next to the index that show an unfinished operation, each with its name.
const OPERATION_FILES: &[(&str, &str)] = &[
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
];

/// A project of the user that receives a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitReceiver<'a> {
    /// The bare repository that created the commit.
    pub bare_repository: &'a BareRepository,
    /// The project.
    pub project: &'a ProjectRepository,
}

impl CommitReceiver<'_> {
    /// Returns the files that the user has staged and not committed.
    pub async fn staged_files(self) -> Result<BTreeSet<RelPath>> {
        let listing = match &self.project.head {
            Some(head) => {
                let arguments = ["diff-index", "--cached", "--name-only", "-z", head.as_str()];
                self.run_git(&arguments).await?
            }
            None => self.run_git(&["ls-files", "-z"]).await?,
        };
        Ok(paths(&listing).collect())
    }

    /// Returns the user's identity as their git knows it; `None` if it is not set.
    pub async fn identity(self) -> Result<Option<CommitAuthor>> {
        let arguments = ["-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"];
        let output = self
            .bare_repository
            .git()
            .try_run_as_user(self.call(&arguments))
            .await?;
        match output.code {
            0 => Ok(parse_author(text(&output.stdout)?)),
            _ if output.stderr.contains(UNSET_IDENTITY_MESSAGE) => Ok(None),
            _ => Err(self.call(&["var"]).git_error(&output.stderr)),
        }
    }

    /// Returns the line endings of the user's files, as set for their git.
    pub async fn line_endings(self) -> Result<LineEndings> {
        let autocrlf = self.setting("core.autocrlf").await?;
        let eol = self.setting("core.eol").await?;
        Ok(LineEndings::new(autocrlf.as_deref(), eol.as_deref()))
    }

    async fn setting(self, name: &str) -> Result<Option<String>> {
        let arguments = ["config", "--type=bool-or-str", "--get", name];
        let output = self
            .bare_repository
            .git()
            .try_run_as_user(self.call(&arguments))
            .await?;
        match output.code {
            0 => text(&output.stdout).map(|value| Some(value.to_owned())),
            NOT_FOUND_STATUS => Ok(None),
            _ => Err(self.call(&arguments).git_error(&output.stderr)),
        }
    }

    /// Gives the project all objects of `commit` that it lacks.
    pub async fn receive_objects(self, commit: &ObjectId) -> Result<()> {
        self.bare_repository
            .send_objects(self.project, commit)
            .await
    }

    /// Finishes what a killed process has begun with [`CommitReceiver::advance`]: if the branch
    /// points to `delivered_commit`, the index follows; if not, everything stays as it was. Returns
    /// whether the index has followed.
    ///
    /// # Errors
    /// Another massgen is working on it.
    pub fn finish(self, delivered_commit: Option<&ObjectId>) -> Result<bool> {
        let is_advanced =
            delivered_commit.is_some() && self.project.head.as_ref() == delivered_commit;
        NextIndex::recover(self.project, is_advanced)
    }

    /// Checks that no other git is working in the project, and that no operation is unfinished
    /// there.
    pub async fn expect_idle(self) -> Result<()> {
        NextIndex::expect_unlocked(self.project)?;
        let unmerged = self.run_git(&["ls-files", "--unmerged", "-z"]).await?;
        let git_dir = self.project.worktree_git_dir();
        let mut unfinished_operation = None;
        for (name, operation) in OPERATION_FILES {
            if unfinished_operation.is_none() && file::exists(&git_dir.join(name))? {
                unfinished_operation = Some(operation);
            }
        }
        let operation = match unfinished_operation {
            Some(operation) => operation,
            None if !unmerged.is_empty() => "merge",
            None => return Ok(()),
        };
        let message = format!("a {operation} is in progress in `{}`", self.project.root);
        Err(Error::new(ErrorKind::Denied, message)
            .with_hint("finish or abort it, then apply again; see `git status`")
            .with_hint("or deliver only files: `--history none`"))
    }

    /// Points the branch that is checked out to `commit`, whose files are on the disk, and updates
    /// the user's index to match.
    ///
    /// # Errors
    /// Another git is working, or the branch does not point to the project's head: nothing has
    /// changed then.
    pub async fn advance(
        self,
        commit: &ObjectId,
        author: &CommitAuthor,
        reason: &str,
    ) -> Result<()> {
        let next_index = NextIndex::lock(self.bare_repository, self.project, commit).await?;
        // From here on, no other git changes the branch or checks out another.
        let branch = format!("{BRANCH_PREFIX}{}", self.expect_unchanged_branch().await?);
        let null_id = "0".repeat(commit.as_str().len());
        let head = self.project.head.as_ref();
        let from = head.map_or(null_id.as_str(), ObjectId::as_str);
        let arguments = [
            // The user's reflog records it, although massgen's own repositories have none.
            "-c",
            "core.logAllRefUpdates=true",
            "update-ref",
            "-m",
            reason,
            &branch,
            commit.as_str(),
            from,
        ];
        let call = GitInvocation {
            env: &author.variables(),
            ..self.call(&arguments)
        };
        self.bare_repository.git().run_without_hooks(call).await?;
        next_index.install()
    }

    /// Pushes a branch to a remote of the user, with their own git and all of their settings: hooks
    /// and credentials are theirs.
    ///
    /// # Errors
    /// The push failed; git has printed why.
    pub fn push(self, remote: &str, branch: &str) -> Result<()> {
        let reference = format!("{BRANCH_PREFIX}{branch}");
        let arguments = ["push", "--", remote, &reference];
        let git = self.bare_repository.git();
        let exit_code =
            process::run_for_user(&git.program, &arguments, &self.project.root, &git.full_env)
                .map_err(|error| Error::io("cannot start git", error))?;
        if exit_code == Some(0) {
            return Ok(());
        }
        let message = format!("cannot push `{branch}` to `{remote}`");
        Err(
            Error::new(ErrorKind::Environment, message).with_hint(format!(
                "the applied changes are committed; push them yourself: git push {remote} {branch}"
            )),
        )
    }

    /// Returns the branch that is checked out, if it still is the expected one and points to the
    /// same commit.
    async fn expect_unchanged_branch(self) -> Result<String> {
        let repository =
            ProjectRepository::discover(self.bare_repository.git(), &self.project.root).await?;
        let unchanged_repository =
            repository.filter(|repository| repository.head == self.project.head);
        let branch = unchanged_repository.and_then(|repository| repository.branch);
        match branch.filter(|branch| Some(branch) == self.project.branch.as_ref()) {
            Some(branch) => Ok(branch),
            None => Err(repository_changed_error()),
        }
    }

    async fn run_git(self, arguments: &[&str]) -> Result<Vec<u8>> {
        self.bare_repository.git().run(self.call(arguments)).await
    }

    fn call<'a>(&'a self, arguments: &'a [&'a str]) -> GitInvocation<'a> {
        GitInvocation::new(&self.project.root, arguments)
    }
}

/// Parses an identity as `git var` prints it: `NAME <ADDRESS> SECONDS ZONE`.
fn parse_author(identity: &str) -> Option<CommitAuthor> {
    let (name, after_name) = identity.split_once(" <")?;
    let (address, _) = after_name.split_once('>')?;
    Some(CommitAuthor::new(name, address))
}
