//! The usage of a run: tokens as vendors count them, the prices of models, and the limits on both.
//! Prices come from a table in the binary and from the user's file, and never from the network.

pub mod shared_budget;
pub mod totals;
pub mod ledger;
pub mod limits;
pub mod models;
pub mod money;
pub mod price;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Token counts reported by the vendor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenUsage {
    /// All tokens of the request.
    pub input_tokens: u64,
    /// Tokens of the request read from the vendor's cache; part of `input_tokens`.
    pub cached_tokens: u64,
    /// Tokens of the request written to the vendor's cache; part of `input_tokens`.
    pub cache_write_tokens: u64,
    /// All tokens of the reply.
    pub output_tokens: u64,
    /// Reasoning tokens of the reply; part of `output_tokens`.
    pub reasoning_tokens: u64,
}

/// Whether the responses of a model report its usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageReport {
    /// They do.
    Present,
    /// They never do.
    Missing,
}

/// Parses a token count of a vendor, which may be written as a decimal number; `None` if it is not
/// a count. One that exceeds the type's range becomes its maximum, so that it reaches every limit.
pub fn token_count(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    if let Some(count) = number.as_u64() {
        return Some(count);
    }
    let digits = format!("{:.0}", number.as_f64()?);
    let is_count = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_count.then(|| digits.parse().unwrap_or(u64::MAX))
}

impl TokenUsage {
    /// Returns the sum.
    #[must_use]
    pub fn saturating_add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            cached_tokens: self.cached_tokens.saturating_add(other.cached_tokens),
            cache_write_tokens: self
                .cache_write_tokens
                .saturating_add(other.cache_write_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        }
    }

    /// Returns the difference to `earlier`, an earlier value of the same running count. A count
    /// that is smaller has been reset, and is returned as it is.
    #[must_use]
    pub fn added_since(self, earlier: Self) -> Self {
        let difference = || {
            Some(Self {
                input_tokens: self.input_tokens.checked_sub(earlier.input_tokens)?,
                cached_tokens: self.cached_tokens.checked_sub(earlier.cached_tokens)?,
                cache_write_tokens: self
                    .cache_write_tokens
                    .checked_sub(earlier.cache_write_tokens)?,
                output_tokens: self.output_tokens.checked_sub(earlier.output_tokens)?,
                reasoning_tokens: self
                    .reasoning_tokens
                    .checked_sub(earlier.reasoning_tokens)?,
            })
        };
        difference().unwrap_or(self)
    }

    /// Returns the tokens of request and reply.
    pub fn total_tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: Option<u64>) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(token_count(&value), expected, "{json}");
    }

    #[test]
    fn a_count_of_tokens_is_never_less_than_what_is_written() {
        check("0", Some(0));
        check("12", Some(12));
        check("1000000.0", Some(1_000_000));
        check("1e6", Some(1_000_000));
        check("18446744073709551615", Some(u64::MAX));
        check("36893488147419103232", Some(u64::MAX));
        check("1e300", Some(u64::MAX));
        for none in ["-1", "-1e30", "null", "\"12\"", "[12]", "true"] {
            check(none, None);
        }
    }
}
