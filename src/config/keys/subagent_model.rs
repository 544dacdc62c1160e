//! The keys about the model of subagents.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Named};
use crate::config::keys::shape::{self, Flag, NodeList, Section};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, ServedKey, UnknownKeys, ValueShape, agents,
};

pub(crate) const KEY: ServedKey<Section> = ServedKey::optional(
    &["subagent_orchestrator"],
    shape::section(&SUBAGENT_ORCHESTRATOR),
    "The model of subagents, if it is not that of their agent.",
    Harmless,
);

pub(crate) const ENABLED: ServedKey<Flag> = ServedKey::optional(
    &["enabled"],
    shape::flag(),
    "Whether subagents have this model.",
    Harmless,
)
.with_default("false");

pub(crate) const AGENTS: ServedKey<NodeList> = ServedKey::optional(
    &["agents"],
    shape::nodes(const { &ValueShape::Mapping(&SUBAGENT) }),
    "The model: that of the first entry that is no external agent. A subagent is one agent.",
    Harmless,
)
.with_default("[]");

pub(crate) const WEB_SEARCH: ServedKey<Flag> = ServedKey::optional(
    &["enable_web_search"],
    shape::flag(),
    "Whether subagents search the Web by the tool of this model's vendor, where it can be combined with \
     massgen's.",
    Named("lets models use the network or run programs at their vendor"),
)
.with_default("false");

/// The model of subagents.
pub static SUBAGENT_ORCHESTRATOR: KeySection = KeySection {
    path: "orchestrator.coordination.subagent_orchestrator",
    doc: "The model of subagents. Without it they have that of their agent, and external agents have \
          none. See [subagents.md](subagents.md#another-model).",
    others: UnknownKeys::Refused,
    keys: &[
        ENABLED.row(),
        AGENTS.row(),
        WEB_SEARCH.row(),
        ConfigKey::unserved(
            &[
                "inherit_spawning_agent_backend",
                "shared_child_team_types",
                "coordination",
                "max_new_answers",
                "parse_at_references",
                "final_answer_strategy",
                "disable_injection",
                "defer_voting_until_all_answered",
            ],
            ValueShape::Any,
            "a subagent is one agent, and answers once",
            IgnoredEffect::Cosmetic,
        ),
    ],
};

/// An agent of `subagent_orchestrator`.
pub static SUBAGENT: KeySection = KeySection {
    path: "subagent",
    doc: "An entry of `agents` in `subagent_orchestrator`. Keys of its backend that are not about the \
          model have no effect: a subagent works in its agent's workspace, with its agent's tools.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::unserved(
            &["id", "system_message"],
            ValueShape::Any,
            "subagents are named and instructed by their agents",
            IgnoredEffect::Nothing,
        ),
        agents::BACKEND.row(),
    ],
};
