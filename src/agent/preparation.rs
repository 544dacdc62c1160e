//! Requests to an agent's model before the first round: each is a conversation of its own, like
//! that of a subagent, so that it is charged, shown, recorded, and not repeated in a resumed run.

use std::sync::Arc;

use futures_util::FutureExt;
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

use crate::agent::budget::AgentBudget;
use crate::agent::call_conversations::{CallConversations, ConversationSetup};
use crate::agent::compaction_trigger::CompactionTrigger;
use crate::agent::recorded_conversation::RecordedSubagent;
use crate::backend::AvailableModel;
use crate::event::PREPARATION_CALL;
use crate::id::{AgentId, SubagentId};
use crate::prompts::preparation::PREPARATION_SYSTEM_PROMPT;
use crate::tools::call::SubagentTask;
use crate::world::io::event_queue::QueuedEvent;

/// Timeout of a request, in seconds.
const PREPARATION_SECONDS_MAX: u64 = 300;

/// The agent whose model receives the requests.
#[derive(Debug)]
pub struct PreparingAgent {
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

/// A request before the first round.
#[derive(Debug)]
pub struct PreparationRequest {
    /// Its name in views and logs.
    pub name: &'static str,
    /// What it is for, as views show it.
    pub purpose: String,
    /// The message to the model.
    pub question: String,
}

impl PreparingAgent {
    /// Returns the conversations with its model.
    pub fn conversations(self) -> PreparationConversations {
        PreparationConversations(CallConversations::before_rounds(self))
    }
}

/// The conversations before the first round.
#[derive(Debug)]
pub struct PreparationConversations(CallConversations);

impl PreparationConversations {
    /// Returns the reply to a request.
    ///
    /// # Errors
    /// The model gave no reply; the string says why.
    pub async fn ask(&self, request: PreparationRequest) -> Result<String, String> {
        let id = SubagentId::parse(request.name).map_err(|invalid| invalid.to_string())?;
        let setup = ConversationSetup {
            task: SubagentTask::new(id, request.purpose),
            models: self.0.models.clone(),
            system: PREPARATION_SYSTEM_PROMPT.into(),
            first: request.question,
            tools: Arc::default(),
            gate: None,
            seconds_max: PREPARATION_SECONDS_MAX,
            limit: "the limit of a request before the first round",
        };
        let never_cancelled = CancellationToken::new();
        // Boxed, because the types of nested futures would become too deep for the compiler.
        let conversation_run = self
            .0
            .run(PREPARATION_CALL, setup, &never_cancelled)
            .boxed();
        conversation_run.await.into_answer()
    }
}
