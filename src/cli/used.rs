//! Owns the sums of tokens and costs that the result tells. Pure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::event::Event;
use crate::spending::Usage;
use crate::spending::money::Money;

/// What was used up, seen from four sides.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct Used {
    /// All of it.
    pub(crate) total: Spent,
    /// By the agent that asked.
    pub(crate) by_agent: BTreeMap<String, Spent>,
    /// By the model that was asked.
    pub(crate) by_model: BTreeMap<String, Spent>,
    /// By the phase of the agent.
    pub(crate) by_phase: BTreeMap<String, Spent>,
}

impl Used {
    /// Takes in `event`, if a request has ended.
    pub(crate) fn apply(&mut self, event: &Event) {
        if let Event::Asked {
            agent,
            model,
            phase,
            usage,
            cost_usd,
            ..
        } = event
        {
            let sides = [
                (&mut self.by_agent, agent.to_string()),
                (&mut self.by_model, model.to_string()),
                (&mut self.by_phase, phase.to_string()),
            ];
            for (side, key) in sides {
                side.entry(key).or_default().add(*usage, *cost_usd);
            }
            self.total.add(*usage, *cost_usd);
        }
    }
}

/// What requests used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Spent {
    /// How many requests there were, whole or not.
    pub(crate) requests: u64,
    /// What the vendors counted.
    #[serde(flatten)]
    pub(crate) usage: Usage,
    /// What they cost, in US dollars, as far as it is known; nothing if no price is known.
    pub(crate) cost_usd: Option<Money>,
    /// Whether the cost of every request is in it.
    pub(crate) cost_is_complete: bool,
}

impl Default for Spent {
    /// No request costs nothing, and that is all of it.
    fn default() -> Self {
        Self {
            requests: 0,
            usage: Usage::default(),
            cost_usd: Some(Money::default()),
            cost_is_complete: true,
        }
    }
}

impl Spent {
    fn add(&mut self, usage: Usage, cost: Option<Money>) {
        let so_far = self.cost_usd.filter(|_| self.requests > 0);
        self.cost_usd = match (so_far, cost) {
            (Some(so_far), Some(cost)) => Some(so_far.plus(cost)),
            (so_far, cost) => so_far.or(cost),
        };
        self.cost_is_complete &= cost.is_some();
        self.requests = self.requests.saturating_add(1);
        self.usage = self.usage.plus(usage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(costs: &[Option<u64>], expected: (Option<u64>, bool)) {
        let money = |parts: &Option<u64>| parts.map(Money::from_picodollars);
        let mut spent = Spent::default();
        for cost in costs {
            spent.add(Usage::default(), money(cost));
        }
        let (cost, is_complete) = expected;
        assert_eq!(spent.cost_usd, money(&cost), "{costs:?}");
        assert_eq!(spent.cost_is_complete, is_complete, "{costs:?}");
    }

    #[test]
    fn a_cost_that_is_not_known_is_never_told_as_nothing() {
        check(&[], (Some(0), true));
        check(&[Some(2), Some(3)], (Some(5), true));
        check(&[None], (None, false));
        check(&[None, Some(3)], (Some(3), false));
        check(&[Some(3), None], (Some(3), false));
        check(&[Some(0)], (Some(0), true));
    }
}
