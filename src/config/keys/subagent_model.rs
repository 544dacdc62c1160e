//! The keys about the models of subagents.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, Flag, NodeList, Section, Text, TextList};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, agents,
};

pub(crate) const KEY: TypedKey<Section> = TypedKey::optional(
    &["subagent_orchestrator"],
    shape::section(&SUBAGENT_ORCHESTRATOR),
    "The models of subagents, if they do not have that of their agent.",
    Harmless,
);

pub(crate) const ENABLED: TypedKey<Flag> = TypedKey::optional(
    &["enabled"],
    shape::flag(),
    "Whether subagents have these models.",
    Harmless,
)
.with_default("false");

pub(crate) const AGENTS: TypedKey<NodeList> = TypedKey::optional(
    &["agents"],
    shape::nodes(const { &ValueShape::Mapping(&SUBAGENT) }),
    "The models, or external agents. Subagents take them in turn, unless their agent chooses one.",
    Harmless,
)
.with_default("[]");

pub(crate) const WEB_SEARCH: TypedKey<Flag> = TypedKey::optional(
    &["enable_web_search"],
    shape::flag(),
    "Whether subagents search the Web by the tool of their model's vendor, where it can be combined with \
     massgen's.",
    NeedsNamedConfig("lets models use the network or run programs at their vendor"),
)
.with_default("false");

pub(crate) const SHARED_TYPES: TypedKey<TextList> = TypedKey::optional(
    &["shared_child_team_types"],
    shape::texts(&ValueShape::Text),
    "The types whose subagents have these models; all others have the model of their agent, unless that \
     is an external agent. `*` means all subagents. Default: all subagents.",
    Harmless,
);

pub(crate) const ID: TypedKey<Text> = TypedKey::optional(
    &["id"],
    shape::text(),
    "The name by which agents choose this model: at most 64 letters, digits, `_`, `-` and `.`. Default: \
     `agent_1` for the first, and so on.",
    Harmless,
);

/// The models of subagents.
pub static SUBAGENT_ORCHESTRATOR: KeySection = KeySection {
    path: "orchestrator.coordination.subagent_orchestrator",
    doc: "The models of subagents. Without one they have that of their agent, and external agents have \
          none. See [subagents.md](subagents.md#other-models).",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ENABLED.row(),
        AGENTS.row(),
        WEB_SEARCH.row(),
        SHARED_TYPES.row(),
        ConfigKey::unsupported(
            &[
                "inherit_spawning_agent_backend",
                "coordination",
                "max_new_answers",
                "parse_at_references",
                "final_answer_strategy",
                "disable_injection",
                "defer_voting_until_all_answered",
            ],
            ValueShape::Any,
            "a subagent is one agent, and answers once",
            IgnoredEffect::Convenience,
        ),
    ],
};

/// An agent of `subagent_orchestrator`.
pub static SUBAGENT: KeySection = KeySection {
    path: "subagent",
    doc: "An entry of `agents` in `subagent_orchestrator`. Keys of its backend that are about neither \
          the model nor the program of an external agent have no effect: a subagent works in its \
          agent's workspace, and a model with its agent's tools. `allowed_tools`, `exclude_tools`, \
          `permissions` and `hooks` are errors there.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ID.row(),
        agents::BACKEND.row(),
        ConfigKey::unsupported(
            &["system_message"],
            ValueShape::Any,
            "subagents are instructed by their agents",
            IgnoredEffect::Nothing,
        ),
    ],
};
