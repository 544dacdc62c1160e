//! The keys of an agent.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Integer, Section, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, backend, folder_guard,
    hooks, limits, permissions,
};

pub(crate) const ID: TypedKey<Text> = TypedKey::required(
    &["id"],
    shape::text(),
    "Its name in logs and directories: letters, digits, `_`, `-` and `.`. Other agents \
     never see it, not even in paths; they see the last part of `cwd`.",
    Harmless,
);

pub(crate) const BACKEND: TypedKey<Section> = TypedKey::required(
    &["backend"],
    shape::section(&backend::BACKEND),
    "Its model.",
    Harmless,
);

pub(crate) const SYSTEM_MESSAGE: TypedKey<Text> = TypedKey::optional(
    &["system_message"],
    shape::text(),
    "Additional instructions for this agent.",
    Harmless,
);

pub(crate) const APPEND_SYSTEM_PROMPT: TypedKey<Text> = TypedKey::optional(
    &["append_system_prompt"],
    shape::text(),
    "More instructions, which follow those of `system_message`.",
    Harmless,
);

pub(crate) const COPIES: TypedKey<Integer> = TypedKey::optional(
    &["copies"],
    shape::integer(1, COPIES_KEY_MAX),
    "How many of it take part, as `ID-1`, `ID-2` and so on.",
    Harmless,
)
.with_default("1");

/// `COPIES_MAX` in the type of a key's bounds.
const COPIES_KEY_MAX: i64 = 16;

/// One agent.
pub static AGENT: KeySection = KeySection {
    path: "agents[]",
    doc: "An agent: a model, its instructions and its access.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        ID.row(),
        BACKEND.row(),
        COPIES.row(),
        SYSTEM_MESSAGE.row(),
        APPEND_SYSTEM_PROMPT.row(),
        folder_guard::KEY.row(),
        permissions::KEY.row(),
        hooks::KEY.row(),
        limits::KEY
            .with_doc("How much money, how many tokens and how many tool calls this agent may use.")
            .row(),
        ConfigKey::unsupported(
            &["memory"],
            ValueShape::Any,
            "agents remember the conversation of the run and nothing else",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["nlip", "nlip_config", "enable_nlip"],
            ValueShape::Any,
            "messages are sent to the vendor directly",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["subtask", "subagent_agents", "main_agent"],
            ValueShape::Any,
            "every agent works on the whole task",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["max_new_answers_per_agent"],
            ValueShape::Any,
            "write `max_new_answers_per_agent` in `orchestrator`, for all agents",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unsupported(
            &[
                "voting_sensitivity",
                "voting_threshold",
                "answer_novelty_requirement",
            ],
            ValueShape::Any,
            "only the key in `orchestrator` counts",
            IgnoredEffect::Convenience,
        ),
    ],
};
