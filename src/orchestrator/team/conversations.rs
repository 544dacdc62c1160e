//! The conversations of a team's members: each begins with a gate, connected servers, a system
//! prompt and a first message.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

use crate::agent::budget::AgentBudget;
use crate::agent::call_progress::CallProgress;
use crate::agent::compaction_trigger::CompactionTrigger;
use crate::agent::message_reader::MessageReader;
use crate::agent::recorded_conversation::RecordedConversation;
use crate::agent::vendor_tools::VendorRequestCount;
use crate::agent::{ModelSession, emit};
use crate::answer_changes::ChangeLayers;
use crate::backend::available_model::AvailableModel;
use crate::backend::conversation::Conversation;
use crate::error::Result;
use crate::event::RunEvent;
use crate::orchestrator::attempts::Attempt;
use crate::orchestrator::coordination::Participant;
use crate::orchestrator::team::{AgentTeam, BegunAttempt, TeamMember};
use crate::permissions::grant::Phase;
use crate::prompts;
use crate::spending::ledger::BudgetLedger;
use crate::world::exec::server_calls;
use crate::world::io::event_sink::QueuedEvent;
use crate::world::sandbox::overlay::{LayerOrigin, WriteOverlay};

/// Connection of a conversation to its model, and the channel for its events.
#[derive(Debug)]
pub struct ModelConnection {
    /// The model, followed by its fallbacks.
    pub models: Vec<AvailableModel>,
    /// The ledger that its requests are charged to.
    pub ledger: Arc<Mutex<BudgetLedger>>,
    /// The recorded part of the conversation, in a resumed run.
    pub recorded: Option<RecordedConversation>,
    /// The messages of the user.
    pub messages: MessageReader,
    /// The event channel.
    pub events: Sender<QueuedEvent>,
}

impl AgentTeam {
    /// Returns `member` with its conversation started, with `task` as its first message, in the
    /// attempt that has `begun`, if it works in one. `last_answer` is what its last recorded answer
    /// changes, in a resumed run.
    pub async fn participant(
        &self,
        member: &TeamMember,
        begun: Option<BegunAttempt>,
        last_answer: Option<&ChangeLayers>,
        task: &str,
        connection: ModelConnection,
    ) -> Result<Participant> {
        let mut task = Cow::Borrowed(task);
        let mut attempt = None;
        if let Some(begun) = begun {
            let mut notes = begun.notes;
            if begun.origin == LayerOrigin::Lost {
                begun.attempt.apply(last_answer).await?;
                let note = prompts::attempt_lost(last_answer.is_some());
                task.to_mut().push_str(note);
                let id = &member.id;
                notes.push(format!("{id} lost what it changed since its last answer"));
            }
            for message in notes {
                if self.is_new_message(&message) {
                    emit(&connection.events, RunEvent::Warning { message }).await;
                }
            }
            attempt = Some(begun.attempt);
        }
        let overlay = attempt.as_ref().map(Attempt::overlay);
        let session =
            self.model_session(member, member.working_phase(), overlay, &task, connection);
        Ok(Participant {
            hooks: self.hooks(member)?,
            id: member.id.clone(),
            number: member.number,
            workspace: member.workspace.clone(),
            session: session.await?,
            attempt,
        })
    }

    /// Starts a conversation of `member` in `phase`, with an overlay if there is one. Connects to
    /// its servers: one that massgen refuses to use, or that is required and cannot be used, is an
    /// error.
    pub async fn model_session(
        &self,
        member: &TeamMember,
        phase: Phase,
        overlay: Option<&WriteOverlay>,
        first_message: &str,
        connection: ModelConnection,
    ) -> Result<ModelSession> {
        let gate = self.gate(member, phase, overlay)?;
        if let Some(gate) = &gate {
            let mut warnings = server_calls::connect(gate).await?;
            warnings.extend(self.unmatched_rule_warnings(member, &gate.catalogue()));
            for message in warnings {
                if self.is_new_message(&message) {
                    emit(&connection.events, RunEvent::Warning { message }).await;
                }
            }
            if let Some(conversation) = &connection.recorded {
                self.require_called_servers(member, conversation)?;
            }
        }
        // A resumed conversation continues with the model that it had reached.
        let abandoned_models = connection
            .recorded
            .as_ref()
            .map_or(0, |conversation| conversation.abandoned_models);
        let last_model = connection.models.len().saturating_sub(1);
        let mut subagents = self.subagent_setup(member, phase);
        if let Some(setup) = &mut subagents {
            setup.is_resumed = connection.recorded.is_some();
            setup.launch_setups = self.subagent_launch_setups(member, gate.as_ref()).into();
        }
        let models = self.with_agent_launcher(member, gate.as_ref(), connection.models);
        let mut session = ModelSession {
            agent: member.id.clone(),
            models: models
                .into_iter()
                .skip(abandoned_models.min(last_model))
                .collect(),
            phase: match phase {
                Phase::Coordination | Phase::Attempt => Phase::Coordination,
                Phase::Final => Phase::Final,
            },
            system: self.system_prompt(member, phase).into(),
            tools: self.tools(member, phase),
            served: Arc::default(),
            gate,
            conversation: Conversation::default(),
            pending_images: Vec::new(),
            steps_max: member.config.steps_per_round_max,
            deadline: None,
            end_signal: CancellationToken::new(),
            tools_until: None,
            budget: AgentBudget::new(member.id.clone(), connection.ledger),
            plan: Mutex::new(
                connection
                    .recorded
                    .as_ref()
                    .and_then(|conversation| conversation.plan.clone()),
            ),
            recorded: connection.recorded,
            messages: connection.messages,
            events: connection.events,
            subagents,
            compaction_trigger: CompactionTrigger::new(&self.config.orchestrator),
            vendor_requests: VendorRequestCount::default(),
            call_progress: CallProgress::default(),
            paid_media: self.paid_media(member, phase),
            call_scope: None,
            shared_prefix: None,
        };
        session.load_served_tools();
        session.add_user_message(first_message);
        self.add_task_media(member, &mut session).await;
        Ok(session)
    }

    /// Adds the images and files of the task of `member` to its conversation, and warns about those
    /// that are not part of it.
    async fn add_task_media(&self, member: &TeamMember, session: &mut ModelSession) {
        let images = Self::mentioned_images(member);
        let mut warnings = session.add_task_images(images).await;
        let urls = Self::uploaded_image_urls(member);
        warnings.extend(session.add_image_urls(urls, &self.page_fetcher).await);
        warnings.extend(Self::unseen_images(member));
        let files = Self::uploaded_files(member);
        warnings.extend(session.add_uploads(&files, &self.page_fetcher).await);
        for message in warnings {
            if self.is_new_message(&message) {
                session.emit(RunEvent::Warning { message }).await;
            }
        }
    }

    /// Returns whether `message` has not been reported yet, and remembers it.
    fn is_new_message(&self, message: &str) -> bool {
        let mut reported_messages = self.reported_messages.lock();
        reported_messages.insert(message.to_owned())
    }
}
