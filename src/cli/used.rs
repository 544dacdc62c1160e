//! Owns the form in which the result tells what was used. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::spending::Usage;
use crate::spending::books::{Books, Post, Spent};
use crate::spending::money::Money;

/// What was used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Used {
    /// All of it.
    total: Spent,
    /// By the agent that used it.
    by_agent: BTreeMap<String, Spent>,
    /// The requests of each agent to each model in each phase.
    by_model: Vec<Asked>,
}

/// The requests of an agent to a model in a phase.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Asked {
    /// Who asked.
    agent: AgentId,
    /// The model.
    model: Arc<str>,
    /// In which phase.
    phase: Phase,
    /// How many requests there were, answered or not.
    requests: u64,
    /// Their tokens.
    #[serde(flatten)]
    usage: Usage,
    /// What they cost, as far as that is known.
    cost_usd: Money,
    /// How many of them have a cost that is not known.
    uncosted_requests: u64,
}

impl From<&Books> for Used {
    fn from(books: &Books) -> Self {
        let of_agent = |(post, _): (&Post, _)| (post.agent.to_string(), books.agent(&post.agent));
        let of_model = |(post, spent): (&Post, &Spent)| Asked {
            agent: post.agent.clone(),
            model: Arc::clone(&post.model),
            phase: post.phase,
            requests: spent.requests,
            usage: spent.usage,
            cost_usd: spent.cost,
            uncosted_requests: spent.uncosted_requests,
        };
        Self {
            total: books.run(),
            by_agent: books.posts().map(of_agent).collect(),
            by_model: books.posts().map(of_model).collect(),
        }
    }
}

impl Used {
    /// What all requests cost, as far as it is known; `None` if it is known of none.
    pub(crate) fn cost_usd(&self) -> Option<Money> {
        let Spent {
            requests,
            cost,
            uncosted_requests,
            ..
        } = self.total;
        let nothing_is_known = requests > 0 && requests == uncosted_requests;
        (!nothing_is_known).then_some(cost)
    }

    /// Whether the cost of every request is known.
    pub(crate) fn cost_is_complete(&self) -> bool {
        self.total.uncosted_requests == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(costs: &[Option<u64>], expected: (Option<u64>, bool)) {
        let money = |parts: u64| Money::from_picodollars(parts);
        let mut books = Books::default();
        for cost in costs {
            let post = Post {
                agent: AgentId::parse("a").unwrap(),
                model: Arc::from("m"),
                phase: Phase::Final,
            };
            books.charge(post, Usage::default(), cost.map(money));
        }
        let used = Used::from(&books);
        let found = (used.cost_usd(), used.cost_is_complete());
        assert_eq!(found, (expected.0.map(money), expected.1), "{costs:?}");
    }

    #[test]
    fn a_cost_that_is_not_known_is_never_told_as_nothing() {
        check(&[], (Some(0), true));
        check(&[Some(2), Some(3)], (Some(5), true));
        check(&[None, None], (None, false));
        check(&[None, Some(3)], (Some(3), false));
        check(&[Some(0)], (Some(0), true));
    }
}
