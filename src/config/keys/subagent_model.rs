//! The keys about the models of subagents.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::config::keys::{ValueShape, agents};

keys! {
    /// The models of subagents, if they do not have that of their agent.
    const KEY = ["subagent_orchestrator"] section(&SUBAGENT_ORCHESTRATOR);
}

section! {
    /// The models of subagents. Without one they have that of their agent, and external agents have
    /// none. See [subagents.md](subagents.md#other-models).
    pub static SUBAGENT_ORCHESTRATOR = "orchestrator.coordination.subagent_orchestrator";

    /// Whether subagents have these models.
    const ENABLED = ["enabled"] flag().with_default("false");

    /// The models, or external agents. Subagents take them in turn, unless their agent chooses one.
    const AGENTS = ["agents"] nodes(const { &ValueShape::Mapping(&SUBAGENT) }).with_default("[]");

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
    const ID = ["id"] text();
    row agents::BACKEND.row();
    unsupported ["system_message"] Nothing, "subagents are instructed by their agents";
}
