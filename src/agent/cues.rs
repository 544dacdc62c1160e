//! Owns when an agent sees the others' answers where a run is played again: exactly then when it saw
//! them in the record. Without cues it sees what there is whenever it looks. It decides nothing, and
//! never keeps an agent waiting for what cannot come.

use std::collections::VecDeque;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agent::round::Board;
use crate::id::{AgentNumber, AnswerLabel};

/// What one agent saw in a recorded coordination, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cues {
    /// Every time that it was shown answers, in order.
    pub looks: VecDeque<Look>,
    /// After how many steps its time was over, if it was.
    pub out_of_time_after: Option<u32>,
}

/// Answers that an agent was shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// How many steps it had taken.
    pub after_steps: u32,
    /// The answers.
    pub labels: Vec<AnswerLabel>,
}

/// How far an agent sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    /// All answers that there are.
    All,
    /// So many of them, and the own ones that follow.
    Before(usize),
}

/// The cues of an agent, and what it must know of the others to follow them.
#[derive(Debug)]
pub struct Cued {
    /// When it sees what.
    pub cues: Cues,
    /// Who hands in next in the record: nothing is accepted before.
    pub awaited: watch::Receiver<Option<AgentNumber>>,
    /// Says that the run goes another way than the record; from then on there are no cues.
    pub departed: CancellationToken,
}

impl Cued {
    /// Whether the time of the agent is over, who has taken so many steps.
    pub(super) fn is_out_of_time(&self, steps: u32) -> bool {
        self.cues.out_of_time_after == Some(steps) && !self.departed.is_cancelled()
    }

    /// How far `me` sees after so many steps. Waits for the answers that it saw in the record, unless
    /// the record waits for `me`, and they can come no more.
    pub(super) async fn end(
        &mut self,
        me: AgentNumber,
        steps: u32,
        board: &mut watch::Receiver<Board>,
    ) -> Sight {
        if self.departed.is_cancelled() {
            return Sight::All;
        }
        let is_due = |look: &mut Look| look.after_steps <= steps;
        let Some(look) = self.cues.looks.pop_front_if(is_due) else {
            return Sight::Before(0);
        };
        tokio::select! {
            _ = board.wait_for(|board| board.end_of(&look.labels).is_some()) => {}
            _ = self.awaited.wait_for(|awaited| *awaited == Some(me)) => {}
            () = self.departed.cancelled() => {}
        }
        // Looked at again: the answers come to the board before their author's successor is awaited,
        // and both can happen between two glances.
        let end = board.borrow_and_update().end_of(&look.labels);
        if end.is_none() {
            self.departed.cancel();
        }
        end.map_or(Sight::All, Sight::Before)
    }
}
