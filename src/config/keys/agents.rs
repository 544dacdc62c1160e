//! The keys of an agent, and those about the models of subagents.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::config::keys::{ValueShape, backend, context_paths, hooks, limits, permissions};

/// `COPIES_MAX` in the type of a key's bounds.
const COPIES_KEY_MAX: i64 = 16;

section! {
    /// An agent: a model, its instructions and its access.
    pub static AGENT = "agents[]";

    /// Its name in logs and directories: letters, digits, `_`, `-` and `.`. Other agents never see
    /// it, not even in paths; they see the last part of `cwd`.
    const ID = ["id"] text().make_required();

    /// Its model.
    const BACKEND = ["backend"] section(&backend::BACKEND).make_required();

    /// How many of it take part, as `ID-1`, `ID-2` and so on.
    const COPIES = ["copies"] integer(1, COPIES_KEY_MAX).with_default("1");

    /// Additional instructions for this agent.
    const SYSTEM_MESSAGE = ["system_message"] text();

    /// More instructions, which follow those of `system_message`.
    const APPEND_SYSTEM_PROMPT = ["append_system_prompt"] text();
    row context_paths::GUARD.row();
    row permissions::KEY.row();
    row hooks::KEY.row();
    row limits::KEY
        .with_doc("How much money, how many tokens and how many tool calls this agent may use.")
        .row();
    unsupported ["memory"] Convenience,
        "agents remember the conversation of the run and nothing else";
    unsupported ["nlip", "nlip_config", "enable_nlip"] Convenience,
        "messages are sent to the vendor directly";
    unsupported ["subtask", "subagent_agents", "main_agent"] Convenience,
        "every agent works on the whole task";
    unsupported ["max_new_answers_per_agent"] Restricts,
        "write `max_new_answers_per_agent` in `orchestrator`, for all agents";
    unsupported ["voting_sensitivity", "voting_threshold",
        "answer_novelty_requirement"] Convenience, "only the key in `orchestrator` counts";
}

keys! {
    /// The models of subagents, if they do not have that of their agent.
    const SUBAGENTS = ["subagent_orchestrator"] section(&SUBAGENT_ORCHESTRATOR);
}

section! {
    /// The models of subagents. Without one they have that of their agent, and external agents have
    /// none. See [subagents.md](subagents.md#other-models).
    pub static SUBAGENT_ORCHESTRATOR = "orchestrator.coordination.subagent_orchestrator";

    /// Whether subagents have these models.
    const SUBAGENTS_ENABLED = ["enabled"] flag().with_default("false");

    /// The models, or external agents. Subagents take them in turn, unless their agent chooses one.
    const SUBAGENT_MODELS = ["agents"] nodes(const { &ValueShape::Mapping(&SUBAGENT) }).with_default("[]");

    /// Whether subagents search the Web by the tool of their model's vendor, where it can be
    /// combined with massgen's.
    const WEB_SEARCH = ["enable_web_search"] flag()
        .in_found(NeedsNamedConfig("lets models use the network or run programs at their vendor"))
        .with_default("false");

    /// The types whose subagents have these models; all others have the model of their agent,
    /// unless that is an external agent. `*` means all subagents. Default: all subagents.
    const SHARED_TYPES = ["shared_child_team_types"] texts();
    unsupported ["inherit_spawning_agent_backend", "coordination", "max_new_answers",
        "parse_at_references", "final_answer_strategy", "disable_injection",
        "defer_voting_until_all_answered"] Convenience, "a subagent is one agent, and answers once";
}

section! {
    /// An entry of `agents` in `subagent_orchestrator`. Keys of its backend that are about neither
    /// the model nor the program of an external agent have no effect: a subagent works in its
    /// agent's workspace, and a model with its agent's tools. `allowed_tools`, `exclude_tools`,
    /// `permissions` and `hooks` are errors there.
    pub static SUBAGENT = "subagent";

    /// The name by which agents choose this model: at most 64 letters, digits, `_`, `-` and `.`.
    /// Default: `agent_1` for the first, and so on.
    const SUBAGENT_ID = ["id"] text();
    row BACKEND.row();
    unsupported ["system_message"] Nothing, "subagents are instructed by their agents";
}
