//! Owns one agent at work: its conversation with its model, and the loop that asks, carries out
//! calls and asks again. Whether a call may run is the gate's decision, who wins the ballot's.

pub mod budget;
pub mod calls;
pub mod replay_visibility;
mod images;
pub mod recorded_conversation;
pub mod deadline;
pub mod presentation;
mod request_guard;
pub mod round;
mod servers;
mod compaction;
mod step;

use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use crate::agent::budget::AgentBudget;
use crate::agent::deadline::RunDeadline;
use crate::agent::recorded_conversation::RecordedConversation;
use crate::backend::AvailableModel;
use crate::backend::conversation::{ChatMessage, Conversation};
use crate::event::Event;
use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::tools::parse;
use crate::tools::request::CallRequest;
use crate::tools::served::ToolCatalogue;
use crate::tools::spec::ToolOffer;
use crate::world::gate::Gate;

/// An agent's side of its conversation with a model.
#[derive(Debug)]
pub struct ModelSession {
    /// Whose it is.
    pub agent: AgentId,
    /// The model that is asked, and after it those that are asked when it cannot go on.
    pub models: Vec<AvailableModel>,
    /// The half of the turn that the conversation belongs to.
    pub phase: Phase,
    /// What the model is told first, in every request.
    pub system: Arc<str>,
    /// The tools that it is offered, in every request.
    pub tools: Arc<[ToolOffer]>,
    /// The tools of servers among them.
    pub served: Arc<ToolCatalogue>,
    /// What decides about its calls; without one it has no file access.
    pub gate: Option<Gate>,
    /// What was said so far.
    pub conversation: Conversation,
    /// The images of the last results, which follow when all calls have theirs.
    pub pending_images: Vec<ChatMessage>,
    /// Requests in one round or presentation, so that it does not go on forever.
    pub steps_max: u32,
    /// Until when its commands may go on. Without it they end when nobody waits for them any more.
    pub deadline: Option<RunDeadline>,
    /// What its requests and calls are charged to.
    pub budget: AgentBudget,
    /// What is recorded of the conversation, where a run is gone on with.
    pub recorded: Option<RecordedConversation>,
    /// Where events go.
    pub events: Sender<Event>,
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
    /// Whether the model was offered the tool of this name.
    pub fn offers(&self, name: &str) -> bool {
        let name = parse::canonical_name(name);
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Adds something that massgen says.
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

    /// Ends what its models still do although nobody waits for it any more.
    pub async fn shutdown(&self) {
        for model in &self.models {
            model.backend.shutdown().await;
        }
    }

    /// Tells the outside.
    pub async fn emit(&self, event: impl Into<Event>) {
        emit(&self.events, event).await;
    }
}

/// Sends an event. Nobody listening any more is no reason to stop.
pub async fn emit(events: &Sender<Event>, event: impl Into<Event>) {
    let _closed = events.send(event.into()).await;
}
