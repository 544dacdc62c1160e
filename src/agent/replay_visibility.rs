//! During replay, shows each agent the others' answers at the step at which it saw them in the
//! recording. Without a recording an agent sees all answers whenever it looks. An agent never waits
//! for answers that cannot come.

use std::collections::VecDeque;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent::answer_log::AnswerLog;
use crate::id::{AgentNumber, AnswerLabel};

/// The answers that one agent saw in a recorded coordination, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibilityTimeline {
    /// Each occasion on which it was shown answers, in order.
    pub shown_answers: VecDeque<ShownAnswers>,
    /// The number of steps after which its time was over, if it was.
    pub out_of_time_after: Option<u32>,
}

/// Answers that an agent was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownAnswers {
    /// The number of steps that it had taken.
    pub after_steps: u32,
    /// The answers.
    pub labels: Vec<AnswerLabel>,
}

/// The answers that an agent may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerVisibility {
    /// All answers so far.
    All,
    /// This many of the first answers, and the agent's own ones that follow.
    Before(usize),
}

/// Source of an agent's next reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplySource {
    /// The recorded part of a resumed conversation.
    Recording,
    /// The model.
    Model,
}

/// The visibility timeline of an agent during replay, and what it must know of the others to follow
/// it.
#[derive(Debug)]
pub struct VisibilityCursor {
    /// When it sees which answers.
    pub timeline: VisibilityTimeline,
    /// The agent whose submission comes next in the recording: no other is accepted before it.
    pub awaited: watch::Receiver<Option<AgentNumber>>,
    /// Cancelled when the run diverges from the recording; the timeline is ignored from then on.
    pub divergence: CancellationToken,
}

impl VisibilityCursor {
    /// Returns whether the agent's time is over after this many steps.
    pub(super) fn is_out_of_time(&self, steps: u32) -> bool {
        self.timeline.out_of_time_after == Some(steps) && !self.divergence.is_cancelled()
    }

    /// Returns which answers `me` sees after this many steps. Waits for the answers that it saw in
    /// the recording, unless the recording waits for `me`, so that they can no longer come. If
    /// `next_reply` is recorded, it was given without knowledge of answers that arrive only now.
    pub(super) async fn visible_answers(
        &mut self,
        me: AgentNumber,
        steps: u32,
        next_reply: ReplySource,
        answers: &mut watch::Receiver<AnswerLog>,
    ) -> AnswerVisibility {
        if self.divergence.is_cancelled() && next_reply == ReplySource::Model {
            return AnswerVisibility::All;
        }
        let is_due = |shown: &mut ShownAnswers| shown.after_steps <= steps;
        let Some(shown_answers) = self.timeline.shown_answers.pop_front_if(is_due) else {
            return AnswerVisibility::Before(0);
        };
        tokio::select! {
            _ = answers.wait_for(|answers| answers.visible_length(&shown_answers.labels).is_some()) => {}
            _ = self.awaited.wait_for(|awaited| *awaited == Some(me)) => {}
            () = self.divergence.cancelled() => {}
        }
        // Checked again: the answers are added to the log before the author's successor is awaited,
        // and both can happen between two checks.
        let end = answers
            .borrow_and_update()
            .visible_length(&shown_answers.labels);
        if end.is_none() {
            self.divergence.cancel();
        }
        end.map_or(AnswerVisibility::All, AnswerVisibility::Before)
    }
}
