//! The keys of limits: how much a run and an agent may use, how fast and how long, and what is kept
//! of runs.

/// The longest timeout that can be set, in seconds: one week.
pub const SECONDS_MAX: i64 = 7 * 24 * 60 * 60;

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

/// The highest rate limit of requests or tokens per minute.
const RATE_MAX: i64 = 1_000_000_000_000;

section! {
    /// Rate limit of matching models, for all agents of a run together. A request that would exceed
    /// it waits. Tokens are estimated until the vendor reports them.
    pub static RATE_LIMIT = "rate_limits[]";

    /// The backend type that it applies to. Default: all.
    const RATE_TYPE = ["type"] text();

    /// The model that it applies to. Default: all.
    const RATE_MODEL = ["model"] text();

    /// Requests per minute.
    const REQUESTS_PER_MINUTE = ["requests_per_minute", "rpm"] integer(1, RATE_MAX);

    /// Tokens of requests and replies per minute.
    const TOKENS_PER_MINUTE = ["tokens_per_minute", "tpm"] integer(1, RATE_MAX);
}

section! {
    /// Timeouts in whole seconds.
    pub static TIMEOUT_SETTINGS = "timeout_settings";

    /// The whole run. On timeout, the best answer so far is the result, and no files are delivered.
    const ORCHESTRATOR_TIMEOUT_SECONDS = ["orchestrator_timeout_seconds"] integer(1, SECONDS_MAX)
        .with_default("1800");

    /// An agent's first round, before it is told to finish; `null` sets no limit.
    const INITIAL_ROUND_TIMEOUT_SECONDS = ["initial_round_timeout_seconds"] integer(1, SECONDS_MAX)
        .with_default("null");

    /// Every later round, before the agent is told to finish; `null` sets no limit.
    const SUBSEQUENT_ROUND_TIMEOUT_SECONDS = ["subsequent_round_timeout_seconds"] integer(1,
        SECONDS_MAX).with_default("null");

    /// How long after that the agent may still use tools.
    const ROUND_TIMEOUT_GRACE_SECONDS = ["round_timeout_grace_seconds"] integer(0, SECONDS_MAX)
        .with_default("120");
}

/// The longest time that something unused can be kept, in days.
const DAYS_MAX: i64 = 36_500;

/// The lowest and highest limit for all sessions and records together, in bytes.
const BYTES_KEPT_MIN: u64 = 1 << 20;

const BYTES_KEPT_MAX: u64 = 1 << 50;

section! {
    /// What is removed at the end of a run, oldest first: sessions, logs and workspaces of runs,
    /// pipelines, and delivery records. What is in use and the newest of each kind are kept.
    /// Without limits nothing is removed.
    pub static RETENTION = "retention";

    /// Days after which something unused is removed.
    const RETENTION_DAYS = ["days"] integer(1, DAYS_MAX);

    /// Maximum total size.
    const RETENTION_SIZE = ["size"] size(BYTES_KEPT_MIN, BYTES_KEPT_MAX);
}
