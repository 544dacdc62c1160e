//! Merges with a chosen base, by which an earlier merge can be reverted.

use crate::error::Result;
use crate::world::git::bare_repository::{BareRepository, MergeResult, NewCommit};
use crate::world::git::object::{CommitAuthor, ObjectId};

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
