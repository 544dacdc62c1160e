//! Reads the history of branches.

use crate::error::{Error, ErrorKind, Result};
use crate::world::git::bare_repository::{BareRepository, MergeResult, NewCommit};
use crate::world::git::object::{BranchName, CommitAuthor, ObjectId};
use crate::world::git::{lossy_text, nul_separated};

/// The format in which git prints a commit: its fields, one per line, and then its message.
const COMMIT_FORMAT: &str = "--format=%H%n%T%n%P%n%ct%n%an%n%B";

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitCommit {
    /// Its object ID.
    pub id: ObjectId,
    /// The tree of its files.
    pub tree: ObjectId,
    /// Its parents.
    pub parents: Vec<ObjectId>,
    /// Its commit date, in seconds since 1970.
    pub committed_at: i64,
    /// The name of its author.
    pub author: String,
    /// Its message; invalid UTF-8 is replaced.
    pub message: String,
}

impl GitCommit {
    /// Returns the first line of its message.
    pub fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }
}

/// Which commits of a history are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryTraversal {
    /// Only the first parents: those that the branch itself pointed to.
    FirstParents,
    /// All, including those that were merged into it.
    All,
}

impl BareRepository {
    /// Returns the history of a branch, oldest commit first, without `since` and its ancestors.
    pub async fn history(
        &self,
        branch: &BranchName,
        since: Option<&ObjectId>,
        traversal: HistoryTraversal,
    ) -> Result<Vec<GitCommit>> {
        let reference = branch.reference();
        let excluded = since.map(|since| format!("^{since}"));
        let mut arguments = vec![
            "log",
            "-z",
            "--reverse",
            "--topo-order",
            "--no-show-signature",
            COMMIT_FORMAT,
        ];
        arguments.extend((traversal == HistoryTraversal::FirstParents).then_some("--first-parent"));
        arguments.push(&reference);
        arguments.extend(excluded.as_deref());
        arguments.push("--");
        let output = self.run_git(&arguments, &[], b"").await?;
        nul_separated(&output)
            .map(|part| parse_commit(&lossy_text(part)))
            .collect()
    }

    /// Reads a commit.
    pub async fn read_commit(&self, id: &ObjectId) -> Result<GitCommit> {
        let arguments = [
            "log",
            "-1",
            "--no-show-signature",
            COMMIT_FORMAT,
            id.as_str(),
            "--",
        ];
        parse_commit(&lossy_text(&self.run_git(&arguments, &[], b"").await?))
    }

    /// Returns all branches with their commits, by name.
    pub async fn branches(&self) -> Result<Vec<(BranchName, ObjectId)>> {
        let format = "--format=%(objectname) %(refname:lstrip=2)";
        let arguments = ["for-each-ref", format, "refs/heads"];
        let output = lossy_text(&self.run_git(&arguments, &[], b"").await?);
        let branches = output.lines().filter_map(|line| {
            let (id, name) = line.split_once(' ')?;
            Some((BranchName::parse(name)?, ObjectId::parse(id)?))
        });
        Ok(branches.collect())
    }

    /// Returns how many commits `one` has that `other` lacks, and vice versa.
    pub async fn distance(&self, one: &ObjectId, other: &ObjectId) -> Result<(u64, u64)> {
        let range = format!("{one}...{other}");
        let arguments = ["rev-list", "--left-right", "--count", &range, "--"];
        let output = lossy_text(&self.run_git(&arguments, &[], b"").await?);
        let mut counts = output.split_whitespace().map(str::parse);
        match (counts.next(), counts.next()) {
            (Some(Ok(ahead)), Some(Ok(behind))) => Ok((ahead, behind)),
            _ => Err(format_error()),
        }
    }

    /// Removes a branch, if it still points to `from`.
    pub async fn remove_branch(&self, branch: &BranchName, from: &ObjectId) -> Result<()> {
        let reference = branch.reference();
        let arguments = ["update-ref", "-d", &reference, from.as_str()];
        self.run_git(&arguments, &[], b"").await.map(drop)
    }
}

fn parse_commit(text: &str) -> Result<GitCommit> {
    let mut lines = text.splitn(6, '\n');
    let mut line = || lines.next().ok_or_else(format_error);
    let (id, tree, parents) = (line()?, line()?, line()?);
    let (commit_date, author, message) = (line()?, line()?, line()?);
    let parents = parents.split(' ').filter(|id| !id.is_empty());
    let object = |id: &str| ObjectId::parse(id).ok_or_else(format_error);
    Ok(GitCommit {
        id: object(id)?,
        tree: object(tree)?,
        parents: parents.map(object).collect::<Result<_>>()?,
        committed_at: commit_date.parse().map_err(|_| format_error())?,
        author: author.to_owned(),
        message: message.trim_end().to_owned(),
    })
}

fn format_error() -> Error {
    let message = "git printed its history in an unknown format";
    Error::new(ErrorKind::Environment, message)
}

impl BareRepository {
    /// Merges two commits or trees as if both had been made on `base`, which is a commit or a tree,
    /// too, whatever their ancestors are. To revert a commit, `base` is that commit and `theirs` is
    /// its parent.
    pub async fn merge_from(
        &self,
        base: &ObjectId,
        ours: &ObjectId,
        theirs: &ObjectId,
    ) -> Result<MergeResult> {
        let base = [self.synthetic_commit(base, &[]).await?];
        let ours = self.synthetic_commit(ours, &base).await?;
        let theirs = self.synthetic_commit(theirs, &base).await?;
        self.merge(&ours, &theirs).await
    }

    /// Creates a commit of the tree of `content` with the given `parents`. No reference points to
    /// it.
    async fn synthetic_commit(&self, content: &ObjectId, parents: &[ObjectId]) -> Result<ObjectId> {
        let tree = self.tree_of(content).await?;
        let new = NewCommit {
            tree: &tree,
            parents,
            author: &CommitAuthor::new("massgen", "massgen@massgen"),
            message: "a side of a merge\n",
        };
        self.commit(new).await
    }
}
