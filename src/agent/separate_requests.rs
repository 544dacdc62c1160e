//! Requests to an agent's model outside its rounds: before the first one, and to compare answers.
//! Each is a separate conversation, like that of a subagent, so that it is charged, shown and
//! recorded.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::Sender;

use crate::agent::budget::AgentBudget;
use crate::agent::call_conversations::{CallConversations, ConversationSetup};
use crate::agent::compaction_trigger::CompactionTrigger;
use crate::agent::recorded_conversation::RecordedSubagent;
use crate::backend::available_model::AvailableModel;
use crate::event::SeparateCall;
use crate::id::{AgentId, SubagentId};
use crate::tools::call::SubagentTask;
use crate::world::io::event_sink::QueuedEvent;

/// Timeout of a request, in seconds.
const REQUEST_SECONDS_MAX: u64 = 300;

/// The agent whose model receives the requests.
#[derive(Debug)]
pub struct AskedAgent {
    /// The agent.
    pub id: AgentId,
    /// Its models.
    pub models: Vec<AvailableModel>,
    /// The maximum number of its requests in a conversation.
    pub steps_max: u32,
    /// What it may spend.
    pub budget: AgentBudget,
    /// When its conversations are compacted.
    pub compaction_trigger: CompactionTrigger,
    /// The recorded requests of this kind, in a resumed run.
    pub recorded: Vec<RecordedSubagent>,
    /// The event channel.
    pub events: Sender<QueuedEvent>,
}

/// A request outside the rounds.
#[derive(Debug)]
pub struct SeparateRequest {
    /// Its occasion.
    pub call: SeparateCall,
    /// Its name in views and logs.
    pub name: String,
    /// What it is for, as views show it.
    pub purpose: String,
    /// The system message.
    pub system: &'static str,
    /// The message to the model.
    pub question: String,
}

impl AskedAgent {
    /// Returns the conversations with its model.
    pub fn conversations(self) -> SeparateConversations {
        SeparateConversations(CallConversations::outside_rounds(self))
    }
}

/// The conversations with one model outside the rounds.
#[derive(Debug)]
pub struct SeparateConversations(CallConversations);

impl SeparateConversations {
    /// Returns the reply to a request, which is given up when `cancellation` completes.
    ///
    /// # Errors
    /// The model gave no reply; the string says why.
    pub async fn ask(
        &self,
        request: SeparateRequest,
        cancellation: BoxFuture<'_, ()>,
    ) -> Result<String, String> {
        let id = SubagentId::parse(&request.name).map_err(|invalid| invalid.to_string())?;
        let setup = ConversationSetup {
            task: SubagentTask::new(id, request.purpose),
            models: self.0.models.clone(),
            system: request.system.into(),
            first: request.question,
            tools: Arc::default(),
            gate: None,
            seconds_max: REQUEST_SECONDS_MAX,
            limit: "the limit of a request outside the rounds",
        };
        // Boxed, because the types of nested futures would become too deep for the compiler.
        let conversation_run = self
            .0
            .run_until(request.call.id(), setup, cancellation)
            .boxed();
        conversation_run.await.into_answer()
    }
}
