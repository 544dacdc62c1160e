//! The user's hooks in a run: reports their runs as events, and collects their verdicts on answers,
//! votes and deliveries.

use std::sync::Arc;

use tokio::sync::mpsc::{Sender, WeakSender};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::delivery::plan::DeliveryPlan;
use crate::event::{DeliveryRow, Event, ToolEvent};
use crate::hooks::answer::HookFailure;
use crate::hooks::request::{HookFile, HookSubject};
use crate::hooks::verdict::{HookOutcome, HookVerdict};
use crate::id::{AgentId, AnswerLabel};
use crate::permissions::grant::Phase;
use crate::text::{single_line, truncate};
use crate::world::access::hook_runner::{HookInvocation, HookObserver, HookRun, HookRunner};
use crate::world::io::event_sink::QueuedEvent;
use crate::world::sandbox::overlay::WriteOverlay;

/// Maximum length of commands, reasons and inputs in events, in characters.
const SHOWN_CHARS_MAX: usize = 300;
/// Context for reports about hooks in a run.
#[derive(Clone, Debug)]
pub struct HookRunContext {
    /// The session of the run.
    pub session_id: String,
    events: WeakSender<QueuedEvent>,
}

impl HookRunContext {
    /// Creates the context for a run of this session; events go to `events`, of which it holds only
    /// a weak sender: the queue of events ends when all other senders are gone.
    pub fn new(session_id: String, events: &Sender<QueuedEvent>) -> Self {
        let events = events.downgrade();
        Self { session_id, events }
    }

    /// Returns the observer of the hooks of `agent`.
    pub fn observer(&self, agent: &AgentId) -> Arc<dyn HookObserver> {
        Arc::new(EventHookObserver {
            agent: agent.clone(),
            events: self.events.clone(),
        })
    }
}

/// Emits events about the hooks of one agent.
#[derive(Debug)]
struct EventHookObserver {
    agent: AgentId,
    events: WeakSender<QueuedEvent>,
}

impl HookObserver for EventHookObserver {
    fn on_run(&self, hook_run: &HookRun<'_>) {
        if let Some(events) = self.events.upgrade() {
            // A closed channel is not an error.
            events
                .blocking_send(hook_ran_event(&self.agent, hook_run).into())
                .unwrap_or_default();
        }
    }
}

/// Logs hooks outside a run.
#[derive(Debug)]
pub struct LoggingHookObserver;

impl HookObserver for LoggingHookObserver {
    fn on_run(&self, hook_run: &HookRun<'_>) {
        let (event, command) = (hook_run.hook.event, &hook_run.hook.command);
        if let Err(HookFailure { cause, stderr }) = hook_run.outcome {
            tracing::warn!("the hook `{command}` of `{event}` failed: {cause}: {stderr}");
        }
    }
}

fn hook_ran_event(agent: &AgentId, hook_run: &HookRun<'_>) -> Event {
    let call = hook_run.subject.call();
    let (decision, reason, updated_input) = describe_outcome(hook_run.outcome);
    Event::Tool(ToolEvent::HookRan {
        agent: agent.clone(),
        event: hook_run.hook.event.to_string(),
        tool: call.map(|call| call.tool.to_owned()),
        call_id: call.and_then(|call| call.id).map(str::to_owned),
        command: single_line(&hook_run.hook.command, SHOWN_CHARS_MAX),
        decision: decision.to_owned(),
        reason,
        updated_input,
        elapsed_ms: hook_run.elapsed_ms,
    })
}

/// Returns a hook's decision, its reason, and its replacement for the tool's input.
fn describe_outcome(outcome: &HookOutcome) -> (&'static str, Option<String>, Option<String>) {
    match outcome {
        Err(HookFailure { cause, stderr }) if stderr.is_empty() => {
            ("failed", Some(cause.clone()), None)
        }
        Err(HookFailure { cause, stderr }) => ("failed", Some(format!("{cause}: {stderr}")), None),
        Ok(answer) => {
            let decision = answer
                .decision
                .map_or("nothing", |decision| decision.name());
            let reason = answer.reason.as_ref();
            let input = answer
                .updated_input
                .as_ref()
                .and_then(|input| serde_json::to_string(input).ok());
            (
                decision,
                reason.map(|reason| truncate(reason, SHOWN_CHARS_MAX)),
                input.map(|input| truncate(&input, SHOWN_CHARS_MAX)),
            )
        }
    }
}

/// Events, other than calls, that hooks are asked about.
#[derive(Clone, Debug)]
pub enum HookEventPayload {
    /// An answer, with the label that it would get.
    Answer(AnswerLabel, String),
    /// A vote for this answer of this agent, with the reason.
    Vote(AgentId, AnswerLabel, String),
    /// The plan of a delivery.
    Delivery(Arc<DeliveryPlan>),
    /// The outcomes of a delivery.
    Delivered(Vec<DeliveryRow>),
}

impl HookEventPayload {
    fn run_hooks(&self, hooks: &HookRunner, invocation: HookInvocation<'_>) -> HookVerdict {
        match self {
            Self::Answer(label, text) => hooks.ask(&HookSubject::Answer(*label, text), invocation),
            Self::Vote(candidate, label, reason) => {
                let label = *label;
                let vote = HookSubject::Vote {
                    candidate,
                    label,
                    reason,
                };
                hooks.ask(&vote, invocation)
            }
            Self::Delivery(plan) => {
                let files = plan.entries.iter().map(|entry| HookFile {
                    path: plan.path(entry).to_string(),
                    status: entry.action().outcome().word(),
                    details: entry.details(plan),
                });
                let files: Vec<HookFile> = files.collect();
                hooks.ask(&HookSubject::Delivery(&files), invocation)
            }
            Self::Delivered(rows) => {
                let files = rows.iter().map(|row| HookFile {
                    path: row.path.clone(),
                    status: row.outcome.word(),
                    details: row.details.clone(),
                });
                let files: Vec<HookFile> = files.collect();
                hooks.ask(&HookSubject::Delivered(&files), invocation)
            }
        }
    }
}

/// Asks hooks in `phase`, until `stop` is cancelled because the user wants the run to end. Returns
/// the reason if they reject the event.
pub async fn hook_refusal(
    hooks: &HookRunner,
    payload: HookEventPayload,
    phase: Phase,
    overlay: Option<WriteOverlay>,
    stop: &CancellationToken,
) -> Option<String> {
    let (hooks, cancellation) = (hooks.clone(), stop.clone());
    let ask_hooks = move || {
        let invocation = HookInvocation {
            phase,
            overlay: overlay.as_ref(),
            cancellation: &cancellation,
        };
        payload.run_hooks(&hooks, invocation)
    };
    match spawn_blocking(ask_hooks).await {
        Ok(verdict) => verdict.refusal().map(str::to_owned),
        Err(_) => Some("a hook of the user's failed unexpectedly inside massgen".to_owned()),
    }
}
