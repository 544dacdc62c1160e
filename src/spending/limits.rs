//! Owns how much a run or an agent may use, and how a limit that is met is told.

use std::fmt;

use crate::spending::money::Money;
use crate::spending::totals::RequestTotals;

/// How much may be used; where nothing stands, any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Money (`max_cost_usd`).
    pub cost: Option<Money>,
    /// Tokens of requests and replies together (`max_tokens_total`).
    pub tokens: Option<u64>,
    /// Calls of tools; answers and votes are none (`max_tool_calls`).
    pub tool_calls: Option<u64>,
}

/// A limit that is met, with what was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReachedLimit {
    /// Of money.
    Cost {
        /// What was spent, as far as it is known.
        spent: Money,
        /// The limit.
        max: Money,
    },
    /// Of tokens.
    Tokens {
        /// What was used.
        used: u64,
        /// The limit.
        max: u64,
    },
    /// Of tool calls.
    ToolCalls {
        /// The limit, which is never exceeded.
        max: u64,
    },
}

impl BudgetLimits {
    /// What is left of them after that was used.
    #[must_use]
    pub fn remaining_after(self, spent: &RequestTotals, tool_calls: u64) -> Self {
        let tokens = spent.usage.total_tokens();
        Self {
            cost: self
                .cost
                .map(|cost| cost.saturating_sub(spent.known_cost())),
            tokens: self.tokens.map(|max| max.saturating_sub(tokens)),
            tool_calls: self.tool_calls.map(|max| max.saturating_sub(tool_calls)),
        }
    }

    /// The share of each of so many who use them at the same time.
    #[must_use]
    pub fn divided_by(self, count: u32) -> Self {
        let share = |whole: u64| whole.checked_div(u64::from(count)).unwrap_or(whole);
        Self {
            cost: self.cost.map(|cost| cost.divided_by(count)),
            tokens: self.tokens.map(share),
            tool_calls: self.tool_calls.map(share),
        }
    }

    /// The limit that keeps a model from being asked again. As long as nothing was spent, a limit
    /// of nothing is not met: it is for models that cost nothing.
    pub fn reached_by(&self, spent: &RequestTotals) -> Option<ReachedLimit> {
        let cost = self
            .cost
            .filter(|max| spent.known_cost() > Money::ZERO && spent.known_cost() >= *max);
        let used = spent.usage.total_tokens();
        let tokens = self.tokens.filter(|max| used >= *max);
        match (cost, tokens) {
            (Some(max), _) => Some(ReachedLimit::Cost {
                spent: spent.known_cost(),
                max,
            }),
            (None, Some(max)) => Some(ReachedLimit::Tokens { used, max }),
            (None, None) => None,
        }
    }

    /// The limit that keeps a further tool from being called.
    pub fn reached_by_tool_calls(&self, tool_calls: u64) -> Option<ReachedLimit> {
        let max = self.tool_calls.filter(|max| tool_calls >= *max)?;
        Some(ReachedLimit::ToolCalls { max })
    }
}

/// What was used of how much, after the words for whose limit it is.
impl fmt::Display for ReachedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReachedLimit::Cost { spent, max } => {
                let spent = spent.round_up();
                write!(f, "has spent ${spent} of at most ${max} (`max_cost_usd`)")
            }
            ReachedLimit::Tokens { used, max } => {
                write!(
                    f,
                    "has used {used} tokens of at most {max} (`max_tokens_total`)"
                )
            }
            ReachedLimit::ToolCalls { max } => {
                write!(f, "has no tool call left of {max} (`max_tool_calls`)")
            }
        }
    }
}
