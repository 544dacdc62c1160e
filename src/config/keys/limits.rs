//! The keys of limits: how much a run and an agent may use.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::{ConfigKey, KeySection, UnknownKeys, ValueShape};

/// The highest money limit, in US dollars.
const DOLLARS_MAX: f64 = 1_000_000.0;
/// The highest token limit.
const TOKENS_MAX: i64 = 1_000_000_000_000;
/// The highest limit of tool calls.
const CALLS_MAX: i64 = 1_000_000;
/// The highest limit of requests in one round.
const STEPS_MAX: i64 = 10_000;

/// How much may be used.
pub static LIMITS: KeySection = KeySection {
    path: "limits",
    doc: "How much may be used; `docs/limits.md` says how it is counted and what happens then. At \
          the top of the file the limits hold for the whole run, and in `agents[].limits` for one \
          agent beside those of the run.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["max_cost_usd"],
            ValueShape::Number(0.0, DOLLARS_MAX),
            "US dollars. `0` is for models that cost nothing. A model whose price is not known \
             cannot be run with it.",
            Harmless,
        ),
        ConfigKey::served(
            &["max_tokens_total"],
            ValueShape::Integer(1, TOKENS_MAX),
            "Tokens of requests and replies together.",
            Harmless,
        ),
        ConfigKey::served(
            &["max_tool_calls"],
            ValueShape::Integer(0, CALLS_MAX),
            "Calls of tools; answers and votes are none.",
            Harmless,
        ),
        ConfigKey::served(
            &["max_steps_per_round"],
            ValueShape::Integer(1, STEPS_MAX),
            "Requests that an agent makes until it answers or votes, and that the winner makes to \
             present. At the top of the file it holds for every agent that sets none.",
            Harmless,
        )
        .with_default("200"),
    ],
};
