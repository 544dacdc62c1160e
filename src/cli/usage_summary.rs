//! Usage in the result: the totals by agent, model and phase. Pure.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::spending::totals::{RequestTotals, UsageTotals};

/// Usage totals.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub(crate) struct UsageSummary {
    /// The total.
    pub(crate) total: RequestTotals,
    /// Per agent.
    pub(crate) by_agent: BTreeMap<String, RequestTotals>,
    /// Per model.
    pub(crate) by_model: BTreeMap<String, RequestTotals>,
    /// Per phase.
    pub(crate) by_phase: BTreeMap<String, RequestTotals>,
}

impl UsageSummary {
    /// Sums up `totals`.
    pub(crate) fn from_totals(totals: &UsageTotals) -> Self {
        let mut used = Self {
            total: totals.run(),
            ..Self::default()
        };
        for (post, spent) in totals.entries() {
            let sides = [
                (&mut used.by_agent, post.agent.to_string()),
                (&mut used.by_model, post.model.to_string()),
                (&mut used.by_phase, post.phase.to_string()),
            ];
            for (side, key) in sides {
                let sum = side.entry(key).or_default();
                *sum = sum.saturating_add(*spent);
            }
        }
        used
    }
}
