//! The keys of limits: how much a run and an agent may use.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Decimal, Integer, Section};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys};

/// The highest money limit, in US dollars.
const DOLLARS_MAX: f64 = 1_000_000.0;

/// The highest token limit.
const TOKENS_MAX: i64 = 1_000_000_000_000;

/// The highest limit of tool calls.
const CALLS_MAX: i64 = 1_000_000;

/// The highest limit of requests in one round.
const STEPS_MAX: i64 = 10_000;

pub(crate) const KEY: ServedKey<Section> = ServedKey::optional(
    &["limits"],
    shape::section(&LIMITS),
    "How much money, how many tokens and how many tool calls the run may use.",
    Harmless,
);

pub(crate) const MAX_COST_USD: ServedKey<Decimal> = ServedKey::optional(
    &["max_cost_usd"],
    shape::decimal(0.0, DOLLARS_MAX),
    "US dollars. `0` is for models that cost nothing. A model whose price is not known \
     cannot be run with it.",
    Harmless,
);

pub(crate) const MAX_TOKENS_TOTAL: ServedKey<Integer> = ServedKey::optional(
    &["max_tokens_total"],
    shape::integer(1, TOKENS_MAX),
    "Tokens of requests and replies together.",
    Harmless,
);

pub(crate) const MAX_TOOL_CALLS: ServedKey<Integer> = ServedKey::optional(
    &["max_tool_calls"],
    shape::integer(0, CALLS_MAX),
    "Calls of tools; answers and votes are none.",
    Harmless,
);

pub(crate) const MAX_STEPS_PER_ROUND: ServedKey<Integer> = ServedKey::optional(
    &["max_steps_per_round"],
    shape::integer(1, STEPS_MAX),
    "Requests that an agent makes until it answers or votes, and that the winner makes to \
     present. At the top of the file it holds for every agent that sets none.",
    Harmless,
)
.with_default("200");

/// How much may be used.
pub static LIMITS: KeySection = KeySection {
    path: "limits",
    doc: "How much may be used; `docs/limits.md` says how it is counted and what happens then. At \
          the top of the file the limits hold for the whole run, and in `agents[].limits` for one \
          agent beside those of the run.",
    others: UnknownKeys::Refused,
    keys: &[
        MAX_COST_USD.row(),
        MAX_TOKENS_TOTAL.row(),
        MAX_TOOL_CALLS.row(),
        MAX_STEPS_PER_ROUND.row(),
    ],
};
