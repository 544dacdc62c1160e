//! The keys at the top of a config.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Named};
use crate::config::keys::shape::{self, NamedSections, NodeList, Section, Text};
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, ServedKey, UnknownKeys, ValueShape, agents, checks,
    hooks, limits, orchestrator, permissions, rate_limits, retention, roles, servers,
    timeout_settings, ui, workflow,
};

/// The longest timeout that can be set, in seconds: one week.
pub const SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

pub(crate) const AGENTS: ServedKey<NodeList> = ServedKey::optional(
    &["agents"],
    shape::nodes(const { &ValueShape::Mapping(&agents::AGENT) }),
    "The team. Ties of the vote are broken by this order.",
    Harmless,
);

pub(crate) const AGENT: ServedKey<Section> = ServedKey::optional(
    &["agent"],
    shape::section(&agents::AGENT),
    "A team of one, instead of `agents`.",
    Harmless,
);

pub(crate) const ORCHESTRATOR: ServedKey<Section> = ServedKey::optional(
    &["orchestrator"],
    shape::section(&orchestrator::ORCHESTRATOR),
    "How the agents work together, and on what.",
    Harmless,
);

pub(crate) const TIMEOUT_SETTINGS: ServedKey<Section> = ServedKey::optional(
    &["timeout_settings"],
    shape::section(&timeout_settings::TIMEOUT_SETTINGS),
    "How long things may take.",
    Harmless,
);

pub(crate) const DELIVERY: ServedKey<Text> = ServedKey::optional(
    &["delivery"],
    shape::one_of(&["auto", "review"]),
    "Whether you look at what the final agent delivers before it is applied: with `review` you are \
     shown what would change and choose, if the run has a terminal. `--yes` applies unasked.",
    Harmless,
)
.with_default("auto");

pub(crate) const UI: ServedKey<Section> =
    ServedKey::optional(&["ui"], shape::section(&ui::UI), "What is shown.", Harmless);

pub(crate) const CHECKS: ServedKey<NodeList> = ServedKey::optional(
    &["checks"],
    shape::nodes(const { &ValueShape::TextOr(&checks::CHECK) }),
    "Commands that are run on every answer, in your trees as it would leave them, and again \
     after the delivery. Text is the command alone.",
    Harmless,
)
.with_default("[]");

pub(crate) const ON_RED: ServedKey<Text> = ServedKey::optional(
    &["on_red"],
    shape::one_of(&["undo", "keep", "ask"]),
    "What becomes of a delivery after which a required check fails. With `ask` you are \
     asked, and where nobody can be, it is taken back.",
    Harmless,
)
.with_default("undo");

pub(crate) const SESSION_ID: ServedKey<Text> = ServedKey::optional(
    &["session_id"],
    shape::text(),
    "The session that a run goes on with: its id, the beginning of it, or `last`. \
     `--continue` and `--session-id` come first.",
    Harmless,
);

pub(crate) const RETENTION: ServedKey<Section> = ServedKey::optional(
    &["retention"],
    shape::section(&retention::RETENTION),
    "What is removed at the end of a run of the project's earlier runs and sessions.",
    Named("removes earlier runs and sessions of yours"),
);

pub(crate) const WORKFLOW: ServedKey<Section> = ServedKey::optional(
    &["workflow"],
    shape::section(&workflow::WORKFLOW),
    "The pipeline in which the agents work; without it, all work at the same time and vote.",
    Harmless,
);

pub(crate) const ROLES: ServedKey<NamedSections> = ServedKey::optional(
    &["roles"],
    shape::named_sections(&roles::ROLE),
    "Roles of the pipeline beside those that are built in, or what is different about these.",
    Harmless,
);

pub(crate) const RATE_LIMITS: ServedKey<NodeList> = ServedKey::optional(
    &["rate_limits"],
    shape::nodes(const { &ValueShape::Mapping(&rate_limits::RATE_LIMIT) }),
    "How often vendors may be asked, all agents together. Every limit that fits holds.",
    Harmless,
)
.with_default("[]");

/// The whole config.
pub static ROOT: KeySection = KeySection {
    path: "",
    doc: "Keys that begin with `x-` are a place for anchors: they are skipped here and in every \
          mapping but `backend`.",
    others: UnknownKeys::Refused,
    keys: &[
        AGENTS.row(),
        AGENT.row(),
        ORCHESTRATOR.row(),
        TIMEOUT_SETTINGS.row(),
        limits::KEY.row(),
        DELIVERY.row(),
        UI.row(),
        CHECKS.row(),
        ON_RED.row(),
        SESSION_ID.row(),
        RETENTION.row(),
        ConfigKey::unserved(
            &["memory"],
            ValueShape::Any,
            "agents remember the conversation of the run and nothing else", IgnoredEffect::Cosmetic,),
        servers::KEY
            .with_doc(
                "Servers whose tools every agent with a `cwd` may use. Each agent has its own instance \
                 of a program that is not `shared`.",
            )
            .row(),
        hooks::KEY.row(),
        permissions::KEY.row(),
        WORKFLOW.row(),
        ROLES.row(),
        RATE_LIMITS.row(),
        ConfigKey::unserved(
            &["rate_limiting"],
            ValueShape::Any,
            "write `rate_limits`", IgnoredEffect::Restricts,),
        ConfigKey::unserved(
            &["nlip", "nlip_config", "enable_nlip"],
            ValueShape::Any,
            "messages go to the vendors directly", IgnoredEffect::Cosmetic,),
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
