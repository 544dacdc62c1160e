//! The answers in the log of a run.

use crate::answer_changes::AnswerChanges;
use crate::error::Result;
use crate::event::{CoordinationEvent, DeliveryEvent, Event};
use crate::id::{AgentId, AnswerLabel};
use crate::path::AbsPath;
use crate::text::join_with_commas;
use crate::world::store::runs::RunDir;

/// An answer, with its files.
#[derive(Debug)]
pub(super) struct RunAnswer {
    /// Who gave it.
    pub(super) agent: AgentId,
    /// Its name.
    pub(super) label: AnswerLabel,
    /// What it changes in the user's paths, if it was made in an attempt.
    pub(super) changes: Option<AnswerChanges>,
    /// The copy of its agent's workspace, if there is one.
    pub(super) snapshot: Option<AbsPath>,
}

/// The answers of a run, in the order in which they were given.
#[derive(Debug, Default)]
pub(super) struct RunAnswers {
    list: Vec<RunAnswer>,
    /// The answer that won, if one did.
    pub(super) winner: Option<AnswerLabel>,
}

impl RunAnswers {
    /// Reads the answers of `run`.
    ///
    /// # Errors
    /// massgen did not write the run here, or its log cannot be read.
    pub(super) fn read(run: &RunDir) -> Result<Self> {
        run.expect_own()?;
        let mut answers = Self::default();
        for entry in run.events()?.intact_entries() {
            let Some(Event::Coordination(event)) = entry?.event else {
                continue;
            };
            if let CoordinationEvent::WinnerSelected { label, .. } = event {
                answers.winner = Some(label);
            } else if let CoordinationEvent::Answered {
                agent,
                label,
                snapshot,
                changes,
                ..
            } = event
            {
                answers.list.push(RunAnswer {
                    agent,
                    label,
                    changes,
                    snapshot: snapshot.and_then(AbsPath::new),
                });
            }
        }
        Ok(answers)
    }

    /// Returns whether the user reviewed a delivery of `run`. A run of which nothing can be read here
    /// was not reviewed.
    pub(super) fn was_reviewed(run: &RunDir) -> bool {
        let is_review = |event: &Event| {
            matches!(
                event,
                Event::Delivery(DeliveryEvent::Delivered { by: Some(_), .. })
            )
        };
        run.events().is_ok_and(|events| {
            let mut entries = events.intact_entries().filter_map(Result::ok);
            entries.any(|entry| entry.event.as_ref().is_some_and(is_review))
        })
    }

    /// Returns the last answer that `is_meant` accepts: it replaces the earlier ones.
    pub(super) fn last(&self, is_meant: impl Fn(&RunAnswer) -> bool) -> Option<&RunAnswer> {
        self.list.iter().rfind(|answer| is_meant(answer))
    }

    /// Returns the numbers of the agents with an answer, in order.
    pub(super) fn agents(&self) -> String {
        let agents = self.list.iter().map(|answer| answer.label.agent);
        let mut agents: Vec<String> = agents.map(|agent| agent.to_string()).collect();
        agents.sort_unstable();
        agents.dedup();
        agents.join(", ")
    }

    /// Returns the names of all answers, sorted.
    pub(super) fn labels(&self) -> String {
        let mut labels: Vec<AnswerLabel> = self.list.iter().map(|answer| answer.label).collect();
        labels.sort();
        join_with_commas(&labels)
    }
}
