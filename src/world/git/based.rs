//! Owns merges whose base is chosen: by them, what was merged once is taken back.

use crate::error::Result;
use crate::world::git::hub::{Hub, Merged, NewCommit};
use crate::world::git::object::{Author, ObjectId};

impl Hub {
    /// Merges two commits or trees as if both had been made on `base`, whatever they go back to. To take
    /// a commit back, `base` is it and `theirs` is what it was made on.
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

    /// A commit of what `commit`, or a tree, holds, made on `base`. Nothing points at it.
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
