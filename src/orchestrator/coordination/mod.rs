//! Coordinates the agents: receives their submissions, applies them to the ballot, and carries out
//! the effects. It decides nothing itself.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::agent::answer_log::AnswerLog;
use crate::agent::deadline::RunDeadline;
use crate::agent::round::{
    AgentSubmission, CoordinatorHandle, QueuedSubmission, RoundLimits, SubmissionResponse,
    coordinate,
};
use crate::agent::shared_prefix::group_by_prefix;
use crate::agent::user_messages::{MessageRecipient, NumberedMessage, UserMessageLog};
use crate::agent::{ModelSession, emit};
use crate::answer_changes::AnswerChanges;
use crate::ballot::{Ballot, BallotEffect, BallotRefusal, BallotRules, RoundOutcome};
use crate::check_results::CheckResults;
use crate::config::Strategy;
use crate::error::{Error, ErrorKind};
use crate::event::{CoordinationEvent, Event, RunEvent, SetupProblem};
use crate::id::{AgentId, AgentNumber, AnswerLabel};
use crate::orchestrator::attempts::Attempt;
use crate::orchestrator::check_runner::{CheckRunner, CheckTarget, CheckedFiles, checks_begin_ns};
use crate::orchestrator::coordination_result::{
    AcceptedAnswer, CoordinationEnd, CoordinationResult, CountedVote,
};
use crate::orchestrator::replay_order::{
    CoordinatorInput, RecordedRefusal, ReplayCursor, SubmissionQueue,
};
use crate::orchestrator::snapshots::{AnswerSnapshot, SnapshotStore};
use crate::path::AbsPath;
use crate::prompts::{self, AnswerView, call_answers};
use crate::tools::task_plan::TaskPlan;
use crate::world::access::hook_runner::HookRunner;
use crate::world::io::event_sink::QueuedEvent;

mod cascade;
mod submission_hooks;

/// Maximum number of queued submissions; each agent waits for the response, so there is at most one
/// per agent.
const SUBMISSIONS_MAX: usize = 64;

/// How long after the end of the coordination the files of an answer may still be copied.
const CAPTURE_TIME_AFTER_END: Duration = Duration::from_secs(5);

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
    /// Its attempt, if it works in one.
    pub attempt: Option<Attempt>,
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
    let (recorded_check_results, recorded_changes) = take_recorded_answers(replay.as_mut());
    let mut queue = SubmissionQueue::new(receiver, replay);
    let coordination_end = limits.deadline.stop.child_token();
    let check_deadline = RunDeadline {
        stop: coordination_end.clone(),
        ..limits.deadline.clone()
    };
    let (answer_log, answers) = watch::channel(AnswerLog::default());
    let mut coordinator = Coordinator {
        ballot: Ballot::new(
            participants.iter().map(|participant| participant.number),
            limits.ballot,
        ),
        participants: BTreeMap::new(),
        answer_log,
        shows_answers: !limits.ballot.strategy.is_independent(),
        waiting_agents: BTreeMap::new(),
        answers: BTreeMap::new(),
        votes: BTreeMap::new(),
        setup_problems: Vec::new(),
        snapshots,
        check_runner: limits.check_runner.as_ref(),
        check_deadline: &check_deadline,
        running_checks: JoinSet::new(),
        recorded_check_results,
        recorded_changes,
        deadline: &limits.deadline,
        events,
    };
    let agents = if limits.ballot.strategy.is_independent() {
        1
    } else {
        participants.len()
    };
    let mut tasks = JoinSet::new();
    let mut agents_by_task = BTreeMap::new();
    let mut held_agents = VecDeque::new();
    let mut sessions = coordinator.register(participants);
    group_by_prefix(sessions.iter_mut().map(|(_, session)| session));
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
        if limits.ballot.strategy == Strategy::Cascade && !agents_by_task.is_empty() {
            held_agents.push_back((session, handle));
            continue;
        }
        agents_by_task.insert(
            tasks.spawn(coordinate(session, handle)).id().to_string(),
            number,
        );
    }
    drop(submissions);
    let inputs = CoordinationInputs {
        queue,
        messages,
        tasks: &mut tasks,
        agents_by_task,
        held_agents,
    };
    let (end, effect) = coordinator.work_until_end(inputs).await;
    coordination_end.cancel();
    while tasks.join_next().await.is_some() {}
    while coordinator.running_checks.join_next().await.is_some() {}
    coordinator.into_result(end, effect)
}

/// Takes what is recorded about answers that are still to come: their check results and changes.
fn take_recorded_answers(
    replay: Option<&mut ReplayCursor>,
) -> (
    BTreeMap<AnswerLabel, CheckResults>,
    BTreeMap<AnswerLabel, AnswerChanges>,
) {
    let take = |replay: &mut ReplayCursor| {
        let recorded = &mut replay.remaining;
        let check_results = std::mem::take(&mut recorded.check_results);
        (check_results, std::mem::take(&mut recorded.changes))
    };
    replay.map(take).unwrap_or_default()
}

impl Participant {
    /// Splits the participant into its number, its record for the coordinator, and its session,
    /// which runs as a task.
    fn into_parts(self) -> (AgentNumber, ParticipantRecord, ModelSession) {
        let record = ParticipantRecord {
            id: self.id,
            workspace: self.workspace,
            hooks: self.hooks,
            attempt: self.attempt,
        };
        (self.number, record, self.session)
    }
}

struct ParticipantRecord {
    id: AgentId,
    workspace: Option<AbsPath>,
    hooks: Option<HookRunner>,
    attempt: Option<Attempt>,
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
    /// Whether agents see each other's answers.
    shows_answers: bool,
    waiting_agents: BTreeMap<AgentNumber, WaitingAgent>,
    answers: BTreeMap<AgentNumber, AcceptedAnswer>,
    votes: BTreeMap<AgentNumber, CountedVote>,
    /// What the user has to change for the agents that dropped out, one for each.
    setup_problems: Vec<SetupProblem>,
    snapshots: &'a mut SnapshotStore,
    check_runner: Option<&'a CheckRunner>,
    /// When checks end at the latest: with the coordination.
    check_deadline: &'a RunDeadline,
    /// The checks of answers that agents give alone, which do not wait for each other.
    running_checks: JoinSet<(UncheckedAnswer, Option<CheckResults>)>,
    /// The recorded check results for answers that are still to come.
    recorded_check_results: BTreeMap<AnswerLabel, CheckResults>,
    /// What the recorded answers that are still to come change.
    recorded_changes: BTreeMap<AnswerLabel, AnswerChanges>,
    deadline: &'a RunDeadline,
    events: &'a mpsc::Sender<QueuedEvent>,
}

/// An answer that counts once its checks have ended.
struct UncheckedAnswer {
    agent: AgentId,
    label: AnswerLabel,
    content: String,
    plan: Option<TaskPlan>,
    snapshot: AnswerSnapshot,
    /// When the checks began, in nanoseconds since 1970; `None` if their results are recorded.
    checks_began_ns: Option<i128>,
}

/// What a coordination waits for.
struct CoordinationInputs<'a> {
    queue: SubmissionQueue,
    messages: &'a mut UserMessageLog,
    /// The agents at work, by the ids of their tasks.
    tasks: &'a mut JoinSet<()>,
    agents_by_task: BTreeMap<String, AgentNumber>,
    /// The agents of a cascade that have not started.
    held_agents: VecDeque<(ModelSession, CoordinatorHandle)>,
}

/// A submission, kept until the ballot has decided whether it counts.
enum UnconfirmedSubmission {
    Answer(String, Option<TaskPlan>),
    Vote(String),
    Nothing,
}

impl Coordinator<'_> {
    /// Handles what the agents submit and the user sends, until the coordination ends.
    async fn work_until_end(
        &mut self,
        mut inputs: CoordinationInputs<'_>,
    ) -> (CoordinationEnd, BallotEffect) {
        loop {
            let is_live = !inputs.queue.follows_recording();
            let end_and_effect = tokio::select! {
                Some(next) = inputs.queue.next_input(|agent| self.ballot.is_at_work(agent)) => match next {
                    CoordinatorInput::Submission(queued, recorded_refusal) => {
                        self.handle_submission(queued, recorded_refusal).await
                    }
                    CoordinatorInput::RecordedMessage(number, to) => {
                        self.handle_user_message(number, &to).await
                    }
                    CoordinatorInput::RecordingEnded => None,
                },
                NumberedMessage { number, message } = inputs.messages.next(self.events), if is_live => {
                    self.handle_user_message(number, &message.to).await
                }
                Some(Err(error)) = inputs.tasks.join_next() => {
                    match inputs.agents_by_task.get(&error.id().to_string()) {
                        Some(agent) => self.handle_agent_exit(*agent).await,
                        None => None,
                    }
                }
                Some(Ok((answer, results))) = self.running_checks.join_next() => {
                    let effects = self.confirm_answer(answer, results).await;
                    self.perform(effects, UnconfirmedSubmission::Nothing, None).await
                }
                cause = self.deadline.wait() => {
                    // Checks that still run end now, and their answers stay.
                    while let Some(Ok((answer, results))) = self.running_checks.join_next().await {
                        self.confirm_answer(answer, results).await;
                    }
                    self.emit(RunEvent::CoordinationStopped { status: cause.exit_status() }).await;
                    Some((CoordinationEnd::Stopped(cause), self.ballot.close()))
                }
            };
            if let Some(end_and_effect) = end_and_effect {
                inputs.shut_down_held_agents().await;
                return end_and_effect;
            }
            self.start_held_agent(&mut inputs);
        }
    }

    async fn handle_submission(
        &mut self,
        queued: QueuedSubmission,
        recorded_refusal: RecordedRefusal,
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
        let external_refusal = match recorded_refusal {
            RecordedRefusal::Unknown => self.hook_refusal(agent, &submission).await,
            RecordedRefusal::Recorded(refusal) => refusal,
        };
        if let Some(reason) = external_refusal {
            self.reject_submission(agent, BallotRefusal::External(reason))
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
            AgentSubmission::Stopped {
                reason,
                timed_out,
                problem,
            } => {
                self.setup_problems.extend(problem);
                self.drop_agent(agent, reason, timed_out).await;
                (RoundOutcome::DropOut, UnconfirmedSubmission::Nothing)
            }
        };
        self.apply_outcome(agent, outcome, unconfirmed).await
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
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                BallotEffect::AcceptAnswer(label) => {
                    if let UnconfirmedSubmission::Answer(content, plan) =
                        std::mem::replace(&mut unconfirmed, UnconfirmedSubmission::Nothing)
                    {
                        effects.extend(self.accept_answer(label, content, plan).await);
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
                BallotEffect::Repair(agent) => self.request_repair(agent),
                BallotEffect::Close(_) | BallotEffect::GiveUp => {
                    return Some((CoordinationEnd::Agreed, effect));
                }
            }
        }
        None
    }

    /// Captures and checks an answer. Returns what follows from it, unless its checks still run.
    async fn accept_answer(
        &mut self,
        label: AnswerLabel,
        content: String,
        plan: Option<TaskPlan>,
    ) -> Vec<BallotEffect> {
        let Some(agent) = self.id(label.agent) else {
            return Vec::new();
        };
        let taken = match self.take_snapshot(&agent, label).await {
            Ok(taken) => match self
                .captured_answer_refusal(label, &content, &taken.1)
                .await
            {
                Some(reason) => Err(reason),
                None => Ok(taken),
            },
            Err(reason) => Err(call_answers::answer_not_captured(&reason)),
        };
        let (snapshot, check_target) = match taken {
            Ok(taken) => taken,
            Err(reason) => {
                self.ballot.withdraw_answer(label);
                return vec![BallotEffect::Refuse {
                    agent: label.agent,
                    refusal: BallotRefusal::External(reason),
                }];
            }
        };
        let recorded_results = self.recorded_check_results.remove(&label);
        let is_recorded = recorded_results.is_some();
        let answer = UncheckedAnswer {
            agent,
            label,
            content,
            plan,
            snapshot,
            checks_began_ns: (!is_recorded).then(checks_begin_ns),
        };
        let runner = self.check_runner.cloned();
        let (deadline, events) = (self.check_deadline.clone(), self.events.clone());
        let check_answer = async move {
            let results = match (recorded_results, runner) {
                (None, Some(runner)) => {
                    let run = runner.run_checks(&answer.agent, check_target, &deadline, &events);
                    Some(run.await)
                }
                (recorded_results, _) => recorded_results,
            };
            (answer, results)
        };
        if self.shows_answers || is_recorded {
            let (answer, results) = check_answer.await;
            return self.confirm_answer(answer, results).await;
        }
        self.running_checks.spawn(check_answer);
        Vec::new()
    }

    /// Accepts a checked answer. Returns what follows from it.
    async fn confirm_answer(
        &mut self,
        answer: UncheckedAnswer,
        check_results: Option<CheckResults>,
    ) -> Vec<BallotEffect> {
        let UncheckedAnswer {
            label, snapshot, ..
        } = answer;
        let changes = self.recorded_changes.remove(&label).or(snapshot.changes);
        let standing = check_results.as_ref().map(CheckResults::standing);
        let content: Arc<str> = answer.content.into();
        // Emitted before any agent can be shown the answer.
        self.emit(CoordinationEvent::Answered {
            agent: answer.agent,
            label,
            content: Arc::clone(&content),
            snapshot: snapshot.path.as_ref().map(ToString::to_string),
            changes: changes.clone(),
            check_results: check_results.clone(),
            plan: answer.plan,
        })
        .await;
        self.answers.insert(
            label.agent,
            AcceptedAnswer {
                label,
                content,
                snapshot: snapshot.path,
                changes,
                check_results,
                checks_began_ns: answer.checks_began_ns,
            },
        );
        if let Some(waiting_agent) = self.waiting_agents.get_mut(&label.agent) {
            waiting_agent.accepted_label = Some(label);
        }
        if self.shows_answers {
            let view = self.view(label.agent);
            self.answer_log.send_modify(|log| log.answers.extend(view));
        }
        self.ballot
            .confirm_answer(label, standing.unwrap_or_default())
    }

    /// Has an agent repair its answer, which failed a required check.
    fn request_repair(&mut self, agent: AgentNumber) {
        let answer = self.answers.get(&agent);
        let failed = answer.and_then(|answer| Some((answer.label, answer.check_results.clone()?)));
        if let Some((answer, check_results)) = failed {
            self.send_response(agent, |_| SubmissionResponse::Repair {
                answer,
                check_results,
            });
        }
    }

    /// Takes a snapshot of the answer's files, and reports what is not in it. Returns the snapshot,
    /// and what checks run on, or why the changes of its attempt cannot be captured.
    async fn take_snapshot(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
    ) -> std::result::Result<(AnswerSnapshot, CheckTarget), String> {
        let participant = self.participants.get(&label.agent);
        let workspace = participant.and_then(|participant| participant.workspace.as_ref());
        let attempt = participant.and_then(|participant| participant.attempt.as_ref());
        // The files of an answer, such as pipes in the place of git's, must not hold up the end.
        let end_of_patience = async {
            self.deadline.wait().await;
            tokio::time::sleep(CAPTURE_TIME_AFTER_END).await;
        };
        let taken = tokio::select! {
            taken = self.snapshots.take(agent, label, workspace, attempt) => taken,
            () = end_of_patience => {
                let message = "the run ended before its files were copied";
                Err(Error::new(ErrorKind::Environment, message))
            }
        };
        match taken {
            Ok(snapshot) => {
                for note in snapshot.omissions.iter().chain(&snapshot.notes) {
                    let message = format!("files of {label}: {note}");
                    self.emit(RunEvent::Warning { message }).await;
                }
                let files = match (&snapshot.changes, snapshot.omissions.as_slice()) {
                    (Some(changes), _) => Ok(CheckedFiles::Changes(changes.clone())),
                    (None, []) => Ok(CheckedFiles::Copy(snapshot.path.clone())),
                    (None, omissions) => Err(omissions.join("; ")),
                };
                Ok((snapshot, CheckTarget::Answer(files)))
            }
            Err(error) => {
                let reason = format!("{error:#}");
                let is_delivered = attempt.is_some() && !self.recorded_changes.contains_key(&label);
                let message = format!("no copy of the files of {label}: {reason}");
                self.emit(RunEvent::Warning { message }).await;
                if is_delivered {
                    return Err(reason);
                }
                let target = CheckTarget::Answer(Err(reason));
                Ok((AnswerSnapshot::default(), target))
            }
        }
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
            let reason = call_answers::submission_refused(&refusal);
            let external = match &refusal {
                BallotRefusal::External(reason) => Some(reason.clone()),
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
                external,
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
            | BallotEffect::Repair(_)
            | BallotEffect::GiveUp => None,
        };
        let Coordinator {
            participants,
            answers,
            votes,
            mut setup_problems,
            ..
        } = self;
        if setup_problems.len() < participants.len() {
            setup_problems.clear();
        }
        CoordinationResult {
            end,
            tally,
            answers,
            votes,
            setup_problems,
        }
    }
}
