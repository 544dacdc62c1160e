//! The final phase of a turn with a presentation: the winner presents the answer with a gate of its
//! own, and its changes are delivered.

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use crate::agent::calls::ToolEffects;
use crate::agent::deadline::{RunDeadline, StopCause};
use crate::agent::presentation::{PresentationStop, present};
use crate::agent::{ModelSession, emit};
use crate::answer_changes::ChangeLayers;
use crate::delivery::plan::DeliveryEntry;
use crate::error::Result;
use crate::event::{DeliveryEvent, RunEvent};
use crate::id::{AgentNumber, AnswerLabel};
use crate::orchestrator::attempts::Attempt;
use crate::orchestrator::check_runner::{
    CheckTarget, CheckedFiles, checks_begin_ns, failure_of_checks,
};
use crate::orchestrator::coordination_result::{
    AcceptedAnswer, CoordinationEnd, CoordinationResult, CountedVote,
};
use crate::orchestrator::final_delivery::{
    DeliveryContent, FinalDelivery, FinalPhaseInput, FinalPhaseResult, answer_content,
};
use crate::orchestrator::overlays::OverlayPurpose;
use crate::orchestrator::review::PresentationState;
use crate::orchestrator::team::{AgentTeam, ModelConnection, TeamMember};
use crate::permissions::grant::Phase;
use crate::prompts::untrusted_text::UntrustedText;
use crate::prompts::{self, AnswerView, CandidateVotes, TaskPrompt};
use crate::world::access::gate::Gate;
use crate::world::io::event_sink::QueuedEvent;
use crate::world::io::run_blocking;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::WriteOverlay;

/// The ordinal of what an agent presents, among its answers.
const PRESENTATION_ORDINAL: u32 = 0;

/// Reports that the final phase was stopped before it started, and returns its result.
async fn unstarted_result(
    stored_answer: Arc<str>,
    stop_cause: StopCause,
    events: &Sender<QueuedEvent>,
) -> FinalPhaseResult {
    let status = stop_cause.exit_status();
    emit(events, RunEvent::CoordinationStopped { status }).await;
    FinalPhaseResult::from_stored_answer(stored_answer, CoordinationEnd::Stopped(stop_cause))
}

/// Begins the conversation of the final agent with `message`.
async fn start_conversation(
    team: &AgentTeam,
    member: &TeamMember,
    overlay: Option<&WriteOverlay>,
    notes: Vec<String>,
    message: &str,
    connection: ModelConnection,
) -> Result<ModelSession> {
    let session = team
        .model_session(member, Phase::Final, overlay, message, connection)
        .await?;
    let agent = member.id.clone();
    session.emit(DeliveryEvent::FinalStarted { agent }).await;
    for message in notes {
        session.emit(RunEvent::Warning { message }).await;
    }
    Ok(session)
}

/// Runs the winner's presentation and delivers its files.
pub async fn present_and_deliver(
    team: &AgentTeam,
    input: FinalPhaseInput<'_>,
) -> Result<FinalPhaseResult> {
    let FinalPhaseInput {
        member,
        connection,
        task,
        coordination,
        stored_answer,
        restart,
        deadline,
        kept_answer,
    } = input;
    let mut message = presentation_prompt(team, member, task, coordination);
    let purpose = OverlayPurpose::Final(restart);
    let answer = coordination.answers.get(&member.number);
    let answer = answer.filter(|answer| answer.changes.is_some());
    let layers = answer.map_or_else(ChangeLayers::default, AcceptedAnswer::layers);
    let (overlay, notes) = team.open_overlay(member, purpose, &layers).await?;
    let base = PresentationBase::new(team, member, answer, overlay.as_ref(), restart).await?;
    if base.is_some() {
        message.push_str(prompts::answer_is_in_place());
    }
    let events = connection.events.clone();
    let start = start_conversation(team, member, overlay.as_ref(), notes, &message, connection);
    let mut session = tokio::select! {
        biased;
        conversation = start => conversation?,
        stop_cause = deadline.wait() => {
            return Ok(unstarted_result(stored_answer, stop_cause, &events).await);
        }
    };
    let presentation = present(&mut session, deadline).await;
    let mut effects = presentation.effects;
    effects.add(end_background(session.gate.clone()).await?);
    let (mut end, incompletion) = match presentation.stopped_by {
        None => (CoordinationEnd::Agreed, None),
        Some(stop) => report_interruption(&session, stop, answer.is_none()).await,
    };
    let is_complete = incompletion.is_none();
    let accepted = match (
        kept_answer.or_else(|| incompletion.filter(|_| answer.is_some())),
        base,
    ) {
        (Some(reason), _) => Err(reason),
        (None, Some(base)) => base.accept(deadline, &session.events).await.map(Some),
        (None, None) => Ok(None),
    };
    let (text, delivered_answer) = match accepted {
        Ok(presented) => (presented_text(&presentation.text, stored_answer), presented),
        Err(reason) => {
            if end == CoordinationEnd::Agreed && deadline.stop.is_cancelled() {
                end = CoordinationEnd::Stopped(StopCause::Interrupted);
            }
            let agent = member.id.clone();
            let event = DeliveryEvent::AnswerKept { agent, reason };
            session.emit(event).await;
            (stored_answer, answer.cloned())
        }
    };
    let content = match delivered_answer {
        Some(answer) => answer_content(team, member, &answer, restart).await?,
        None => overlay.map_or(DeliveryContent::InPlace, DeliveryContent::Overlay),
    };
    let delivery = FinalDelivery {
        team,
        member,
        content,
        is_as_checked: false,
        open_delivery: team.start_delivery().await?,
        state: PresentationState::from_end(end),
        restart,
        events: session.events.clone(),
        selected_by: None,
    };
    let mut result = delivery.complete(effects, text, end, deadline).await?;
    let is_accepted = is_complete && result.end == CoordinationEnd::Agreed;
    result.session = is_accepted.then_some(session);
    Ok(result)
}

/// What the final agent has in its write paths when it begins: the answer that was voted on.
struct PresentationBase<'a> {
    team: &'a AgentTeam,
    member: &'a TeamMember,
    answer: &'a AcceptedAnswer,
    attempt: Attempt,
    entries: Vec<DeliveryEntry>,
}

impl<'a> PresentationBase<'a> {
    /// Returns what is on `overlay`, on which `member` presents its answer; `None` without one of
    /// them.
    async fn new(
        team: &'a AgentTeam,
        member: &'a TeamMember,
        answer: Option<&'a AcceptedAnswer>,
        overlay: Option<&WriteOverlay>,
        restart: u32,
    ) -> Result<Option<Self>> {
        let (Some(answer), Some(overlay)) = (answer, overlay) else {
            return Ok(None);
        };
        let Some(attempt) = team.attempt(member, overlay, restart)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            team,
            member,
            answer,
            entries: attempt.plan().await?.entries,
            attempt,
        }))
    }

    /// Captures what was presented and checks it, unless it is what was voted on. Returns it as an
    /// answer, or why the answer that was voted on is delivered.
    async fn accept(
        self,
        deadline: &RunDeadline,
        events: &Sender<QueuedEvent>,
    ) -> std::result::Result<AcceptedAnswer, String> {
        let label = AnswerLabel {
            agent: self.member.number,
            ordinal: PRESENTATION_ORDINAL,
        };
        let captured = self.attempt.capture(label).await;
        let captured = captured.map_err(|error| format!("{error:#}"))?;
        for note in captured.notes {
            let message = format!("files of the final answer: {note}");
            emit(events, RunEvent::Warning { message }).await;
        }
        let changes = captured.changes;
        let mut presented = AcceptedAnswer {
            label,
            changes: Some(changes.clone()),
            ..self.answer.clone()
        };
        let runner = self.team.check_runner();
        let runner = runner.filter(|_| captured.plan.entries != self.entries);
        if let Some(runner) = runner {
            presented.checks_began_ns = Some(checks_begin_ns());
            let target = CheckTarget::Answer(Ok(CheckedFiles::Changes(changes)));
            let results = runner.run_checks(&self.member.id, target, deadline, events);
            let results = results.await;
            if let Some(failure) = failure_of_checks(&results, deadline) {
                return Err(failure);
            }
            presented.check_results = Some(results);
        }
        Ok(presented)
    }
}

/// Returns the text that was presented, or the stored answer if there is none.
fn presented_text(text: &str, stored_answer: Arc<str>) -> Arc<str> {
    match text.trim() {
        "" => stored_answer,
        text => text.into(),
    }
}

/// Reports that the presentation ended early; `is_used` says whether what there is of it counts.
/// Returns how the final phase ends, and why it is incomplete.
async fn report_interruption(
    session: &ModelSession,
    stop: PresentationStop,
    is_used: bool,
) -> (CoordinationEnd, Option<String>) {
    // The agents have agreed on the answer, which stands without a presentation.
    let reason = match stop {
        PresentationStop::Stopped(cause) => {
            let status = cause.exit_status();
            session.emit(RunEvent::CoordinationStopped { status }).await;
            let reason = "the run was stopped while it presented".to_owned();
            return (CoordinationEnd::Stopped(cause), Some(reason));
        }
        PresentationStop::Failed(error) => format!("the final agent failed: {error}"),
        PresentationStop::Endless(reason) => format!("the final agent did not finish: {reason}"),
    };
    if is_used {
        let message = format!("{reason}; its last text, or else its answer, is used");
        session.emit(RunEvent::Warning { message }).await;
    }
    (CoordinationEnd::Agreed, Some(reason))
}

fn presentation_prompt(
    team: &AgentTeam,
    me: &TeamMember,
    task: &TaskPrompt,
    coordination: &CoordinationResult,
) -> String {
    let reasons = |candidate: AgentNumber| -> Vec<UntrustedText> {
        let is_for_candidate = |vote: &&CountedVote| vote.candidate == candidate;
        coordination
            .votes
            .values()
            .filter(is_for_candidate)
            .map(|vote| vote.reason.clone().into())
            .collect()
    };
    let vote_counts = coordination
        .tally
        .iter()
        .flat_map(|tally| tally.votes.iter());
    let votes: Vec<CandidateVotes> = vote_counts
        .map(|(agent, count)| CandidateVotes {
            candidate: *agent,
            count: *count,
            reasons: reasons(*agent),
        })
        .collect();
    let view = |(agent, answer): (&AgentNumber, &AcceptedAnswer)| {
        let is_own_answer = *agent == me.number;
        let workspace = team
            .member(*agent)
            .and_then(|member| member.workspace.as_ref());
        match (is_own_answer, workspace) {
            (true, Some(workspace)) => AnswerView {
                label: answer.label,
                content: UntrustedText::from(&*answer.content),
                files: Some(workspace.to_string()),
                diff: None,
                layers: None,
                check_results: answer.check_results.clone(),
            },
            (_, workspace) => answer.view(workspace),
        }
    };
    let answers: Vec<AnswerView> = coordination.answers.iter().map(view).collect();
    prompts::present_answers(task, me.number, &votes, &answers)
}

/// Ends the background commands of the agent, and returns their changes.
async fn end_background(gate: Option<Gate>) -> Result<ToolEffects> {
    let work = move || {
        let commands = gate.as_ref().and_then(Gate::commands);
        ToolEffects::from_changes(commands.map_or_else(Vec::new, ExecEnvironment::end_background))
    };
    run_blocking(move || Ok(work())).await
}
