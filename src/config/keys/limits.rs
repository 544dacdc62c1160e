//! The keys of limits: how much a run and an agent may use.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Decimal, Integer, Section};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys};

/// The highest money limit, in US dollars.
pub(crate) const DOLLARS_MAX: f64 = 1_000_000.0;

/// The highest token limit.
pub(crate) const TOKENS_MAX: i64 = 1_000_000_000_000;

/// The highest limit of tool calls.
pub(crate) const CALLS_MAX: i64 = 1_000_000;

/// The highest limit of requests in one round.
const STEPS_MAX: i64 = 10_000;

pub(crate) const KEY: TypedKey<Section> = TypedKey::optional(
    &["limits"],
    shape::section(&LIMITS),
    "Limits on cost, tokens and tool calls of the run.",
    Harmless,
);

pub(crate) const MAX_COST_USD: TypedKey<Decimal> = TypedKey::optional(
    &["max_cost_usd"],
    shape::decimal(0.0, DOLLARS_MAX),
    "US dollars. Use `0` for free models. Models with an unknown price cannot be used with \
     this limit.",
    Harmless,
);

pub(crate) const MAX_TOKENS_TOTAL: TypedKey<Integer> = TypedKey::optional(
    &["max_tokens_total"],
    shape::integer(1, TOKENS_MAX),
    "Tokens of requests and replies together.",
    Harmless,
);

pub(crate) const MAX_TOOL_CALLS: TypedKey<Integer> = TypedKey::optional(
    &["max_tool_calls"],
    shape::integer(0, CALLS_MAX),
    "Tool calls; answers and votes do not count.",
    Harmless,
);

pub(crate) const MAX_STEPS_PER_ROUND: TypedKey<Integer> = TypedKey::optional(
    &["max_steps_per_round"],
    shape::integer(1, STEPS_MAX),
    "Requests of an agent until it answers or votes, and of the winner in the final phase. \
     At the top of the file it applies to every agent without its own limit.",
    Harmless,
)
.with_default("200");

/// How much may be used.
pub static LIMITS: KeySection = KeySection {
    path: "limits",
    doc: "Usage limits; see `docs/limits.md` for how usage is counted and what happens at a limit. \
          At the top of the file they apply to the whole run; `agents[].limits` adds limits for \
          one agent.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        MAX_COST_USD.row(),
        MAX_TOKENS_TOTAL.row(),
        MAX_TOOL_CALLS.row(),
        MAX_STEPS_PER_ROUND.row(),
    ],
};
