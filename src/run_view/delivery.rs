//! The final answer, the checks of what was delivered, and the outcome for each file.

use std::sync::Arc;

use serde::Serialize;

use crate::check_results::CheckResult;
use crate::event::{CheckedTree, DeliveryEvent, DeliveryRow};
use crate::id::AgentId;

/// The final phase of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeliveryView {
    /// The agent that presents; `None` before the final phase.
    pub agent: Option<AgentId>,
    /// The final answer.
    pub answer: Option<Arc<str>>,
    /// The outcome for each file; `None` before the delivery has ended.
    pub rows: Option<Vec<DeliveryRow>>,
    /// The checks of the delivered trees.
    pub checks: Vec<CheckResult>,
}

impl DeliveryView {
    /// Folds an event into the view. Returns whether it changed.
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "events that are not named change nothing here"
    )]
    pub(super) fn apply(&mut self, event: &DeliveryEvent) -> bool {
        match event {
            DeliveryEvent::FinalStarted { agent } => self.agent = Some(agent.clone()),
            DeliveryEvent::FinalAnswer { agent, content } => {
                self.agent = Some(agent.clone());
                self.answer = Some(Arc::clone(content));
            }
            DeliveryEvent::Delivered { rows, .. } => self.rows = Some(rows.clone()),
            DeliveryEvent::Checked {
                subject: CheckedTree::Delivery,
                finding,
                ..
            } => self.checks.push(finding.clone()),
            _ => return false,
        }
        true
    }

    /// Returns the number of files that were delivered.
    pub fn delivered_files(&self) -> usize {
        let rows = self.rows.iter().flatten();
        rows.filter(|row| row.outcome.is_delivered()).count()
    }
}
