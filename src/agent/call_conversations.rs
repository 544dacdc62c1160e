//! Conversations within a call of an agent, with the agent's model: what they share with the agent,
//! how they end, and how their events are forwarded. All that they use is charged to the agent, and
//! they end with the agent's call.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::agent::budget::AgentBudget;
use crate::agent::call_progress::CallProgress;
use crate::agent::calls::RequestedToolCall;
use crate::agent::compaction_trigger::CompactionTrigger;
use crate::agent::deadline::RunDeadline;
use crate::agent::message_reader::MessageReader;
use crate::agent::recorded_conversation::{RecordedConversation, RecordedSubagent};
use crate::agent::vendor_tools::VendorRequestCount;
use crate::agent::{ModelSession, emit};
use crate::backend::available_model::AvailableModel;
use crate::backend::conversation::Conversation;
use crate::event::{Event, SubagentEvent, SubagentStatus};
use crate::id::{AgentId, SubagentId};
use crate::permissions::grant::Phase;
use crate::prompts::subagents::decisions_are_not_yours;
use crate::tools::call::SubagentTask;
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::ToolOffer;
use crate::tools::workflow::{ModelCall, parse_model_call};
use crate::world::access::gate::Gate;
use crate::world::exec::subagents::SubagentReport;
use crate::world::io::clock::milliseconds;
use crate::world::io::event_sink::QueuedEvent;

/// Maximum number of events of one conversation that wait to be forwarded.
const EVENTS_WAITING_MAX: usize = 64;

/// What the conversations within one call share with the agent.
#[derive(Debug)]
pub(super) struct CallConversations {
    pub(super) agent: AgentId,
    pub(super) models: Vec<AvailableModel>,
    pub(super) phase: Phase,
    pub(super) steps_max: u32,
    pub(super) deadline: Option<RunDeadline>,
    /// Cancelled when the work of the agent ends, whatever it does.
    pub(super) end_signal: CancellationToken,
    /// The time from which the agent may use no more tools in its round.
    pub(super) tools_until: Option<Instant>,
    pub(super) budget: AgentBudget,
    pub(super) compaction_trigger: CompactionTrigger,
    /// The recorded conversations of the agent's calls, in a resumed run.
    pub(super) recorded: Vec<RecordedSubagent>,
    pub(super) events: Sender<QueuedEvent>,
}

/// What a conversation starts with.
#[derive(Debug)]
pub(super) struct ConversationSetup {
    /// Its name and what it is for, as its events show them.
    pub(super) task: SubagentTask,
    pub(super) models: Vec<AvailableModel>,
    /// Its system message.
    pub(super) system: Arc<str>,
    /// Its first message.
    pub(super) first: String,
    pub(super) tools: Arc<[ToolOffer]>,
    /// Decides about its calls.
    pub(super) gate: Option<Gate>,
    /// Its timeout in seconds.
    pub(super) seconds_max: u64,
    /// The name of that timeout, for the report about a conversation that reaches it.
    pub(super) limit: &'static str,
}

/// How the work of a conversation ended, and the reason if it was not completed.
type ConversationEnd = (SubagentStatus, Option<String>);

impl ModelSession {
    /// Returns what the conversations within a call of the agent share with it.
    pub(super) fn call_conversations(&self) -> CallConversations {
        let recorded = self.recorded.as_ref();
        CallConversations {
            agent: self.agent.clone(),
            models: self.models.clone(),
            phase: self.phase,
            steps_max: self.steps_max,
            deadline: self.deadline.clone(),
            end_signal: self.end_signal.clone(),
            tools_until: self.tools_until,
            budget: self.budget.clone(),
            compaction_trigger: self.compaction_trigger.for_subagent(),
            recorded: recorded.map_or_else(Vec::new, |conversation| conversation.subagents.clone()),
            events: self.events.clone(),
        }
    }
}

impl CallConversations {
    fn recorded_subagent(&self, call_id: &str, subagent: &SubagentId) -> Option<&RecordedSubagent> {
        let mut recorded_subagents = self.recorded.iter();
        recorded_subagents
            .find(|recorded| recorded.call_id == call_id && recorded.subagent == *subagent)
    }

    /// Like [`Self::run`], until `cancellation` completes.
    pub(super) async fn run_until(
        &self,
        call_id: &str,
        setup: ConversationSetup,
        cancellation: BoxFuture<'_, ()>,
    ) -> SubagentReport {
        let token = CancellationToken::new();
        let work = Box::pin(self.run(call_id, setup, &token));
        cancel_when(cancellation, &token, work).await
    }

    /// Runs one conversation, and reports it. One that had ended before the run was interrupted is
    /// not run again.
    pub(super) async fn run(
        &self,
        call_id: &str,
        setup: ConversationSetup,
        cancellation: &CancellationToken,
    ) -> SubagentReport {
        let recorded_subagent = self.recorded_subagent(call_id, &setup.task.id);
        if let Some(report) = recorded_subagent.and_then(RecordedSubagent::report) {
            return report;
        }
        if cancellation.is_cancelled() || self.end_signal.is_cancelled() {
            return SubagentReport {
                status: SubagentStatus::Cancelled,
                answer: String::new(),
                reason: Some("it was not started: the call was cancelled".to_owned()),
                elapsed: Duration::ZERO,
            };
        }
        let recorded_conversation = recorded_subagent.map(|recorded| recorded.conversation.clone());
        let task = setup.task.clone();
        emit(
            &self.events,
            SubagentEvent::SubagentStarted {
                agent: self.agent.clone(),
                call_id: call_id.to_owned(),
                subagent: task.id.clone(),
                task: task.task.clone(),
            },
        )
        .await;
        let start = Instant::now();
        let (events, event_receiver) = mpsc::channel(EVENTS_WAITING_MAX);
        let (seconds_max, limit) = (setup.seconds_max, setup.limit);
        let session = self.session(call_id, setup, recorded_conversation, events);
        let (mut answer, work_end) = (String::new(), self.time_limit(start, seconds_max));
        // A conversation may run on a thread of its own, and learns of the agent's end when the agent
        // does. `cancellation` is not made of `end_signal`: a token that others are made of is cancelled
        // after the one that it is made of, and the run's own token ends the questions to the user.
        let cancelled = async {
            tokio::select! {
                () = cancellation.cancelled() => {}
                () = self.end_signal.cancelled() => {}
            }
        };
        let run_session = async {
            // The session is dropped at the end of this block, which closes the channel.
            let mut session = session;
            tokio::select! {
                // A call that was denied only because the run is ending leads to no further step.
                biased;
                () = cancelled => {
                    (SubagentStatus::Cancelled, Some("the call was cancelled".to_owned()))
                }
                end = work(&mut session, &mut answer) => end,
                () = sleep_until(work_end) => {
                    timeout_end(work_end.duration_since(start), seconds_max, limit)
                }
            }
        };
        let forward_events = self.forward_events(call_id, &task.id, event_receiver);
        let ((status, reason), ()) = tokio::join!(run_session, forward_events);
        let elapsed = start.elapsed();
        emit(
            &self.events,
            SubagentEvent::SubagentFinished {
                agent: self.agent.clone(),
                call_id: call_id.to_owned(),
                subagent: task.id,
                status,
                reason: reason.clone(),
                elapsed_ms: milliseconds(elapsed),
            },
        )
        .await;
        SubagentReport {
            status,
            answer,
            reason,
            elapsed,
        }
    }

    /// Returns the deadline of a conversation that starts at `start`.
    fn time_limit(&self, start: Instant, seconds_max: u64) -> Instant {
        let own_seconds = Duration::from_secs(seconds_max);
        let own_limit = start.checked_add(own_seconds).unwrap_or(start);
        self.tools_until
            .map_or(own_limit, |until| own_limit.min(until))
    }

    /// Returns the session of the conversation, with its first message.
    fn session(
        &self,
        call_id: &str,
        setup: ConversationSetup,
        recorded: Option<RecordedConversation>,
        events: Sender<QueuedEvent>,
    ) -> ModelSession {
        let abandoned_models = recorded
            .as_ref()
            .map_or(0, |conversation| conversation.abandoned_models);
        let last_model = setup.models.len().saturating_sub(1);
        let models = setup.models.iter().skip(abandoned_models.min(last_model));
        let mut session = ModelSession {
            agent: self.agent.clone(),
            models: models
                .map(|model| for_subagent(model, &setup.task))
                .collect(),
            phase: self.phase,
            system: setup.system,
            tools: setup.tools,
            served: Arc::<ToolCatalogue>::default(),
            gate: setup.gate,
            conversation: Conversation::default(),
            pending_images: Vec::new(),
            steps_max: self.steps_max,
            deadline: self.deadline.clone(),
            end_signal: self.end_signal.clone(),
            tools_until: self.tools_until,
            budget: self.budget.clone(),
            plan: Mutex::new(None),
            recorded,
            messages: MessageReader::without_messages(),
            events,
            subagents: None,
            compaction_trigger: self.compaction_trigger.for_subagent(),
            vendor_requests: VendorRequestCount::default(),
            call_progress: CallProgress::default(),
            paid_media: None,
            call_scope: Some(format!("{call_id}/{}", setup.task.id)),
            shared_prefix: None,
        };
        session.add_user_message(setup.first);
        session
    }

    /// Forwards the events of a conversation until it has ended, without streamed text: its replies
    /// contain that text.
    async fn forward_events(
        &self,
        call_id: &str,
        subagent: &SubagentId,
        mut event_receiver: Receiver<QueuedEvent>,
    ) {
        while let Some(queued) = event_receiver.recv().await {
            let event = match queued {
                QueuedEvent::Event(event) if event.is_streamed() => continue,
                QueuedEvent::Event(event) => event,
                barrier @ QueuedEvent::Barrier(_) => {
                    let _closed = self.events.send(barrier).await;
                    continue;
                }
            };
            let (agent, call_id, subagent) =
                (self.agent.clone(), call_id.to_owned(), subagent.clone());
            let event = match event {
                Event::Model(event) => Event::Subagent(SubagentEvent::SubagentModel {
                    agent,
                    call_id,
                    subagent,
                    event,
                }),
                Event::Tool(event) => Event::Subagent(SubagentEvent::SubagentTool {
                    agent,
                    call_id,
                    subagent,
                    event,
                }),
                // Limits and warnings are the agent's.
                Event::Run(_)
                | Event::Subagent(_)
                | Event::Coordination(_)
                | Event::Delivery(_)
                | Event::Pipeline(_) => event,
            };
            emit(&self.events, event).await;
        }
    }
}

/// Awaits `work`, which ends soon after `token` is cancelled; cancels the token when `cancellation`
/// completes. `work` is boxed, so that it can be polled by reference until then.
pub(super) async fn cancel_when<T>(
    cancellation: BoxFuture<'_, ()>,
    token: &CancellationToken,
    mut work: Pin<Box<impl Future<Output = T>>>,
) -> T {
    tokio::select! {
        output = &mut work => return output,
        () = cancellation => token.cancel(),
    }
    work.await
}

/// Returns the end of a conversation that reached its deadline after `time_max`.
fn timeout_end(time_max: Duration, seconds_max: u64, limit: &str) -> ConversationEnd {
    let reason = if time_max.as_secs() < seconds_max {
        "its agent's round reached its time limit".to_owned()
    } else {
        format!("it had no result after {seconds_max} s ({limit})")
    };
    (SubagentStatus::Timeout, Some(reason))
}

/// Returns `model` with the backend that a conversation about `task` uses.
fn for_subagent(model: &AvailableModel, task: &SubagentTask) -> AvailableModel {
    match model.backend.for_subagent(&task.id) {
        Some(backend) => AvailableModel {
            backend,
            ..model.clone()
        },
        None => model.clone(),
    }
}

/// Lets a subagent work until it replies without a call. `answer` is the last text of its model.
async fn work(session: &mut ModelSession, answer: &mut String) -> ConversationEnd {
    let failure = |reason: String| (SubagentStatus::Failed, Some(reason));
    for _ in 0..session.steps_max {
        let reply = match session.step().await {
            Ok(reply) => reply,
            Err(error) => return failure(error.message),
        };
        let has_text = !reply.text.trim().is_empty();
        if has_text {
            *answer = reply.text;
        }
        if reply.calls.is_empty() {
            return if has_text {
                (SubagentStatus::Completed, None)
            } else {
                failure("its last reply has no text".to_owned())
            };
        }
        let calls = reply.calls.into_iter().map(|request| {
            let call = match parse_model_call(&request.name, &request.arguments, &session.served) {
                Ok(ModelCall::Tool(call)) => Ok(call),
                Ok(ModelCall::Workflow(_)) => Err(decisions_are_not_yours().to_owned()),
                Err(error) => Err(error.to_string()),
            };
            RequestedToolCall { request, call }
        });
        let calls = calls.collect();
        session.execute_calls(calls).await;
    }
    failure(match session.steps_max {
        1 => "its only reply calls a tool instead of giving a result".to_owned(),
        steps => format!("no result after {steps} requests (`max_steps_per_round`)"),
    })
}
