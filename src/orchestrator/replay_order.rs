//! Owns the order in which a table takes what agents hand in: as it comes, or, where a run is played
//! again, as the record tells. It decides nothing about what is handed in.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::replay_visibility::{VisibilityCursor, VisibilityTimeline};
use crate::agent::round::{AgentSubmission, SubmissionResponse};
use crate::check_results::CheckResults;
use crate::id::{AgentNumber, AnswerLabel};

/// How long the agent is waited for that handed in next. Its model answers at once, and no call to a
/// tool takes that long.
const NEXT_WAIT_MAX: Duration = Duration::from_mins(2);

/// What an agent hands in, and where it waits for the verdict.
pub(super) type QueuedSubmission = (
    AgentNumber,
    AgentSubmission,
    oneshot::Sender<SubmissionResponse>,
);

/// The course that a recorded coordination took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedCoordination {
    /// What was handed in, in the order in which it was taken.
    pub submissions: VecDeque<RecordedSubmission>,
    /// What each agent saw, and when.
    pub visibility: BTreeMap<AgentNumber, VisibilityTimeline>,
    /// How checks ended on answers.
    pub check_results: BTreeMap<AnswerLabel, CheckResults>,
    /// What came after the last of them.
    pub ending: RecordedEnding,
}

/// Something that was handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSubmission {
    /// By whom.
    pub agent: AgentNumber,
    /// Why hooks refused it, if they did.
    pub hook_refusal: Option<String>,
}

/// What hooks have said of something that is handed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordedHookRefusal {
    /// They are to be asked.
    Unknown,
    /// What the record tells: why they refused it, if they did.
    Recorded(Option<String>),
}

/// What comes after all that was handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedEnding {
    /// The ballot closed by itself.
    #[default]
    Closed,
    /// It was cut short, or the record breaks off.
    Interrupted,
}

/// What a run that is played again follows.
#[derive(Debug)]
pub struct ReplayInput {
    /// The course of each attempt.
    pub coordinations: VecDeque<RecordedCoordination>,
    /// Says that the run goes another way than the record; it then goes on by itself.
    pub diverged: CancellationToken,
}

/// A course on its way through a coordination.
#[derive(Debug)]
pub struct ReplayCursor {
    /// What is left of it.
    pub remaining: RecordedCoordination,
    /// Says that the run goes another way.
    pub diverged: CancellationToken,
    /// Ends the run where the record ends.
    pub stop: CancellationToken,
}

/// Where a table takes submissions from.
#[derive(Debug)]
pub(super) struct SubmissionQueue {
    incoming: mpsc::Receiver<QueuedSubmission>,
    replay: Option<ReplayCursor>,
    /// What was handed in sooner than in the record.
    early: BTreeMap<AgentNumber, QueuedSubmission>,
    awaited: watch::Sender<Option<AgentNumber>>,
}

impl SubmissionQueue {
    /// Takes from `handed`, in the order of `followed` if there is one.
    pub(super) fn new(
        handed: mpsc::Receiver<QueuedSubmission>,
        followed: Option<ReplayCursor>,
    ) -> Self {
        Self {
            incoming: handed,
            replay: followed,
            early: BTreeMap::new(),
            awaited: watch::channel(None).0,
        }
    }

    /// The cues of `agent`, if there is a course.
    pub(super) fn visibility_cursor(&mut self, agent: AgentNumber) -> Option<VisibilityCursor> {
        let followed = self.replay.as_mut()?;
        Some(VisibilityCursor {
            timeline: followed
                .remaining
                .visibility
                .remove(&agent)
                .unwrap_or_default(),
            awaited: self.awaited.subscribe(),
            diverged: followed.diverged.clone(),
        })
    }

    /// The next submission. `is_at_work` tells who can hand something in at all. Nothing is lost if
    /// the waiting is given up.
    pub(super) async fn next_submission(
        &mut self,
        is_at_work: impl Fn(AgentNumber) -> bool,
    ) -> Option<(QueuedSubmission, RecordedHookRefusal)> {
        while let Some(followed) = &mut self.replay {
            let order = &mut followed.remaining.submissions;
            let next = order.front().map(|taken| taken.agent);
            self.awaited.send_replace(next);
            match (next, followed.remaining.ending) {
                (Some(agent), _) if is_at_work(agent) && !followed.diverged.is_cancelled() => {
                    if let Some(handed) = self.early.remove(&agent) {
                        let hook = order.pop_front().and_then(|taken| taken.hook_refusal);
                        return Some((handed, RecordedHookRefusal::Recorded(hook)));
                    }
                    if let Ok(Some(handed)) = timeout(NEXT_WAIT_MAX, self.incoming.recv()).await {
                        self.early.insert(handed.0, handed);
                        continue;
                    }
                }
                (None, RecordedEnding::Interrupted) => {
                    followed.stop.cancel();
                    return std::future::pending().await;
                }
                (Some(_), _) | (None, RecordedEnding::Closed) => {}
            }
            followed.diverged.cancel();
            self.replay = None;
        }
        let handed = match self.early.pop_first() {
            Some((_, handed)) => handed,
            None => self.incoming.recv().await?,
        };
        Some((handed, RecordedHookRefusal::Unknown))
    }
}
