//! The order in which the coordinator takes agents' submissions: as they arrive, or, during replay,
//! as they were recorded. It decides nothing about submissions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::replay_visibility::{VisibilityCursor, VisibilityTimeline};
use crate::agent::round::QueuedSubmission;
use crate::check_results::CheckResults;
use crate::id::{AgentNumber, AnswerLabel};

/// Maximum wait for the agent whose submission comes next in the recording. Its model answers
/// immediately, and no call to a tool takes that long.
const NEXT_WAIT_MAX: Duration = Duration::from_mins(2);

/// The course of a recorded coordination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedCoordination {
    /// The submissions, in the order in which they were taken.
    pub submissions: VecDeque<RecordedSubmission>,
    /// Which answers each agent saw, and when.
    pub visibility: BTreeMap<AgentNumber, VisibilityTimeline>,
    /// The check results for answers.
    pub check_results: BTreeMap<AnswerLabel, CheckResults>,
    /// What comes after the last submission.
    pub ending: RecordedEnding,
}

/// A recorded submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSubmission {
    /// The agent.
    pub agent: AgentNumber,
    /// Why hooks rejected it, if they did.
    pub hook_refusal: Option<String>,
}

/// The hooks' decision about a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordedHookRefusal {
    /// Unknown: they are to be asked.
    Unknown,
    /// The recorded one: why they rejected it, if they did.
    Recorded(Option<String>),
}

/// The end of a recorded coordination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecordedEnding {
    /// The ballot closed by itself.
    #[default]
    Closed,
    /// It was interrupted, or the recording is truncated.
    Interrupted,
}

/// The recording that a replay follows.
#[derive(Debug)]
pub struct ReplayInput {
    /// The course of each attempt.
    pub coordinations: VecDeque<RecordedCoordination>,
    /// Cancelled when the run diverges from the recording; it then continues by itself.
    pub diverged: CancellationToken,
}

/// The position of a replay in a recorded coordination.
#[derive(Debug)]
pub struct ReplayCursor {
    /// The rest of it.
    pub remaining: RecordedCoordination,
    /// Cancelled when the run diverges.
    pub diverged: CancellationToken,
    /// Ends the run where the recording ends.
    pub stop: CancellationToken,
}

/// The queue from which the coordinator takes submissions.
#[derive(Debug)]
pub(super) struct SubmissionQueue {
    incoming: mpsc::Receiver<QueuedSubmission>,
    replay: Option<ReplayCursor>,
    /// The submissions that arrived earlier than in the recording.
    early: BTreeMap<AgentNumber, QueuedSubmission>,
    awaited: watch::Sender<Option<AgentNumber>>,
}

impl SubmissionQueue {
    /// Creates a queue that takes from `handed`, in the order of `followed` if there is one.
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

    /// Returns the visibility timeline of `agent`, during replay.
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

    /// Returns the next submission. `is_at_work` returns whether an agent can still submit
    /// anything. Cancel-safe: nothing is lost if the future is dropped.
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
                        self.early.insert(handed.agent, handed);
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
