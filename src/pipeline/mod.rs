//! Runs a pipeline from its task to its end: selects the role that works next, and decides when the
//! pipeline is over. A role works in an ordinary run; its result becomes part of the shared branch,
//! whose history is the only record of progress. So a pipeline that is killed can be resumed.

pub mod delivery;
pub mod repository;
mod events;
mod instructions;
mod message_router;
pub mod inspect;
mod merge;
mod stage_run;
mod earlier_messages;
mod earlier_conversation;
mod clarification;
mod role_instance;
mod waiting_notice;
mod revert;
mod commit;
mod role_prompt;
mod reached_limit;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::mpsc::Sender;

use crate::agent::user_messages::UserMessageReceiver;
use crate::config::Config;
use crate::config::workflow::WorkflowConfig;
use crate::error::{Error, ExitStatus, Result};
use crate::event::{DeliveryEvent, Event, PipelineEvent, RunEvent};
use crate::id::AgentId;
use crate::orchestrator::execution::{RunContext, ShutdownSignal};
use crate::orchestrator::{FinalAnswer, TurnResult};
use crate::path::AbsPath;
use crate::pipeline::events::PipelineEvents;
use crate::pipeline::merge::StageMerger;
use crate::pipeline::message_router::{MessageRouter, RoutingOutcome};
use crate::pipeline::reached_limit::PipelineLimit;
use crate::pipeline::repository::PipelineRepository;
use crate::pipeline::role_instance::{RoleInstance, reject_unsupported_agents};
use crate::pipeline::role_prompt::PipelineState;
use crate::pipeline::stage_run::{StageOutcome, StageRun, StageTask};
use crate::pipeline::waiting_notice::waiting_notice;
use crate::roles::journal::{JournalEntry, completed_stages, merged_copies};
use crate::roles::progress::{NextStep, PipelineEnd, next_step};
use crate::roles::{PipelineSpec, PipelineStage};
use crate::spending::totals::UsageTotals;
use crate::text::single_line;

/// Maximum length of a message of the user in a warning, in characters.
const MESSAGE_CHARS_SHOWN_MAX: usize = 100;

/// The models of a pipeline, and what it needs of the process and of its user.
#[derive(Debug)]
pub struct PipelineContext {
    /// What its stage runs have in common; the models are those of all agents.
    pub run: RunContext,
    /// The directory that contains massgen's state directory.
    pub state_parent: AbsPath,
    /// Receives the messages of the user to the agents.
    pub messages: UserMessageReceiver,
    /// The user's answers to questions about the task, if they were given in advance.
    pub answers: Option<String>,
    /// What the user should know at the start and was not told yet, one sentence each.
    pub notes: Vec<String>,
}

/// A pipeline that is ready to run.
#[derive(Debug)]
pub struct PipelineRun {
    config: Config,
    workflow: WorkflowConfig,
    context: PipelineContext,
    repository: PipelineRepository,
    shutdown: ShutdownSignal,
    events: PipelineEvents,
    usage: Mutex<UsageTotals>,
    /// The sandbox reports that have been emitted.
    reported_sandboxes: Mutex<BTreeSet<String>>,
    messages: MessageRouter,
}

/// Reason why a pipeline stops.
#[derive(Debug)]
struct PipelineStop {
    status: ExitStatus,
    reason: String,
    /// Whether the pipeline is at its end; otherwise it can be resumed.
    is_final: bool,
    /// The limit that must be raised before it can be resumed, if it is one.
    limit: Option<PipelineLimit>,
}

impl PipelineRun {
    /// Creates the run of the pipeline in `config` on `repository`, with its log. Fails if the
    /// config has no pipeline.
    pub fn new(
        config: Config,
        context: PipelineContext,
        repository: PipelineRepository,
        shutdown: ShutdownSignal,
        events: Sender<Event>,
    ) -> Result<Self> {
        let workflow = config
            .workflow
            .clone()
            .ok_or_else(|| Error::bug("the config has no pipeline"))?;
        reject_unsupported_agents(&config, &workflow.pipeline.stages)?;
        let redactor = context.run.redactor.clone();
        let events = PipelineEvents::open(&repository.dir, redactor, events)?;
        let messages = MessageRouter::new(events.earlier_message_count());
        Ok(Self {
            config,
            workflow,
            context,
            repository,
            shutdown,
            events,
            usage: Mutex::default(),
            reported_sandboxes: Mutex::default(),
            messages,
        })
    }

    /// Runs the pipeline to its end. A failure of a role is part of the result; an error means that
    /// the pipeline could not continue at all.
    pub async fn run(mut self) -> Result<TurnResult> {
        let mut incoming = std::mem::take(&mut self.context.messages);
        let result = tokio::select! {
            result = self.run_stages() => result,
            never = self.route_messages(&mut incoming) => never,
        };
        if let Err(error) = &result {
            self.events.record_failure(error);
        }
        result
    }

    async fn run_stages(&self) -> Result<TurnResult> {
        self.load_usage()?;
        self.emit_start().await;
        self.validate_checks().await?;
        let stop = loop {
            let journal = self.repository.journal().await?;
            match next_step(
                self.spec(),
                &completed_stages(&self.repository.record.roles, entry_refs(&journal)),
            ) {
                NextStep::End(end) => {
                    self.end_iteration(&journal).await?;
                    break self.final_stop(end);
                }
                NextStep::Work { iteration, stage } => {
                    self.begin_iteration(iteration, &journal).await?;
                    self.messages.begin_stage(iteration, stage);
                    if let Some(stop) = self.run_stage(iteration, stage, &journal).await? {
                        break stop;
                    }
                }
            }
        };
        self.report_unread_messages().await;
        self.conclude(stop).await
    }

    /// Passes the messages of the user on to the stages, as long as the pipeline works.
    async fn route_messages(&self, incoming: &mut UserMessageReceiver) -> ! {
        loop {
            let message = incoming.next().await;
            let notice = match self.messages.send(message.clone()) {
                RoutingOutcome::Sent => continue,
                RoutingOutcome::Waiting { last_stage } => {
                    waiting_notice(self.spec(), &message, last_stage)
                }
                RoutingOutcome::Rejected(reason) => {
                    format!("your message was not sent: {reason}")
                }
                // The pipeline concludes, which ends this future.
                RoutingOutcome::Closed => match pending::<Infallible>().await {},
            };
            let warning = RunEvent::Warning { message: notice };
            self.events.emit(warning).await;
        }
    }

    /// Refuses further messages of the user, and warns about those that no agent was given.
    async fn report_unread_messages(&self) {
        for message in self.messages.close() {
            let text = single_line(&message.text, MESSAGE_CHARS_SHOWN_MAX);
            let message = format!("no agent has read your message: {text}");
            self.events.emit(RunEvent::Warning { message }).await;
        }
    }

    fn spec(&self) -> &PipelineSpec {
        &self.workflow.pipeline
    }

    fn usage(&self) -> MutexGuard<'_, UsageTotals> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the agents that work in a stage, in the order of the config, in which views list
    /// them.
    fn working_agents(&self) -> Vec<AgentId> {
        let stages = &self.spec().stages;
        let works_in_stage = |id: &AgentId| stages.iter().any(|stage| stage.agents.contains(id));
        let agents = self.config.agents.iter().map(|agent| &agent.id);
        agents.filter(|id| works_in_stage(id)).cloned().collect()
    }

    async fn emit_start(&self) {
        let question = Arc::from(self.repository.record.task.as_str());
        let event = Event::Run(RunEvent::RunStarted {
            question,
            agents: self.working_agents(),
            restart: 0,
            cwd: Some(self.context.run.base.to_string().into()),
        });
        self.events.emit(event).await;
        for message in self.context.notes.clone() {
            self.events.emit(RunEvent::Warning { message }).await;
        }
    }

    /// Records on the shared branch that an iteration begins, and before that, that the previous
    /// one has ended.
    async fn begin_iteration(
        &self,
        iteration: u32,
        journal: &[(JournalEntry, String)],
    ) -> Result<()> {
        let begin_entry = JournalEntry::IterationStart { iteration };
        if journal.iter().any(|(entry, _)| *entry == begin_entry) {
            return Ok(());
        }
        self.end_iteration(journal).await?;
        let subject = format!("[supervisor] begin iteration {iteration}");
        self.commit_entry(&begin_entry, &subject).await
    }

    /// Records on the shared branch that the last iteration has ended, unless that is recorded.
    async fn end_iteration(&self, journal: &[(JournalEntry, String)]) -> Result<()> {
        let last_iteration = journal.iter().rev().find_map(|(entry, _)| {
            if let JournalEntry::IterationStart { iteration } = entry {
                Some(*iteration)
            } else {
                None
            }
        });
        let Some(iteration) = last_iteration else {
            return Ok(());
        };
        let end_entry = JournalEntry::IterationEnd { iteration };
        if journal.iter().any(|(entry, _)| *entry == end_entry) {
            return Ok(());
        }
        let subject = format!("[supervisor] end iteration {iteration}");
        self.commit_entry(&end_entry, &subject).await
    }

    async fn commit_entry(&self, entry: &JournalEntry, subject: &str) -> Result<()> {
        let tip = self.repository.tip().await?;
        let tree = self.repository.bare_repository.tree_of(&tip).await?;
        let message = entry.message(subject, "");
        let commit = self.repository.commit(&tip, &[], &tree, &message).await;
        commit.map(drop)
    }

    /// Runs a stage and merges its work; `journal` is the journal so far. Returns why the pipeline
    /// ends there, if it does.
    async fn run_stage(
        &self,
        iteration: u32,
        stage_index: usize,
        journal: &[(JournalEntry, String)],
    ) -> Result<Option<PipelineStop>> {
        let stage = self
            .spec()
            .stage(stage_index)
            .ok_or_else(|| Error::bug(format!("no stage has the index {stage_index}")))?;
        if let Some(stop) = self.stop_before_stage(stage) {
            return Ok(Some(stop));
        }
        let tip = self.repository.tip().await?;
        let tree = self.repository.bare_repository.tree_of(&tip).await?;
        let pipeline_state = PipelineState {
            repository: &self.repository,
            pipeline: self.spec(),
            tip: &tip,
            tree: &tree,
            journal,
        };
        let parts = match stage.copies {
            1 => Vec::new(),
            _ => pipeline_state.plan_parts(stage_index).await?,
        };
        let copies = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        let copies = copies.clamp(1, stage.copies);
        let copies_merged = merged_copies(entry_refs(journal), iteration, &stage.role.name);
        let open_copies: Vec<u32> = (1..=copies)
            .filter(|copy| !copies_merged.contains(copy))
            .collect();
        if open_copies.is_empty() {
            let message = format!(
                "all copies of {} are merged, but its stage is not complete",
                stage.role.name
            );
            return Err(Error::bug(message));
        }
        let stage_count = self.spec().stages.len();
        let mut stage_runs = Vec::new();
        for copy in open_copies {
            let instance = RoleInstance::new(&stage.role, iteration, stage_index, copy, copies);
            let event = PipelineEvent::Works {
                iteration,
                role: instance.name.clone(),
                stage: stage_index.saturating_add(1),
                stages: stage_count,
                agents: instance_agents(stage, &instance)?,
            };
            self.events.emit(event).await;
            let index = usize::try_from(copy).unwrap_or_default().saturating_sub(1);
            let part = parts.get(index).filter(|_| copies > 1).map(String::as_str);
            let prompt = pipeline_state
                .question(stage, &instance, &self.config, part)
                .await?;
            let question = format!("{}\n\n{prompt}", self.heading(&instance));
            stage_runs.push(StageRun {
                stage,
                instance,
                task: StageTask::Initial { question },
            });
        }
        let outcomes = join_all(
            stage_runs
                .iter()
                .map(|stage_run| self.run_stage_instance(stage_run, &tip)),
        )
        .await;
        // One after the other, in the order of the copies, so that the result is deterministic.
        for (stage_run, outcome) in stage_runs.iter().zip(outcomes) {
            let stop = match outcome? {
                StageOutcome::Completed(stage_result) => {
                    let merger = StageMerger {
                        pipeline: self,
                        stage_run,
                    };
                    merger.run(*stage_result).await?
                }
                StageOutcome::Stopped(stop) => Some(stop),
            };
            if stop.is_some() {
                return Ok(stop);
            }
        }
        Ok(None)
    }

    /// Returns why no further stage may begin, if none may.
    fn stop_before_stage(&self, stage: &PipelineStage) -> Option<PipelineStop> {
        if self.shutdown.graceful.is_cancelled() {
            return Some(PipelineStop {
                status: ExitStatus::Interrupted,
                reason: "interrupted".to_owned(),
                is_final: false,
                limit: None,
            });
        }
        let limit = self.reached_limit(stage)?;
        Some(PipelineStop {
            status: ExitStatus::Limit,
            reason: limit.reason(),
            is_final: false,
            limit: Some(limit),
        })
    }

    fn final_stop(&self, end: PipelineEnd) -> PipelineStop {
        let iterations = self.spec().iterations_max;
        let (status, reason) = match (end, &self.spec().until) {
            (PipelineEnd::Finished, Some(role)) => {
                (ExitStatus::Success, format!("{role} is satisfied"))
            }
            (PipelineEnd::Finished, None) => {
                (ExitStatus::Success, "all stages are complete".to_owned())
            }
            (PipelineEnd::OutOfIterations, Some(role)) => (
                ExitStatus::Limit,
                format!("{role} is not satisfied after {iterations} iterations, the maximum"),
            ),
            (PipelineEnd::OutOfIterations, None) => (
                ExitStatus::Limit,
                format!("the maximum of {iterations} iterations is reached"),
            ),
            (PipelineEnd::NoProgress, _) => (
                ExitStatus::Failure,
                "the last iterations changed nothing or gave the same feedback".to_owned(),
            ),
        };
        PipelineStop {
            status,
            reason,
            is_final: true,
            limit: None,
        }
    }

    /// Emits the end, and returns the result.
    async fn conclude(&self, stop: PipelineStop) -> Result<TurnResult> {
        let name = self.repository.dir.name();
        let journal = self.repository.journal().await?;
        let last_merge = journal
            .iter()
            .rev()
            .find_map(|(entry, text)| Some((entry.merge()?, text)));
        let answer = last_merge.map(|(merge, text)| FinalAnswer {
            agent: merge.agent.clone(),
            text: Arc::from(text.as_str()),
        });
        // The answer of an earlier stage is not the answer of a pipeline that did not reach its
        // end.
        let answer = answer.filter(|_| stop.is_final);
        if let Some(answer) = &answer {
            let event = Event::Delivery(DeliveryEvent::FinalAnswer {
                agent: answer.agent.clone(),
                content: Arc::clone(&answer.text),
            });
            self.events.emit(event).await;
        }
        let next_action = if stop.status == ExitStatus::Success {
            if self.repository.has_deliverable_changes().await? {
                format!("deliver it: massgen apply {name}")
            } else {
                format!("it changed no files to deliver; see: massgen pipeline log {name}")
            }
        } else {
            let log_hint = format!("see: massgen pipeline log {name}");
            match (stop.is_final, &stop.limit) {
                (true, _) => log_hint,
                (false, Some(limit)) => format!("{}, or {log_hint}", limit.hint()),
                (false, None) => format!("continue: massgen --continue, or {log_hint}"),
            }
        };
        let summary = format!("{}; {next_action}", stop.reason);
        let end_event = Event::Run(RunEvent::RunEnded {
            status: stop.status,
            summary: summary.clone(),
        });
        self.events.emit(end_event).await;
        Ok(TurnResult {
            status: stop.status,
            summary,
            answer,
            rows: Vec::new(),
        })
    }
}

/// Returns the agents that may work in the stages of the pipeline of `config`; in further copies of
/// a role, they have names of their own.
pub fn agents_of_stages(config: &Config) -> Result<BTreeSet<AgentId>> {
    let mut agents = BTreeSet::new();
    let workflow = config.workflow.as_ref();
    let stages = workflow.map(|workflow| workflow.pipeline.stages.iter());
    for (stage_index, stage) in stages.into_iter().flatten().enumerate() {
        for copy in 1..=stage.copies {
            let instance = RoleInstance::new(&stage.role, 1, stage_index, copy, stage.copies);
            agents.extend(instance_agents(stage, &instance)?);
        }
    }
    Ok(agents)
}

/// Returns the entries of a journal by reference, each with its text.
fn entry_refs(journal: &[(JournalEntry, String)]) -> impl Iterator<Item = (&JournalEntry, &str)> {
    journal.iter().map(|(entry, text)| (entry, text.as_str()))
}

fn instance_agents(stage: &PipelineStage, instance: &RoleInstance) -> Result<Vec<AgentId>> {
    let ids = stage
        .agents
        .iter()
        .map(|id| role_instance::instance_agent_id(id, instance));
    ids.collect()
}
