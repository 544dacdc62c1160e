//! Reads the user's index through copies, so that git never refreshes or locks the original.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::git::bare_repository::BareRepository;
use crate::world::git::project::ProjectRepository;
use crate::world::git::{GitInvocation, lossy_text, nul_separated};
use crate::world::sys::state_files::dir::{self, StagingDirectory};
use crate::world::sys::state_files::lockfile::copy_with_mtime;

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
            .run_in_worktree(&self.root, &index, &arguments)
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
