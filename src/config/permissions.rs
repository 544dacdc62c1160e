//! The `permissions` of a config.

use crate::call_rules::CallRules;

/// The default timeout of an approval request, in seconds.
pub const ASK_SECONDS_DEFAULT: u64 = 300;

/// The rules of one `permissions` section, and the timeout of approval requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionsConfig {
    /// The rules.
    pub rules: CallRules,
    /// The timeout of an approval request, in seconds; `None` uses the default.
    pub ask_timeout_seconds: Option<u64>,
}

impl PermissionsConfig {
    /// Merges the rules with those of `other`; the shorter timeout applies.
    #[must_use]
    pub fn merged_with(&self, other: &Self) -> Self {
        let timeouts = [self.ask_timeout_seconds, other.ask_timeout_seconds];
        Self {
            rules: self.rules.extended_by(&other.rules),
            ask_timeout_seconds: timeouts.into_iter().flatten().min(),
        }
    }

    /// Returns the timeout of an approval request, in seconds.
    pub fn approval_timeout_seconds(&self) -> u64 {
        self.ask_timeout_seconds.unwrap_or(ASK_SECONDS_DEFAULT)
    }
}
