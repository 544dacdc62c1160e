//! The keys at the top of a config, and those of its small sections.

use crate::config::keys::agents::AGENT;
use crate::config::keys::found_config::FoundConfigUse::{Harmless, Named};
use crate::config::keys::hooks::{self, HOOKS};
use crate::config::keys::limits::LIMITS;
use crate::config::keys::orchestrator::ORCHESTRATOR;
use crate::config::keys::permissions::{DOC, PERMISSIONS};
use crate::config::keys::servers;
use crate::config::keys::workflow::{ROLE, WORKFLOW};
use crate::config::keys::{ConfigKey, IgnoredEffect, KeySection, UnknownKeys, ValueShape};

/// The longest timeout that can be set, in seconds: one week.
pub const SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

/// The highest rate limit of requests or tokens per minute.
const RATE_MAX: i64 = 1_000_000_000_000;

/// The longest time that something unused can be kept, in days.
const DAYS_MAX: i64 = 36_500;
/// The lowest and highest limit for all sessions and records together, in bytes.
const BYTES_KEPT_MIN: u64 = 1 << 20;
const BYTES_KEPT_MAX: u64 = 1 << 50;

/// The whole config.
pub static ROOT: KeySection = KeySection {
    path: "",
    doc: "Keys that begin with `x-` can hold anchors: they are ignored here and in every mapping \
          except `backend`.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["agents"],
            ValueShape::List(&ValueShape::Mapping(&AGENT)),
            "The team. A tie in the vote is broken by this order.",
            Harmless,
        ),
        ConfigKey::served(
            &["agent"],
            ValueShape::Mapping(&AGENT),
            "A single agent, instead of `agents`.",
            Harmless,
        ),
        ConfigKey::served(
            &["orchestrator"],
            ValueShape::Mapping(&ORCHESTRATOR),
            "How the agents work together, and on which paths.",
            Harmless,
        ),
        ConfigKey::served(
            &["timeout_settings"],
            ValueShape::Mapping(&TIMEOUT_SETTINGS),
            "Timeouts.",
            Harmless,
        ),
        ConfigKey::served(
            &["limits"],
            ValueShape::Mapping(&LIMITS),
            "Limits on cost, tokens and tool calls of the run.",
            Harmless,
        ),
        ConfigKey::served(
            &["delivery"],
            ValueShape::OneOf(&["auto", "review"]),
            "Whether you review the delivery before it is applied. `review` shows the changes and \
             asks which to apply, if there is a terminal. `--yes` applies without asking.",
            Harmless,
        )
        .with_default("auto"),
        ConfigKey::served(
            &["ui"],
            ValueShape::Mapping(&UI),
            "Display settings.",
            Harmless,
        ),
        ConfigKey::served(
            &["checks"],
            ValueShape::List(&ValueShape::TextOr(&CHECK)),
            "Commands that are run on every answer, on your files with its changes, and again \
             after the delivery. A string is the command alone.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["on_check_failure"],
            ValueShape::OneOf(&["undo", "keep", "ask"]),
            "What to do with a delivery when a required check fails afterwards. `ask` prompts, or \
             reverts the delivery when there is no terminal.",
            Harmless,
        )
        .with_default("undo")
        .with_former_name("on_red"),
        ConfigKey::served(
            &["session_id"],
            ValueShape::Text,
            "The session to continue: its id, a prefix of it, or `last`. `--continue` and \
             `--session-id` take precedence.",
            Harmless,
        ),
        ConfigKey::served(
            &["retention"],
            ValueShape::Mapping(&RETENTION),
            "Which earlier runs and sessions of the project are removed at the end of a run.",
            Named("removes earlier runs and sessions of yours"),
        ),
        ConfigKey::unserved(
            &["memory"],
            ValueShape::Any,
            "agents remember the conversation of the run and nothing else",
            IgnoredEffect::Cosmetic,
        ),
        servers::OF_ALL,
        ConfigKey::served(
            &["hooks"],
            ValueShape::Mapping(&HOOKS),
            hooks::DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["permissions"],
            ValueShape::Mapping(&PERMISSIONS),
            DOC,
            Harmless,
        ),
        ConfigKey::served(
            &["workflow"],
            ValueShape::Mapping(&WORKFLOW),
            "A pipeline of roles; without it, all agents work at the same time and vote.",
            Harmless,
        ),
        ConfigKey::served(
            &["roles"],
            ValueShape::Named(&ROLE),
            "Additional roles of the pipeline, or changes to built-in ones.",
            Harmless,
        ),
        ConfigKey::served(
            &["rate_limits"],
            ValueShape::List(&ValueShape::Mapping(&RATE_LIMIT)),
            "Rate limits of all agents together. Every matching limit applies.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::unserved(
            &["rate_limiting"],
            ValueShape::Any,
            "write `rate_limits`",
            IgnoredEffect::Restricts,
        ),
        ConfigKey::unserved(
            &["nlip", "nlip_config", "enable_nlip"],
            ValueShape::Any,
            "messages are sent to the vendors directly",
            IgnoredEffect::Cosmetic,
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

/// A command that checks answers.
pub static CHECK: KeySection = KeySection {
    path: "checks[]",
    doc: "A command whose exit status decides whether an answer passes; see `docs/checks.md` for \
          where it runs. An answer that fails a required check cannot win while another one \
          passes.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["command"],
            ValueShape::Text,
            "The shell command. `${NAME}` is expanded from your environment when the config is \
             read; `$NAME` is left to the shell.",
            Harmless,
        ),
        ConfigKey::served(
            &["name"],
            ValueShape::Text,
            "Its name for voters and in reports. Default: the command.",
            Harmless,
        ),
        ConfigKey::served(
            &["required"],
            ValueShape::Flag,
            "Whether an answer must pass it. With `false`, voters see the result and decide.",
            Harmless,
        )
        .with_default("true"),
        ConfigKey::served(
            &["timeout"],
            ValueShape::Integer(1, 24 * 60 * 60),
            "Timeout in seconds.",
            Harmless,
        )
        .with_default("600"),
    ],
};

/// The rate limit of models.
pub static RATE_LIMIT: KeySection = KeySection {
    path: "rate_limits[]",
    doc: "Rate limit of matching models, for all agents of a run together. A request that would \
          exceed it waits. Tokens are estimated until the vendor reports them.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["type"],
            ValueShape::Text,
            "The backend type that it applies to. Default: all.",
            Harmless,
        ),
        ConfigKey::served(
            &["model"],
            ValueShape::Text,
            "The model that it applies to. Default: all.",
            Harmless,
        ),
        ConfigKey::served(
            &["requests_per_minute", "rpm"],
            ValueShape::Integer(1, RATE_MAX),
            "Requests per minute.",
            Harmless,
        ),
        ConfigKey::served(
            &["tokens_per_minute", "tpm"],
            ValueShape::Integer(1, RATE_MAX),
            "Tokens of requests and replies per minute.",
            Harmless,
        ),
    ],
};

/// The retention of runs and sessions.
pub static RETENTION: KeySection = KeySection {
    path: "retention",
    doc: "What is removed at the end of a run, oldest first: sessions, logs and workspaces of \
          runs, pipelines, and delivery records. What is in use and the newest of each kind are \
          kept. Without limits nothing is removed.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["days"],
            ValueShape::Integer(1, DAYS_MAX),
            "Days after which something unused is removed.",
            Harmless,
        ),
        ConfigKey::served(
            &["size"],
            ValueShape::Size(BYTES_KEPT_MIN, BYTES_KEPT_MAX),
            "Maximum total size.",
            Harmless,
        ),
    ],
};

/// Timeouts.
pub static TIMEOUT_SETTINGS: KeySection = KeySection {
    path: "timeout_settings",
    doc: "Timeouts in whole seconds.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["orchestrator_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "The whole run. On timeout, the best answer so far is the result, and no files are \
             delivered.",
            Harmless,
        )
        .with_default("1800"),
        ConfigKey::served(
            &["initial_round_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "An agent's first round, before it is told to finish; `null` sets no limit.",
            Harmless,
        )
        .with_default("null"),
        ConfigKey::served(
            &["subsequent_round_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Every later round, before the agent is told to finish; `null` sets no limit.",
            Harmless,
        )
        .with_default("null"),
        ConfigKey::served(
            &["round_timeout_grace_seconds"],
            ValueShape::Integer(0, SECONDS_MAX),
            "How long after that the agent may still use tools.",
            Harmless,
        )
        .with_default("120"),
    ],
};

/// What the user interface shows.
pub static UI: KeySection = KeySection {
    path: "ui",
    doc: "Display settings, which do not change how agents work.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::unserved(
            &["display_type"],
            ValueShape::Text,
            "progress is shown as plain lines",
            IgnoredEffect::Cosmetic,
        )
        .with_default("simple"),
        ConfigKey::unserved(
            &["logging_enabled"],
            ValueShape::Flag,
            "a log is always kept",
            IgnoredEffect::Cosmetic,
        )
        .with_default("true"),
        ConfigKey::unserved(
            &["use_orchestrator_for_single_agent"],
            ValueShape::Flag,
            "a single agent answers once and does not vote",
            IgnoredEffect::Cosmetic,
        )
        .with_default("true"),
        ConfigKey::unserved(
            &["theme", "automation_mode", "web_host", "web_port"],
            ValueShape::Any,
            "progress is shown as plain lines",
            IgnoredEffect::Cosmetic,
        ),
    ],
};
