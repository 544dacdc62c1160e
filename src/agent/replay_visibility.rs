//! Owns when an agent sees the others' answers where a run is played again: exactly then when it saw
//! them in the record. Without cues it sees what there is whenever it looks. It decides nothing, and
//! never keeps an agent waiting for what cannot come.

use std::collections::VecDeque;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent::round::AnswerLog;
use crate::id::{AgentNumber, AnswerLabel};

/// What one agent saw in a recorded coordination, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibilityTimeline {
    /// Every time that it was shown answers, in order.
    pub shown: VecDeque<ShownAnswers>,
    /// After how many steps its time was over, if it was.
    pub out_of_time_after: Option<u32>,
}

/// Answers that an agent was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownAnswers {
    /// How many steps it had taken.
    pub after_steps: u32,
    /// The answers.
    pub labels: Vec<AnswerLabel>,
}

/// How far an agent sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerVisibility {
    /// All answers that there are.
    All,
    /// So many of them, and the own ones that follow.
    Before(usize),
}

/// The cues of an agent, and what it must know of the others to follow them.
#[derive(Debug)]
pub struct VisibilityCursor {
    /// When it sees what.
    pub timeline: VisibilityTimeline,
    /// Who hands in next in the record: nothing is accepted before.
    pub awaited: watch::Receiver<Option<AgentNumber>>,
    /// Says that the run goes another way than the record; from then on there are no cues.
    pub diverged: CancellationToken,
}

impl VisibilityCursor {
    /// Whether the time of the agent is over, who has taken so many steps.
    pub(super) fn is_out_of_time(&self, steps: u32) -> bool {
        self.timeline.out_of_time_after == Some(steps) && !self.diverged.is_cancelled()
    }

    /// How far `me` sees after so many steps. Waits for the answers that it saw in the record, unless
    /// the record waits for `me`, and they can come no more.
    pub(super) async fn visible_answers(
        &mut self,
        me: AgentNumber,
        steps: u32,
        board: &mut watch::Receiver<AnswerLog>,
    ) -> AnswerVisibility {
        if self.diverged.is_cancelled() {
            return AnswerVisibility::All;
        }
        let is_due = |look: &mut ShownAnswers| look.after_steps <= steps;
        let Some(look) = self.timeline.shown.pop_front_if(is_due) else {
            return AnswerVisibility::Before(0);
        };
        tokio::select! {
            _ = board.wait_for(|board| board.visible_length(&look.labels).is_some()) => {}
            _ = self.awaited.wait_for(|awaited| *awaited == Some(me)) => {}
            () = self.diverged.cancelled() => {}
        }
        // Looked at again: the answers come to the board before their author's successor is awaited,
        // and both can happen between two glances.
        let end = board.borrow_and_update().visible_length(&look.labels);
        if end.is_none() {
            self.diverged.cancel();
        }
        end.map_or(AnswerVisibility::All, AnswerVisibility::Before)
    }
}
