//! What the models of agents write before the first round: personas of the agents, paraphrases of
//! the task, and criteria for votes. A run whose model writes nothing usable continues without, and
//! says so.

use std::future::pending;
use std::sync::Arc;

use futures_util::FutureExt;

use crate::agent::compaction_trigger::CompactionTrigger;
use crate::agent::separate_requests::{SeparateConversations, SeparateRequest};
use crate::config::preparation::{
    GeneratedCriteriaConfig, ParaphraseConfig, PersonaConfig, PreparationConfig,
};
use crate::error::{Error, Result};
use crate::event::{CRITERIA_SUBAGENT, RunEvent, SeparateCall};
use crate::id::{AgentId, AgentNumber};
use crate::orchestrator::PreparedTurn;
use crate::prompts::preparation::{
    PREPARATION_SYSTEM_PROMPT, criteria_message, criteria_request, paraphrase_message,
    paraphrases_request, parse_criteria, parse_paraphrases, parse_personas, persona_message,
    personas_request,
};
use crate::text::count_noun;

/// The names of the requests, in views and logs.
const PERSONAS: &str = "personas";
const PARAPHRASES: &str = "paraphrases";

impl PreparedTurn {
    /// Has models write what the config asks for, once for all coordinations.
    pub(super) async fn prepare(&mut self) -> Result<()> {
        let PreparationConfig {
            personas,
            criteria,
            paraphrases,
        } = std::mem::take(&mut self.config.orchestrator.preparation);
        // A single agent has no other agent to differ from.
        if let Some(config) = personas.filter(|_| self.team.members.len() > 1) {
            self.prepare_personas(&config).await?;
        }
        if let Some(config) = paraphrases {
            self.prepare_paraphrases(&config).await?;
        }
        if let Some(config) = criteria {
            self.prepare_criteria(config).await?;
        }
        Ok(())
    }

    async fn prepare_personas(&mut self, config: &PersonaConfig) -> Result<()> {
        let members = self.team.members.iter();
        let agents: Vec<(AgentNumber, Option<&str>)> = members
            .map(|member| (member.number, member.config.system_message.as_deref()))
            .collect();
        let numbers: Vec<AgentNumber> = agents.iter().map(|(number, _)| *number).collect();
        let purpose = format!("write personas for {}", count_noun(agents.len(), "agent"));
        let question = personas_request(&self.task.question, &agents, config);
        let reply = self.ask(None, PERSONAS, purpose, question).await?;
        match reply.and_then(|reply| parse_personas(&reply, &numbers)) {
            Ok(personas) => {
                for (agent, persona) in personas {
                    self.add_to_first_message(agent, &persona_message(&persona, config.lifetime));
                }
            }
            Err(reason) => self.warn_about_missing(PERSONAS, &reason).await,
        }
        Ok(())
    }

    async fn prepare_paraphrases(&mut self, config: &ParaphraseConfig) -> Result<()> {
        let purpose = "write the task in other words".to_owned();
        let question = paraphrases_request(&self.task.question, config);
        let author = config.author.as_ref();
        let reply = self.ask(author, PARAPHRASES, purpose, question).await?;
        match reply.and_then(|reply| parse_paraphrases(&reply, config)) {
            Ok(paraphrases) => {
                let members = self.team.members.iter();
                let numbers: Vec<AgentNumber> = members.map(|member| member.number).collect();
                for (agent, paraphrase) in numbers.into_iter().zip(paraphrases.iter().cycle()) {
                    self.add_to_first_message(agent, &paraphrase_message(paraphrase));
                }
            }
            Err(reason) => self.warn_about_missing(PARAPHRASES, &reason).await,
        }
        Ok(())
    }

    async fn prepare_criteria(&mut self, config: GeneratedCriteriaConfig) -> Result<()> {
        let purpose = "write criteria for the votes".to_owned();
        let question = criteria_request(&self.task.question, config);
        let reply = self.ask(None, CRITERIA_SUBAGENT, purpose, question).await?;
        match reply.and_then(|reply| parse_criteria(&reply, config)) {
            Ok(criteria) => {
                let message = criteria_message(&criteria);
                let members = self.team.members.iter();
                let numbers: Vec<AgentNumber> = members.map(|member| member.number).collect();
                // A single agent does not vote.
                if numbers.len() > 1 {
                    for agent in numbers {
                        self.add_to_first_message(agent, &message);
                    }
                }
                if let Some(checklist) = &mut self.config.orchestrator.checklist {
                    checklist.criteria = criteria;
                }
                self.team.use_generated_criteria();
            }
            Err(reason) => self.warn_about_missing(CRITERIA_SUBAGENT, &reason).await,
        }
        Ok(())
    }

    async fn warn_about_missing(&self, name: &str, reason: &str) {
        let message = format!("no {name} were written, and the run continues without: {reason}");
        self.emit(RunEvent::Warning { message }).await;
    }

    /// Returns the reply to a request before the first round, or why there is none.
    async fn ask(
        &self,
        preferred: Option<&AgentId>,
        name: &str,
        purpose: String,
        question: String,
    ) -> Result<std::result::Result<String, String>> {
        let request = SeparateRequest {
            call: SeparateCall::Preparation,
            name: name.to_owned(),
            purpose,
            system: PREPARATION_SYSTEM_PROMPT,
            question,
        };
        let conversations = self.separate_conversations(preferred, request.call)?;
        Ok(conversations.ask(request, pending().boxed()).await)
    }

    /// Returns the conversations with the agent `preferred`, or with the first agent that is not an
    /// external agent, or with the first agent.
    pub(super) fn separate_conversations(
        &self,
        preferred: Option<&AgentId>,
        call: SeparateCall,
    ) -> Result<SeparateConversations> {
        let members = &self.team.members;
        let preferred_member =
            preferred.and_then(|id| members.iter().find(|member| member.id == *id));
        let mut internal_members = members
            .iter()
            .filter(|member| member.config.backend.external_agent.is_none());
        let member = preferred_member
            .or_else(|| internal_members.next())
            .or(members.first())
            .ok_or_else(|| Error::bug("a team has no member"))?;
        let models = self.models.get(&member.id).cloned().unwrap_or_default();
        let recorded_conversations = &self.recorded_conversations;
        Ok(SeparateConversations::new(
            member.id.clone(),
            self.team.launchable_models(member, models)?,
            member.config.steps_per_round_max,
            Arc::clone(&self.ledger),
            CompactionTrigger::new(&self.config.orchestrator),
            recorded_conversations.subagents_of_next(&member.id, call.id()),
            self.events.clone(),
        ))
    }

    fn add_to_first_message(&mut self, agent: AgentNumber, text: &str) {
        let additions = self.additions.entry(agent).or_default();
        additions.push_str("\n\n");
        additions.push_str(text);
    }

    /// Returns the first message of the agent `number` for `task`, with what was written for it.
    pub(super) fn first_message(&self, number: AgentNumber, task: &str) -> String {
        let identity = self.team.identity_message(number);
        let addition = self.additions.get(&number).map_or("", String::as_str);
        format!("{task}{identity}{addition}")
    }
}
