//! The keys of limits: how much a run and an agent may use.

/// The highest money limit, in US dollars.
pub(crate) const DOLLARS_MAX: f64 = 1_000_000.0;

/// The highest token limit.
pub(crate) const TOKENS_MAX: i64 = 1_000_000_000_000;

/// The highest limit of tool calls.
pub(crate) const CALLS_MAX: i64 = 1_000_000;

/// The highest limit of requests in one round.
const STEPS_MAX: i64 = 10_000;

keys! {
    /// Limits on cost, tokens and tool calls of the run.
    const KEY = ["limits"] section(&LIMITS);
}

section! {
    /// Usage limits; see `docs/limits.md` for how usage is counted and what happens at a limit. At
    /// the top of the file they apply to the whole run; `agents[].limits` adds limits for one
    /// agent.
    pub static LIMITS = "limits";

    /// US dollars. Use `0` for free models. Models with an unknown price cannot be used with this
    /// limit.
    const MAX_COST_USD = ["max_cost_usd"] decimal(0.0, DOLLARS_MAX);

    /// Tokens of requests and replies together.
    const MAX_TOKENS_TOTAL = ["max_tokens_total"] integer(1, TOKENS_MAX);

    /// Tool calls; answers and votes do not count.
    const MAX_TOOL_CALLS = ["max_tool_calls"] integer(0, CALLS_MAX);

    /// Requests of an agent until it answers or votes, and of the winner in the final phase. At the
    /// top of the file it applies to every agent without its own limit.
    const MAX_STEPS_PER_ROUND = ["max_steps_per_round"] integer(1, STEPS_MAX).with_default("200");
}
