//! The keys of `workflow` and `roles`: who works in a pipeline, in which order, with which rights.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::{ConfigKey, KeySection, UnknownKeys, ValueShape};

/// The maximum number of copies of a role that work at the same time.
const COPIES_MAX: i64 = 16;
/// The highest limit of iterations.
const ITERATIONS_MAX: i64 = 1_000;
/// The largest token budget for context.
const CONTEXT_TOKENS_MAX: i64 = 10_000_000;
/// The highest limit of attempts to fix work that does not merge.
const MERGE_TRIES_MAX: i64 = 100;

/// A pipeline.
pub static WORKFLOW: KeySection = KeySection {
    path: "workflow",
    doc: "Lets the agents work one after the other instead of all at once: each stage is a role with a \
          branch of its own. `docs/pipelines.md` tells how.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(&["type"], ValueShape::OneOf(&["pipeline"]), "What it is.", Harmless,),
        ConfigKey::required(
            &["stages"],
            ValueShape::List(&ValueShape::TextOr(&STAGE)),
            "The roles in the order in which they work. Text is the name of the role.", Harmless,),
        ConfigKey::served(
            &["max_iterations"],
            ValueShape::Integer(1, ITERATIONS_MAX),
            "How often the stages may be gone through.", Harmless,)
        .with_default("3"),
        ConfigKey::served(
            &["until"],
            ValueShape::Text,
            "The role whose answer ends the pipeline, if it begins with `SATISFIED`; `user` without it, if \
             that is a stage. With `none` the stages are gone through once.", Harmless,),
        ConfigKey::served(
            &["context_tokens"],
            ValueShape::Integer(0, CONTEXT_TOKENS_MAX),
            "How much of what earlier roles have left a role is told, in tokens. What does not fit is \
             named.", Harmless,)
        .with_default("20000"),
        ConfigKey::served(
            &["merge_tries"],
            ValueShape::Integer(0, MERGE_TRIES_MAX),
            "How often a role may put right what does not merge, before a person is asked.", Harmless,)
        .with_default("3"),
        ConfigKey::served(
            &["workspace"],
            ValueShape::Text,
            "The directory in which the checkouts of the roles lie; relative ones lie below `.massgen`. \
             Without it, they lie with the pipeline.", Inside(PathPurpose::State),),
        ConfigKey::served(
            &["directory"],
            ValueShape::Text,
            "The directory of the tree in which the roles have theirs: without it the root of a tree that \
             began empty, and `.pipeline` in a project.", Harmless,),
        ConfigKey::served(
            &["project"],
            ValueShape::Text,
            "What is worked on: `auto` for the repository around the directory that you stand in, if \
             there is one, `none` for an empty tree, or a directory of a repository.", Inside(PathPurpose::Project),)
        .with_default("auto"),
    ],
};

/// A stage.
pub static STAGE: KeySection = KeySection {
    path: "workflow.stages[]",
    doc: "A place in the order of a pipeline.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["role"],
            ValueShape::Text,
            "The role: `understand`, `planner`, `implementer`, `reviewer`, `tester`, `user`, or one of \
             `roles`.",
            Harmless,
        ),
        ConfigKey::served(
            &["agent"],
            ValueShape::Text,
            "The agent that works; without it, the one with the name of the role, or the first.",
            Harmless,
        ),
        ConfigKey::served(
            &["agents"],
            ValueShape::List(&ValueShape::Text),
            "Several agents that answer and vote; the files of the winner count.",
            Harmless,
        ),
        ConfigKey::served(
            &["copies"],
            ValueShape::Integer(1, COPIES_MAX),
            "How many copies of the role work at the same time, each on a part of the plan.",
            Harmless,
        )
        .with_default("1"),
    ],
};

/// A role.
pub static ROLE: KeySection = KeySection {
    path: "roles[]",
    doc: "A role of a pipeline, or what is different about one that is built in.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["name"],
            ValueShape::Text,
            "What it is called, where roles are written as a list: letters, digits and `-`.",
            Harmless,
        ),
        ConfigKey::served(
            &["purpose"],
            ValueShape::Text,
            "What it is for, for tables.",
            Harmless,
        ),
        ConfigKey::served(
            &["prompt"],
            ValueShape::Text,
            "What its agents are told of their part; without it, `purpose`, or the text of a role that is \
             built in.",
            Harmless,
        ),
        ConfigKey::served(
            &["rights"],
            ValueShape::List(&ValueShape::OneOf(&["read", "write", "edit", "bash"])),
            "What it may do. It may read in any case; without `bash` it is offered no commands and no \
             programs, whatever its agent could run.",
            Harmless,
        ),
        ConfigKey::served(
            &["writes"],
            ValueShape::OneOfOrList(&["own", "project"]),
            "Where it may write: in the directory that has its name (`own`), in a project everywhere but in \
             the directories of others (`project`), or also in these directories of the tree.",
            Harmless,
        ),
        ConfigKey::served(
            &["reads"],
            ValueShape::OneOfOrList(&["all"]),
            "Whose outputs it is told: of all stages before its own (`all`), or of these roles.",
            Harmless,
        ),
        ConfigKey::served(
            &["output"],
            ValueShape::Text,
            "The file in its directory that later roles are told of. An own role without one leaves its \
             answer.",
            Harmless,
        ),
    ],
};
