//! The final phase of a turn with a presentation: the winner presents the answer with a gate of its
//! own, and its changes are delivered.

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use crate::agent::calls::ToolEffects;
use crate::agent::deadline::StopCause;
use crate::agent::presentation::{PresentationStop, present};
use crate::agent::{ModelSession, emit};
use crate::error::{Error, Result};
use crate::event::{DeliveryEvent, RunEvent};
use crate::id::AgentNumber;
use crate::orchestrator::coordination_result::{
    AcceptedAnswer, CoordinationEnd, CoordinationResult, CountedVote,
};
use crate::orchestrator::final_delivery::{
    DeliveryContent, FinalDelivery, FinalPhaseInput, FinalPhaseResult,
};
use crate::orchestrator::overlays::OverlayPurpose;
use crate::orchestrator::review::PresentationState;
use crate::orchestrator::team::{AgentTeam, ModelConnection, TeamMember};
use crate::permissions::grant::Phase;
use crate::prompts::untrusted_text::UntrustedText;
use crate::prompts::{self, AnswerView, CandidateVotes, TaskPrompt};
use crate::world::access::gate::Gate;
use crate::world::io::event_queue::QueuedEvent;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::sandbox::overlay::WriteOverlay;

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
    } = input;
    let mut message = presentation_prompt(team, member, task, coordination);
    let purpose = OverlayPurpose::Final(restart);
    let answer = coordination.answers.get(&member.number);
    let changes = answer.and_then(|answer| answer.changes.as_ref());
    let layers = changes.map(|changes| changes.layers.clone());
    let is_in_place = layers.is_some();
    let (overlay, notes) = team
        .open_overlay(member, purpose, &layers.unwrap_or_default())
        .await?;
    if overlay.is_some() && is_in_place {
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
    let text = presented_text(&presentation.text, stored_answer);
    let is_complete = presentation.stopped_by.is_none();
    let end = match presentation.stopped_by {
        None => CoordinationEnd::Agreed,
        Some(stop) => report_interruption(&session, stop, &text).await,
    };
    let mut effects = presentation.effects;
    effects.add(end_background(session.gate.clone()).await?);
    let delivery = FinalDelivery {
        team,
        member,
        content: overlay.map_or(DeliveryContent::InPlace, DeliveryContent::Overlay),
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

/// Returns the text that was presented, or the stored answer if there is none.
fn presented_text(text: &str, stored_answer: Arc<str>) -> Arc<str> {
    match text.trim() {
        "" => stored_answer,
        text => text.into(),
    }
}

/// Reports why the presentation ended early, and which text is used. Returns how the final phase
/// ends.
async fn report_interruption(
    session: &ModelSession,
    stop: PresentationStop,
    text: &str,
) -> CoordinationEnd {
    match stop {
        PresentationStop::Stopped(stop_cause) => {
            session
                .emit(RunEvent::CoordinationStopped {
                    status: stop_cause.exit_status(),
                })
                .await;
            CoordinationEnd::Stopped(stop_cause)
        }
        // The agents have agreed on the answer, which stands without a presentation.
        PresentationStop::Failed(error) => {
            let consequence = if text.is_empty() {
                ""
            } else {
                "; its answer is used unchanged"
            };
            let message = format!("the final agent failed{consequence}: {error}");
            session.emit(RunEvent::Warning { message }).await;
            CoordinationEnd::Agreed
        }
        PresentationStop::Endless(reason) => {
            let message = format!(
                "the final agent did not finish: {reason}; its last text, or else its answer, is used"
            );
            session.emit(RunEvent::Warning { message }).await;
            CoordinationEnd::Agreed
        }
    }
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
    let work_result = tokio::task::spawn_blocking(work).await;
    work_result.map_err(|_| Error::bug("cannot stop the background commands"))
}
