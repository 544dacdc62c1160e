//! Owns the keys at the top of a config, and those of the small sections below it.

use crate::config::keys::agents::AGENT;
use crate::config::keys::found::FoundUse::{Harmless, Named};
use crate::config::keys::hooks::{self, HOOKS};
use crate::config::keys::limits::LIMITS;
use crate::config::keys::orchestrator::ORCHESTRATOR;
use crate::config::keys::permissions::{DOC, PERMISSIONS};
use crate::config::keys::servers;
use crate::config::keys::workflow::{ROLE, WORKFLOW};
use crate::config::keys::{Ignored, Key, Others, Section, Shape};

/// The longest time that can be set, in seconds: one week.
pub const SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

/// The most requests or tokens in a minute that can be set.
const RATE_MAX: i64 = 1_000_000_000_000;

/// The longest time that something unused can be kept, in days.
const DAYS_MAX: i64 = 36_500;
/// The least and the most that all sessions and records together can be allowed, in bytes.
const BYTES_KEPT_MIN: u64 = 1 << 20;
const BYTES_KEPT_MAX: u64 = 1 << 50;

/// The whole config.
pub static ROOT: Section = Section {
    path: "",
    doc: "Keys that begin with `x-` are a place for anchors: they are skipped here and in every \
          mapping but `backend`.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["agents"],
            Shape::List(&Shape::Mapping(&AGENT)),
            "The team. Ties of the vote are broken by this order.", Harmless,),
        Key::served(
            &["agent"],
            Shape::Mapping(&AGENT),
            "A team of one, instead of `agents`.", Harmless,),
        Key::served(
            &["orchestrator"],
            Shape::Mapping(&ORCHESTRATOR),
            "How the agents work together, and on what.", Harmless,),
        Key::served(
            &["timeout_settings"],
            Shape::Mapping(&TIMEOUT_SETTINGS),
            "How long things may take.", Harmless,),
        Key::served(
            &["limits"],
            Shape::Mapping(&LIMITS),
            "How much money, how many tokens and how many tool calls the run may use.", Harmless,),
        Key::served(
            &["delivery"],
            Shape::OneOf(&["auto", "review"]),
            "Whether you look at what the final agent delivers before it is applied: with `review` you are \
             shown what would change and choose, if the run has a terminal. `--yes` applies unasked.", Harmless,)
        .or("auto"),
        Key::served(&["ui"], Shape::Mapping(&UI), "What is shown.", Harmless,),
        Key::served(
            &["checks"],
            Shape::List(&Shape::TextOr(&CHECK)),
            "Commands that are run on every answer, in your trees as it would leave them, and again \
             after the delivery. Text is the command alone.", Harmless,)
        .or("[]"),
        Key::served(
            &["on_red"],
            Shape::OneOf(&["undo", "keep", "ask"]),
            "What becomes of a delivery after which a required check fails. With `ask` you are \
             asked, and where nobody can be, it is taken back.", Harmless,)
        .or("undo"),
        Key::served(
            &["session_id"],
            Shape::Text,
            "The session that a run goes on with: its id, the beginning of it, or `last`. \
             `--continue` and `--session-id` come first.", Harmless,),
        Key::served(
            &["retention"],
            Shape::Mapping(&RETENTION),
            "What is removed at the end of a run of the project's earlier runs and sessions.", Named("removes earlier runs and sessions of yours"),),
        Key::unserved(
            &["memory"],
            Shape::Any,
            "agents remember the conversation of the run and nothing else", Ignored::Looks,),
        servers::OF_ALL,
        Key::served(&["hooks"], Shape::Mapping(&HOOKS), hooks::DOC, Harmless,),
        Key::served(&["permissions"], Shape::Mapping(&PERMISSIONS), DOC, Harmless,),
        Key::served(
            &["workflow"],
            Shape::Mapping(&WORKFLOW),
            "The pipeline in which the agents work; without it, all work at the same time and vote.", Harmless,),
        Key::served(
            &["roles"],
            Shape::Named(&ROLE),
            "Roles of the pipeline beside those that are built in, or what is different about these.", Harmless,),
        Key::served(
            &["rate_limits"],
            Shape::List(&Shape::Mapping(&RATE_LIMIT)),
            "How often vendors may be asked, all agents together. Every limit that fits holds.", Harmless,)
        .or("[]"),
        Key::unserved(
            &["rate_limiting"],
            Shape::Any,
            "write `rate_limits`", Ignored::Restricts,),
        Key::unserved(
            &["nlip", "nlip_config", "enable_nlip"],
            Shape::Any,
            "messages go to the vendors directly", Ignored::Looks,),
        Key::refused(
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

/// A command that tells whether an answer holds.
pub static CHECK: Section = Section {
    path: "checks[]",
    doc: "A command that tells by its exit status whether an answer holds; `docs/checks.md` says where \
          it runs. An answer that fails a required one cannot win while one is there that passes.",
    others: Others::Refused,
    keys: &[
        Key::required(
            &["command"],
            Shape::Text,
            "What is given to the shell. `${NAME}` is filled in from your environment when the config is \
             read; `$NAME` is the shell's.",
            Harmless,
        ),
        Key::served(
            &["name"],
            Shape::Text,
            "What voters and reports call it; without it, the command.",
            Harmless,
        ),
        Key::served(
            &["required"],
            Shape::Flag,
            "Whether an answer has to pass it. With `false`, voters are told and decide.",
            Harmless,
        )
        .or("true"),
        Key::served(
            &["timeout"],
            Shape::Integer(1, 24 * 60 * 60),
            "How long it may take, in seconds.",
            Harmless,
        )
        .or("600"),
    ],
};

/// How often models may be asked.
pub static RATE_LIMIT: Section = Section {
    path: "rate_limits[]",
    doc: "How often the models that it fits may be asked in any minute, all agents of a run together. \
          A request that would go over it waits before it is sent. The tokens of a request are \
          estimated until the vendor has counted them.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["type"],
            Shape::Text,
            "The backend type that it holds for; all without it.",
            Harmless,
        ),
        Key::served(
            &["model"],
            Shape::Text,
            "The model that it holds for; all without it.",
            Harmless,
        ),
        Key::served(
            &["requests_per_minute", "rpm"],
            Shape::Integer(1, RATE_MAX),
            "Requests in any minute.",
            Harmless,
        ),
        Key::served(
            &["tokens_per_minute", "tpm"],
            Shape::Integer(1, RATE_MAX),
            "Tokens of requests and replies in any minute.",
            Harmless,
        ),
    ],
};

/// What is kept.
pub static RETENTION: Section = Section {
    path: "retention",
    doc: "What is removed at the end of a run, the oldest first: sessions, the records and workspaces of \
          runs, pipelines, and what is kept of deliveries. What is in use stays, and so does the newest \
          of each kind. Without limits nothing is removed.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["days"],
            Shape::Integer(1, DAYS_MAX),
            "How many days something is kept that nobody uses.",
            Harmless,
        ),
        Key::served(
            &["size"],
            Shape::Size(BYTES_KEPT_MIN, BYTES_KEPT_MAX),
            "How much all of it may take up.",
            Harmless,
        ),
    ],
};

/// How long things may take.
pub static TIMEOUT_SETTINGS: Section = Section {
    path: "timeout_settings",
    doc: "How long things may take, in whole seconds.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["orchestrator_timeout_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "The whole run. When it is over, the best answer so far is the result, and no files are \
             delivered.", Harmless,)
        .or("1800"),
        Key::served(
            &["initial_round_timeout_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "An agent's first round, before it is told to finish; `null` sets no limit.", Harmless,)
        .or("null"),
        Key::served(
            &["subsequent_round_timeout_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "Every later round, before the agent is told to finish; `null` sets no limit.", Harmless,)
        .or("null"),
        Key::served(
            &["round_timeout_grace_seconds"],
            Shape::Integer(0, SECONDS_MAX),
            "How long after that the agent may still use tools.", Harmless,)
        .or("120"),
    ],
};

/// What is shown.
pub static UI: Section = Section {
    path: "ui",
    doc: "What is shown. Nothing here changes how agents work.",
    others: Others::Refused,
    keys: &[
        Key::unserved(
            &["display_type"],
            Shape::Text,
            "what agents do is shown as plain lines",
            Ignored::Looks,
        )
        .or("simple"),
        Key::unserved(
            &["logging_enabled"],
            Shape::Flag,
            "a log is always kept",
            Ignored::Looks,
        )
        .or("true"),
        Key::unserved(
            &["use_orchestrator_for_single_agent"],
            Shape::Flag,
            "a single agent answers once and does not vote",
            Ignored::Looks,
        )
        .or("true"),
        Key::unserved(
            &["theme", "automation_mode", "web_host", "web_port"],
            Shape::Any,
            "what agents do is shown as plain lines",
            Ignored::Looks,
        ),
    ],
};
