//! An agent's part in the coordination: rounds that end in an answer or a vote, for as long as the
//! ballot is open. The conversation continues from round to round; it never starts again.

use std::future::pending;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::agent::ModelSession;
use crate::agent::answer_log::AnswerLog;
use crate::agent::calls::RequestedToolCall;
use crate::agent::recorded_conversation::RecordedConversation;
use crate::agent::replay_visibility::{AnswerVisibility, VisibilityCursor};
use crate::backend::BackendError;
use crate::ballot::BallotRefusal;
use crate::check_results::CheckResults;
use crate::event::{CoordinationEvent, SetupProblem};
use crate::id::{AgentNumber, AnswerLabel};
use crate::prompts::{self, AnswerView, call_answers};
use crate::tools::CallRequest;
use crate::tools::served::ToolCatalogue;
use crate::tools::task_plan::TaskPlan;
use crate::tools::workflow::{ModelCall, WorkflowCall, parse_model_call};
use crate::world::access::gate::Gate;

/// How long after the grace period of a round an agent may take for its decision, until it drops
/// out.
const LAST_DECISION_MAX: Duration = Duration::from_mins(1);
/// Maximum number of replies without a call in one round; then the last text becomes the answer of
/// an agent that has none, and another agent drops out.
const UNDECIDED_REPLIES_MAX: u32 = 3;

/// Maximum number of rejected decisions in one round before the agent drops out.
const REJECTIONS_MAX: u32 = 6;

/// A submission of an agent.
#[derive(Debug)]
pub enum AgentSubmission {
    /// A new answer.
    Answer {
        /// The answer.
        content: String,
        /// The number of the last message of the user that the agent had been shown.
        known_messages: u32,
        /// The agent's plan.
        plan: Option<TaskPlan>,
    },
    /// A vote, by an agent that had been shown this many answers.
    Vote {
        /// The agent that it is for.
        candidate: AgentNumber,
        /// The ordinal of the candidate's answer, if the voter named one.
        ordinal: Option<u32>,
        /// The scores of the candidate's answer, one for each criterion of the checklist.
        scores: Vec<u8>,
        /// The reason.
        reason: String,
        /// The number of answers that the voter had been shown.
        known_answers: u32,
        /// The number of the last message of the user that it had been shown.
        known_messages: u32,
    },
    /// The agent stops.
    Stopped {
        /// The reason.
        reason: String,
        /// Whether its time was over.
        timed_out: bool,
        /// What the user has to change first, if that is known.
        problem: Option<SetupProblem>,
    },
}

/// Response to a submission. The coordinator does not respond to an agent until there is something
/// to do.
#[derive(Debug)]
pub enum SubmissionResponse {
    /// It does not count, for this reason; the agent continues.
    Refused(BallotRefusal),
    /// It counted, and now there are answers to judge.
    Judge {
        /// The label of the agent's answer, if it submitted one.
        accepted: Option<AnswerLabel>,
    },
    /// It counted but failed a required check, and the agent is to repair it.
    Repair {
        /// The label of the answer.
        answer: AnswerLabel,
        /// The results of the checks.
        check_results: CheckResults,
    },
    /// The coordination is over for this agent.
    Closed,
}

/// A submission that waits for the coordinator.
#[derive(Debug)]
pub struct QueuedSubmission {
    /// Who submits it.
    pub agent: AgentNumber,
    /// What is submitted.
    pub submission: AgentSubmission,
    /// Sends the response.
    pub response: oneshot::Sender<SubmissionResponse>,
}

/// An agent's connection to the coordinator.
#[derive(Debug)]
pub struct CoordinatorHandle {
    /// The agent's anonymous number.
    pub me: AgentNumber,
    /// How many agents see each other's answers.
    pub agents: usize,
    /// Sends submissions.
    pub submissions: mpsc::Sender<QueuedSubmission>,
    /// The answers so far.
    pub answers: watch::Receiver<AnswerLog>,
    /// The limits of rounds.
    pub limits: RoundLimits,
    /// When the agent sees which answers, during replay.
    pub visibility: Option<VisibilityCursor>,
    /// Cancelled when the coordination is over or the user stops the run, whatever the agent does.
    pub coordination_end: CancellationToken,
}

/// Limits of an agent's rounds.
#[derive(Clone, Copy, Debug)]
pub struct RoundLimits {
    /// The first round, until the agent is asked to finish.
    pub first: Option<Duration>,
    /// Every later round, until the agent is asked to finish.
    pub later: Option<Duration>,
    /// How long it may use tools after that; then only its decision is awaited.
    pub grace: Duration,
    /// The maximum number of new answers of others that it is shown in the course of a round; it
    /// sees the rest when the round ends. `None` sets no limit.
    pub new_answers_max: Option<usize>,
}

/// How far the time of a round has progressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RoundClock {
    /// The agent works.
    Running,
    /// The agent is asked to finish.
    FinishSoon,
    /// The agent may only decide.
    ToolsClosed,
}

/// Runs the agent until the coordination is over or the agent drops out.
pub async fn coordinate(mut session: ModelSession, coordinator: CoordinatorHandle) {
    let (limit, coordination_end) = (
        coordinator.limits.first,
        coordinator.coordination_end.clone(),
    );
    session.end_signal = coordination_end.clone();
    let mut round_loop = RoundLoop {
        answers_seen: 0,
        steps: 0,
        round: RoundState::start(limit, coordinator.limits.grace),
        session,
        coordinator,
    };
    tokio::select! {
        // A call that was denied only because the run is ending leads to no further step.
        biased;
        () = coordination_end.cancelled() => {}
        () = round_loop.run() => {}
    }
    round_loop.session.shutdown().await;
}

/// One agent, and what it knows of the others.
struct RoundLoop {
    session: ModelSession,
    coordinator: CoordinatorHandle,
    /// The number of answers that the agent has seen.
    answers_seen: usize,
    /// The number of steps that it has taken.
    steps: u32,
    round: RoundState,
}

/// Time and counters of one round.
struct RoundState {
    started: Instant,
    /// How long the agent may work until it is asked to finish; `None` sets no limit.
    soft_limit: Option<Duration>,
    grace: Duration,
    is_finish_requested: bool,
    /// The number of replies without a call.
    undecided_replies: u32,
    /// The number of rejected decisions.
    rejections: u32,
    /// The number of steps in this round.
    steps: u32,
    /// The number of new answers of others that the agent was shown since the round began.
    answers_shown: usize,
    /// Whether a decision did not count because the agent had not seen all answers.
    is_outdated: bool,
}

impl RoundState {
    fn start(soft_limit: Option<Duration>, grace: Duration) -> Self {
        let start = Instant::now();
        Self {
            started: start,
            soft_limit,
            grace,
            is_finish_requested: false,
            undecided_replies: 0,
            rejections: 0,
            steps: 0,
            answers_shown: 0,
            is_outdated: false,
        }
    }

    fn clock_state(&self) -> RoundClock {
        let Some(soft_limit) = self.soft_limit else {
            return RoundClock::Running;
        };
        let elapsed = self.started.elapsed();
        if elapsed >= soft_limit.saturating_add(self.grace) {
            RoundClock::ToolsClosed
        } else if elapsed >= soft_limit {
            RoundClock::FinishSoon
        } else {
            RoundClock::Running
        }
    }

    /// Returns the time from which the agent may use no more tools, if the round has a time limit.
    fn tools_end(&self) -> Option<Instant> {
        self.started
            .checked_add(self.soft_limit?.saturating_add(self.grace))
    }

    /// Returns when the agent drops out, if the round has a time limit.
    fn drop_out_time(&self) -> Option<Instant> {
        let soft_limit = self.soft_limit?;
        self.started.checked_add(
            soft_limit
                .saturating_add(self.grace)
                .saturating_add(LAST_DECISION_MAX),
        )
    }
}

impl RoundLoop {
    async fn run(&mut self) {
        loop {
            self.show_new_answers().await;
            self.wait_until_live().await;
            if self
                .coordinator
                .visibility
                .as_ref()
                .is_some_and(|cursor| cursor.is_out_of_time(self.steps))
            {
                return self.stop_after_timeout().await;
            }
            if self.round.clock_state() != RoundClock::Running && !self.round.is_finish_requested {
                self.round.is_finish_requested = true;
                self.session.add_user_message(prompts::finish_soon());
            }
            self.round.steps = self.round.steps.saturating_add(1);
            self.session.refresh_served_tools().await;
            let steps_max = self.session.steps_max;
            if self.round.steps > steps_max {
                let reason =
                    format!("no decision after {steps_max} requests (`max_steps_per_round`)");
                return self.stop(reason, false).await;
            }
            let reply = match self
                .session
                .step_unless(sleep_until_some(self.round.drop_out_time()))
                .await
            {
                Ok(Ok(reply)) => reply,
                Ok(Err(error)) => return self.stop_after_error(error).await,
                Err(()) => return self.stop_after_timeout().await,
            };
            self.steps = self.steps.saturating_add(1);
            let (decisions, tool_calls) = partition_calls(reply.calls, &self.session.served);
            let has_no_calls = decisions.is_empty() && tool_calls.is_empty();
            self.use_tools(tool_calls).await;
            match round_decision(decisions, self.answers_seen > 0) {
                RoundDecision::Contradiction(ids) => {
                    for id in ids {
                        self.session
                            .add_call_result(&id, call_answers::one_decision());
                    }
                    if self.count_rejection().await.is_none() {
                        return;
                    }
                }
                RoundDecision::None if has_no_calls => {
                    if self.handle_undecided(reply.text).await.is_none() {
                        return;
                    }
                }
                RoundDecision::None => {}
                RoundDecision::One { id, call, left_out } => {
                    if let Some(id) = left_out {
                        let answer = call_answers::decision_left_out();
                        self.session.add_call_result(&id, answer);
                    }
                    if self.handle_decision(&id, call, reply.text).await.is_none() {
                        return;
                    }
                }
            }
        }
    }

    /// Handles a reply without calls. If the agent is alone and has no tools, the text is its
    /// answer; other agents are asked to decide, and if they never do and have no answer, the text
    /// becomes their answer. Returns `None` when the coordination is over.
    async fn handle_undecided(&mut self, text: String) -> Option<()> {
        self.round.undecided_replies = self.round.undecided_replies.saturating_add(1);
        let was_last = self.round.undecided_replies >= UNDECIDED_REPLIES_MAX;
        let can_only_talk = self.coordinator.agents == 1 && self.session.gate.is_none();
        let has_answered = self.has_answered();
        if (was_last || can_only_talk) && !has_answered && !text.trim().is_empty() {
            let submission = self.answer_submission(text);
            return self.submit_and_handle(None, submission).await;
        }
        if was_last {
            let reason = format!("no decision in {UNDECIDED_REPLIES_MAX} replies");
            self.stop(reason, false).await;
            return None;
        }
        self.session
            .add_user_message(prompts::decide_now(self.coordinator.agents));
        Some(())
    }

    /// Shows the answers that arrived while the agent was working, as many as the round allows; all
    /// of them after a decision that they made outdated.
    async fn show_new_answers(&mut self) {
        let is_outdated = std::mem::take(&mut self.round.is_outdated);
        let shown_max = self
            .coordinator
            .limits
            .new_answers_max
            .filter(|_| !is_outdated);
        let answers_left = shown_max.map(|max| max.saturating_sub(self.round.answers_shown));
        let unseen = self.take_unseen_answers(answers_left).await;
        self.round.answers_shown = if is_outdated {
            0
        } else {
            self.round.answers_shown.saturating_add(unseen.len())
        };
        if !unseen.is_empty() {
            let trial = self.open_answers(&unseen);
            self.session
                .add_user_message(prompts::new_answers(&unseen, trial));
            self.emit_answers_shown(&unseen).await;
        }
    }

    /// Waits for the others once a resumed agent has replayed its whole recording, and then shows
    /// it the answers so far.
    async fn wait_until_live(&mut self) {
        let is_replayed = self
            .session
            .recorded
            .as_ref()
            .is_some_and(RecordedConversation::is_exhausted);
        if let Some(cursor) = self.coordinator.visibility.as_ref().filter(|_| is_replayed) {
            cursor.divergence.cancelled().await;
            self.session.recorded = None;
            self.show_new_answers().await;
        }
    }

    /// Returns the answers that the agent has not been shown, at most `shown_max` if that is a
    /// number, and marks them as seen.
    async fn take_unseen_answers(&mut self, shown_max: Option<usize>) -> Vec<AnswerView> {
        let me = self.coordinator.me;
        let reply_source = self.session.next_reply_source();
        let visibility = match &mut self.coordinator.visibility {
            Some(cursor) => {
                cursor
                    .visible_answers(me, self.steps, reply_source, &mut self.coordinator.answers)
                    .await
            }
            None => AnswerVisibility::All,
        };
        let answer_log = self.coordinator.answers.borrow_and_update();
        let end = match visibility {
            AnswerVisibility::All => shown_max.map_or(answer_log.answers.len(), |shown_max| {
                answer_log.visible_length_limited(me, self.answers_seen, shown_max)
            }),
            AnswerVisibility::Before(end) => {
                answer_log.visible_with_own(me, end.max(self.answers_seen))
            }
        };
        let unseen = answer_log.unseen_by(me, self.answers_seen, end);
        self.answers_seen = end;
        unseen
    }

    /// Lets the agent run commands on `answers`, if it may. Returns one of them.
    fn open_answers(&self, answers: &[AnswerView]) -> Option<AnswerLabel> {
        let trial_answers = self.session.gate.as_ref()?.trial_answers()?;
        let mut trial = None;
        for answer in answers {
            if let Some(layers) = &answer.layers {
                trial_answers.add(answer.label, layers.clone());
                trial = Some(answer.label);
            }
        }
        trial
    }

    fn has_answered(&self) -> bool {
        let answer_log = self.coordinator.answers.borrow();
        let mut answers = answer_log.answers.iter();
        answers.any(|answer| answer.label.agent == self.coordinator.me)
    }

    async fn emit_answers_shown(&self, answers: &[AnswerView]) {
        if !answers.is_empty() {
            let labels = answers.iter().map(|answer| answer.label).collect();
            self.session
                .emit(CoordinationEvent::AnswersShown {
                    agent: self.session.agent.clone(),
                    labels,
                })
                .await;
        }
    }

    async fn use_tools(&mut self, calls: Vec<RequestedToolCall>) {
        if self.round.clock_state() == RoundClock::ToolsClosed {
            for call in calls {
                self.session
                    .add_call_result(&call.request.id, call_answers::tools_closed());
            }
        } else {
            self.session.tools_until = self.round.tools_end();
            self.session.execute_calls(calls).await;
        }
    }

    /// Handles a reply with one decision; returns `None` when the coordination is over.
    async fn handle_decision(&mut self, id: &str, call: WorkflowCall, text: String) -> Option<()> {
        let submission = match call {
            // A call without content hands in the text of the reply.
            WorkflowCall::NewAnswer { content } => self.answer_submission(content.unwrap_or(text)),
            WorkflowCall::Vote {
                agent: candidate,
                ordinal,
                scores,
                reason,
            } => {
                let known_answers = u32::try_from(self.answers_seen).unwrap_or(u32::MAX);
                AgentSubmission::Vote {
                    candidate,
                    ordinal,
                    scores,
                    reason,
                    known_answers,
                    known_messages: self.session.messages.known_messages(),
                }
            }
            WorkflowCall::Submit | WorkflowCall::Restart { .. } => {
                self.session
                    .add_call_result(id, call_answers::nothing_to_judge());
                return self.count_rejection().await;
            }
        };
        self.submit_and_handle(Some(id), submission).await
    }

    /// Submits a decision, which came with the call `id` if it came with one, and waits for the
    /// response; returns `None` when the coordination is over.
    async fn submit_and_handle(
        &mut self,
        id: Option<&str>,
        submission: AgentSubmission,
    ) -> Option<()> {
        match self.submit(submission).await {
            SubmissionResponse::Closed => None,
            SubmissionResponse::Refused(refusal) => {
                let reason = call_answers::submission_refused(&refusal);
                self.add_response(id, reason);
                self.round.is_outdated = refusal == BallotRefusal::Outdated;
                // A decision that is outdated by new answers or messages is not the agent's fault,
                // and the number of these is limited.
                if matches!(
                    refusal,
                    BallotRefusal::Outdated | BallotRefusal::UnreadMessage
                ) {
                    Some(())
                } else {
                    self.count_rejection().await
                }
            }
            SubmissionResponse::Judge { accepted } => {
                let confirmation = accepted.map_or_else(
                    || call_answers::vote_counted().to_owned(),
                    call_answers::answer_accepted,
                );
                self.add_response(id, confirmation);
                let unseen = self.take_unseen_answers(None).await;
                let trial = self.open_answers(&unseen);
                let me = self.coordinator.me;
                self.session
                    .add_user_message(prompts::judge_answers(&unseen, me, trial));
                self.emit_answers_shown(&unseen).await;
                self.begin_round();
                Some(())
            }
            SubmissionResponse::Repair {
                answer,
                check_results,
            } => {
                self.add_response(id, call_answers::answer_failed(answer, &check_results));
                self.begin_round();
                Some(())
            }
        }
    }

    fn begin_round(&mut self) {
        if let Some(hooks) = self.session.gate.as_ref().and_then(Gate::hooks) {
            hooks.begin_round();
        }
        self.round =
            RoundState::start(self.coordinator.limits.later, self.coordinator.limits.grace);
    }

    /// Counts a rejected decision; returns `None` if they were too many and the agent has stopped.
    async fn count_rejection(&mut self) -> Option<()> {
        self.round.rejections = self.round.rejections.saturating_add(1);
        if self.round.rejections < REJECTIONS_MAX {
            return Some(());
        }
        let reason = "its decisions were rejected too often";
        self.stop(reason.into(), false).await;
        None
    }

    /// Returns the submission of an answer.
    fn answer_submission(&self, content: String) -> AgentSubmission {
        AgentSubmission::Answer {
            content,
            known_messages: self.session.messages.known_messages(),
            plan: self.session.current_plan(),
        }
    }

    /// Adds `text` as the result of the call `id`, or else as a message.
    fn add_response(&mut self, id: Option<&str>, text: String) {
        match id {
            Some(id) => self.session.add_call_result(id, text),
            None => self.session.add_user_message(text),
        }
    }

    async fn submit(&self, submission: AgentSubmission) -> SubmissionResponse {
        let (response, response_receiver) = oneshot::channel();
        let queued_submission = QueuedSubmission {
            agent: self.coordinator.me,
            submission,
            response,
        };
        if self
            .coordinator
            .submissions
            .send(queued_submission)
            .await
            .is_err()
        {
            return SubmissionResponse::Closed;
        }
        response_receiver
            .await
            .unwrap_or(SubmissionResponse::Closed)
    }

    async fn stop_after_timeout(&self) {
        self.stop("its round timed out".into(), true).await;
    }

    async fn stop_after_error(&self, error: BackendError) {
        self.submit(AgentSubmission::Stopped {
            problem: error.setup_problem(),
            reason: error.message,
            timed_out: false,
        })
        .await;
    }

    async fn stop(&self, reason: String, timed_out: bool) {
        self.submit(AgentSubmission::Stopped {
            reason,
            timed_out,
            problem: None,
        })
        .await;
    }
}

/// Waits until `time`; forever if there is none.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// The decision that the workflow calls of one reply express.
enum RoundDecision {
    None,
    One {
        id: String,
        call: WorkflowCall,
        /// The id of a decision of the same reply that cannot count.
        left_out: Option<String>,
    },
    Contradiction(Vec<String>),
}

/// Returns the decision of a reply. Of a vote and an answer, the one counts that can: without
/// answers to vote for, the answer, and else the vote, which ends the agent's work.
fn round_decision(mut calls: Vec<(String, WorkflowCall)>, has_seen_answers: bool) -> RoundDecision {
    let is_vote = |call: &WorkflowCall| matches!(call, WorkflowCall::Vote { .. });
    let mut left_out = None;
    if let [(_, first), (_, second)] = calls.as_slice()
        && is_vote(first) != is_vote(second)
    {
        let other = usize::from(is_vote(first) == has_seen_answers);
        left_out = Some(calls.remove(other).0);
    }
    match (calls.pop(), calls.is_empty()) {
        (None, _) => RoundDecision::None,
        (Some((id, call)), true) => RoundDecision::One { id, call, left_out },
        (Some(last), false) => {
            calls.push(last);
            RoundDecision::Contradiction(calls.into_iter().map(|(id, _)| id).collect())
        }
    }
}

/// Splits the calls of a reply into decisions and tool calls, each in their order. A call that
/// cannot be parsed is answered like a tool call.
fn partition_calls(
    calls: Vec<CallRequest>,
    served: &ToolCatalogue,
) -> (Vec<(String, WorkflowCall)>, Vec<RequestedToolCall>) {
    let mut decisions = Vec::new();
    let mut tool_calls = Vec::new();
    for request in calls {
        match parse_model_call(&request.name, &request.arguments, served) {
            Ok(ModelCall::Workflow(call)) => decisions.push((request.id, call)),
            Ok(ModelCall::Tool(call)) => tool_calls.push(RequestedToolCall {
                request,
                call: Ok(call),
            }),
            Err(error) => tool_calls.push(RequestedToolCall {
                request,
                call: Err(error.to_string()),
            }),
        }
    }
    (decisions, tool_calls)
}
