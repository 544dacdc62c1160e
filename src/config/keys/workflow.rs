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
    doc: "A pipeline: the agents work one after another instead of at the same time. Each stage is \
          a role with its own branch; see `docs/pipelines.md`.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["type"],
            ValueShape::OneOf(&["pipeline"]),
            "The kind of workflow.",
            Harmless,
        ),
        ConfigKey::required(
            &["stages"],
            ValueShape::List(&ValueShape::TextOr(&STAGE)),
            "The roles in order. A string is the name of the role.",
            Harmless,
        ),
        ConfigKey::served(
            &["max_iterations"],
            ValueShape::Integer(1, ITERATIONS_MAX),
            "Maximum number of iterations.",
            Harmless,
        )
        .with_default("3"),
        ConfigKey::served(
            &["until"],
            ValueShape::Text,
            "The role whose answer ends the pipeline if it begins with `SATISFIED`. Default: \
             `user`, if it is a stage. With `none` there is one iteration.",
            Harmless,
        ),
        ConfigKey::served(
            &["context_tokens"],
            ValueShape::Integer(0, CONTEXT_TOKENS_MAX),
            "Maximum size of the results of earlier roles in a role's prompt, in tokens. What does \
             not fit is only listed.",
            Harmless,
        )
        .with_default("20000"),
        ConfigKey::served(
            &["merge_tries"],
            ValueShape::Integer(0, MERGE_TRIES_MAX),
            "How often a role may fix a failed merge before the user is asked.",
            Harmless,
        )
        .with_default("3"),
        ConfigKey::served(
            &["workspace"],
            ValueShape::Text,
            "Directory of the roles' checkouts; relative paths are below `.massgen`. Default: the \
             directory of the pipeline.",
            Inside(PathPurpose::State),
        ),
        ConfigKey::served(
            &["directory"],
            ValueShape::Text,
            "Directory in the tree for the directories of the roles. Default: the root of a tree \
             that started empty, and `.pipeline` in a project.",
            Harmless,
        ),
        ConfigKey::served(
            &["project"],
            ValueShape::Text,
            "The project: `auto` for the repository that contains the current directory, if any, \
             `none` for an empty tree, or a directory of a repository.",
            Inside(PathPurpose::Project),
        )
        .with_default("auto"),
    ],
};

/// A stage.
pub static STAGE: KeySection = KeySection {
    path: "workflow.stages[]",
    doc: "A stage of a pipeline.",
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
            "The agent. Default: the one with the name of the role, or the first.",
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
            "Number of copies of the role that work in parallel, each on a part of the plan.",
            Harmless,
        )
        .with_default("1"),
    ],
};

/// A role.
pub static ROLE: KeySection = KeySection {
    path: "roles[]",
    doc: "A role of a pipeline, or changes to a built-in one.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["name"],
            ValueShape::Text,
            "Its name, if roles are a list: letters, digits and `-`.",
            Harmless,
        ),
        ConfigKey::served(
            &["purpose"],
            ValueShape::Text,
            "Its purpose, for tables.",
            Harmless,
        ),
        ConfigKey::served(
            &["prompt"],
            ValueShape::Text,
            "The prompt for its agents. Default: `purpose`, or the prompt of the built-in role.",
            Harmless,
        ),
        ConfigKey::served(
            &["rights"],
            ValueShape::List(&ValueShape::OneOf(&["read", "write", "edit", "bash"])),
            "Its rights in addition to reading; without `bash` it is offered no commands or \
             programs, whatever its agent may run.",
            Harmless,
        ),
        ConfigKey::served(
            &["writes"],
            ValueShape::OneOfOrList(&["own", "project"]),
            "Where it may write: in its own directory (`own`), everywhere in a project except the \
             directories of other roles (`project`), or also in these directories of the tree.",
            Harmless,
        ),
        ConfigKey::served(
            &["reads"],
            ValueShape::OneOfOrList(&["all"]),
            "Roles whose outputs it reads: those of all earlier stages (`all`), or these.",
            Harmless,
        ),
        ConfigKey::served(
            &["output"],
            ValueShape::Text,
            "The file in its directory for later roles. A custom role without one passes on its \
             answer.",
            Harmless,
        ),
    ],
};
