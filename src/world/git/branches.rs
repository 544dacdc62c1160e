//! Owns the branches of a hub side by side: which there are, how far apart they are, and the taking
//! back of what is on one.

use crate::error::Result;
use crate::world::git::history::Commit;
use crate::world::git::hub::{Hub, Merged, NewCommit, lossy};
use crate::world::git::object::{Author, Branch, ObjectId};
use crate::world::git::text;

impl Hub {
    /// All branches with their newest commits, in the order of their names.
    pub async fn branches(&self) -> Result<Vec<(Branch, Commit)>> {
        let format = "--format=%(refname)%00%(objectname)";
        let words = ["for-each-ref", format, "refs/heads/"];
        let output = lossy(&self.ask(&words, &[], b"").await?);
        let rows = output.lines().filter_map(|line| {
            let (name, id) = line.split_once('\0')?;
            let name = name.strip_prefix("refs/heads/")?;
            Some((Branch::parse(name)?, ObjectId::parse(id)?))
        });
        let rows: Vec<(Branch, ObjectId)> = rows.collect();
        let ids: Vec<ObjectId> = rows.iter().map(|(_, id)| id.clone()).collect();
        let commits = self.commits_of(&ids).await?;
        let rows = rows.into_iter().filter_map(|(branch, id)| {
            let commit = commits.iter().find(|commit| commit.id == id)?;
            Some((branch, commit.clone()))
        });
        Ok(rows.collect())
    }

    /// How many commits `of` has that `to` has not, and how many it lacks.
    pub async fn distance(&self, of: &ObjectId, to: &ObjectId) -> Result<(u64, u64)> {
        let range = format!("{of}...{to}");
        let words = ["rev-list", "--left-right", "--count", &range, "--"];
        let output = self.ask(&words, &[], b"").await?;
        let counts = text(&output)?.split_once('\t');
        let counts = counts.and_then(|(ahead, behind)| {
            let number = |text: &str| text.parse().ok();
            Some((number(ahead)?, number(behind)?))
        });
        counts.ok_or_else(|| self.failed(&words, "its answer is no two numbers"))
    }

    /// Removes a branch, if it still points at `from`. Its commits stay.
    ///
    /// # Errors
    /// It points elsewhere.
    pub async fn remove_branch(&self, branch: &Branch, from: &ObjectId) -> Result<()> {
        let words = ["update-ref", "-d", &branch.reference(), from.as_str()];
        self.ask(&words, &[], b"").await.map(drop)
    }

    /// Merges two commits as if both had been made on `base`, whatever they go back to. To take a
    /// commit back, `base` is it and `theirs` is what it was made on.
    pub async fn merge_from(
        &self,
        base: &ObjectId,
        ours: &ObjectId,
        theirs: &ObjectId,
    ) -> Result<Merged> {
        let ours = self.made_on(base, ours).await?;
        let theirs = self.made_on(base, theirs).await?;
        self.merge(&ours, &theirs).await
    }

    /// A commit of what `commit` holds, made on `base`. Nothing points at it.
    async fn made_on(&self, base: &ObjectId, commit: &ObjectId) -> Result<ObjectId> {
        let tree = self.tree_of(commit).await?;
        let new = NewCommit {
            tree: &tree,
            parents: std::slice::from_ref(base),
            author: &Author::new("massgen", "massgen@massgen"),
            message: "a side of a merge\n",
        };
        self.commit(new).await
    }
}
