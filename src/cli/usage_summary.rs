//! Usage in the result: the totals by agent, model and phase.

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
        let mut summary = Self {
            total: totals.run(),
            ..Self::default()
        };
        for (key, usage) in totals.entries() {
            let breakdowns = [
                (&mut summary.by_agent, key.agent.to_string()),
                (&mut summary.by_model, key.model.to_string()),
                (&mut summary.by_phase, key.phase.to_string()),
            ];
            for (breakdown, name) in breakdowns {
                let sum = breakdown.entry(name).or_default();
                *sum = sum.saturating_add(*usage);
            }
        }
        summary
    }
}
