//! State of one run for MCP clients: receives its events, and returns status, answers and progress.
//! All output passes the redactor of the run's records, with invisible characters escaped. Clients
//! see only anonymous names of agents.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use crate::cli::json_report::event_warning;
use crate::cli::output::CliOutput;
use crate::cli::result::{ErrorReport, RunResult};
use crate::cli::result_builder::{ProcessEnd, ResultBuilder, RunStart};
use crate::cli::run_frontend::Decider;
use crate::cli::run_frontend::{RunFrontend, RunOutcome};
use crate::error::{ExitStatus, Result};
use crate::event::{CoordinationEvent, DeliveryEvent, Event, RunEvent};
use crate::id::AnswerLabel;
use crate::orchestrator::execution::ShutdownSignal;
use crate::run_view::ballot::BallotAnswer;
use crate::run_view::overview::RunPhase;
use crate::text::{count_noun, escape_text, map_json_strings, truncate};
use crate::world::io::clock::Stopwatch;
use crate::world::store::redact::Redactor;

/// Maximum number of progress messages that wait for a client; a slower one misses the oldest.
const UPDATES_WAITING_MAX: usize = 64;
/// Maximum length of the final answer, in characters.
const ANSWER_CHARS_MAX: usize = 100_000;
/// Maximum length of each of the answers, in characters.
const EACH_ANSWER_CHARS_MAX: usize = 20_000;
/// Maximum length of the reason of a vote, in characters.
const REASON_CHARS_MAX: usize = 1000;
/// Maximum number of files that are listed; the rest are counted.
const FILES_MAX: usize = 500;
/// Maximum number of warnings that are listed.
const WARNINGS_MAX: usize = 20;

/// A run, from the moment at which a client requested it.
#[derive(Debug)]
pub(crate) struct TrackedRun {
    state: Mutex<TrackedRunState>,
    /// Progress messages for the clients that wait.
    updates: broadcast::Sender<Arc<str>>,
    /// The time since a client requested the run.
    since_start: Stopwatch,
    /// Cancelled when the run has its records.
    start_token: CancellationToken,
    /// Cancelled when the run has ended.
    end_token: CancellationToken,
    /// Stops the run.
    stop: ShutdownSignal,
}

#[derive(Debug, Default)]
struct TrackedRunState {
    /// The name of the directory of its logs, once it has one.
    name: Option<String>,
    redactor: Redactor,
    result_builder: ResultBuilder,
    /// The result, once the run has ended.
    result: Option<RunResult>,
}

impl TrackedRunState {
    /// Returns how far the run is, for clients.
    fn phase(&self) -> &'static str {
        match (&self.result, self.result_builder.view.run().phase) {
            (Some(_), _) => "ended",
            (None, RunPhase::Presenting | RunPhase::Delivering | RunPhase::Ended) => "presenting",
            (None, RunPhase::Starting | RunPhase::Coordinating) => "coordinating",
        }
    }
}

impl TrackedRun {
    /// Creates a run without any events so far, which `stop` stops.
    pub(crate) fn new(stop: ShutdownSignal) -> Self {
        Self {
            state: Mutex::default(),
            updates: broadcast::Sender::new(UPDATES_WAITING_MAX),
            since_start: Stopwatch::start(),
            start_token: CancellationToken::new(),
            end_token: CancellationToken::new(),
            stop,
        }
    }

    /// Returns the signal that stops the run.
    pub(crate) fn stop(&self) -> &ShutdownSignal {
        &self.stop
    }

    /// Returns a receiver of progress messages from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<Arc<str>> {
        self.updates.subscribe()
    }

    /// Notes the outcome of the run, with its warnings.
    pub(crate) fn end(&self, outcome: &Result<RunOutcome>, warnings: &[String]) {
        let mut state = self.lock();
        let (status, error) = match outcome {
            Ok(outcome) => (outcome.status, None),
            Err(error) => (error.kind().exit_status(), Some(error)),
        };
        let result = state.result_builder.build(&ProcessEnd {
            status,
            error,
            warnings,
            elapsed: self.since_start.elapsed(),
        });
        state.result = Some(result);
        drop(state);
        self.end_token.cancel();
    }

    /// Waits until the run has its records, or has ended without them. Returns its name, or why it
    /// has none, if an error says so.
    pub(crate) async fn wait_for_name(&self) -> std::result::Result<String, Option<ErrorReport>> {
        tokio::select! {
            () = self.start_token.cancelled() => {}
            () = self.end_token.cancelled() => {}
        }
        let state = self.lock();
        let failure = || {
            state
                .result
                .as_ref()
                .and_then(|result| result.error.clone())
        };
        state.name.clone().ok_or_else(failure)
    }

    /// Waits until the run has ended.
    pub(crate) async fn wait_until_ended(&self) {
        self.end_token.cancelled().await;
    }

    /// Returns whether the run has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.end_token.is_cancelled()
    }

    /// Returns the name of the run, once it has one.
    pub(crate) fn name(&self) -> Option<String> {
        self.lock().name.clone()
    }

    /// Describes the phase and the elapsed time in one sentence.
    pub(crate) fn describe_progress(&self) -> String {
        let seconds = self.since_start.elapsed().as_secs();
        format!("{} for {seconds} s", self.lock().phase())
    }

    /// Returns how far the run is and what it cost so far, and its result if it has ended.
    pub(crate) fn status(&self) -> Value {
        let state = self.lock();
        let result = self.partial_result(&state);
        let mut status = json!({
            "run": state.name,
            "state": state.phase(),
            "answers": result.answers.len(),
            "votes": result.votes.len(),
            "winner": result.winner.as_ref().map(|winner| winner.label),
            "cost_usd": result.cost_usd,
            "cost_is_complete": result.cost_is_complete,
            "total_tokens": result.usage.total.usage.total_tokens(),
            "duration_ms": result.duration_ms,
        });
        if state.result.is_some()
            && let Some(fields) = status.as_object_mut()
            && let Value::Object(ended) = ended_fields(&result)
        {
            fields.extend(ended);
        }
        redact_for_clients(&state.redactor, status)
    }

    /// Returns the answers of the last coordination under their anonymous names, and the votes that
    /// count.
    pub(crate) fn answers(&self) -> Value {
        let state = self.lock();
        let result = self.partial_result(&state);
        let votes_for = |label: AnswerLabel| {
            let votes = result.votes.iter();
            votes.filter(|vote| vote.label == label).count()
        };
        let ballot = state.result_builder.view.ballot();
        let answer_json = |answer: &BallotAnswer| {
            json!({
                "label": answer.label,
                "text": truncate(&answer.content, EACH_ANSWER_CHARS_MAX),
                "chars": answer.content.chars().count(),
                "votes": votes_for(answer.label),
                "checks": answer.checks,
            })
        };
        let answers: Vec<Value> = ballot.answers.iter().map(answer_json).collect();
        let votes: Vec<Value> = result
            .votes
            .iter()
            .map(|vote| {
                let reason = truncate(&vote.reason, REASON_CHARS_MAX);
                json!({"for": vote.label, "reason": reason})
            })
            .collect();
        let reply = json!({
            "run": state.name,
            "state": state.phase(),
            "answers": answers,
            "votes": votes,
            "winner": result.winner.as_ref().map(|winner| winner.label),
        });
        redact_for_clients(&state.redactor, reply)
    }

    /// Returns the result of the run, or the one that it would have if it ended now.
    fn partial_result(&self, state: &TrackedRunState) -> RunResult {
        let current_result = || {
            state.result_builder.build(&ProcessEnd {
                // Shown only after the end, with the status of then.
                status: ExitStatus::Failure,
                error: None,
                warnings: &[],
                elapsed: self.since_start.elapsed(),
            })
        };
        state.result.clone().unwrap_or_else(current_result)
    }

    fn lock(&self) -> MutexGuard<'_, TrackedRunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunFrontend for &TrackedRun {
    fn begin(
        &mut self,
        start: RunStart,
        redactor: Redactor,
        _output: &mut CliOutput<'_>,
    ) -> Result<()> {
        let mut state = self.lock();
        let name = start.log_dir.rsplit('/').next().unwrap_or_default();
        state.name = Some(name.to_owned());
        state.result_builder = ResultBuilder::new(start);
        state.redactor = redactor;
        drop(state);
        self.start_token.cancel();
        Ok(())
    }

    fn on_event(&mut self, event: &Event, _output: &mut CliOutput<'_>) -> Result<()> {
        let mut state = self.lock();
        state.result_builder.apply(event);
        if let Some(sentence) = describe_event(event) {
            let sentence = escape_text(&state.redactor.text(&sentence)).into_owned();
            // Sending fails if no client is listening.
            let _listeners = self.updates.send(sentence.into());
        }
        Ok(())
    }

    fn decider(&self) -> Decider {
        Decider::Clients
    }
}

/// Redacts secrets and escapes invisible characters, because a model reads the output.
fn redact_for_clients(redactor: &Redactor, value: Value) -> Value {
    map_json_strings(value, &|text| {
        escape_text(&redactor.text(text)).into_owned()
    })
}

/// Returns the fields that only an ended run has.
fn ended_fields(result: &RunResult) -> Value {
    let files = result.delivered_files.iter();
    let (delivered_rows, undelivered_rows): (Vec<_>, Vec<_>) = files
        .take(FILES_MAX)
        .partition(|row| row.outcome.is_delivered());
    let answer = result.answer.as_deref();
    json!({
        "outcome": result.outcome,
        "status": result.status,
        "exit_code": result.exit_code,
        "summary": result.summary,
        "error": result.error,
        "answer": answer.map(|text| truncate(text, ANSWER_CHARS_MAX)),
        "answer_chars": answer.map(|text| text.chars().count()),
        "delivered_files": delivered_rows,
        "undelivered_files": undelivered_rows,
        "more_files": result.delivered_files.len().saturating_sub(FILES_MAX),
        "denials": result.permission_denials.len(),
        "warnings": result.warnings.iter().take(WARNINGS_MAX).collect::<Vec<_>>(),
    })
}

/// Describes `event` for a client that is waiting; `None` if it is not worth a message.
fn describe_event(event: &Event) -> Option<String> {
    let sentence = match event {
        Event::Run(event) => describe_run_event(event),
        Event::Coordination(event) => describe_coordination_event(event),
        Event::Delivery(DeliveryEvent::FinalStarted { .. }) => {
            Some("the winner presents".to_owned())
        }
        Event::Delivery(_)
        | Event::Model(_)
        | Event::Tool(_)
        | Event::Subagent(_)
        | Event::Pipeline(_) => None,
    };
    sentence.or_else(|| event_warning(event))
}

fn describe_run_event(event: &RunEvent) -> Option<String> {
    if let RunEvent::RunStarted { agents, .. } = event {
        let agents = count_noun(agents.len(), "agent");
        Some(format!("{agents} working"))
    } else if let RunEvent::CoordinationRestarted { reason, .. } = event {
        Some(format!("the agents begin again: {reason}"))
    } else if let RunEvent::RunEnded { summary, .. } = event {
        Some(summary.clone())
    } else {
        None
    }
}

fn describe_coordination_event(event: &CoordinationEvent) -> Option<String> {
    if let CoordinationEvent::Answered { label, .. } = event {
        Some(format!("answer {label} was given"))
    } else if let CoordinationEvent::Voted { label, .. } = event {
        Some(format!("a vote for {label}"))
    } else if let CoordinationEvent::VotesVoided { .. } = event {
        Some("a new answer: votes are cast again".to_owned())
    } else if let CoordinationEvent::WinnerSelected { label, .. } = event {
        Some(format!("answer {label} wins"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_for_mcp_clients_have_no_invisible_characters() {
        let redactor = Redactor::default();
        let value = json!({"an\u{200b}swer": ["a\u{e0041}b\n", 1, null]});
        let expected = json!({"an\\u{200b}swer": ["a\\u{e0041}b\n", 1, null]});
        assert_eq!(redact_for_clients(&redactor, value), expected);
    }
}
