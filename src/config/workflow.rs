//! The settings of a pipeline in addition to its stages: where it works, and on what.

use crate::config::storage_path::StoragePath;
use crate::path::{AbsPath, RelPath};
use crate::roles::PipelineSpec;

/// The default number of attempts that a role has to fix work that does not merge.
pub const MERGE_TRIES_DEFAULT: u32 = 3;

/// The configuration of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowConfig {
    /// The stages: who works, in which order, with which rights.
    pub pipeline: PipelineSpec,
    /// The directory of the roles' workspaces; `None` is below the pipeline's own directory.
    pub workspace: Option<StoragePath>,
    /// The directory of the tree that contains the roles' directories. `None` is the root of a tree
    /// that started empty, and `.pipeline` in a project.
    pub directory: Option<RelPath>,
    /// The project it works on.
    pub project: ProjectChoice,
    /// The directory that must contain the repository; `None` allows any.
    pub within: Option<AbsPath>,
    /// The number of attempts that a role has to fix work that does not merge, before a person is
    /// asked.
    pub merge_tries_max: u32,
}

/// The project that a pipeline works on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProjectChoice {
    /// The repository around the user's current directory; without one, an empty tree.
    #[default]
    Auto,
    /// An empty tree.
    None,
    /// The repository around this directory.
    At(AbsPath),
}
