//! Limits on what a run or an agent may use, and the messages when one is reached.

use std::fmt;

use crate::spending::money::Money;
use crate::spending::totals::RequestTotals;

/// Limits on usage; `None` means any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Money (`max_cost_usd`).
    pub cost: Option<Money>,
    /// Tokens of requests and replies combined (`max_tokens_total`).
    pub tokens: Option<u64>,
    /// Tool calls, not including answers and votes (`max_tool_calls`).
    pub tool_calls: Option<u64>,
}

/// A limit that is reached, with what was used.
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
        }
    }

    /// Returns the share of each of `count` users at the same time.
    #[must_use]
    pub fn divided_by(self, count: u32) -> Self {
        let share = |whole: u64| whole.checked_div(u64::from(count)).unwrap_or(whole);
        Self {
            cost: self.cost.map(|cost| cost.divided_by(count)),
            tokens: self.tokens.map(share),
            tool_calls: self.tool_calls.map(share),
        }
    }

    /// Returns the limit that prevents further requests to models. As long as nothing was spent, a
    /// cost limit of zero is not reached: it allows models that cost nothing.
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

    /// Returns the limit that prevents further requests to models, or further tool calls.
    pub fn reached_by_any(&self, spent: &RequestTotals, tool_calls: u64) -> Option<ReachedLimit> {
        let reached = self.reached_by(spent);
        reached.or_else(|| self.reached_by_tool_calls(tool_calls))
    }

    /// Returns the limit that prevents further tool calls.
    pub fn reached_by_tool_calls(&self, tool_calls: u64) -> Option<ReachedLimit> {
        let max = self.tool_calls.filter(|max| tool_calls >= *max)?;
        Some(ReachedLimit::ToolCalls { max })
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

/// Prints what was used and the limit; the name of the run or the agent comes before it.
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
                write!(f, "has used all {max} tool calls (`max_tool_calls`)")
            }
        }
    }
}
