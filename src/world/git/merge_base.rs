//! Owns merges whose base is chosen: by them, what was merged once is taken back.

use crate::error::Result;
use crate::world::git::hub::{Hub, MergeResult, NewCommit};
use crate::world::git::object::{CommitAuthor, ObjectId};

impl Hub {
    /// Merges what two commits or trees hold as if both had been made on `base`, a commit or a tree too,
    /// whatever they go back to. To take a commit back, `base` is it and `theirs` is what it was made on.
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

    /// A commit of what `content` holds, made on `parents`. Nothing points at it.
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
