//! The keys at the top of a config.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::config::keys::{
    ValueShape, agents, checks, hooks, limits, memory, orchestrator, permissions, servers, ui,
    workflow,
};

section! {
    /// Keys that begin with `x-` can hold anchors: they are ignored here and in every mapping
    /// except `backend`.
    pub static ROOT = "";

    /// The team. A tie in the vote is broken by this order.
    const AGENTS = ["agents"] nodes(const { &ValueShape::Mapping(&agents::AGENT) });

    /// A single agent, instead of `agents`.
    const AGENT = ["agent"] section(&agents::AGENT);

    /// How the agents work together, and on which paths.
    const ORCHESTRATOR = ["orchestrator"] section(&orchestrator::ORCHESTRATOR);

    /// Timeouts.
    const TIMEOUT_SETTINGS = ["timeout_settings"] section(&limits::TIMEOUT_SETTINGS);
    row limits::KEY.row();

    /// Whether you review the delivery before it is applied. `review` shows the changes and asks
    /// which to apply, if there is a terminal. `--yes` applies without asking.
    const DELIVERY = ["delivery"] one_of(&["auto", "review"]).with_default("auto");

    /// Display settings.
    const UI = ["ui"] section(&ui::UI);

    /// A command that prepares your files for agents and checks, such as `npm ci`. It runs once,
    /// before any model is asked; what it writes is below every attempt and every check, and is not
    /// delivered.
    const SETUP = ["setup"] text();

    /// Commands that are run on every answer, on your files with its changes, and again after the
    /// delivery. A string is the command alone.
    const CHECKS = ["checks"] nodes(const { &ValueShape::TextOr(&checks::CHECK) })
        .with_default("[]");

    /// What to do with a delivery when a required check fails afterwards. `ask` prompts, or reverts
    /// the delivery when there is no terminal.
    const ON_CHECK_FAILURE = ["on_check_failure"] one_of(&["undo", "keep", "ask"])
        .with_default("undo");

    /// How many checks run at the same time on answers that agents give alone.
    const PARALLEL_CHECKS = ["parallel_checks"] integer(1, 64).with_default("4");

    /// What measures the work when the run is over.
    const JUDGE = ["judge"] section(&checks::JUDGE)
        .in_found(NeedsNamedConfig("runs a command of its own"));

    /// The session to continue: its id, a prefix of it, or `last`. `--continue` and `--session-id`
    /// take precedence.
    const SESSION_ID = ["session_id"] text();

    /// Which earlier runs and sessions of the project are removed at the end of a run.
    const RETENTION = ["retention"] section(&limits::RETENTION)
        .in_found(NeedsNamedConfig("removes earlier runs and sessions of yours"));
    row memory::KEY.row();
    row servers::KEY
        .with_doc("MCP servers of every agent. Unless it is `shared`, each agent has its own \
        instance of a program.").row();
    row hooks::KEY.row();
    row permissions::KEY.row();

    /// A pipeline of roles; without it, all agents work at the same time and vote.
    const WORKFLOW = ["workflow"] section(&workflow::WORKFLOW);

    /// Additional roles of the pipeline, or changes to built-in ones.
    const ROLES = ["roles"] named_sections(&workflow::PIPELINE_ROLE);

    /// Rate limits of all agents together. Every matching limit applies.
    const RATE_LIMITS = ["rate_limits"]
        nodes(const { &ValueShape::Mapping(&limits::RATE_LIMIT) })
        .with_default("[]");
    unsupported ["rate_limiting"] Restricts, "write `rate_limits`";
    unsupported ["display"] Nothing, "`dashboard` in `ui` selects how a run is shown";
    unsupported ["task"] Convenience, "the task is given on the command line";
    unsupported ["timeout"] Convenience,
        "MassGen does not act on it either; write `timeout_settings`";
    unsupported ["nlip", "nlip_config", "enable_nlip"] Convenience,
        "messages are sent to the vendors directly";
    refused ["models", "model_configs", "num_agents", "max_rounds", "consensus_threshold",
        "voting_enabled", "enable_voting"],
        "it is from the first version of the format; describe each agent in `agents`";
}
