//! Limits on what a run or an agent may use, how they are divided among several runs, and the
//! messages when one is reached.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::spending::money::Money;
use crate::spending::totals::RequestTotals;

/// Limits on usage; `None` means any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetLimits {
    /// Money (`max_cost_usd`).
    #[serde(rename = "max_cost_usd")]
    pub cost: Option<Money>,
    /// Tokens of requests and replies combined (`max_tokens_total`).
    #[serde(rename = "max_tokens_total")]
    pub tokens: Option<u64>,
    /// Tool calls, not including answers and votes (`max_tool_calls`).
    #[serde(rename = "max_tool_calls")]
    pub tool_calls: Option<u64>,
    /// What the user set, if these limits are only a part of it; it is not written to files.
    #[serde(skip)]
    pub user_limits: Option<UserLimits>,
}

/// The limits that the user set for several runs together, such as those of the stages of a
/// pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserLimits {
    cost: Option<Money>,
    tokens: Option<u64>,
    tool_calls: Option<u64>,
    /// The number of equal shares into which what is left is divided.
    shares: u32,
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitOrigin<T> {
    /// The user set it.
    Config,
    /// It is what was left of the one that the user set.
    Remainder(T),
    /// It is an equal share of what was left of the one that the user set.
    Share(T),
}

/// A limit that is reached, with what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachedLimit {
    /// The limit on money.
    Cost {
        /// What was spent, as far as it is known.
        spent: Money,
        /// The limit.
        max: Money,
        /// Where it comes from.
        origin: LimitOrigin<Money>,
    },
    /// The limit on tokens.
    Tokens {
        /// What was used.
        used: u64,
        /// The limit.
        max: u64,
        /// Where it comes from.
        origin: LimitOrigin<u64>,
    },
    /// The limit on tool calls.
    ToolCalls {
        /// The limit, which is never exceeded.
        max: u64,
        /// Where it comes from.
        origin: LimitOrigin<u64>,
    },
}

impl BudgetLimits {
    /// Returns them lowered to `max`, and whether one of them was above it.
    pub fn lowered_to(self, max: Self) -> (Self, bool) {
        let lowered = Self {
            cost: lower(self.cost, max.cost),
            tokens: lower(self.tokens, max.tokens),
            tool_calls: lower(self.tool_calls, max.tool_calls),
            user_limits: self.user_limits,
        };
        // No limit at all is below every limit here.
        let is_lowered = self.cost > lowered.cost
            || self.tokens > lowered.tokens
            || self.tool_calls > lowered.tool_calls;
        (lowered, is_lowered)
    }

    /// Returns what is left of them after this usage.
    #[must_use]
    pub fn remaining_after(self, spent: &RequestTotals, tool_calls: u64) -> Self {
        let tokens = spent.usage.total_tokens();
        Self {
            cost: self
                .cost
                .map(|cost| cost.saturating_sub(spent.known_cost())),
            tokens: self.tokens.map(|max| max.saturating_sub(tokens)),
            tool_calls: self.tool_calls.map(|max| max.saturating_sub(tool_calls)),
            user_limits: Some(self.user_limits()),
        }
    }

    /// Returns one of `count` equal shares of them.
    #[must_use]
    pub fn divided_by(self, count: u32) -> Self {
        let share = |max: u64| max.checked_div(u64::from(count)).unwrap_or(max);
        Self {
            cost: self.cost.map(|cost| cost.divided_by(count)),
            tokens: self.tokens.map(share),
            tool_calls: self.tool_calls.map(share),
            user_limits: Some(UserLimits {
                shares: count,
                ..self.user_limits()
            }),
        }
    }

    /// Returns what the user set.
    fn user_limits(self) -> UserLimits {
        self.user_limits.unwrap_or(UserLimits {
            cost: self.cost,
            tokens: self.tokens,
            tool_calls: self.tool_calls,
            shares: 1,
        })
    }

    /// Returns where the limit `max` comes from, if the user set `user_max`.
    fn origin<T: PartialEq>(&self, max: &T, user_max: Option<T>) -> LimitOrigin<T> {
        let is_shared = self.user_limits.is_some_and(|limits| limits.shares > 1);
        match user_max {
            Some(user_max) if is_shared => LimitOrigin::Share(user_max),
            Some(user_max) if user_max != *max => LimitOrigin::Remainder(user_max),
            Some(_) | None => LimitOrigin::Config,
        }
    }

    /// Returns the limit that prevents further requests to models. As long as nothing is spent, a
    /// cost limit of zero is not reached: it allows models that cost nothing.
    pub fn reached_by(&self, spent: &RequestTotals) -> Option<ReachedLimit> {
        let cost = self
            .cost
            .filter(|max| spent.known_cost() > Money::ZERO && spent.known_cost() >= *max);
        let used_tokens = spent.usage.total_tokens();
        let tokens = self.tokens.filter(|max| used_tokens >= *max);
        match (cost, tokens) {
            (Some(max), _) => Some(ReachedLimit::Cost {
                spent: spent.known_cost(),
                max,
                origin: self.origin(&max, self.user_limits().cost),
            }),
            (None, Some(max)) => Some(ReachedLimit::Tokens {
                used: used_tokens,
                max,
                origin: self.origin(&max, self.user_limits().tokens),
            }),
            (None, None) => None,
        }
    }

    /// Returns the limit that prevents further requests to models, or further tool calls.
    pub fn reached_by_any(&self, spent: &RequestTotals, tool_calls: u64) -> Option<ReachedLimit> {
        let limit = self.reached_by(spent);
        limit.or_else(|| self.reached_by_tool_calls(tool_calls))
    }

    /// Returns the limit that prevents further tool calls.
    pub fn reached_by_tool_calls(&self, tool_calls: u64) -> Option<ReachedLimit> {
        let max = self.tool_calls.filter(|max| tool_calls >= *max)?;
        Some(ReachedLimit::ToolCalls {
            max,
            origin: self.origin(&max, self.user_limits().tool_calls),
        })
    }
}

impl ReachedLimit {
    /// Returns the key of the config that sets the limit.
    pub fn key(&self) -> &'static str {
        match self {
            ReachedLimit::Cost { .. } => "max_cost_usd",
            ReachedLimit::Tokens { .. } => "max_tokens_total",
            ReachedLimit::ToolCalls { .. } => "max_tool_calls",
        }
    }

    /// Returns the flag that sets the limit of a run, with a word for its value.
    pub fn flag(&self) -> &'static str {
        match self {
            ReachedLimit::Cost { .. } => "--max-cost-usd DOLLARS",
            ReachedLimit::Tokens { .. } => "--max-tokens-total COUNT",
            ReachedLimit::ToolCalls { .. } => "--max-tool-calls COUNT",
        }
    }
}

/// Prints those that are set.
impl fmt::Display for BudgetLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            self.cost.map(|dollars| format!("${dollars}")),
            self.tokens.map(|count| format!("{count} tokens")),
            self.tool_calls.map(|count| format!("{count} tool calls")),
        ];
        let limits: Vec<String> = limits.into_iter().flatten().collect();
        if limits.is_empty() {
            f.write_str("none")
        } else {
            f.write_str(&limits.join(", "))
        }
    }
}

/// Prints what was used and the limit; the name of the run or the agent comes before it.
impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReachedLimit::Cost { spent, max, origin } => {
                let (spent, origin) = (spent.round_up(), origin.describe("$"));
                write!(
                    f,
                    "has spent ${spent} of at most ${max}{origin} (`max_cost_usd`)"
                )
            }
            ReachedLimit::Tokens { used, max, origin } => {
                let origin = origin.describe("");
                write!(
                    f,
                    "has used {used} tokens of at most {max}{origin} (`max_tokens_total`)"
                )
            }
            ReachedLimit::ToolCalls { max, origin } => {
                let origin = origin.describe("");
                write!(
                    f,
                    "has used all {max} tool calls{origin} (`max_tool_calls`)"
                )
            }
        }
    }
}

impl<T: fmt::Display> LimitOrigin<T> {
    /// Returns what follows the limit in a sentence, with `unit` before the amount that the user
    /// set.
    fn describe(&self, unit: &str) -> String {
        match self {
            LimitOrigin::Config => String::new(),
            LimitOrigin::Remainder(user_max) => format!(" left of {unit}{user_max}"),
            LimitOrigin::Share(user_max) => {
                format!(", its share of what was left of {unit}{user_max}")
            }
        }
    }
}

/// Returns the lower of two limits, if there are any.
fn lower<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spending::TokenUsage;

    #[test]
    fn a_part_of_a_limit_is_named_with_what_the_user_set() {
        let set = BudgetLimits {
            cost: Money::from_dollars("2"),
            tokens: Some(1000),
            tool_calls: Some(8),
            user_limits: None,
        };
        let spent = |dollars: &str, input_tokens: u64| RequestTotals {
            requests: 1,
            usage: TokenUsage {
                input_tokens,
                ..TokenUsage::default()
            },
            cost_usd: Money::from_dollars(dollars),
            cost_is_complete: true,
        };
        let left = set.remaining_after(&spent("1.5", 900), 6);
        let check = |limits: BudgetLimits, expected: [&str; 3]| {
            let reached = [
                limits.reached_by(&spent("2", 0)),
                limits.reached_by(&spent("0", 1000)),
                limits.reached_by_tool_calls(8),
            ];
            let texts = reached.map(|limit| limit.unwrap().to_string());
            assert_eq!(texts, expected);
        };
        let own = [
            "has spent $2 of at most $2 (`max_cost_usd`)",
            "has used 1000 tokens of at most 1000 (`max_tokens_total`)",
            "has used all 8 tool calls (`max_tool_calls`)",
        ];
        check(set, own);
        check(set.remaining_after(&spent("0", 0), 0).divided_by(1), own);
        check(
            left.divided_by(1),
            [
                "has spent $2 of at most $0.5 left of $2 (`max_cost_usd`)",
                "has used 1000 tokens of at most 100 left of 1000 (`max_tokens_total`)",
                "has used all 2 tool calls left of 8 (`max_tool_calls`)",
            ],
        );
        check(
            left.divided_by(2),
            [
                "has spent $2 of at most $0.25, its share of what was left of $2 (`max_cost_usd`)",
                "has used 1000 tokens of at most 50, its share of what was left of 1000 \
                 (`max_tokens_total`)",
                "has used all 1 tool calls, its share of what was left of 8 (`max_tool_calls`)",
            ],
        );
    }
}
