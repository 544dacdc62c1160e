//! The keys at the top of a config.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, Integer, NamedSections, NodeList, Section, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, TypedKey, UnknownKeys, ValueShape, agents, checks, hooks,
    limits, memory, orchestrator, permissions, rate_limits, retention, roles, servers,
    timeout_settings, ui, workflow,
};

/// The longest timeout that can be set, in seconds: one week.
pub const SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

pub(crate) const AGENTS: TypedKey<NodeList> = TypedKey::optional(
    &["agents"],
    shape::nodes(const { &ValueShape::Mapping(&agents::AGENT) }),
    "The team. A tie in the vote is broken by this order.",
    Harmless,
);

pub(crate) const AGENT: TypedKey<Section> = TypedKey::optional(
    &["agent"],
    shape::section(&agents::AGENT),
    "A single agent, instead of `agents`.",
    Harmless,
);

pub(crate) const ORCHESTRATOR: TypedKey<Section> = TypedKey::optional(
    &["orchestrator"],
    shape::section(&orchestrator::ORCHESTRATOR),
    "How the agents work together, and on which paths.",
    Harmless,
);

pub(crate) const TIMEOUT_SETTINGS: TypedKey<Section> = TypedKey::optional(
    &["timeout_settings"],
    shape::section(&timeout_settings::TIMEOUT_SETTINGS),
    "Timeouts.",
    Harmless,
);

pub(crate) const DELIVERY: TypedKey<Text> = TypedKey::optional(
    &["delivery"],
    shape::one_of(&["auto", "review"]),
    "Whether you review the delivery before it is applied. `review` shows the changes and \
     asks which to apply, if there is a terminal. `--yes` applies without asking.",
    Harmless,
)
.with_default("auto");

pub(crate) const UI: TypedKey<Section> = TypedKey::optional(
    &["ui"],
    shape::section(&ui::UI),
    "Display settings.",
    Harmless,
);

pub(crate) const SETUP: TypedKey<Text> = TypedKey::optional(
    &["setup"],
    shape::text(),
    "A command that prepares your files for agents and checks, such as `npm ci`. It runs once, \
     before any model is asked; what it writes is below every attempt and every check, and is not \
     delivered.",
    Harmless,
);

pub(crate) const CHECKS: TypedKey<NodeList> = TypedKey::optional(
    &["checks"],
    shape::nodes(const { &ValueShape::TextOr(&checks::CHECK) }),
    "Commands that are run on every answer, on your files with its changes, and again \
     after the delivery. A string is the command alone.",
    Harmless,
)
.with_default("[]");

pub(crate) const ON_CHECK_FAILURE: TypedKey<Text> = TypedKey::optional(
    &["on_check_failure"],
    shape::one_of(&["undo", "keep", "ask"]),
    "What to do with a delivery when a required check fails afterwards. `ask` prompts, or \
     reverts the delivery when there is no terminal.",
    Harmless,
)
.with_default("undo");

pub(crate) const PARALLEL_CHECKS: TypedKey<Integer> = TypedKey::optional(
    &["parallel_checks"],
    shape::integer(1, 64),
    "How many checks run at the same time on answers that agents give alone.",
    Harmless,
)
.with_default("4");

pub(crate) const SESSION_ID: TypedKey<Text> = TypedKey::optional(
    &["session_id"],
    shape::text(),
    "The session to continue: its id, a prefix of it, or `last`. `--continue` and \
     `--session-id` take precedence.",
    Harmless,
);

pub(crate) const RETENTION: TypedKey<Section> = TypedKey::optional(
    &["retention"],
    shape::section(&retention::RETENTION),
    "Which earlier runs and sessions of the project are removed at the end of a run.",
    NeedsNamedConfig("removes earlier runs and sessions of yours"),
);

pub(crate) const WORKFLOW: TypedKey<Section> = TypedKey::optional(
    &["workflow"],
    shape::section(&workflow::WORKFLOW),
    "A pipeline of roles; without it, all agents work at the same time and vote.",
    Harmless,
);

pub(crate) const ROLES: TypedKey<NamedSections> = TypedKey::optional(
    &["roles"],
    shape::named_sections(&roles::ROLE),
    "Additional roles of the pipeline, or changes to built-in ones.",
    Harmless,
);

pub(crate) const RATE_LIMITS: TypedKey<NodeList> = TypedKey::optional(
    &["rate_limits"],
    shape::nodes(const { &ValueShape::Mapping(&rate_limits::RATE_LIMIT) }),
    "Rate limits of all agents together. Every matching limit applies.",
    Harmless,
)
.with_default("[]");

/// The whole config.
pub static ROOT: KeySection = KeySection {
    path: "",
    doc: "Keys that begin with `x-` can hold anchors: they are ignored here and in every mapping \
          except `backend`.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        AGENTS.row(),
        AGENT.row(),
        ORCHESTRATOR.row(),
        TIMEOUT_SETTINGS.row(),
        limits::KEY.row(),
        DELIVERY.row(),
        UI.row(),
        SETUP.row(),
        CHECKS.row(),
        ON_CHECK_FAILURE.row(),
        PARALLEL_CHECKS.row(),
        SESSION_ID.row(),
        RETENTION.row(),
        memory::KEY.row(),
        servers::KEY
            .with_doc(
                "MCP servers of every agent. Unless it is `shared`, each agent has its own instance of \
                 a program.",
            )
            .row(),
        hooks::KEY.row(),
        permissions::KEY.row(),
        WORKFLOW.row(),
        ROLES.row(),
        RATE_LIMITS.row(),
        ConfigKey::unsupported(
            &["rate_limiting"],
            ValueShape::Any,
            "write `rate_limits`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unsupported(
            &["display"],
            ValueShape::Any,
            "`dashboard` in `ui` selects how a run is shown",
            IgnoredEffect::Nothing,
        ),
        ConfigKey::unsupported(
            &["task"],
            ValueShape::Any,
            "the task is given on the command line",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["timeout"],
            ValueShape::Any,
            "MassGen does not act on it either; write `timeout_settings`",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::unsupported(
            &["nlip", "nlip_config", "enable_nlip"],
            ValueShape::Any,
            "messages are sent to the vendors directly",
            IgnoredEffect::Convenience,
        ),
        ConfigKey::refused(
            &[
                "models",
                "model_configs",
                "num_agents",
                "max_rounds",
                "consensus_threshold",
                "voting_enabled",
                "enable_voting",
            ],
            "it is from the first version of the format; describe each agent in `agents`",
        ),
    ],
};
