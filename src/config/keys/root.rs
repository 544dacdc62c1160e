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
    doc: "Keys that begin with `x-` are a place for anchors: they are skipped here and in every \
          mapping but `backend`.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["agents"],
            ValueShape::List(&ValueShape::Mapping(&AGENT)),
            "The team. Ties of the vote are broken by this order.", Harmless,),
        ConfigKey::served(
            &["agent"],
            ValueShape::Mapping(&AGENT),
            "A team of one, instead of `agents`.", Harmless,),
        ConfigKey::served(
            &["orchestrator"],
            ValueShape::Mapping(&ORCHESTRATOR),
            "How the agents work together, and on what.", Harmless,),
        ConfigKey::served(
            &["timeout_settings"],
            ValueShape::Mapping(&TIMEOUT_SETTINGS),
            "How long things may take.", Harmless,),
        ConfigKey::served(
            &["limits"],
            ValueShape::Mapping(&LIMITS),
            "How much money, how many tokens and how many tool calls the run may use.", Harmless,),
        ConfigKey::served(
            &["delivery"],
            ValueShape::OneOf(&["auto", "review"]),
            "Whether you look at what the final agent delivers before it is applied: with `review` you are \
             shown what would change and choose, if the run has a terminal. `--yes` applies unasked.", Harmless,)
        .with_default("auto"),
        ConfigKey::served(&["ui"], ValueShape::Mapping(&UI), "What is shown.", Harmless,),
        ConfigKey::served(
            &["checks"],
            ValueShape::List(&ValueShape::TextOr(&CHECK)),
            "Commands that are run on every answer, in your trees as it would leave them, and again \
             after the delivery. Text is the command alone.", Harmless,)
        .with_default("[]"),
        ConfigKey::served(
            &["on_red"],
            ValueShape::OneOf(&["undo", "keep", "ask"]),
            "What becomes of a delivery after which a required check fails. With `ask` you are \
             asked, and where nobody can be, it is taken back.", Harmless,)
        .with_default("undo"),
        ConfigKey::served(
            &["session_id"],
            ValueShape::Text,
            "The session that a run goes on with: its id, the beginning of it, or `last`. \
             `--continue` and `--session-id` come first.", Harmless,),
        ConfigKey::served(
            &["retention"],
            ValueShape::Mapping(&RETENTION),
            "What is removed at the end of a run of the project's earlier runs and sessions.", Named("removes earlier runs and sessions of yours"),),
        ConfigKey::unserved(
            &["memory"],
            ValueShape::Any,
            "agents remember the conversation of the run and nothing else", IgnoredEffect::Cosmetic,),
        servers::OF_ALL,
        ConfigKey::served(&["hooks"], ValueShape::Mapping(&HOOKS), hooks::DOC, Harmless,),
        ConfigKey::served(&["permissions"], ValueShape::Mapping(&PERMISSIONS), DOC, Harmless,),
        ConfigKey::served(
            &["workflow"],
            ValueShape::Mapping(&WORKFLOW),
            "The pipeline in which the agents work; without it, all work at the same time and vote.", Harmless,),
        ConfigKey::served(
            &["roles"],
            ValueShape::Named(&ROLE),
            "Roles of the pipeline beside those that are built in, or what is different about these.", Harmless,),
        ConfigKey::served(
            &["rate_limits"],
            ValueShape::List(&ValueShape::Mapping(&RATE_LIMIT)),
            "How often vendors may be asked, all agents together. Every limit that fits holds.", Harmless,)
        .with_default("[]"),
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

/// A command that checks answers.
pub static CHECK: KeySection = KeySection {
    path: "checks[]",
    doc: "A command that tells by its exit status whether an answer holds; `docs/checks.md` says where \
          it runs. An answer that fails a required one cannot win while one is there that passes.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::required(
            &["command"],
            ValueShape::Text,
            "What is given to the shell. `${NAME}` is filled in from your environment when the config is \
             read; `$NAME` is the shell's.",
            Harmless,
        ),
        ConfigKey::served(
            &["name"],
            ValueShape::Text,
            "What voters and reports call it; without it, the command.",
            Harmless,
        ),
        ConfigKey::served(
            &["required"],
            ValueShape::Flag,
            "Whether an answer has to pass it. With `false`, voters are told and decide.",
            Harmless,
        )
        .with_default("true"),
        ConfigKey::served(
            &["timeout"],
            ValueShape::Integer(1, 24 * 60 * 60),
            "How long it may take, in seconds.",
            Harmless,
        )
        .with_default("600"),
    ],
};

/// The rate limit of models.
pub static RATE_LIMIT: KeySection = KeySection {
    path: "rate_limits[]",
    doc: "How often the models that it fits may be asked in any minute, all agents of a run together. \
          A request that would go over it waits before it is sent. The tokens of a request are \
          estimated until the vendor has counted them.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["type"],
            ValueShape::Text,
            "The backend type that it holds for; all without it.",
            Harmless,
        ),
        ConfigKey::served(
            &["model"],
            ValueShape::Text,
            "The model that it holds for; all without it.",
            Harmless,
        ),
        ConfigKey::served(
            &["requests_per_minute", "rpm"],
            ValueShape::Integer(1, RATE_MAX),
            "Requests in any minute.",
            Harmless,
        ),
        ConfigKey::served(
            &["tokens_per_minute", "tpm"],
            ValueShape::Integer(1, RATE_MAX),
            "Tokens of requests and replies in any minute.",
            Harmless,
        ),
    ],
};

/// The retention of runs and sessions.
pub static RETENTION: KeySection = KeySection {
    path: "retention",
    doc: "What is removed at the end of a run, the oldest first: sessions, the records and workspaces of \
          runs, pipelines, and what is kept of deliveries. What is in use stays, and so does the newest \
          of each kind. Without limits nothing is removed.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["days"],
            ValueShape::Integer(1, DAYS_MAX),
            "How many days something is kept that nobody uses.",
            Harmless,
        ),
        ConfigKey::served(
            &["size"],
            ValueShape::Size(BYTES_KEPT_MIN, BYTES_KEPT_MAX),
            "How much all of it may take up.",
            Harmless,
        ),
    ],
};

/// Timeouts.
pub static TIMEOUT_SETTINGS: KeySection = KeySection {
    path: "timeout_settings",
    doc: "How long things may take, in whole seconds.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["orchestrator_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "The whole run. When it is over, the best answer so far is the result, and no files are \
             delivered.", Harmless,)
        .with_default("1800"),
        ConfigKey::served(
            &["initial_round_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "An agent's first round, before it is told to finish; `null` sets no limit.", Harmless,)
        .with_default("null"),
        ConfigKey::served(
            &["subsequent_round_timeout_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Every later round, before the agent is told to finish; `null` sets no limit.", Harmless,)
        .with_default("null"),
        ConfigKey::served(
            &["round_timeout_grace_seconds"],
            ValueShape::Integer(0, SECONDS_MAX),
            "How long after that the agent may still use tools.", Harmless,)
        .with_default("120"),
    ],
};

/// What the user interface shows.
pub static UI: KeySection = KeySection {
    path: "ui",
    doc: "What is shown. Nothing here changes how agents work.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::unserved(
            &["display_type"],
            ValueShape::Text,
            "what agents do is shown as plain lines",
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
            "what agents do is shown as plain lines",
            IgnoredEffect::Cosmetic,
        ),
    ],
};
