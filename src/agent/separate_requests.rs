//! Requests to an agent's model outside its rounds: before the first one, and to compare answers.
//! Each is a separate conversation, like that of a subagent, so that it is charged, shown and
//! recorded.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

use crate::agent::budget::AgentBudget;
use crate::agent::call_conversations::{CallConversations, ConversationSetup};
use crate::agent::compaction_trigger::CompactionTrigger;
use crate::agent::recorded_conversation::RecordedSubagent;
use crate::backend::available_model::AvailableModel;
use crate::event::SeparateCall;
use crate::id::{AgentId, SubagentId};
use crate::permissions::grant::Phase;
use crate::spending::ledger::BudgetLedger;
use crate::tools::call::SubagentTask;
use crate::world::io::event_sink::QueuedEvent;

/// Timeout of a request, in seconds.
const REQUEST_SECONDS_MAX: u64 = 300;

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

/// The conversations with one model outside the rounds.
#[derive(Debug)]
pub struct SeparateConversations(CallConversations);

impl SeparateConversations {
    /// Returns the conversations with the `models` of an agent, which is charged; `recorded` are the
    /// recorded ones, in a resumed run.
    pub fn new(
        agent: AgentId,
        models: Vec<AvailableModel>,
        steps_max: u32,
        ledger: Arc<Mutex<BudgetLedger>>,
        compaction_trigger: CompactionTrigger,
        recorded: Vec<RecordedSubagent>,
        events: Sender<QueuedEvent>,
    ) -> Self {
        Self(CallConversations {
            models,
            phase: Phase::Coordination,
            steps_max,
            deadline: None,
            end_signal: CancellationToken::new(),
            tools_until: None,
            budget: AgentBudget::new(agent.clone(), ledger),
            agent,
            compaction_trigger,
            recorded,
            events,
        })
    }

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
