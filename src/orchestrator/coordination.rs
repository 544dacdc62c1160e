//! Coordinates one attempt: receives the submissions of agents, applies them to the ballot, and
//! carries out the effects. It decides nothing itself.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::agent::deadline::{RunDeadline, StopCause};
use crate::agent::round::{
    AgentSubmission, AnswerLog, CoordinatorHandle, QueuedSubmission, RoundLimits,
    SubmissionResponse, coordinate,
};
use crate::agent::user_messages::{MessageRecipient, NumberedMessage, UserMessageLog};
use crate::agent::{ModelSession, emit};
use crate::ballot::{Ballot, BallotEffect, BallotRefusal, BallotRules, RoundOutcome, VoteTally};
use crate::check_results::CheckResults;
use crate::event::{CoordinationEvent, Event, RunEvent};
use crate::id::{AgentId, AgentNumber, AnswerLabel};
use crate::orchestrator::check_runner::{CheckRunner, CheckTarget};
use crate::orchestrator::hooks::{self, HookEventPayload};
use crate::orchestrator::replay_order::{
    CoordinatorInput, RecordedHookRefusal, ReplayCursor, SubmissionQueue,
};
use crate::orchestrator::snapshots::SnapshotStore;
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::Phase;
use crate::prompts::{self, AnswerView};
use crate::tools::task_plan::TaskPlan;
use crate::world::access::hook_runner::HookRunner;
use crate::world::io::event_queue::QueuedEvent;

/// Maximum number of queued submissions; each agent waits for the response, so there is at most one
/// per agent.
const SUBMISSIONS_MAX: usize = 64;

/// An agent that takes part.
#[derive(Debug)]
pub struct Participant {
    /// Its own name.
    pub id: AgentId,
    /// Its anonymous number.
    pub number: AgentNumber,
    /// Its workspace, if it has one.
    pub workspace: Option<AbsPath>,
    /// The hooks for its answers and votes, if there are any.
    pub hooks: Option<HookRunner>,
    /// Its conversation, which already contains the task.
    pub session: ModelSession,
}

/// An accepted answer.
#[derive(Clone, Debug)]
pub struct AcceptedAnswer {
    /// Its name.
    pub label: AnswerLabel,
    /// The text that the agent gave.
    pub content: Arc<str>,
    /// The files that belong to it.
    pub snapshot: Option<RealPath>,
    /// The results of the checks on it, if there are checks.
    pub check_results: Option<CheckResults>,
}

/// A vote that counts.
#[derive(Clone, Debug)]
pub struct CountedVote {
    /// The agent that it is for.
    pub candidate: AgentNumber,
    /// The reason.
    pub reason: String,
}

/// End of a coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinationEnd {
    /// Every remaining agent has voted.
    Agreed,
    /// It was stopped.
    Stopped(StopCause),
}

/// Result of a coordination.
#[derive(Debug)]
pub struct CoordinationResult {
    /// How it ended.
    pub end: CoordinationEnd,
    /// The tally; `None` if there are no answers.
    pub tally: Option<VoteTally>,
    /// The latest answer of each agent that submitted one.
    pub answers: BTreeMap<AgentNumber, AcceptedAnswer>,
    /// The votes that counted at the end, by voter.
    pub votes: BTreeMap<AgentNumber, CountedVote>,
}

impl CoordinationResult {
    /// Returns a result without answers.
    pub fn without_answers(end: CoordinationEnd) -> Self {
        Self {
            end,
            tally: None,
            answers: BTreeMap::new(),
            votes: BTreeMap::new(),
        }
    }
}

/// Limits of a coordination.
#[derive(Debug)]
pub struct CoordinationLimits {
    /// The rules of the ballot.
    pub ballot: BallotRules,
    /// The time limits of rounds.
    pub rounds: RoundLimits,
    /// The deadline, at which the ballot is closed with the votes that there are.
    pub deadline: RunDeadline,
    /// Runs checks on answers before any agent sees them, if the config has checks.
    pub check_runner: Option<CheckRunner>,
}

/// Lets `participants`, given in registration order, work until the ballot is closed; in the order
/// of a recording if there is a `replay`.
pub async fn run(
    participants: Vec<Participant>,
    limits: CoordinationLimits,
    mut replay: Option<ReplayCursor>,
    snapshots: &mut SnapshotStore,
    messages: &mut UserMessageLog,
    events: &mpsc::Sender<QueuedEvent>,
) -> CoordinationResult {
    let (submissions, receiver) = mpsc::channel::<QueuedSubmission>(SUBMISSIONS_MAX);
    let recorded_check_results = replay
        .as_mut()
        .map(|replay| std::mem::take(&mut replay.remaining.check_results))
        .unwrap_or_default();
    let mut queue = SubmissionQueue::new(receiver, replay);
    let (answer_log, answers) = watch::channel(AnswerLog::default());
    let mut coordinator = Coordinator {
        ballot: Ballot::new(
            participants.iter().map(|participant| participant.number),
            limits.ballot,
        ),
        participants: BTreeMap::new(),
        answer_log,
        waiting_agents: BTreeMap::new(),
        answers: BTreeMap::new(),
        votes: BTreeMap::new(),
        snapshots,
        check_runner: limits.check_runner.as_ref(),
        recorded_check_results,
        deadline: &limits.deadline,
        events,
    };
    let agents = participants.len();
    let coordination_end = limits.deadline.stop.child_token();
    let mut tasks = JoinSet::new();
    let mut agents_by_task = BTreeMap::new();
    let sessions = coordinator.register(participants);
    if !queue.follows_recording() {
        coordinator.take_early_messages(messages).await;
    }
    for (number, session) in sessions {
        let handle = CoordinatorHandle {
            me: number,
            agents,
            submissions: submissions.clone(),
            answers: answers.clone(),
            limits: limits.rounds,
            visibility: queue.visibility_cursor(number),
            coordination_end: coordination_end.clone(),
        };
        agents_by_task.insert(
            tasks.spawn(coordinate(session, handle)).id().to_string(),
            number,
        );
    }
    drop(submissions);
    let (end, effect) = loop {
        let is_live = !queue.follows_recording();
        let end_and_effect = tokio::select! {
            Some(next) = queue.next_input(|agent| coordinator.ballot.is_at_work(agent)) => match next {
                CoordinatorInput::Submission(queued, recorded_refusal) => {
                    coordinator.handle_submission(queued, recorded_refusal).await
                }
                CoordinatorInput::RecordedMessage(number, to) => {
                    coordinator.handle_user_message(number, &to).await
                }
                CoordinatorInput::RecordingEnded => None,
            },
            NumberedMessage { number, message } = messages.next(events), if is_live => {
                coordinator.handle_user_message(number, &message.to).await
            }
            Some(Err(error)) = tasks.join_next() => {
                match agents_by_task.get(&error.id().to_string()) {
                    Some(agent) => coordinator.handle_agent_exit(*agent).await,
                    None => None,
                }
            }
            cause = limits.deadline.wait() => {
                coordinator.emit(RunEvent::CoordinationStopped { status: cause.exit_status() }).await;
                Some((CoordinationEnd::Stopped(cause), coordinator.ballot.close()))
            }
        };
        if let Some(end_and_effect) = end_and_effect {
            break end_and_effect;
        }
    };
    coordination_end.cancel();
    while tasks.join_next().await.is_some() {}
    coordinator.into_result(end, effect)
}

impl Participant {
    /// Splits the participant into its number, its record for the coordinator, and its session,
    /// which runs as a task.
    fn into_parts(self) -> (AgentNumber, ParticipantRecord, ModelSession) {
        let record = ParticipantRecord {
            id: self.id,
            workspace: self.workspace,
            hooks: self.hooks,
        };
        (self.number, record, self.session)
    }
}

struct ParticipantRecord {
    id: AgentId,
    workspace: Option<AbsPath>,
    hooks: Option<HookRunner>,
}

/// An agent that waits for a response.
struct WaitingAgent {
    response: oneshot::Sender<SubmissionResponse>,
    /// The label of the accepted answer, if an answer was submitted.
    accepted_label: Option<AnswerLabel>,
}

/// State of one coordination.
struct Coordinator<'a> {
    ballot: Ballot,
    participants: BTreeMap<AgentNumber, ParticipantRecord>,
    answer_log: watch::Sender<AnswerLog>,
    waiting_agents: BTreeMap<AgentNumber, WaitingAgent>,
    answers: BTreeMap<AgentNumber, AcceptedAnswer>,
    votes: BTreeMap<AgentNumber, CountedVote>,
    snapshots: &'a mut SnapshotStore,
    check_runner: Option<&'a CheckRunner>,
    /// The recorded check results for answers that are still to come.
    recorded_check_results: BTreeMap<AnswerLabel, CheckResults>,
    deadline: &'a RunDeadline,
    events: &'a mpsc::Sender<QueuedEvent>,
}

/// A submission, kept until the ballot has decided whether it counts.
enum UnconfirmedSubmission {
    Answer(String, Option<TaskPlan>),
    Vote(String),
    Nothing,
}

impl Coordinator<'_> {
    async fn handle_submission(
        &mut self,
        queued: QueuedSubmission,
        recorded_refusal: RecordedHookRefusal,
    ) -> Option<(CoordinationEnd, BallotEffect)> {
        let QueuedSubmission {
            agent,
            submission,
            response,
        } = queued;
        self.waiting_agents.insert(
            agent,
            WaitingAgent {
                response,
                accepted_label: None,
            },
        );
        let hook_refusal = match recorded_refusal {
            RecordedHookRefusal::Unknown => self.hook_refusal(agent, &submission).await,
            RecordedHookRefusal::Recorded(refusal) => refusal,
        };
        if let Some(reason) = hook_refusal {
            self.reject_submission(agent, BallotRefusal::ByHook(reason))
                .await;
            return None;
        }
        let (outcome, unconfirmed) = match submission {
            AgentSubmission::Answer {
                content,
                known_messages,
                plan,
            } => {
                // The ballot compares answers, and the paths of workspaces must not matter in that.
                let relative_content = match self.workspace(agent) {
                    Some(workspace) => prompts::rewrite_paths(&content, workspace, "."),
                    None => content.clone(),
                };
                (
                    RoundOutcome::Answer {
                        content: relative_content,
                        known_messages,
                    },
                    UnconfirmedSubmission::Answer(content, plan),
                )
            }
            AgentSubmission::Vote {
                candidate,
                ordinal,
                scores,
                reason,
                known_answers,
                known_messages,
            } => {
                let reason = prompts::checklist::vote_reason(reason, &scores);
                (
                    RoundOutcome::Vote {
                        candidate,
                        ordinal,
                        scores,
                        known_answers,
                        known_messages,
                    },
                    UnconfirmedSubmission::Vote(reason),
                )
            }
            AgentSubmission::Stopped { reason, timed_out } => {
                self.drop_agent(agent, reason, timed_out).await;
                (RoundOutcome::DropOut, UnconfirmedSubmission::Nothing)
            }
        };
        self.apply_outcome(agent, outcome, unconfirmed).await
    }

    /// Returns why the user's hooks reject a submission, if they do.
    async fn hook_refusal(
        &self,
        agent: AgentNumber,
        submission: &AgentSubmission,
    ) -> Option<String> {
        let hooks = self.participants.get(&agent)?.hooks.as_ref()?;
        let latest_label = |agent| self.answers.get(agent).map(|answer| answer.label);
        let payload = match submission {
            AgentSubmission::Answer { content, .. } => {
                let previous_ordinal = latest_label(&agent).map_or(0, |label| label.ordinal);
                let ordinal = previous_ordinal.saturating_add(1);
                HookEventPayload::Answer(AnswerLabel { agent, ordinal }, content.clone())
            }
            AgentSubmission::Vote {
                candidate, reason, ..
            } => HookEventPayload::Vote(
                self.id(*candidate)?,
                latest_label(candidate)?,
                reason.clone(),
            ),
            AgentSubmission::Stopped { .. } => return None,
        };
        let cancellation = self.deadline.stop.child_token();
        let mut refusal = pin!(hooks::hook_refusal(
            hooks,
            payload,
            Phase::Coordination,
            None,
            &cancellation
        ));
        tokio::select! {
            refusal = &mut refusal => refusal,
            _ = self.deadline.wait() => {
                cancellation.cancel();
                refusal.await
            }
        }
    }

    /// Drops an agent whose task failed; the run continues without it.
    async fn handle_agent_exit(
        &mut self,
        agent: AgentNumber,
    ) -> Option<(CoordinationEnd, BallotEffect)> {
        self.drop_agent(agent, "internal error in massgen".to_owned(), false)
            .await;
        self.apply_outcome(agent, RoundOutcome::DropOut, UnconfirmedSubmission::Nothing)
            .await
    }

    async fn drop_agent(&mut self, agent: AgentNumber, reason: String, timed_out: bool) {
        self.waiting_agents.remove(&agent);
        if let Some(id) = self.id(agent) {
            self.emit(CoordinationEvent::DroppedOut {
                agent: id,
                reason,
                timed_out,
            })
            .await;
        }
    }

    async fn apply_outcome(
        &mut self,
        agent: AgentNumber,
        outcome: RoundOutcome,
        unconfirmed: UnconfirmedSubmission,
    ) -> Option<(CoordinationEnd, BallotEffect)> {
        let effects = self.ballot.apply(agent, outcome);
        self.perform(effects, unconfirmed, None).await
    }

    /// Handles a message of the user, which the agents can already read.
    async fn handle_user_message(
        &mut self,
        number: u32,
        to: &MessageRecipient,
    ) -> Option<(CoordinationEnd, BallotEffect)> {
        let agent = to.agent();
        let mut participants = self.participants.iter();
        let agent = agent.map(|id| participants.find(|(_, participant)| participant.id == *id));
        let agent = match agent {
            None => None,
            Some(Some((agent, _))) => Some(*agent),
            Some(None) => return None,
        };
        if !self.ballot.takes_part(agent) {
            let message = format!("{to} has dropped out and will not read message {number}");
            self.emit(RunEvent::Warning { message }).await;
        }
        let effects = self.ballot.apply_user_message(number, agent);
        let nothing = UnconfirmedSubmission::Nothing;
        self.perform(effects, nothing, Some(number)).await
    }

    /// Registers the participants. Returns their sessions, which do not work yet.
    fn register(&mut self, participants: Vec<Participant>) -> Vec<(AgentNumber, ModelSession)> {
        let mut sessions = Vec::new();
        for participant in participants {
            let (number, record, session) = participant.into_parts();
            self.participants.insert(number, record);
            sessions.push((number, session));
        }
        sessions
    }

    /// Takes the messages of the user that arrived before the agents work, so that each reads them
    /// before its first request.
    async fn take_early_messages(&mut self, messages: &mut UserMessageLog) {
        while let Some(early) = messages.next_arrived(self.events).await {
            let NumberedMessage { number, message } = early;
            // There are no answers yet, so the message cannot end the coordination.
            self.handle_user_message(number, &message.to).await;
        }
    }

    /// Carries out the effects of a submission, or of the user's message with the number `message`.
    async fn perform(
        &mut self,
        effects: Vec<BallotEffect>,
        mut unconfirmed: UnconfirmedSubmission,
        message: Option<u32>,
    ) -> Option<(CoordinationEnd, BallotEffect)> {
        for effect in effects {
            match effect {
                BallotEffect::AcceptAnswer(label) => {
                    if let UnconfirmedSubmission::Answer(content, plan) =
                        std::mem::replace(&mut unconfirmed, UnconfirmedSubmission::Nothing)
                    {
                        self.accept_answer(label, content, plan).await;
                    }
                }
                BallotEffect::AcceptVote { voter, answer } => {
                    if let UnconfirmedSubmission::Vote(reason) =
                        std::mem::replace(&mut unconfirmed, UnconfirmedSubmission::Nothing)
                    {
                        self.accept_vote(voter, answer, reason).await;
                    }
                }
                BallotEffect::VoidVotes(voters) => self.void_votes(voters, message).await,
                BallotEffect::Refuse { agent, refusal } => {
                    self.reject_submission(agent, refusal).await;
                }
                BallotEffect::Judge(agent) => {
                    self.send_response(agent, |accepted| SubmissionResponse::Judge { accepted });
                }
                BallotEffect::Close(_) | BallotEffect::GiveUp => {
                    return Some((CoordinationEnd::Agreed, effect));
                }
            }
        }
        None
    }

    async fn accept_answer(&mut self, label: AnswerLabel, content: String, plan: Option<TaskPlan>) {
        let Some(id) = self.id(label.agent) else {
            return;
        };
        let (snapshot, checked_files) = self.take_snapshot(&id, label).await;
        let check_results = self.check_results(&id, label, checked_files).await;
        if let Some(check_results) = &check_results {
            self.ballot
                .apply_check_standing(label, check_results.standing());
        }
        let content: Arc<str> = content.into();
        // Emitted before any agent can be shown the answer.
        self.emit(CoordinationEvent::Answered {
            agent: id,
            label,
            content: Arc::clone(&content),
            snapshot: snapshot.as_ref().map(ToString::to_string),
            check_results: check_results.clone(),
            plan,
        })
        .await;
        self.answers.insert(
            label.agent,
            AcceptedAnswer {
                label,
                content,
                snapshot,
                check_results,
            },
        );
        if let Some(waiting_agent) = self.waiting_agents.get_mut(&label.agent) {
            waiting_agent.accepted_label = Some(label);
        }
        let view = self.view(label.agent);
        self.answer_log.send_modify(|log| log.answers.extend(view));
    }

    /// Takes a snapshot of the answer's files, and reports what is not in it. Returns the snapshot,
    /// and what checks run on.
    async fn take_snapshot(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
    ) -> (Option<RealPath>, CheckTarget) {
        let Some(workspace) = self.workspace(label.agent).cloned() else {
            return (None, CheckTarget::Answer(Ok(None)));
        };
        match self.snapshots.take(agent, label, &workspace).await {
            Ok(None) => (None, CheckTarget::Answer(Ok(None))),
            Ok(Some(snapshot)) => {
                for note in snapshot.omissions.iter().chain(&snapshot.notes) {
                    let message = format!("snapshot of {label}: {note}");
                    self.emit(RunEvent::Warning { message }).await;
                }
                let files = match snapshot.omissions.as_slice() {
                    [] => Ok(Some(snapshot.path.clone())),
                    omissions => Err(omissions.join("; ")),
                };
                (Some(snapshot.path), CheckTarget::Answer(files))
            }
            Err(error) => {
                let reason = format!("{error:#}");
                let message = format!("no snapshot of {label}: {reason}");
                self.emit(RunEvent::Warning { message }).await;
                (None, CheckTarget::Answer(Err(reason)))
            }
        }
    }

    /// Returns the check results for the answer: the recorded ones, or those of checks that run
    /// now.
    async fn check_results(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
        target: CheckTarget,
    ) -> Option<CheckResults> {
        if let Some(check_results) = self.recorded_check_results.remove(&label) {
            return Some(check_results);
        }
        let (deadline, events) = (self.deadline, self.events);
        let check_results = self
            .check_runner?
            .run_checks(agent, target, deadline, events);
        Some(check_results.await)
    }

    async fn accept_vote(&mut self, voter: AgentNumber, answer: AnswerLabel, reason: String) {
        let candidate = answer.agent;
        self.votes.insert(
            voter,
            CountedVote {
                candidate,
                reason: reason.clone(),
            },
        );
        if let (Some(agent), Some(candidate)) = (self.id(voter), self.id(candidate)) {
            self.emit(CoordinationEvent::Voted {
                agent,
                candidate,
                label: answer,
                reason,
            })
            .await;
        }
    }

    /// Voids votes because of a new answer, or of the user's message with the number `message`.
    async fn void_votes(&mut self, voters: Vec<AgentNumber>, message: Option<u32>) {
        self.votes.retain(|voter, _| !voters.contains(voter));
        let voters = voters
            .into_iter()
            .filter_map(|voter| self.id(voter))
            .collect();
        self.emit(CoordinationEvent::VotesVoided { voters, message })
            .await;
    }

    async fn reject_submission(&mut self, agent: AgentNumber, refusal: BallotRefusal) {
        if let Some(agent) = self.id(agent) {
            let reason = prompts::submission_refused(&refusal);
            let hook = match &refusal {
                BallotRefusal::ByHook(reason) => Some(reason.clone()),
                BallotRefusal::EmptyAnswer
                | BallotRefusal::AnswerLimit { .. }
                | BallotRefusal::SharedAnswerLimit { .. }
                | BallotRefusal::Duplicate(_)
                | BallotRefusal::TooSimilar(_)
                | BallotRefusal::NothingToVoteFor
                | BallotRefusal::UnknownCandidate { .. }
                | BallotRefusal::Outdated
                | BallotRefusal::ScoresMissing { .. }
                | BallotRefusal::BelowChecklist { .. }
                | BallotRefusal::AlreadyScored
                | BallotRefusal::UnreadMessage => None,
            };
            let rejection = Event::Coordination(CoordinationEvent::SubmissionRejected {
                agent,
                reason,
                hook,
            });
            self.emit(rejection).await;
        }
        self.send_response(agent, |_| SubmissionResponse::Refused(refusal));
    }

    fn send_response(
        &mut self,
        agent: AgentNumber,
        response: impl FnOnce(Option<AnswerLabel>) -> SubmissionResponse,
    ) {
        if let Some(WaitingAgent {
            response: sender,
            accepted_label,
        }) = self.waiting_agents.remove(&agent)
        {
            // An agent that no longer receives has ended; it is dropped from the ballot when its
            // task is joined.
            let _unsent_response = sender.send(response(accepted_label));
        }
    }

    /// Returns the answer of `agent` as the others read it.
    fn view(&self, agent: AgentNumber) -> Option<AnswerView> {
        let answer = self.answers.get(&agent)?;
        Some(answer.view(self.workspace(agent)))
    }

    fn workspace(&self, agent: AgentNumber) -> Option<&AbsPath> {
        self.participants.get(&agent)?.workspace.as_ref()
    }

    fn id(&self, agent: AgentNumber) -> Option<AgentId> {
        self.participants
            .get(&agent)
            .map(|participant| participant.id.clone())
    }

    async fn emit(&self, event: impl Into<Event>) {
        emit(self.events, event).await;
    }

    fn into_result(self, end: CoordinationEnd, effect: BallotEffect) -> CoordinationResult {
        let tally = match effect {
            BallotEffect::Close(tally) => Some(tally),
            BallotEffect::AcceptAnswer(_)
            | BallotEffect::AcceptVote { .. }
            | BallotEffect::Refuse { .. }
            | BallotEffect::VoidVotes(_)
            | BallotEffect::Judge(_)
            | BallotEffect::GiveUp => None,
        };
        let Coordinator { answers, votes, .. } = self;
        CoordinationResult {
            end,
            tally,
            answers,
            votes,
        }
    }
}

impl AcceptedAnswer {
    /// Returns the answer as other agents read it: paths in the author's `workspace` are rewritten
    /// to the snapshot.
    pub fn view(&self, workspace: Option<&AbsPath>) -> AnswerView {
        let files = self.snapshot.as_ref().map(ToString::to_string);
        let content = match (workspace, &files) {
            (Some(workspace), Some(files)) => {
                prompts::rewrite_paths(&self.content, workspace, files)
            }
            _ => self.content.to_string(),
        };
        AnswerView {
            label: self.label,
            content: content.into(),
            files,
            check_results: self.check_results.clone(),
        }
    }
}
