//! One agent at work: its conversation with its model, and the loop that asks, executes calls and
//! asks again. The gate decides whether a call may run, the ballot who wins.

pub mod budget;
pub mod calls;
pub mod answer_log;
pub mod replay_visibility;
mod uploads;
mod images;
pub mod message_reader;
pub mod recorded_conversation;
pub mod call_progress;
pub mod deadline;
pub mod presentation;
mod request_guard;
pub mod round;
mod servers;
mod compaction;
pub mod compaction_trigger;
pub mod shared_prefix;
mod step;
mod call_conversations;
pub mod subagents;
pub mod vendor_tools;
mod media;
pub mod separate_requests;
pub mod user_messages;

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc::Sender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::budget::AgentBudget;
use crate::agent::call_progress::CallProgress;
use crate::agent::compaction_trigger::CompactionTrigger;
use crate::agent::deadline::RunDeadline;
use crate::agent::message_reader::MessageReader;
use crate::agent::recorded_conversation::RecordedConversation;
use crate::agent::replay_visibility::ReplySource;
use crate::agent::shared_prefix::SharedPrefix;
use crate::agent::subagents::SubagentSetup;
use crate::agent::vendor_tools::VendorRequestCount;
use crate::backend::available_model::AvailableModel;
use crate::backend::conversation::{ChatMessage, Conversation};
use crate::event::{Event, ToolEvent};
use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::tools::CallRequest;
use crate::tools::parse;
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::ToolOffer;
use crate::tools::task_plan::TaskPlan;
use crate::world::access::gate::Gate;
use crate::world::io::event_sink::QueuedEvent;
use crate::world::store::paid_media::PaidMedia;

/// An agent's side of its conversation with a model.
#[derive(Debug)]
pub struct ModelSession {
    /// The agent.
    pub agent: AgentId,
    /// The current model, followed by its fallbacks.
    pub models: Vec<AvailableModel>,
    /// The phase of the turn that the conversation belongs to.
    pub phase: Phase,
    /// The system message of every request.
    pub system: Arc<str>,
    /// The tools that are offered in every request.
    pub tools: Arc<[ToolOffer]>,
    /// Those of them that servers provide.
    pub served: Arc<ToolCatalogue>,
    /// Decides about its calls; without it there is no file access.
    pub gate: Option<Gate>,
    /// The messages so far.
    pub conversation: Conversation,
    /// The images of the last results, which are added after the results of all calls.
    pub pending_images: Vec<ChatMessage>,
    /// Maximum number of requests in one round or presentation.
    pub steps_max: u32,
    /// The deadline for its commands. Without one they end when the future that waits for them is
    /// dropped.
    pub deadline: Option<RunDeadline>,
    /// Cancelled when the work of the agent ends, whatever it does: then its subagents take no
    /// further step.
    pub end_signal: CancellationToken,
    /// The time from which it may use no more tools, if its round has a time limit.
    pub tools_until: Option<Instant>,
    /// The account that its requests and calls are charged to.
    pub budget: AgentBudget,
    /// The recorded part of the conversation, in a resumed run.
    pub recorded: Option<RecordedConversation>,
    /// The messages of the user.
    pub messages: MessageReader,
    /// The agent's plan; `None` if it has none.
    pub plan: Mutex<Option<TaskPlan>>,
    /// The event channel.
    pub events: Sender<QueuedEvent>,
    /// The setup of its subagents, if it may have some.
    pub subagents: Option<SubagentSetup>,
    /// When it is compacted, and how far.
    pub compaction_trigger: CompactionTrigger,
    /// The number of its requests that used tools of its vendor or had media made.
    pub vendor_requests: VendorRequestCount,
    /// Whether its calls get it anywhere.
    pub call_progress: CallProgress,
    /// Where the media that it has made are kept, if they are.
    pub paid_media: Option<PaidMedia>,
    /// For a subagent, what its call ids are prefixed with so that they differ from those of its
    /// parent and of other subagents.
    pub call_scope: Option<String>,
    /// Its part in a group of sessions with the same first request, if there is one.
    pub shared_prefix: Option<SharedPrefix>,
}

/// One complete reply of a model.
#[derive(Debug)]
pub struct ModelReply {
    /// Its text.
    pub text: String,
    /// Its calls, in order.
    pub calls: Vec<CallRequest>,
}

impl ModelSession {
    /// Returns whether the model was offered the tool of this name.
    pub fn offers(&self, name: &str) -> bool {
        let name = parse::canonical_name(name);
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Returns where its next reply comes from.
    fn next_reply_source(&self) -> ReplySource {
        match &self.recorded {
            Some(recorded) if !recorded.is_exhausted() => ReplySource::Recording,
            Some(_) | None => ReplySource::Model,
        }
    }

    /// Adds a message of massgen's, which models read in the role of the user.
    pub fn add_user_message(&mut self, text: impl Into<Arc<str>>) {
        self.conversation.push(ChatMessage::User(text.into()));
    }

    /// Adds the result of a call.
    pub fn add_call_result(&mut self, call_id: &str, content: impl Into<String>) {
        let content = content.into();
        self.conversation.push(ChatMessage::CallResult {
            call_id: call_id.to_owned(),
            content,
        });
    }

    /// Ends what external agents among its models still do although nothing waits for it any more.
    pub async fn shutdown(&self) {
        for model in &self.models {
            model.backend.shutdown().await;
        }
    }

    /// Returns the agent's plan; `None` if it has none.
    pub fn current_plan(&self) -> Option<TaskPlan> {
        let plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        plan.clone()
    }

    /// Replaces the agent's plan, by the call `call_id` or because an external agent reports it,
    /// and emits it, unless an external agent reports the same plan again.
    async fn update_plan(&self, call_id: Option<&str>, plan: TaskPlan) {
        let previous_plan = {
            let mut current = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
            current.replace(plan.clone())
        };
        if call_id.is_some() || previous_plan.as_ref() != Some(&plan) {
            self.emit(ToolEvent::PlanUpdated {
                agent: self.agent.clone(),
                call_id: call_id.map(str::to_owned),
                entries: plan,
            })
            .await;
        }
    }

    /// Emits an event.
    pub async fn emit(&self, event: impl Into<Event>) {
        emit(&self.events, event).await;
    }
}

/// Sends an event. A closed channel is not an error.
pub async fn emit<Q: From<Event>>(events: &Sender<Q>, event: impl Into<Event>) {
    let _closed = events.send(event.into().into()).await;
}
