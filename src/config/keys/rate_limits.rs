//! The keys of a rate limit.

/// The highest rate limit of requests or tokens per minute.
const RATE_MAX: i64 = 1_000_000_000_000;

section! {
    /// Rate limit of matching models, for all agents of a run together. A request that would exceed
    /// it waits. Tokens are estimated until the vendor reports them.
    pub static RATE_LIMIT = "rate_limits[]";

    /// The backend type that it applies to. Default: all.
    const TYPE = ["type"] text();

    /// The model that it applies to. Default: all.
    const MODEL = ["model"] text();

    /// Requests per minute.
    const REQUESTS_PER_MINUTE = ["requests_per_minute", "rpm"] integer(1, RATE_MAX);

    /// Tokens of requests and replies per minute.
    const TOKENS_PER_MINUTE = ["tokens_per_minute", "tpm"] integer(1, RATE_MAX);
}
