//! The keys of `workflow`: the stages of a pipeline, and when it ends.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, Integer, NodeList, Text};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape, stages};

/// The highest value of `max_iterations`.
pub(crate) const ITERATION_LIMIT_MAX: i64 = 1_000;

/// The highest value of `context_tokens`.
const CONTEXT_TOKENS_MAX: i64 = 10_000_000;

/// The highest value of `merge_tries`.
const MERGE_TRIES_MAX: i64 = 100;

pub(crate) const TYPE: TypedKey<Text> = TypedKey::required(
    &["type"],
    shape::one_of(&["pipeline"]),
    "The kind of workflow.",
    Harmless,
);

pub(crate) const STAGES: TypedKey<NodeList> = TypedKey::required(
    &["stages"],
    shape::nodes(const { &ValueShape::TextOr(&stages::STAGE) }),
    "The roles in order. A string is the name of the role.",
    Harmless,
);

pub(crate) const MAX_ITERATIONS: TypedKey<Integer> = TypedKey::optional(
    &["max_iterations"],
    shape::integer(1, ITERATION_LIMIT_MAX),
    "Maximum number of iterations.",
    Harmless,
)
.with_default("3");

pub(crate) const UNTIL: TypedKey<Text> = TypedKey::optional(
    &["until"],
    shape::text(),
    "The role whose answer ends the pipeline if it begins with `SATISFIED`. Default: \
     `user`, if it is a stage. With `none` there is one iteration.",
    Harmless,
);

pub(crate) const CONTEXT_TOKENS: TypedKey<Integer> = TypedKey::optional(
    &["context_tokens"],
    shape::integer(0, CONTEXT_TOKENS_MAX),
    "Maximum size of the results of earlier roles in a role's prompt, in tokens. What does \
     not fit is only listed.",
    Harmless,
)
.with_default("20000");

pub(crate) const MERGE_TRIES: TypedKey<Integer> = TypedKey::optional(
    &["merge_tries"],
    shape::integer(0, MERGE_TRIES_MAX),
    "How often a role may fix a failed merge before the user is asked.",
    Harmless,
)
.with_default("3");

pub(crate) const WORKSPACE: TypedKey<Text> = TypedKey::optional(
    &["workspace"],
    shape::text(),
    "Directory of the roles' checkouts; relative paths are below `.massgen`. Default: the \
     directory of the pipeline.",
    Inside(PathPurpose::State),
);

pub(crate) const DIRECTORY: TypedKey<Text> = TypedKey::optional(
    &["directory"],
    shape::text(),
    "Directory in the tree that contains one directory for each role. Default: `.pipeline` in a \
     project, and the root of a tree that started empty.",
    Harmless,
);

pub(crate) const PROJECT: TypedKey<Text> = TypedKey::optional(
    &["project"],
    shape::text(),
    "The project: `auto` for the repository that contains the current directory, if any, \
     `none` for an empty tree, or a directory of a repository.",
    Inside(PathPurpose::Project),
)
.with_default("auto");

/// A pipeline.
pub static WORKFLOW: KeySection = KeySection {
    path: "workflow",
    doc: "A pipeline: the agents work one after another instead of at the same time. Each stage is \
          a role with its own branch; see `docs/pipelines.md`.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        TYPE.row(),
        STAGES.row(),
        MAX_ITERATIONS.row(),
        UNTIL.row(),
        CONTEXT_TOKENS.row(),
        MERGE_TRIES.row(),
        WORKSPACE.row(),
        DIRECTORY.row(),
        PROJECT.row(),
    ],
};
