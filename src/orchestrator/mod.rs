//! Runs one turn, from the task to the delivered files: coordination, presentation, delivery, and,
//! if the config asks for it, an evaluation after which the turn may start again. It carries out
//! what `ballot` decides, and contains no rules itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::deadline::{RunDeadline, StopCause};
use crate::agent::message_reader::MessageReader;
use crate::agent::presentation::{SelfEvaluation, self_evaluate};
use crate::agent::recorded_conversation::EffectPersistence;
use crate::agent::round::RoundLimits;
use crate::agent::user_messages::{NumberedMessage, UserMessageLog};
use crate::agent::{ModelSession, emit};
use crate::answer_changes::ChangeLayers;
use crate::backend::available_model::AvailableModel;
use crate::ballot::checklist::{CHECKLIST_ANSWERS_MAX, ChecklistRule};
use crate::ballot::{
    ANSWERS_PER_AGENT_MAX, BallotRules, INDEPENDENT_ANSWERS_MAX, VoteTally, WinnerReason,
};
use crate::config::{Config, PlanningMode, PresentationMode};
use crate::error::{Error, ExitStatus, Result};
use crate::event::{
    DeliveryEvent, DeliveryOutcome, DeliveryRow, Event, InputChannel, RunEvent, SetupProblem,
};
use crate::id::{AgentId, AgentNumber, AnswerLabel};
use crate::orchestrator::coordination::{CoordinationLimits, Participant};
use crate::orchestrator::coordination_result::{CoordinationEnd, CoordinationResult};
use crate::orchestrator::final_delivery::{
    FinalPhaseInput, FinalPhaseResult, deliver_answer, offer_answers, recover_result,
};
use crate::orchestrator::final_phase::present_and_deliver;
use crate::orchestrator::grants::write_roots;
use crate::orchestrator::replay_order::{RecordedEnding, ReplayCursor, ReplayInput};
use crate::orchestrator::resumed_turn::{RecordedConclusion, RecordedConversations};
use crate::orchestrator::snapshots::SnapshotStore;
use crate::orchestrator::team::{AgentTeam, ModelConnection, TeamMember};
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, Phase};
use crate::prompts::{self, TaskPrompt};
use crate::spending::ledger::BudgetLedger;
use crate::text::{count_noun, single_line};
use crate::tools::workflow;
use crate::world::io::event_sink::QueuedEvent;

pub mod approvals;
pub mod execution;
mod completed_turn;
pub mod record_context;
pub mod coordination;
pub mod coordination_result;
pub mod recorded_messages;
pub mod replay_order;
pub mod delivery_rows;
pub mod final_delivery;
pub mod final_phase;
mod selection;
mod setup;
mod baseline;
pub mod check_runner;
pub mod openings;
pub mod grants;
mod judge;
mod pick;
mod run_directories;
pub mod hooks;
pub mod process_specs;
pub(crate) mod program_files;
mod record_sync;
mod event_sinks;
pub mod resumed_turn;
pub mod review;
pub mod environments;
pub mod agent_containers;
mod private_names;
mod attempts;
pub mod snapshots;
pub mod memory;
mod run_notices;
pub mod team;
pub mod overlays;
mod preparation;

/// Maximum length of a message of the user in a warning, in characters.
const MESSAGE_CHARS_SHOWN_MAX: usize = 80;

/// The models of a run by agent: each agent's own, followed by its fallbacks.
pub type ModelsByAgent = BTreeMap<AgentId, Vec<AvailableModel>>;

/// A turn that is ready to run.
#[derive(Debug)]
pub struct PreparedTurn {
    /// The agents and the rules.
    pub config: Config,
    /// The members and their grants.
    pub team: AgentTeam,
    /// The models of the agents.
    pub models: ModelsByAgent,
    /// The user's task.
    pub task: TaskPrompt,
    /// The user's current directory.
    pub cwd: Arc<str>,
    /// The event log of the turn.
    pub event_log: AbsPath,
    /// What is spent, and the limits.
    pub ledger: Arc<Mutex<BudgetLedger>>,
    /// Takes the snapshots of answers.
    pub snapshots: SnapshotStore,
    /// The messages of the user.
    pub messages: UserMessageLog,
    /// The event channel.
    pub events: Sender<QueuedEvent>,
    /// Cancelled when the user wants to stop.
    pub stop: CancellationToken,
    /// The recording that a replay or a resumed run follows.
    pub replay: Option<ReplayInput>,
    /// The recorded parts of the conversations, in a resumed run.
    pub recorded_conversations: RecordedConversations,
    /// What a model has written for single agents before the first round, after their task.
    pub additions: BTreeMap<AgentNumber, String>,
    /// The recorded conclusion, if only the end of the turn was missing.
    pub recorded_conclusion: Option<RecordedConclusion>,
}

/// Result of a turn.
#[derive(Debug)]
pub struct TurnResult {
    /// The exit status of the process.
    pub status: ExitStatus,
    /// One sentence for the user.
    pub summary: String,
    /// The winner and the final answer, if there is any answer.
    pub answer: Option<FinalAnswer>,
    /// The outcomes for files outside the workspaces.
    pub rows: Vec<DeliveryRow>,
}

impl TurnResult {
    /// Adds what was lost because it could not be written, once. Only a run that the user stopped
    /// keeps its exit status: it is resumed anyway.
    fn add_loss(&mut self, loss: &str) {
        if !self.summary.ends_with(loss) {
            self.summary = format!("{}; {loss}", self.summary);
        }
        if self.status != ExitStatus::Interrupted {
            self.status = ExitStatus::Environment;
        }
    }
}

/// The answer that a turn ends with.
#[derive(Clone, Debug)]
pub struct FinalAnswer {
    /// The agent that presented it.
    pub agent: AgentId,
    /// The answer.
    pub text: Arc<str>,
}

/// Runs `turn` to its end. Errors of single agents are part of the result; `Err` means that the
/// turn could not continue at all.
pub async fn run(turn: &mut PreparedTurn) -> Result<TurnResult> {
    let result = run_coordinations(turn).await;
    turn.report_unread_messages().await;
    result
}

/// Runs coordinations until one of them ends the turn.
async fn run_coordinations(turn: &mut PreparedTurn) -> Result<TurnResult> {
    if let Some(conclusion) = turn.recorded_conclusion.take() {
        return Ok(conclusion.into());
    }
    let seconds = turn.config.timeouts.orchestrator_seconds;
    let start = Instant::now();
    let deadline_at = start
        .checked_add(Duration::from_secs(seconds))
        .unwrap_or(start);
    let deadline = RunDeadline {
        deadline: deadline_at,
        stop: turn.stop.clone(),
    };
    let mut task = prompts::task_message(&turn.task);
    let mut restart = 0;
    let (mut rows, mut selected_by) = (Vec::new(), None);
    // The result of the newest coordination that had one.
    let mut answer: Option<(AgentNumber, Arc<str>)> = None;
    loop {
        turn.emit_run_started(restart).await;
        if restart == 0 {
            turn.run_setup(&deadline).await?;
            turn.check_baseline(&deadline).await?;
        }
        // Before the conversations of the coordination take their recorded parts.
        let selection = turn.begin_selection()?;
        let kept_answer = turn.recorded_kept_answer();
        let coordination = turn.coordinate(&task, restart, &deadline).await?;
        let (mut end, mut session) = (coordination.end, None);
        let winner = turn.select_winner(&coordination, selection, &deadline);
        if let Some(winner) = winner.await? {
            let final_result = turn
                .run_final_phase(&coordination, winner, restart, &deadline, kept_answer)
                .await?;
            rows.extend(final_result.rows);
            selected_by = final_result.selected_by.or(selected_by);
            (end, session) = (final_result.end, final_result.session);
            let text = Some(final_result.text).filter(|text| !text.is_empty());
            answer = text.map(|text| (winner.agent, text)).or(answer);
        }
        let Some((winner, text)) = &answer else {
            turn.offer_losers(&coordination, restart).await?;
            turn.judge(&coordination, None).boxed().await;
            return Ok(turn.no_answer_result(end, &coordination));
        };
        if restart < turn.config.orchestrator.max_orchestration_restarts
            && let Some(session) = session
            && let Some((reason, instructions)) = turn.self_evaluate(session, &deadline).await
        {
            task = prompts::restart_message(&turn.task, &reason, &instructions, text);
            turn.emit(RunEvent::CoordinationRestarted {
                reason,
                instructions,
            })
            .await;
            restart = restart.saturating_add(1);
            continue;
        }
        turn.judge(&coordination, Some(*winner)).boxed().await;
        return turn
            .conclude(*winner, Arc::clone(text), end, rows, selected_by)
            .await;
    }
}

impl PreparedTurn {
    async fn emit_run_started(&self, restart: u32) {
        let agents = self
            .team
            .members
            .iter()
            .map(|member| member.id.clone())
            .collect();
        let question = Arc::clone(&self.task.question);
        self.emit(RunEvent::RunStarted {
            question,
            agents,
            restart,
            cwd: Some(Arc::clone(&self.cwd)),
        })
        .await;
    }

    /// Returns the final agent's reason to start again and its instructions, if it rejects its own
    /// result.
    async fn self_evaluate(
        &self,
        mut session: ModelSession,
        deadline: &RunDeadline,
    ) -> Option<(String, String)> {
        session.tools = workflow::evaluation_offers().into();
        match self_evaluate(&mut session, deadline).await {
            SelfEvaluation::Submit => None,
            SelfEvaluation::Restart {
                reason,
                instructions,
            } => Some((reason, instructions)),
        }
    }

    async fn coordinate(
        &mut self,
        task: &str,
        restart: u32,
        deadline: &RunDeadline,
    ) -> Result<CoordinationResult> {
        if self.config.orchestrator.skips_coordination {
            return Ok(skip_coordination(&self.team));
        }
        let participants = tokio::select! {
            biased;
            participants = self.begin_coordination(task, restart) => participants?,
            cause = deadline.wait() => {
                self.emit(RunEvent::CoordinationStopped { status: cause.exit_status() }).await;
                return Ok(CoordinationResult::without_answers(CoordinationEnd::Stopped(cause)));
            }
        };
        let orchestrator = &self.config.orchestrator;
        let checklist = orchestrator.checklist.as_ref();
        let answers_default = match checklist {
            _ if orchestrator.strategy.is_independent() => INDEPENDENT_ANSWERS_MAX,
            Some(_) => CHECKLIST_ANSWERS_MAX,
            None => ANSWERS_PER_AGENT_MAX,
        };
        let answers_max = orchestrator.max_new_answers_per_agent;
        let timeouts = self.config.timeouts;
        let limits = CoordinationLimits {
            ballot: BallotRules {
                strategy: orchestrator.strategy,
                answers_per_agent_max: answers_max.unwrap_or(answers_default),
                answers_max: orchestrator.max_new_answers_global,
                novelty: orchestrator.answer_novelty,
                checklist: checklist.map(|checklist| ChecklistRule {
                    criteria: checklist.criteria.len(),
                    threshold: checklist.threshold,
                }),
                answer_lead_max: orchestrator.answer_lead_max,
            },
            rounds: RoundLimits {
                first: timeouts.initial_round_seconds.map(Duration::from_secs),
                later: timeouts.subsequent_round_seconds.map(Duration::from_secs),
                grace: Duration::from_secs(timeouts.round_grace_seconds),
                new_answers_max: orchestrator.new_answers_shown_max,
            },
            deadline: deadline.clone(),
            check_runner: self.team.check_runner(),
        };
        let replay_cursor = self.replay.as_mut().and_then(|replay| {
            Some(ReplayCursor {
                remaining: replay.coordinations.pop_front()?,
                divergence: replay.divergence.clone(),
                stop: self.stop.clone(),
            })
        });
        // A recorded coordination that was interrupted is interrupted in the replay too.
        let was_interrupted = replay_cursor
            .as_ref()
            .is_some_and(|cursor| cursor.remaining.ending == RecordedEnding::Interrupted);
        let (snapshots, messages) = (&mut self.snapshots, &mut self.messages);
        let mut coordination = coordination::run(
            participants,
            limits,
            replay_cursor,
            snapshots,
            messages,
            &self.events,
        )
        .await;
        // Without an answer, the limit of a single agent may be the reason.
        let exhausted_limit = match coordination.tally {
            Some(_) => self.ledger().run_exhausted_limit(),
            None => self.ledger().any_exhausted_limit(),
        };
        if coordination.end == CoordinationEnd::Agreed
            && (exhausted_limit.is_some() || was_interrupted)
        {
            let cause = match exhausted_limit {
                Some(_) => StopCause::LimitReached,
                None => StopCause::Interrupted,
            };
            let status = cause.exit_status();
            self.emit(RunEvent::CoordinationStopped { status }).await;
            coordination.end = CoordinationEnd::Stopped(cause);
        }
        Ok(coordination)
    }

    /// Prepares the first coordination, and returns the members with their conversations started.
    async fn begin_coordination(&mut self, task: &str, restart: u32) -> Result<Vec<Participant>> {
        self.prepare().boxed().await?;
        self.participants(task, restart).await
    }

    /// Returns the members with their conversations after `restart` restarts started.
    async fn participants(&mut self, task: &str, restart: u32) -> Result<Vec<Participant>> {
        let (mut attempts, notes) = self.team.begin_attempts(restart).await;
        for message in notes {
            self.emit(RunEvent::Warning { message }).await;
        }
        let mut participants = Vec::new();
        for member in &self.team.members {
            let connection = self.model_connection(&member.id, Phase::Coordination)?;
            let task = self.first_message(member.number, task);
            let last_answer = self.last_recorded_changes(member.number);
            let attempt = attempts.remove(&member.number);
            let participant =
                self.team
                    .participant(member, attempt, last_answer, &task, connection);
            participants.push(participant.await?);
        }
        Ok(participants)
    }

    /// Returns what the last recorded answer of `agent` in the next coordination changes, if it was
    /// made in an attempt.
    fn last_recorded_changes(&self, agent: AgentNumber) -> Option<&ChangeLayers> {
        let recorded = self.replay.as_ref()?.coordinations.front()?;
        let mut changes = recorded.changes.iter().rev();
        let (_, changes) = changes.find(|(label, _)| label.agent == agent)?;
        Some(&changes.layers)
    }

    /// Returns why the record of the next coordination keeps the answer of its winner, if it does.
    fn recorded_kept_answer(&self) -> Option<String> {
        let recorded = self.replay.as_ref()?.coordinations.front()?;
        recorded.kept_answer.clone()
    }

    /// Runs the final phase, or returns the stored answer if no final phase is needed: if the run
    /// was stopped, or if a winner that is the only agent, or whose presentation the config skips,
    /// has no write path and no other work left.
    async fn run_final_phase(
        &mut self,
        coordination: &CoordinationResult,
        winner: AnswerLabel,
        restart: u32,
        deadline: &RunDeadline,
        kept_answer: Option<String>,
    ) -> Result<FinalPhaseResult> {
        let number = winner.agent;
        let member = self.member(number)?;
        let accepted_answer = coordination.answers.get(&winner.agent);
        let stored_answer = accepted_answer.map(|answer| Arc::clone(&answer.content));
        let stored_answer = stored_answer.unwrap_or_else(|| Arc::from(""));
        let rules = &self.config.orchestrator;
        let may_skip_presentation = match rules.presentation {
            PresentationMode::Always => false,
            PresentationMode::Skipped => true,
            PresentationMode::Presented => {
                self.team.members.len() == 1 || rules.strategy.is_independent()
            }
        };
        // In a planning mode, only the final phase carries the plan out.
        let has_more_work =
            rules.max_orchestration_restarts > 0 || rules.planning != PlanningMode::Off;
        let skips_presentation = may_skip_presentation
            && !coordination.answers.is_empty()
            && !has_more_work
            && write_roots(&member.grants).is_empty();
        let presents = has_more_work || rules.presentation == PresentationMode::Always;
        let unpresented = accepted_answer.filter(|answer| answer.changes.is_some() && !presents);
        let is_stopped = coordination.end != CoordinationEnd::Agreed;
        if is_stopped && unpresented.is_none() || skips_presentation {
            return Ok(FinalPhaseResult::from_stored_answer(
                stored_answer,
                coordination.end,
            ));
        }
        let mut connection = self.model_connection(&member.id, Phase::Final)?;
        if let Some(conversation) = &mut connection.recorded {
            conversation.effects = final_effect_persistence(&member.grants);
        }
        let Self {
            team,
            task,
            messages,
            events,
            ..
        } = self;
        let member = team.member(number).ok_or_else(|| missing_member(number))?;
        let input = FinalPhaseInput {
            member,
            connection,
            task,
            coordination,
            stored_answer,
            restart,
            deadline,
            kept_answer,
        };
        let final_phase = async {
            if let Some(result) = recover_result(team, &input).await? {
                return Ok(result);
            }
            match unpresented {
                Some(answer) => deliver_answer(team, input, answer).await,
                None => present_and_deliver(team, input).await,
            }
        };
        tokio::select! {
            result = final_phase => result,
            never = messages.receive_for(&member.id, events) => never,
        }
    }

    /// Lets the user apply one of the answers of a coordination without a winner.
    async fn offer_losers(&self, coordination: &CoordinationResult, restart: u32) -> Result<()> {
        let mut answers = coordination.answers.values();
        let Some(answer) = answers.find(|answer| answer.changes.is_some()) else {
            return Ok(());
        };
        let member = self.member(answer.label.agent)?;
        if let Some(name) = offer_answers(&self.team, member, restart).await? {
            let id = &member.id;
            let message = format!(
                "no answer is delivered; see one with `massgen diff {name} --agent {id}`, and apply \
                 it with `massgen apply {name} --agent {id}`"
            );
            self.emit(RunEvent::Warning { message }).await;
        }
        Ok(())
    }

    /// Emits the answer and the outcomes for the files, and returns the turn's result.
    async fn conclude(
        &self,
        winner: AgentNumber,
        text: Arc<str>,
        end: CoordinationEnd,
        rows: Vec<DeliveryRow>,
        selected_by: Option<InputChannel>,
    ) -> Result<TurnResult> {
        let member = self.member(winner)?;
        let agent = member.id.clone();
        self.emit(DeliveryEvent::FinalAnswer {
            agent: agent.clone(),
            content: Arc::clone(&text),
        })
        .await;
        if !write_roots(&member.grants).is_empty() || !rows.is_empty() {
            self.emit(DeliveryEvent::Delivered {
                rows: rows.clone(),
                by: selected_by,
            })
            .await;
        }
        let with_best_answer =
            |reason: String| format!("{reason}; the best answer so far is {agent}'s");
        let (status, summary) = match end {
            CoordinationEnd::Stopped(StopCause::Interrupted) => (
                ExitStatus::Interrupted,
                with_best_answer("interrupted".to_owned()),
            ),
            CoordinationEnd::Stopped(StopCause::OutOfTime) => {
                let reason = format!("timed out after {}", self.time_limit());
                (ExitStatus::Limit, with_best_answer(reason))
            }
            CoordinationEnd::Stopped(StopCause::LimitReached) => {
                let limit = self.ledger().agent_exhausted_limit(&agent);
                (
                    ExitStatus::Limit,
                    with_best_answer(limit.unwrap_or_default()),
                )
            }
            CoordinationEnd::Agreed => delivery_status(&agent, &rows),
        };
        let answer = Some(FinalAnswer { agent, text });
        Ok(TurnResult {
            status,
            summary,
            answer,
            rows,
        })
    }

    /// Returns the result of a turn whose `coordination` has no answer that counts.
    fn no_answer_result(
        &self,
        end: CoordinationEnd,
        coordination: &CoordinationResult,
    ) -> TurnResult {
        let answers = coordination.answers.len();
        let problem = setup_problem_summary(&coordination.setup_problems);
        let (status, summary) = match end {
            CoordinationEnd::Stopped(StopCause::Interrupted) => (
                ExitStatus::Interrupted,
                "interrupted before any answer".to_owned(),
            ),
            CoordinationEnd::Stopped(StopCause::OutOfTime) => (
                ExitStatus::Limit,
                format!("no agent answered within {}", self.time_limit()),
            ),
            CoordinationEnd::Stopped(StopCause::LimitReached) => {
                let limit = self.ledger().any_exhausted_limit().unwrap_or_default();
                (ExitStatus::Limit, format!("no agent answered: {limit}"))
            }
            CoordinationEnd::Agreed if answers == 0 => match problem {
                Some(problem) => (
                    ExitStatus::Environment,
                    format!("no agent answered: {problem}"),
                ),
                None => (ExitStatus::Failure, "no agent answered".to_owned()),
            },
            CoordinationEnd::Agreed => (
                ExitStatus::Failure,
                match answers {
                    1 => "the answer does not pass the required checks, so it is not delivered"
                        .to_owned(),
                    _ => format!(
                        "none of {answers} answers passes the required checks, so nothing is delivered"
                    ),
                },
            ),
        };
        TurnResult {
            status,
            summary,
            answer: None,
            rows: Vec::new(),
        }
    }

    /// Returns the time limit in words.
    fn time_limit(&self) -> String {
        let seconds = self.config.timeouts.orchestrator_seconds;
        count_noun(usize::try_from(seconds).unwrap_or(usize::MAX), "second")
    }

    fn ledger(&self) -> MutexGuard<'_, BudgetLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self, number: AgentNumber) -> Result<&TeamMember> {
        self.team
            .member(number)
            .ok_or_else(|| missing_member(number))
    }

    fn model_connection(&self, id: &AgentId, phase: Phase) -> Result<ModelConnection> {
        match self.models.get(id) {
            Some(models) => Ok(ModelConnection {
                models: models.clone(),
                ledger: Arc::clone(&self.ledger),
                recorded: self.recorded_conversations.take(id, phase),
                messages: self.message_reader(id, phase),
                events: self.events.clone(),
            }),
            None => Err(Error::bug(format!("agent `{id}` has no model"))),
        }
    }

    /// Returns the reader of the user's messages for a conversation of agent `id`.
    fn message_reader(&self, id: &AgentId, phase: Phase) -> MessageReader {
        let view = self.messages.subscribe();
        match &self.replay {
            None => MessageReader::new(view, VecDeque::new(), None),
            Some(ReplayInput { messages, .. }) => {
                MessageReader::new(view, messages.take(id, phase), messages.divergence.clone())
            }
        }
    }

    /// Refuses further messages of the user, and warns about those that no agent has read.
    async fn report_unread_messages(&mut self) {
        for NumberedMessage { number, message } in self.messages.close(&self.events).await {
            let text = single_line(&message.text, MESSAGE_CHARS_SHOWN_MAX);
            let message = format!("no agent has read your message {number}: {text}");
            self.emit(RunEvent::Warning { message }).await;
        }
    }

    async fn emit(&self, event: impl Into<Event>) {
        emit(&self.events, event).await;
    }
}

fn missing_member(number: AgentNumber) -> Error {
    Error::bug(format!("no member is {number}"))
}

/// Returns whether the effects of an interrupted final phase persist. If the agent has write paths,
/// what it wrote to them is unknown, so the final phase starts again.
pub fn final_effect_persistence(grants: &[Grant]) -> EffectPersistence {
    if write_roots(grants).is_empty() {
        EffectPersistence::Present
    } else {
        EffectPersistence::Gone
    }
}

impl From<RecordedConclusion> for TurnResult {
    fn from(conclusion: RecordedConclusion) -> Self {
        let RecordedConclusion {
            agent,
            text,
            rows,
            stop_status,
        } = conclusion;
        let (status, summary) = match stop_status {
            Some(status) => {
                let summary = format!("stopped early; the best answer so far is {agent}'s");
                (status, summary)
            }
            None => delivery_status(&agent, &rows),
        };
        let answer = Some(FinalAnswer { agent, text });
        Self {
            status,
            summary,
            answer,
            rows,
        }
    }
}

/// Returns what is wrong, and what to do; `None` without a problem.
fn setup_problem_summary(problems: &[SetupProblem]) -> Option<String> {
    let distinct_problems: BTreeSet<SetupProblem> = problems.iter().copied().collect();
    let join = |part: fn(SetupProblem) -> &'static str| {
        let parts: Vec<&str> = distinct_problems.iter().copied().map(part).collect();
        parts.join(", ")
    };
    let summary = || {
        format!(
            "{}; {}",
            join(SetupProblem::cause),
            join(SetupProblem::remedy)
        )
    };
    (!problems.is_empty()).then(summary)
}

/// Returns the coordination of a config that skips it: the first agent presents, and there are no
/// answers.
fn skip_coordination(team: &AgentTeam) -> CoordinationResult {
    let first_member = team.members.first();
    let winner = first_member.map(|member| AnswerLabel {
        agent: member.number,
        ordinal: 0,
    });
    CoordinationResult {
        tally: winner.map(|winner| VoteTally {
            winner,
            reason: WinnerReason::OnlyAnswer,
            votes: Vec::new(),
        }),
        ..CoordinationResult::without_answers(CoordinationEnd::Agreed)
    }
}

/// Returns the exit status after a complete presentation, and a sentence that explains it.
fn delivery_status(agent: &AgentId, rows: &[DeliveryRow]) -> (ExitStatus, String) {
    let count = |matches_outcome: fn(&DeliveryOutcome) -> bool| {
        rows.iter()
            .filter(|row| matches_outcome(&row.outcome))
            .count()
    };
    let mode_changes = count(|outcome| matches!(outcome, DeliveryOutcome::Mode { .. }));
    let delivered = count(DeliveryOutcome::is_delivered).saturating_sub(mode_changes);
    let partial = count(|outcome| matches!(outcome, DeliveryOutcome::Changed { hunks: Some(_) }));
    let failed = count(|outcome| matches!(outcome, DeliveryOutcome::Failed { .. }));
    let declined = count(|outcome| matches!(outcome, DeliveryOutcome::Declined));
    let reverted = count(|outcome| matches!(outcome, DeliveryOutcome::Reverted { .. }));
    let other_rows: usize = [mode_changes, delivered, failed, declined, reverted]
        .iter()
        .sum();
    let refused = rows.len().saturating_sub(other_rows);
    let mut summary = format!("{agent} answered");
    if !rows.is_empty() {
        let partial_note = match partial {
            0 => String::new(),
            _ if partial == delivered => " in part".to_owned(),
            _ => format!(", {partial} of them in part"),
        };
        summary = format!(
            "{summary}; {} delivered{partial_note}",
            count_noun(delivered, "file")
        );
    }
    if mode_changes > 0 {
        let changed_modes = count_noun(mode_changes, "directory mode");
        summary = format!("{summary}, {changed_modes} changed");
    }
    for (files, outcome) in [
        (reverted, "reverted"),
        (declined, "not applied"),
        (refused, "refused"),
        (failed, "not written"),
    ] {
        if files > 0 {
            summary = format!("{summary}, {files} {outcome}");
        }
    }
    let status = if failed > 0 {
        ExitStatus::Environment
    } else if reverted > 0 {
        ExitStatus::Failure
    } else if refused > 0 {
        ExitStatus::Denied
    } else {
        ExitStatus::Success
    };
    (status, summary)
}
