//! Owns the commit of a pipeline's work in the repository of a user: nothing else writes there. The
//! user's branch and the user's index move together, also when massgen is killed in between.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind, Result};
use crate::path::RelPath;
use crate::world::git::hub::Hub;
use crate::world::git::import::{LineEndings, paths};
use crate::world::git::next_index::NextIndex;
use crate::world::git::object::{CommitAuthor, ObjectId};
use crate::world::git::project::{BRANCHES, ProjectRepository};
use crate::world::git::{GitInvocation, text};
use crate::world::sys::process;
use crate::world::sys::state_files::file;

/// By which files beside the index git knows that something is half done, and what.
const UNFINISHED: &[(&str, &str)] = &[
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
];

/// A project of the user's that takes a commit.
#[derive(Clone, Copy, Debug)]
pub struct CommitReceiver<'a> {
    /// What made the commit.
    pub hub: &'a Hub,
    /// The project.
    pub project: &'a ProjectRepository,
}

impl CommitReceiver<'_> {
    /// The files that the user has staged and not committed.
    pub async fn staged_files(self) -> Result<BTreeSet<RelPath>> {
        let told = match &self.project.head {
            Some(head) => {
                let words = ["diff-index", "--cached", "--name-only", "-z", head.as_str()];
                self.ask(&words).await?
            }
            None => self.ask(&["ls-files", "-z"]).await?,
        };
        Ok(paths(&told).collect())
    }

    /// Who the user is, as their git knows it; `None` if it does not.
    pub async fn identity(self) -> Result<Option<CommitAuthor>> {
        let words = ["-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT"];
        let answer = self.hub.git().try_as_user(self.call(&words)).await?;
        match answer.code {
            0 => Ok(parse_author(text(&answer.output)?)),
            _ => Ok(None),
        }
    }

    /// How lines end in the user's files, as their git is told.
    pub async fn line_ends(self) -> Result<LineEndings> {
        let autocrlf = self.setting("core.autocrlf").await?;
        let eol = self.setting("core.eol").await?;
        Ok(LineEndings::new(autocrlf.as_deref(), eol.as_deref()))
    }

    async fn setting(self, name: &str) -> Result<Option<String>> {
        let words = ["config", "--type=bool-or-str", "--get", name];
        let answer = self.hub.git().try_as_user(self.call(&words)).await?;
        match answer.code {
            0 => text(&answer.output).map(|value| Some(value.to_owned())),
            _ => Ok(None),
        }
    }

    /// Gives the project all objects of `commit` that it lacks.
    pub async fn receive_objects(self, commit: &ObjectId) -> Result<()> {
        self.hub.send_objects(self.project, commit).await
    }

    /// Ends what a process that was killed has begun with [`CommitReceiver::advance`]: if the branch points at
    /// `delivered`, the index follows; if not, all stays as it was. Gives whether the index has followed.
    ///
    /// # Errors
    /// Another massgen is at it.
    pub fn finish(self, delivered: Option<&ObjectId>) -> Result<bool> {
        let is_moved = delivered.is_some() && self.project.head.as_ref() == delivered;
        NextIndex::recover(self.project, is_moved)
    }

    /// Expects that no other git is at work in the project, and that nothing is half done there.
    pub async fn expect_idle(self) -> Result<()> {
        NextIndex::expect_unlocked(self.project)?;
        let unmerged = self.ask(&["ls-files", "--unmerged", "-z"]).await?;
        let notes = self.project.worktree_git_dir();
        let mut begun = UNFINISHED.iter();
        let begun = begun.find(|(note, _)| file::exists(&notes.join(note)));
        let what = match begun {
            Some((_, what)) => what,
            None if !unmerged.is_empty() => "merge",
            None => return Ok(()),
        };
        let message = format!("a {what} is half done in `{}`", self.project.root);
        Err(Error::new(ErrorKind::Denied, message)
            .with_hint("end it or break it off, and apply again; `git status` says how")
            .with_hint("or deliver the files alone: `--as files`"))
    }

    /// Points the branch that is checked out at `commit`, whose files are on the disk, and lets the user's
    /// index follow.
    ///
    /// # Errors
    /// Another git is at work, or the branch points elsewhere than at the project's head: nothing has
    /// changed then.
    pub async fn advance(
        self,
        commit: &ObjectId,
        (author, why): (&CommitAuthor, &str),
    ) -> Result<()> {
        let next = NextIndex::lock(self.hub, self.project, commit).await?;
        // From here on no other git changes the branch, or checks out another.
        let branch = format!("{BRANCHES}{}", self.expect_unmoved().await?);
        let nothing = "0".repeat(commit.as_str().len());
        let head = self.project.head.as_ref();
        let from = head.map_or(nothing.as_str(), ObjectId::as_str);
        let words = [
            "-c",
            "core.logAllRefUpdates=true",
            "update-ref",
            "-m",
            why,
            &branch,
            commit.as_str(),
            from,
        ];
        let call = GitInvocation {
            env: &author.variables(),
            ..self.call(&words)
        };
        self.hub.git().ask_without_hooks(call).await?;
        next.install()
    }

    /// Pushes a branch to a remote of the user's, by their own git with all of their settings: hooks and
    /// credentials are theirs.
    ///
    /// # Errors
    /// The push did not work; git has said why.
    pub fn push(self, (remote, branch): (&str, &str)) -> Result<()> {
        let reference = format!("{BRANCHES}{branch}");
        let words = ["push", "--", remote, &reference];
        let git = self.hub.git();
        let ended = process::run_for_user(&git.program, &words, (&self.project.root, &git.whole))
            .map_err(|error| Error::io("cannot start git", error))?;
        if ended == Some(0) {
            return Ok(());
        }
        let message = format!("`{branch}` could not be pushed to `{remote}`");
        Err(
            Error::new(ErrorKind::Environment, message).with_hint(format!(
                "what was applied is committed; push it yourself: git push {remote} {branch}"
            )),
        )
    }

    /// The branch that is checked out, if it is the one that it was, and points where it did.
    async fn expect_unmoved(self) -> Result<String> {
        let found = ProjectRepository::discover(self.hub.git(), &self.project.root).await?;
        let found = found.filter(|found| found.head == self.project.head);
        let branch = found.and_then(|found| found.branch);
        match branch.filter(|branch| Some(branch) == self.project.branch.as_ref()) {
            Some(branch) => Ok(branch),
            None => Err(moved_error()),
        }
    }

    async fn ask(self, words: &[&str]) -> Result<Vec<u8>> {
        self.hub.git().ask(self.call(words)).await
    }

    fn call<'a>(&'a self, arguments: &'a [&'a str]) -> GitInvocation<'a> {
        GitInvocation::new(&self.project.root, arguments)
    }
}

/// That the user's git has done something since massgen looked.
pub(super) fn moved_error() -> Error {
    let message =
        "the repository has changed while the files were applied, so nothing is committed";
    Error::new(ErrorKind::Environment, message)
        .with_hint("the files are there; apply again, and they are committed on what there is now")
}

/// What `git var` says of somebody: `NAME <ADDRESS> SECONDS ZONE`.
fn parse_author(said: &str) -> Option<CommitAuthor> {
    let (name, rest) = said.split_once(" <")?;
    let (address, _) = rest.split_once('>')?;
    Some(CommitAuthor::new(name, address))
}
