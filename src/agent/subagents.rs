//! The subagents of an agent: each is a conversation of its own with the agent's model, or with one
//! of those that the config names for subagents, restricted to the gate that the agent's call
//! opened for it. All that they use is charged to the agent, and they end with the agent's call.
//! See `docs/decisions/0052-subagents-are-calls.md`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio_util::sync::CancellationToken;

use crate::agent::ModelSession;
use crate::agent::call_conversations::{CallConversations, ConversationSetup, cancel_when};
use crate::backend::available_model::{AvailableModel, SubagentModel};
use crate::config::SubagentsConfig;
use crate::id::SubagentId;
use crate::prompts::subagent_types::SubagentChoices;
use crate::prompts::subagents::{subagent_system_prompt, subagent_task};
use crate::tools::call::SubagentTask;
use crate::tools::spec::{COMMANDS, ToolOffer};
use crate::world::access::gate::Gate;
use crate::world::exec::agent_launcher::AgentLaunchSetup;
use crate::world::exec::subagents::{SubagentReport, SubagentRunner, SubagentSpec};

/// Maximum number of subagents of one agent in one conversation.
pub const SUBAGENTS_MAX: usize = 32;

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
    /// What the agent may choose for them; `None` in a replay, which takes what was recorded.
    pub choices: Option<Arc<SubagentChoices>>,
    /// What starts those of their models that are external agents, by the names of the models.
    pub launch_setups: Arc<BTreeMap<String, AgentLaunchSetup>>,
    /// Whether the conversation is resumed: subagents without a record may have left directories.
    pub is_resumed: bool,
    /// The subagents that the agent has started, in their order.
    started_ids: Arc<Mutex<Vec<SubagentId>>>,
}

impl SubagentSetup {
    /// Creates the setup of an agent that has started no subagent.
    pub fn new(
        limits: SubagentsConfig,
        tools: Arc<[ToolOffer]>,
        commands: Arc<str>,
        choices: Option<Arc<SubagentChoices>>,
    ) -> Self {
        Self {
            limits,
            tools,
            commands,
            choices,
            launch_setups: Arc::default(),
            is_resumed: false,
            started_ids: Arc::default(),
        }
    }

    /// Counts the subagents for `tasks` towards the maximum, all or none.
    ///
    /// # Errors
    /// There would be too many, or one has the name of an earlier one; the string says why.
    pub(super) fn count(&self, tasks: &[SubagentTask]) -> Result<(), String> {
        let mut started_ids = self
            .started_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known_task) = tasks.iter().find(|task| started_ids.contains(&task.id)) {
            return Err(format!(
                "you have started `{}` before: give the subagent another `id`",
                known_task.id
            ));
        }
        let count_before = started_ids.len();
        if count_before.saturating_add(tasks.len()) > SUBAGENTS_MAX {
            return Err(format!(
                "you may start {SUBAGENTS_MAX} subagents and have started {count_before}: do the rest \
                 yourself"
            ));
        }
        started_ids.extend(tasks.iter().map(|task| task.id.clone()));
        Ok(())
    }

    /// Returns the number of subagents that the agent has started before `subagent`.
    fn number_before(&self, subagent: &SubagentId) -> usize {
        let started_ids = self
            .started_ids
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let index = started_ids.iter().position(|known| known == subagent);
        index.unwrap_or(started_ids.len())
    }
}

/// The subagents of one call of an agent.
#[derive(Debug)]
pub(super) struct SubagentCall {
    setup: SubagentSetup,
    conversations: CallConversations,
}

impl ModelSession {
    /// Returns the runner of the subagents that a call of the agent starts, if it may have some.
    pub(super) fn subagent_call(&self) -> Option<SubagentCall> {
        Some(SubagentCall {
            setup: self.subagents.clone()?,
            conversations: self.call_conversations(),
        })
    }
}

impl SubagentCall {
    /// Returns what the conversation of a subagent starts with.
    fn conversation_setup(&self, spec: SubagentSpec) -> ConversationSetup {
        let SubagentSpec {
            task,
            gate,
            workspace,
        } = spec;
        let (tools, commands) = self.offers(&gate);
        let choices = self.setup.choices.as_deref();
        let chosen_model = self.chosen_model(&task);
        let launch_setup =
            chosen_model.and_then(|model| self.setup.launch_setups.get(&*model.name));
        // An external agent has commands of its own.
        let commands = launch_setup.is_none().then_some(commands);
        ConversationSetup {
            models: self.models(chosen_model, launch_setup, &gate),
            system: subagent_system_prompt(&task, &workspace, commands, choices).into(),
            first: subagent_task(&task.task),
            tools,
            gate: Some(gate),
            task,
            seconds_max: self.setup.limits.timeout_seconds,
            limit: "`subagent_default_timeout`",
        }
    }

    /// Returns the model that the agent has chosen for a subagent, or else the next one in the
    /// order of the config; `None` if there are no models for subagents like it.
    fn chosen_model(&self, task: &SubagentTask) -> Option<&SubagentModel> {
        let choices = self.setup.choices.as_deref();
        if choices.is_some_and(|choices| !choices.has_own_model(task)) {
            return None;
        }
        // The fallback models have the same models for subagents.
        let first_model = self.conversations.models.first()?;
        let models = &first_model.subagents;
        let find_model = |name: &str| models.iter().find(|model| *model.name == *name);
        let chosen_model = task.agent.as_deref().and_then(find_model);
        chosen_model.or_else(|| {
            let number_before = self.setup.number_before(&task.id);
            models.get(number_before.checked_rem(models.len())?)
        })
    }

    /// Returns the models of a subagent with this gate: `chosen_model`, which `launch_setup` starts
    /// if it is an external agent, or else the agent's models. An external agent that cannot be
    /// confined is not started, and a request to it fails.
    fn models(
        &self,
        chosen_model: Option<&SubagentModel>,
        launch_setup: Option<&AgentLaunchSetup>,
        gate: &Gate,
    ) -> Vec<AvailableModel> {
        let Some(chosen_model) = chosen_model else {
            return self.conversations.models.clone();
        };
        let confined_setup = launch_setup.and_then(|setup| setup.for_subagent(gate.clone()).ok());
        let models = chosen_model.models.iter().cloned();
        match &confined_setup {
            Some(setup) => models.map(|model| model.with_launcher(setup)).collect(),
            None => models.collect(),
        }
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
}

impl SubagentRunner for SubagentCall {
    fn reserve(&self, tasks: &[SubagentTask]) -> Result<(), String> {
        if let Some(choices) = &self.setup.choices {
            choices.check(tasks)?;
        }
        self.setup.count(tasks)
    }

    fn is_resumed(&self) -> bool {
        self.setup.is_resumed
    }

    fn run<'a>(
        &'a self,
        call_id: &'a str,
        specs: Vec<SubagentSpec>,
        cancellation: BoxFuture<'a, ()>,
    ) -> BoxFuture<'a, Vec<SubagentReport>> {
        async move {
            let token = &CancellationToken::new();
            let conversations = stream::iter(specs).enumerate().map(|(index, spec)| {
                let setup = self.conversation_setup(spec);
                async move { (index, self.conversations.run(call_id, setup, token).await) }
            });
            // Unordered, so that a long conversation does not delay the start of others.
            let running = conversations.buffer_unordered(self.setup.limits.concurrent_max);
            let mut reports: Vec<(usize, SubagentReport)> =
                cancel_when(cancellation, token, Box::pin(running.collect())).await;
            reports.sort_by_key(|(index, _)| *index);
            reports.into_iter().map(|(_, report)| report).collect()
        }
        .boxed()
    }
}
