//! Owns how the result tells what was used up: the sums of the books, seen from four sides. Pure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::spending::books::{Books, Spent};

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
    /// What `books` hold.
    pub(crate) fn of(books: &Books) -> Self {
        let mut used = Self {
            total: books.run(),
            ..Self::default()
        };
        for (post, spent) in books.posts() {
            let sides = [
                (&mut used.by_agent, post.agent.to_string()),
                (&mut used.by_model, post.model.to_string()),
                (&mut used.by_phase, post.phase.to_string()),
            ];
            for (side, key) in sides {
                let sum = side.entry(key).or_default();
                *sum = sum.plus(*spent);
            }
        }
        used
    }
}
