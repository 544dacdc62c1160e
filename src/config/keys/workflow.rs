//! The keys of `workflow`: the stages of a pipeline, and when it ends; those of a stage and of a role.

use crate::config::keys::ValueShape;
use crate::config::keys::found_config::FoundConfigUse::Inside;
use crate::config::keys::found_config::PathPurpose;

/// The highest value of `max_iterations`.
pub(crate) const ITERATION_LIMIT_MAX: i64 = 1_000;

/// The highest value of `context_tokens`.
const CONTEXT_TOKENS_MAX: i64 = 10_000_000;

/// The highest value of `merge_tries`.
const MERGE_TRIES_MAX: i64 = 100;

section! {
    /// A pipeline: the agents work one after another instead of at the same time. Each stage is a
    /// role with its own branch; see `docs/pipelines.md`.
    pub static WORKFLOW = "workflow";

    /// The kind of workflow.
    const TYPE = ["type"] one_of(&["pipeline"]).make_required();

    /// The roles in order. A string is the name of the role.
    const STAGES = ["stages"] nodes(const { &ValueShape::TextOr(&STAGE) }).make_required();

    /// Maximum number of iterations.
    const MAX_ITERATIONS = ["max_iterations"] integer(1, ITERATION_LIMIT_MAX).with_default("3");

    /// The role whose answer ends the pipeline if it begins with `SATISFIED`. Default: `user`, if
    /// it is a stage. With `none` there is one iteration.
    const UNTIL = ["until"] text();

    /// Maximum size of the results of earlier roles in a role's prompt, in tokens. What does not
    /// fit is only listed.
    const CONTEXT_TOKENS = ["context_tokens"] integer(0, CONTEXT_TOKENS_MAX).with_default("20000");

    /// How often a role may fix a failed merge before the user is asked.
    const MERGE_TRIES = ["merge_tries"] integer(0, MERGE_TRIES_MAX).with_default("3");

    /// Directory of the roles' checkouts; relative paths are below `.massgen`. Default: the
    /// directory of the pipeline.
    const WORKSPACE = ["workspace"] text().in_found(Inside(PathPurpose::State));

    /// Directory in the tree that contains one directory for each role. Default: `.pipeline` in a
    /// project, and the root of a tree that started empty.
    const DIRECTORY = ["directory"] text();

    /// The project: `auto` for the repository that contains the current directory, if any, `none`
    /// for an empty tree, or a directory of a repository.
    const PROJECT = ["project"] text().in_found(Inside(PathPurpose::Project)).with_default("auto");
}

/// The maximum number of copies of a role that work at the same time.
const COPIES_MAX: i64 = 16;

section! {
    /// A stage of a pipeline.
    pub static STAGE = "workflow.stages[]";

    /// The role: `understand`, `planner`, `implementer`, `reviewer`, `tester`, `user`, or one of
    /// `roles`.
    const STAGE_ROLE = ["role"] text().make_required();

    /// The agent. Default: the one with the name of the role, or the first.
    const STAGE_AGENT = ["agent"] text();

    /// Several agents that answer and vote; the files of the winner count.
    const STAGE_AGENTS = ["agents"] texts();

    /// Number of copies of the role that work in parallel, each on a part of the plan.
    const COPIES = ["copies"] integer(1, COPIES_MAX).with_default("1");
}

section! {
    /// A role of a pipeline, or changes to a built-in one.
    pub static PIPELINE_ROLE = "roles[]";

    /// Its name, if roles are a list: letters, digits and `-`.
    const ROLE_NAME = ["name"] text();

    /// Its purpose, for tables.
    const ROLE_PURPOSE = ["purpose"] text();

    /// The prompt for its agents. Default: `purpose`, or the prompt of the built-in role.
    const ROLE_PROMPT = ["prompt"] text();

    /// Its rights in addition to reading; without `bash` it is offered no commands or programs,
    /// whatever its agent may run.
    const ROLE_RIGHTS = ["rights"] texts_of(&ValueShape::OneOf(&["read", "write", "edit", "bash"]));

    /// Where it may write: in its own directory (`own`), everywhere in a project except the
    /// directories of other roles (`project`), or also in these directories of the tree.
    const ROLE_WRITES = ["writes"] one_of_or_list(&["own", "project"]);

    /// Roles whose outputs it reads: those of all earlier stages (`all`), or these.
    const ROLE_READS = ["reads"] one_of_or_list(&["all"]);

    /// The file in its directory for later roles. A custom role without one passes on its answer.
    const ROLE_OUTPUT = ["output"] text();
}
