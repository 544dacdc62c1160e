//! The keys of `workflow`: the stages of a pipeline, and when it ends.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, Integer, NodeList, Text};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys, ValueShape, stages};

/// The highest limit of iterations.
const ITERATIONS_MAX: i64 = 1_000;

/// The largest token budget for context.
const CONTEXT_TOKENS_MAX: i64 = 10_000_000;

/// The highest limit of attempts to fix work that does not merge.
const MERGE_TRIES_MAX: i64 = 100;

pub(crate) const TYPE: ServedKey<Text> = ServedKey::required(
    &["type"],
    shape::one_of(&["pipeline"]),
    "What it is.",
    Harmless,
);

pub(crate) const STAGES: ServedKey<NodeList> = ServedKey::required(
    &["stages"],
    shape::nodes(const { &ValueShape::TextOr(&stages::STAGE) }),
    "The roles in the order in which they work. Text is the name of the role.",
    Harmless,
);

pub(crate) const MAX_ITERATIONS: ServedKey<Integer> = ServedKey::optional(
    &["max_iterations"],
    shape::integer(1, ITERATIONS_MAX),
    "How often the stages may be gone through.",
    Harmless,
)
.with_default("3");

pub(crate) const UNTIL: ServedKey<Text> = ServedKey::optional(
    &["until"],
    shape::text(),
    "The role whose answer ends the pipeline, if it begins with `SATISFIED`; `user` without it, if \
     that is a stage. With `none` the stages are gone through once.",
    Harmless,
);

pub(crate) const CONTEXT_TOKENS: ServedKey<Integer> = ServedKey::optional(
    &["context_tokens"],
    shape::integer(0, CONTEXT_TOKENS_MAX),
    "How much of what earlier roles have left a role is told, in tokens. What does not fit is \
     named.",
    Harmless,
)
.with_default("20000");

pub(crate) const MERGE_TRIES: ServedKey<Integer> = ServedKey::optional(
    &["merge_tries"],
    shape::integer(0, MERGE_TRIES_MAX),
    "How often a role may put right what does not merge, before a person is asked.",
    Harmless,
)
.with_default("3");

pub(crate) const WORKSPACE: ServedKey<Text> = ServedKey::optional(
    &["workspace"],
    shape::text(),
    "The directory in which the checkouts of the roles lie; relative ones lie below `.massgen`. \
     Without it, they lie with the pipeline.",
    Inside(PathPurpose::State),
);

pub(crate) const DIRECTORY: ServedKey<Text> = ServedKey::optional(
    &["directory"],
    shape::text(),
    "The directory of the tree in which the roles have theirs: without it the root of a tree that \
     began empty, and `.pipeline` in a project.",
    Harmless,
);

pub(crate) const PROJECT: ServedKey<Text> = ServedKey::optional(
    &["project"],
    shape::text(),
    "What is worked on: `auto` for the repository around the directory that you stand in, if \
     there is one, `none` for an empty tree, or a directory of a repository.",
    Inside(PathPurpose::Project),
)
.with_default("auto");

/// A pipeline.
pub static WORKFLOW: KeySection = KeySection {
    path: "workflow",
    doc: "Lets the agents work one after the other instead of all at once: each stage is a role with a \
          branch of its own. `docs/pipelines.md` tells how.",
    others: UnknownKeys::Refused,
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
