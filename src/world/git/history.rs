//! Owns the reading of commits: who made them, when, and with which words. Messages are text of agents
//! and strangers, and are taken as they are.

use crate::error::Result;
use crate::world::git::hub::{Hub, lossy};
use crate::world::git::object::{Branch, ObjectId};

/// What git tells of a commit, each part ended by a NUL: none can be in it.
const FORMAT: &str = "--format=tformat:%H%x00%T%x00%P%x00%an%x00%at%x00%B";
/// How many parts these are.
const PARTS: usize = 6;

/// A commit as it was made. Bytes that are no text are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub id: ObjectId,
    /// What it holds.
    pub tree: ObjectId,
    /// What it goes on from; the first is what it was made on.
    pub parents: Vec<ObjectId>,
    /// The name of who made it.
    pub author: String,
    /// When it was made, in seconds since 1970.
    pub when: i64,
    /// Its whole message.
    pub message: String,
}

impl Commit {
    /// The first line of its message.
    pub fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }
}

impl Hub {
    /// The commits that a branch was moved to one after the other, oldest first: of a merge only what
    /// it was made on is gone back to.
    ///
    /// # Errors
    /// There is no such branch.
    pub async fn history(&self, from: &Branch) -> Result<Vec<Commit>> {
        self.history_since(from, None).await
    }

    /// As [`Hub::history`], without `since` and all that it goes back to.
    pub async fn history_since(
        &self,
        from: &Branch,
        since: Option<&ObjectId>,
    ) -> Result<Vec<Commit>> {
        let range = range(from, since);
        let mut words = vec!["--first-parent", "--reverse"];
        words.extend(range.iter().map(String::as_str));
        words.push("--");
        self.commits(&words, b"").await
    }

    /// All commits of a branch, those that were merged too, newest first; without `since` and all that
    /// it goes back to. What a merge brought follows it.
    pub async fn all_since(&self, from: &Branch, since: Option<&ObjectId>) -> Result<Vec<Commit>> {
        let range = range(from, since);
        let mut words = vec!["--topo-order"];
        words.extend(range.iter().map(String::as_str));
        words.push("--");
        self.commits(&words, b"").await
    }

    /// These commits, each once.
    pub(super) async fn commits_of(&self, ids: &[ObjectId]) -> Result<Vec<Commit>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let words = ["--no-walk=unsorted", "--stdin"];
        self.commits(&words, lines.as_bytes()).await
    }

    async fn commits(&self, words: &[&str], input: &[u8]) -> Result<Vec<Commit>> {
        let fixed = ["log", "-z", "--no-show-signature", "--no-notes", FORMAT];
        let words = [fixed.as_slice(), words].concat();
        let output = self.ask(&words, &[], input).await?;
        let parts: Vec<&[u8]> = output.split(|byte| *byte == 0).collect();
        let rows = parts.chunks_exact(PARTS);
        let commits = rows.map(|row| commit(row).ok_or_else(|| self.failed(&words, NO_LIST)));
        commits.collect()
    }
}

/// What is wrong with an answer that cannot be read.
const NO_LIST: &str = "its answer is no list";

fn range(from: &Branch, since: Option<&ObjectId>) -> Vec<String> {
    let since = since.map(|id| format!("^{id}"));
    [from.reference()].into_iter().chain(since).collect()
}

fn commit(row: &[&[u8]]) -> Option<Commit> {
    let [id, tree, parents, author, when, message] = row else {
        return None;
    };
    let name = |bytes: &[u8]| ObjectId::parse(std::str::from_utf8(bytes).ok()?);
    let parents = parents.split(|byte| *byte == b' ');
    let parents = parents.filter(|parent| !parent.is_empty());
    Some(Commit {
        id: name(id)?,
        tree: name(tree)?,
        parents: parents.map(name).collect::<Option<_>>()?,
        author: lossy(author),
        when: std::str::from_utf8(when).ok()?.parse().ok()?,
        message: lossy(message),
    })
}
