//! The order in which the coordinator takes agents' submissions and the user's messages: as they
//! arrive, or, during replay, as they were recorded. It decides nothing about them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::agent::replay_visibility::{VisibilityCursor, VisibilityTimeline};
use crate::agent::round::QueuedSubmission;
use crate::agent::user_messages::MessageRecipient;
use crate::answer_changes::AnswerChanges;
use crate::ballot::WinnerReason;
use crate::check_results::CheckResults;
use crate::id::{AgentNumber, AnswerLabel};
use crate::orchestrator::recorded_messages::RecordedMessages;

/// Maximum wait for the agent whose submission comes next in the recording. Its model answers
/// immediately, and no call to a tool takes that long.
const NEXT_WAIT_MAX: Duration = Duration::from_mins(2);

/// The record of one coordination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedCoordination {
    /// The submissions and the user's messages, in the order in which they were taken.
    pub inputs: VecDeque<RecordedInput>,
    /// Which answers each agent saw, and when.
    pub visibility: BTreeMap<AgentNumber, VisibilityTimeline>,
    /// The check results for answers.
    pub check_results: BTreeMap<AnswerLabel, CheckResults>,
    /// What the answers that were made in attempts change.
    pub changes: BTreeMap<AnswerLabel, AnswerChanges>,
    /// The winner, and what decided for it.
    pub selection: Option<(AnswerLabel, WinnerReason)>,
    /// Why that answer is delivered and not what the winner presented, if that is so.
    pub kept_answer: Option<String>,
    /// How it ended.
    pub ending: RecordedEnding,
}

/// A submission or a message that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedInput {
    /// A submission of an agent.
    Submission(RecordedSubmission),
    /// The user's message with this number, and its recipients.
    Message(u32, MessageRecipient),
}

/// What the coordinator takes next.
#[derive(Debug)]
pub(super) enum CoordinatorInput {
    /// A submission, with what is known about the hooks' decision.
    Submission(QueuedSubmission, RecordedRefusal),
    /// The recorded message of the user with this number, and its recipients.
    RecordedMessage(u32, MessageRecipient),
    /// The recording has ended, or the run has diverged from it: new messages count from now on.
    RecordingEnded,
}

/// A recorded submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSubmission {
    /// The agent.
    pub agent: AgentNumber,
    /// Why hooks rejected it, if they did.
    pub external_refusal: Option<String>,
}

impl RecordedInput {
    /// Returns the agent that submitted it, if it is a submission.
    fn agent(&self) -> Option<AgentNumber> {
        match self {
            RecordedInput::Submission(submission) => Some(submission.agent),
            RecordedInput::Message(..) => None,
        }
    }

    /// Returns why hooks rejected it, if they did.
    fn external_refusal(self) -> Option<String> {
        match self {
            RecordedInput::Submission(submission) => submission.external_refusal,
            RecordedInput::Message(..) => None,
        }
    }

    /// Returns the message, if it is one.
    fn into_message(self) -> Option<(u32, MessageRecipient)> {
        match self {
            RecordedInput::Submission(_) => None,
            RecordedInput::Message(number, to) => Some((number, to)),
        }
    }
}

/// The decision about a submission outside the ballot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RecordedRefusal {
    /// Unknown: the hooks are to be asked.
    Unknown,
    /// The recorded one: why it was rejected, if it was.
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
    /// The record of each coordination.
    pub coordinations: VecDeque<RecordedCoordination>,
    /// The messages of the user, and when agents read them.
    pub messages: RecordedMessages,
    /// Cancelled when the run diverges from the recording; it then continues by itself.
    pub divergence: CancellationToken,
}

/// The position of a replay in a recorded coordination.
#[derive(Debug)]
pub struct ReplayCursor {
    /// The rest of it.
    pub remaining: RecordedCoordination,
    /// Cancelled when the run diverges.
    pub divergence: CancellationToken,
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
    /// The recorded messages that were left when the run diverged.
    messages_left: VecDeque<(u32, MessageRecipient)>,
    /// The agent whose submission comes next in the recording.
    awaited: watch::Sender<Option<AgentNumber>>,
}

impl SubmissionQueue {
    /// Creates a queue of the submissions from `incoming`, in the order of `replay` if there is
    /// one.
    pub(super) fn new(
        incoming: mpsc::Receiver<QueuedSubmission>,
        replay: Option<ReplayCursor>,
    ) -> Self {
        Self {
            incoming,
            replay,
            early: BTreeMap::new(),
            messages_left: VecDeque::new(),
            awaited: watch::channel(None).0,
        }
    }

    /// Returns whether the coordinator still follows a recording.
    pub(super) fn follows_recording(&self) -> bool {
        self.replay.is_some()
    }

    /// Returns the visibility timeline of `agent`, during replay.
    pub(super) fn visibility_cursor(&mut self, agent: AgentNumber) -> Option<VisibilityCursor> {
        let replay = self.replay.as_mut()?;
        Some(VisibilityCursor {
            timeline: replay
                .remaining
                .visibility
                .remove(&agent)
                .unwrap_or_default(),
            awaited: self.awaited.subscribe(),
            divergence: replay.divergence.clone(),
        })
    }

    /// Returns the next submission, or the next recorded message. `is_at_work` returns whether an
    /// agent can still submit anything. Cancel-safe: nothing is lost if the future is dropped.
    pub(super) async fn next_input(
        &mut self,
        is_at_work: impl Fn(AgentNumber) -> bool,
    ) -> Option<CoordinatorInput> {
        while let Some(replay) = &mut self.replay {
            let inputs = &mut replay.remaining.inputs;
            // Updated before a message can wake an agent, which may then look for answers.
            let next_agent = inputs.iter().find_map(RecordedInput::agent);
            self.awaited.send_replace(next_agent);
            let is_message = |next: &mut RecordedInput| matches!(next, RecordedInput::Message(..));
            if let Some(RecordedInput::Message(number, to)) = inputs.pop_front_if(is_message) {
                return Some(CoordinatorInput::RecordedMessage(number, to));
            }
            match (next_agent, replay.remaining.ending) {
                (Some(agent), _) if is_at_work(agent) && !replay.divergence.is_cancelled() => {
                    if let Some(submission) = self.early.remove(&agent) {
                        let recorded = inputs.pop_front().and_then(RecordedInput::external_refusal);
                        // Its agent may continue before the next submission is awaited.
                        self.awaited.send_replace(None);
                        let refusal = RecordedRefusal::Recorded(recorded);
                        return Some(CoordinatorInput::Submission(submission, refusal));
                    }
                    if let Ok(Some(submission)) = timeout(NEXT_WAIT_MAX, self.incoming.recv()).await
                    {
                        self.early.insert(submission.agent, submission);
                        continue;
                    }
                }
                (None, RecordedEnding::Interrupted) => {
                    replay.stop.cancel();
                    return std::future::pending().await;
                }
                (Some(_), _) | (None, RecordedEnding::Closed) => {}
            }
            // Nothing is left, or the next submission did not come: the run continues by itself.
            replay.divergence.cancel();
            let messages = inputs.drain(..).filter_map(RecordedInput::into_message);
            self.messages_left.extend(messages);
            self.replay = None;
            return Some(CoordinatorInput::RecordingEnded);
        }
        if let Some((number, to)) = self.messages_left.pop_front() {
            return Some(CoordinatorInput::RecordedMessage(number, to));
        }
        let submission = match self.early.pop_first() {
            Some((_, submission)) => submission,
            None => self.incoming.recv().await?,
        };
        let refusal = RecordedRefusal::Unknown;
        Some(CoordinatorInput::Submission(submission, refusal))
    }
}
