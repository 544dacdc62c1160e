//! Totals of what was used: by the run, by each agent, and by each model in each phase.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::TokenUsage;
use crate::spending::money::Money;

/// The usage of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestTotals {
    /// The number of requests, complete or not.
    pub requests: u64,
    /// The tokens reported by the vendors.
    #[serde(flatten)]
    pub usage: TokenUsage,
    /// The known cost in US dollars; `null` if no price is known.
    pub cost_usd: Option<Money>,
    /// Whether it includes the cost of every request.
    pub cost_is_complete: bool,
}

impl Default for RequestTotals {
    /// Returns the total of no requests, whose cost is zero and complete.
    fn default() -> Self {
        Self {
            requests: 0,
            usage: TokenUsage::default(),
            cost_usd: Some(Money::ZERO),
            cost_is_complete: true,
        }
    }
}

impl RequestTotals {
    /// Returns the total of one request; `cost` is `None` if its price is not known.
    pub fn of_request(usage: TokenUsage, cost: Option<Money>) -> Self {
        Self {
            requests: 1,
            usage,
            cost_usd: cost,
            cost_is_complete: cost.is_some(),
        }
    }

    /// Returns the cost, as far as it is known.
    pub fn known_cost(&self) -> Money {
        self.cost_usd.unwrap_or_default()
    }

    /// Returns the sum. A total of no requests does not change the other one, whose cost may be
    /// unknown.
    #[must_use]
    pub fn saturating_add(mut self, other: Self) -> Self {
        self.add(other);
        self
    }

    /// Adds other requests.
    pub fn add(&mut self, other: Self) {
        if other.requests == 0 {
            return;
        }
        if self.requests == 0 {
            *self = other;
            return;
        }
        *self = Self {
            requests: self.requests.saturating_add(other.requests),
            usage: self.usage.saturating_add(other.usage),
            cost_usd: match (self.cost_usd, other.cost_usd) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            },
            cost_is_complete: self.cost_is_complete && other.cost_is_complete,
        };
    }
}

/// The part of a run that a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpendingPhase {
    /// Agents work on their answers, and vote.
    Coordination,
    /// A model compares answers.
    Selection,
    /// The winner presents the final answer.
    Final,
}

impl From<Phase> for SpendingPhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Coordination | Phase::Attempt => SpendingPhase::Coordination,
            Phase::Final => SpendingPhase::Final,
        }
    }
}

impl fmt::Display for SpendingPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpendingPhase::Coordination => "coordination",
            SpendingPhase::Selection => "selection",
            SpendingPhase::Final => "final",
        })
    }
}

/// The account that a request is charged to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UsageKey {
    /// The agent that asked.
    pub agent: AgentId,
    /// The model that was asked.
    pub model: Arc<str>,
    /// The phase.
    pub phase: SpendingPhase,
}

/// The totals of a run.
#[derive(Clone, Debug, Default)]
pub struct UsageTotals {
    run: RequestTotals,
    agents: BTreeMap<AgentId, RequestTotals>,
    entries: BTreeMap<UsageKey, RequestTotals>,
    tool_calls: BTreeMap<AgentId, u64>,
}

impl UsageTotals {
    /// Charges a request.
    pub fn charge(&mut self, key: UsageKey, request: RequestTotals) {
        self.run.add(request);
        self.agents
            .entry(key.agent.clone())
            .or_default()
            .add(request);
        self.entries.entry(key).or_default().add(request);
    }

    /// Counts a tool call, executed or rejected. Answers and votes are not tool calls.
    pub fn count_tool_call(&mut self, agent: &AgentId) {
        let calls = self.tool_calls.entry(agent.clone()).or_default();
        *calls = calls.saturating_add(1);
    }

    /// Returns the totals of the run.
    pub fn run(&self) -> RequestTotals {
        self.run
    }

    /// Returns the totals of an agent.
    pub fn agent(&self, agent: &AgentId) -> RequestTotals {
        self.agents.get(agent).copied().unwrap_or_default()
    }

    /// Returns the requests of each agent to each model in each phase.
    pub fn entries(&self) -> impl Iterator<Item = (&UsageKey, &RequestTotals)> {
        self.entries.iter()
    }

    /// Returns the number of tool calls of the run.
    pub fn tool_calls(&self) -> u64 {
        self.tool_calls.values().sum()
    }

    /// Returns the number of tool calls of an agent.
    pub fn tool_calls_of(&self, agent: &AgentId) -> u64 {
        self.tool_calls.get(agent).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(costs: &[Option<u64>], expected: (Option<u64>, bool)) {
        let money = |parts: &Option<u64>| parts.map(Money::from_picodollars);
        let mut spent = RequestTotals::default();
        for cost in costs {
            spent.add(RequestTotals::of_request(
                TokenUsage::default(),
                money(cost),
            ));
        }
        let (cost, is_complete) = expected;
        assert_eq!(spent.cost_usd, money(&cost), "{costs:?}");
        assert_eq!(spent.cost_is_complete, is_complete, "{costs:?}");
        assert_eq!(spent.saturating_add(RequestTotals::default()), spent);
        assert_eq!(RequestTotals::default().saturating_add(spent), spent);
    }

    #[test]
    fn an_unknown_cost_is_never_shown_as_zero() {
        check(&[], (Some(0), true));
        check(&[Some(2), Some(3)], (Some(5), true));
        check(&[None], (None, false));
        check(&[None, Some(3)], (Some(3), false));
        check(&[Some(3), None], (Some(3), false));
        check(&[Some(0)], (Some(0), true));
    }
}
