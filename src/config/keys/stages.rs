//! The keys of a stage of a pipeline.

/// The maximum number of copies of a role that work at the same time.
const COPIES_MAX: i64 = 16;

section! {
    /// A stage of a pipeline.
    pub static STAGE = "workflow.stages[]";

    /// The role: `understand`, `planner`, `implementer`, `reviewer`, `tester`, `user`, or one of
    /// `roles`.
    const ROLE = ["role"] text().make_required();

    /// The agent. Default: the one with the name of the role, or the first.
    const AGENT = ["agent"] text();

    /// Several agents that answer and vote; the files of the winner count.
    const AGENTS = ["agents"] texts();

    /// Number of copies of the role that work in parallel, each on a part of the plan.
    const COPIES = ["copies"] integer(1, COPIES_MAX).with_default("1");
}
