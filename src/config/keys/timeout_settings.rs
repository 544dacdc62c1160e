//! The keys of `timeout_settings`.

use crate::config::keys::root::SECONDS_MAX;

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
