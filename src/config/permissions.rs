//! Owns what a config says under `permissions`.

use crate::call_rules::CallRules;

/// How long a question waits where the config says nothing, in seconds.
pub const ASK_SECONDS_DEFAULT: u64 = 300;

/// The rules of one place of a config, and how long questions wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionsConfig {
    /// The rules.
    pub rules: CallRules,
    /// How long a question waits for its answer, in seconds; as usual without a number.
    pub ask_timeout_seconds: Option<u64>,
}

impl PermissionsConfig {
    /// These and `others`: the rules add up, and the shorter time counts.
    #[must_use]
    pub fn merged_with(&self, others: &Self) -> Self {
        let times = [self.ask_timeout_seconds, others.ask_timeout_seconds];
        Self {
            rules: self.rules.extended_by(&others.rules),
            ask_timeout_seconds: times.into_iter().flatten().min(),
        }
    }

    /// How long a question waits for its answer, in seconds.
    pub fn approval_timeout_seconds(&self) -> u64 {
        self.ask_timeout_seconds.unwrap_or(ASK_SECONDS_DEFAULT)
    }
}
