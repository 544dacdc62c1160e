//! The subagents of an agent: each is a conversation of its own with the agent's model, restricted
//! to the gate that the agent's call opened for it. All that they use is charged to the agent, and
//! they end with the agent's call. See `docs/decisions/0052-subagents-are-calls.md`.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::agent::budget::AgentBudget;
use crate::agent::calls::FileToolCall;
use crate::agent::deadline::RunDeadline;
use crate::agent::message_reader::MessageReader;
use crate::agent::recorded_conversation::{RecordedConversation, RecordedSubagent};
use crate::agent::{ModelSession, emit};
use crate::backend::AvailableModel;
use crate::backend::conversation::Conversation;
use crate::config::SubagentsConfig;
use crate::event::{Event, SubagentEvent, SubagentStatus};
use crate::id::{AgentId, SubagentId};
use crate::permissions::grant::Phase;
use crate::prompts::subagents::{decisions_are_not_yours, subagent_system, subagent_task};
use crate::tools::call::SubagentTask;
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::{COMMANDS, ToolOffer};
use crate::tools::workflow::{ModelCall, parse_model_call};
use crate::world::access::gate::Gate;
use crate::world::exec::subagents::{SubagentOrder, SubagentReport, SubagentRunner};
use crate::world::io::clock::milliseconds;

/// Maximum number of subagents of one agent in one conversation.
pub const SUBAGENTS_MAX: usize = 32;
/// Maximum number of events of one subagent that wait to be forwarded.
const EVENTS_WAITING_MAX: usize = 64;

/// The setup of the subagents of one agent. Clones share the count of subagents.
#[derive(Clone, Debug)]
pub struct SubagentSetup {
    /// Their limits.
    pub limits: SubagentsConfig,
    /// The tools that they are offered. Without an environment for their commands, the tools that
    /// run commands are left out.
    pub tools: Arc<[ToolOffer]>,
    /// The description of their commands.
    pub commands: Arc<str>,
    /// Whether the conversation is resumed: subagents without a record may have left directories.
    pub is_resumed: bool,
    /// The subagents that the agent has started.
    started: Arc<Mutex<BTreeSet<SubagentId>>>,
}

impl SubagentSetup {
    /// Creates the setup of an agent that has started no subagent.
    pub fn new(limits: SubagentsConfig, tools: Arc<[ToolOffer]>, commands: Arc<str>) -> Self {
        Self {
            limits,
            tools,
            commands,
            is_resumed: false,
            started: Arc::default(),
        }
    }

    /// Returns the setup for a conversation that is resumed or not.
    #[must_use]
    pub fn for_resumed(self, is_resumed: bool) -> Self {
        Self { is_resumed, ..self }
    }

    /// Counts the subagents for `tasks` towards the maximum, all or none.
    ///
    /// # Errors
    /// There would be too many, or one has the name of an earlier one; the string says why.
    pub(super) fn count(&self, tasks: &[SubagentTask]) -> Result<(), String> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = tasks.iter().find(|task| started.contains(&task.id)) {
            return Err(format!(
                "you have started `{}` before: give the subagent another `id`",
                known.id
            ));
        }
        let before = started.len();
        if before.saturating_add(tasks.len()) > SUBAGENTS_MAX {
            return Err(format!(
                "you may start {SUBAGENTS_MAX} subagents and have started {before}: do the rest \
                 yourself"
            ));
        }
        started.extend(tasks.iter().map(|task| task.id.clone()));
        Ok(())
    }
}

/// The subagents of one call of an agent.
#[derive(Debug)]
pub(super) struct SubagentCall {
    setup: SubagentSetup,
    agent: AgentId,
    models: Vec<AvailableModel>,
    phase: Phase,
    steps_max: u32,
    deadline: Option<RunDeadline>,
    /// The time from which the agent may use no more tools in its round.
    tools_until: Option<Instant>,
    budget: AgentBudget,
    recorded: Vec<RecordedSubagent>,
    events: Sender<Event>,
}

impl ModelSession {
    /// Returns the runner of the subagents that a call of the agent starts, if it may have some.
    pub(super) fn subagent_call(&self) -> Option<SubagentCall> {
        let recorded = self.recorded.as_ref();
        Some(SubagentCall {
            setup: self.subagents.clone()?,
            agent: self.agent.clone(),
            models: self.models.clone(),
            phase: self.phase,
            steps_max: self.steps_max,
            deadline: self.deadline.clone(),
            tools_until: self.tools_until,
            budget: self.budget.clone(),
            recorded: recorded.map_or_else(Vec::new, |memory| memory.subagents.clone()),
            events: self.events.clone(),
        })
    }
}

/// How the work of a subagent ended, and the reason if it was not completed.
type WorkEnd = (SubagentStatus, Option<String>);

impl SubagentCall {
    fn recorded(&self, call_id: &str, subagent: &SubagentId) -> Option<&RecordedSubagent> {
        let mut recorded = self.recorded.iter();
        recorded.find(|recorded| recorded.call_id == call_id && recorded.subagent == *subagent)
    }

    /// Runs one subagent, and reports it. One that had ended before the run was interrupted is not
    /// run again.
    async fn run_one(
        &self,
        call_id: &str,
        order: SubagentOrder,
        cancelled: &CancellationToken,
    ) -> SubagentReport {
        let recorded = self.recorded(call_id, &order.task.id);
        if let Some(report) = recorded.and_then(RecordedSubagent::report) {
            return report;
        }
        if cancelled.is_cancelled() {
            return SubagentReport {
                status: SubagentStatus::Cancelled,
                answer: String::new(),
                reason: Some("it was not started: the call was cancelled".to_owned()),
                elapsed: Duration::ZERO,
            };
        }
        let recorded = recorded.map(|recorded| recorded.conversation.clone());
        let task = order.task.clone();
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
        let began = Instant::now();
        let (events, arriving) = mpsc::channel(EVENTS_WAITING_MAX);
        let session = self.session(call_id, order, recorded, events);
        let (mut answer, work_end) = (String::new(), self.time_limit(began));
        let working = async {
            // The session is dropped at the end of this block, which closes the channel.
            let mut session = session;
            tokio::select! {
                ended = work(&mut session, &mut answer) => ended,
                () = sleep_until(work_end) => self.timeout(work_end, began),
                () = cancelled.cancelled() => {
                    (SubagentStatus::Cancelled, Some("the call was cancelled".to_owned()))
                }
            }
        };
        let forwarding = self.forward(call_id, &task.id, arriving);
        let ((status, reason), ()) = tokio::join!(working, forwarding);
        let elapsed = began.elapsed();
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

    /// Returns the deadline of a subagent that starts at `began`.
    fn time_limit(&self, began: Instant) -> Instant {
        let own = Duration::from_secs(self.setup.limits.timeout_seconds);
        let own = began.checked_add(own).unwrap_or(began);
        self.tools_until.map_or(own, |until| own.min(until))
    }

    fn timeout(&self, work_end: Instant, began: Instant) -> WorkEnd {
        let seconds = self.setup.limits.timeout_seconds;
        let reason = if work_end.duration_since(began).as_secs() < seconds {
            "its agent's round reached its time limit".to_owned()
        } else {
            format!("it had no result after {seconds} s (`subagent_default_timeout`)")
        };
        (SubagentStatus::Timeout, Some(reason))
    }

    /// Returns the conversation of a subagent, with its task.
    fn session(
        &self,
        call_id: &str,
        order: SubagentOrder,
        recorded: Option<RecordedConversation>,
        events: Sender<Event>,
    ) -> ModelSession {
        let SubagentOrder {
            task,
            gate,
            workspace,
        } = order;
        let (tools, commands) = self.offers(&gate);
        let abandoned = recorded.as_ref().map_or(0, |memory| memory.models_left);
        let last = self.models.len().saturating_sub(1);
        let models = self.models.iter().skip(abandoned.min(last));
        let mut session = ModelSession {
            agent: self.agent.clone(),
            models: models.map(|model| for_subagent(model, &task)).collect(),
            phase: self.phase,
            system: subagent_system(&workspace, commands).into(),
            tools,
            served: Arc::<ToolCatalogue>::default(),
            gate: Some(gate),
            conversation: Conversation::default(),
            pending_images: Vec::new(),
            steps_max: self.steps_max,
            deadline: self.deadline.clone(),
            tools_until: self.tools_until,
            budget: self.budget.clone(),
            plan: Mutex::new(None),
            recorded,
            messages: MessageReader::without_messages(),
            events,
            subagents: None,
            call_scope: Some(format!("{call_id}/{}", task.id)),
        };
        session.add_user_message(subagent_task(&task.task));
        session
    }

    /// Returns the tools of a subagent with this gate, and the description of its commands.
    fn offers(&self, gate: &Gate) -> (Arc<[ToolOffer]>, &str) {
        if gate.commands().is_some() {
            return (Arc::clone(&self.setup.tools), &*self.setup.commands);
        }
        let tools = self.setup.tools.iter();
        let is_about_commands =
            |offer: &&ToolOffer| COMMANDS.iter().any(|tool| tool.name == offer.name);
        (
            tools
                .filter(|offer| !is_about_commands(offer))
                .cloned()
                .collect(),
            "",
        )
    }

    /// Forwards the events of a subagent until it has ended, without streamed text: its replies
    /// contain that text.
    async fn forward(&self, call_id: &str, subagent: &SubagentId, mut arriving: Receiver<Event>) {
        while let Some(event) = arriving.recv().await {
            if event.is_streamed() {
                continue;
            }
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

impl SubagentRunner for SubagentCall {
    fn reserve(&self, tasks: &[SubagentTask]) -> Result<(), String> {
        self.setup.count(tasks)
    }

    fn is_resumed(&self) -> bool {
        self.setup.is_resumed
    }

    fn run<'a>(
        &'a self,
        call_id: &'a str,
        orders: Vec<SubagentOrder>,
        cancelled: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Vec<SubagentReport>> {
        async move {
            let token = CancellationToken::new();
            let running = stream::iter(orders).map(|order| self.run_one(call_id, order, &token));
            let mut running = Box::pin(
                running
                    .buffered(self.setup.limits.concurrent_max)
                    .collect::<Vec<_>>(),
            );
            tokio::select! {
                reports = &mut running => return reports,
                () = cancelled => token.cancel(),
            }
            running.await
        }
        .boxed()
    }
}

/// Returns `model` with the backend that a subagent with `task` uses.
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
async fn work(session: &mut ModelSession, answer: &mut String) -> WorkEnd {
    let failed = |reason: String| (SubagentStatus::Failed, Some(reason));
    for _ in 0..session.steps_max {
        let reply = match session.step().await {
            Ok(reply) => reply,
            Err(fault) => return failed(fault.message),
        };
        if !reply.text.trim().is_empty() {
            *answer = reply.text;
        }
        if reply.calls.is_empty() {
            return match answer.as_str() {
                "" => failed("its last reply has no text".to_owned()),
                _ => (SubagentStatus::Completed, None),
            };
        }
        let calls = reply.calls.into_iter().map(|request| {
            let call = match parse_model_call(&request.name, &request.arguments, &session.served) {
                Ok(ModelCall::File(call)) => Ok(call),
                Ok(ModelCall::Workflow(_)) => Err(decisions_are_not_yours().to_owned()),
                Err(error) => Err(error.to_string()),
            };
            FileToolCall { request, call }
        });
        let calls = calls.collect();
        session.execute_calls(calls).await;
    }
    failed(format!(
        "no result after {} requests (`max_steps_per_round`)",
        session.steps_max
    ))
}
