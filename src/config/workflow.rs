//! Owns what a config says of a pipeline beside its stages: where it works, and on what.

use crate::config::storage_path::StoragePath;
use crate::path::{AbsPath, RelPath};
use crate::roles::PipelineSpec;

/// How often a role may try to mend what does not merge, where the config says nothing.
pub const MERGE_TRIES_DEFAULT: u32 = 3;

/// A pipeline as the config describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowConfig {
    /// Who works, in which order, with which rights.
    pub pipeline: PipelineSpec,
    /// Where the directories of the roles lie; below the pipeline's own directory without it.
    pub workspace: Option<StoragePath>,
    /// The directory of the tree in which roles have theirs. Without it, the root of a tree that began
    /// empty, and `.pipeline` in a project.
    pub directory: Option<RelPath>,
    /// What is worked on.
    pub project: ProjectChoice,
    /// The directory that the repository has to lie in; anywhere without it.
    pub within: Option<AbsPath>,
    /// How often a role may try to mend work that does not merge, before a person is asked.
    pub merge_tries_max: u32,
}

/// What a pipeline works on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProjectChoice {
    /// The repository around the directory that the user stands in; without one, an empty tree.
    #[default]
    Auto,
    /// An empty tree.
    None,
    /// The repository around this directory.
    At(AbsPath),
}
