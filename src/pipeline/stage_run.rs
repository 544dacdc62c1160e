//! One stage run of a pipeline: a role instance at work in an ordinary run. An interrupted one is
//! resumed, and a completed one is not repeated.

use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;

use crate::agent::user_messages::{UserMessage, user_message_channel};
use crate::config::Config;
use crate::error::{Error, ExitStatus, Result};
use crate::event::{DeliveryEvent, Event, PipelineEvent, RunEvent};
use crate::id::AgentId;
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::execution::{RunContext, RunExecution, RunRequest, new_run_name};
use crate::orchestrator::snapshots::SnapshotMode;
use crate::orchestrator::{ModelsByAgent, TurnResult};
use crate::path::{AbsPath, RelPath};
use crate::pipeline::earlier_messages::{missing_messages, sent_messages};
use crate::pipeline::message_router::{StageMessageEvents, StagePosition};
use crate::pipeline::reached_limit::PipelineLimit;
use crate::pipeline::role_instance::{
    InstanceDirectories, RoleInstance, WriteScope, instance_agent_id, instance_config,
};
use crate::pipeline::{PipelineRun, PipelineStop};
use crate::resume::{InterruptedRun, ResumeState, find_interrupted};
use crate::roles::{PipelineStage, RoleRight};
use crate::spending::totals::UsageTotals;
use crate::text::single_line;
use crate::world::git::checkout::{Checkout, PRIVATE_GIT_DIR};
use crate::world::git::object::{CommitAuthor, ObjectId};
use crate::world::git::private_repository::PrivateRepositorySpec;
use crate::world::store::runs::{self, RunDir};
use crate::world::store::sessions;
use crate::world::store::sessions::session::Session;

/// Maximum length of the task in the heading of a stage run, in characters.
const HEADING_CHARS_MAX: usize = 200;
/// Maximum number of queued events.
const EVENTS_WAITING_MAX: usize = 256;

/// A stage run.
#[derive(Debug)]
pub(super) struct StageRun<'a> {
    pub(super) stage: &'a PipelineStage,
    pub(super) instance: RoleInstance,
    pub(super) task: StageTask,
}

impl StageRun<'_> {
    /// Returns its position in the pipeline.
    fn position(&self) -> StagePosition {
        StagePosition {
            iteration: self.instance.iteration,
            stage: self.instance.stage,
            attempt: self.task.attempt(),
        }
    }
}

/// The task of a stage run.
#[derive(Debug)]
pub(super) enum StageTask {
    /// The role's own work.
    Initial {
        /// The prompt of its agents.
        question: String,
    },
    /// The repair of work that did not merge.
    Repair {
        /// The prompt of its agents.
        question: String,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The tree that they start from.
        tree: ObjectId,
    },
}

/// Outcome of a stage run.
#[derive(Debug)]
pub(super) enum StageOutcome {
    /// It ran to its end.
    Completed(Box<StageResult>),
    /// It did not, and the pipeline ends there.
    Stopped(PipelineStop),
}

impl StageOutcome {
    fn completed(result: StageResult) -> Self {
        StageOutcome::Completed(Box::new(result))
    }
}

/// Result of a completed stage run.
#[derive(Debug)]
pub(super) struct StageResult {
    /// The checkout with the files.
    pub(super) checkout: Checkout,
    /// The author of the files.
    pub(super) author: CommitAuthor,
    /// The agent whose answer counts.
    pub(super) agent: AgentId,
    pub(super) answer: Arc<str>,
}

/// The run that an earlier process started for the same stage run.
enum EarlierRun {
    /// There is none, or it failed: the stage run starts over.
    NoneUsable,
    /// It was interrupted, and is resumed. Its session is in this directory.
    Interrupted(Box<InterruptedRun>, AbsPath),
    /// It ended with this answer, which is not requested again.
    Answered { agent: AgentId, answer: String },
}

impl StageTask {
    fn question(&self) -> &str {
        match self {
            StageTask::Initial { question } | StageTask::Repair { question, .. } => question,
        }
    }

    /// Returns the number of the repair attempt; 0 for the role's own work.
    pub(super) fn attempt(&self) -> u32 {
        match self {
            StageTask::Initial { .. } => 0,
            StageTask::Repair { attempt, .. } => *attempt,
        }
    }
}

impl PipelineRun {
    /// Runs a stage run whose branch starts at `tip` of the shared branch.
    pub(super) async fn run_stage_instance(
        &self,
        stage_run: &StageRun<'_>,
        tip: &ObjectId,
    ) -> Result<StageOutcome> {
        let checkouts = self.checkouts(stage_run);
        let (request, messages) = match self.earlier_run(stage_run)? {
            EarlierRun::Answered { agent, answer } => {
                let result = self.stage_result(stage_run, &checkouts, agent, Arc::from(answer));
                return result.map(StageOutcome::completed);
            }
            EarlierRun::Interrupted(interrupted_run, sessions) => {
                let config = self.stage_config(stage_run, &checkouts)?;
                let known_messages = sent_messages(&read_events(&interrupted_run.run)?);
                let messages = missing_messages(self.earlier_messages(&sessions)?, &known_messages);
                let request =
                    self.resume_request(stage_run, config, &interrupted_run, &sessions)?;
                (request, messages)
            }
            EarlierRun::NoneUsable => {
                self.prepare_checkouts(stage_run, &checkouts, tip).await?;
                let config = self.stage_config(stage_run, &checkouts)?;
                let sessions = self.sessions(&stage_run.instance, stage_run.task.attempt());
                let messages = self.earlier_messages(&sessions)?;
                let session = Session::begin(&sessions, self.context.run.redactor.clone())?;
                let mut request = self.run_request(stage_run, config, new_run_name())?;
                request.session = Some(session.after(self.earlier_conversation(stage_run)?));
                (request, messages)
            }
        };
        match Box::pin(self.execute(stage_run, request, messages)).await? {
            Ok((agent, answer)) => {
                let result = self.stage_result(stage_run, &checkouts, agent, answer);
                result.map(StageOutcome::completed)
            }
            Err(stop) => Ok(StageOutcome::Stopped(stop)),
        }
    }

    /// Returns the result, with the files of the agent whose answer counts, and their author.
    fn stage_result(
        &self,
        stage_run: &StageRun<'_>,
        checkouts: &[Checkout],
        agent: AgentId,
        answer: Arc<str>,
    ) -> Result<StageResult> {
        let (stage, instance) = (stage_run.stage, &stage_run.instance);
        let mut author_and_checkout = None;
        for (id, checkout) in stage.agents.iter().zip(checkouts) {
            if instance_agent_id(id, instance)? == agent {
                author_and_checkout = Some((id, checkout));
            }
        }
        let (id, checkout) =
            author_and_checkout.ok_or_else(|| Error::bug(format!("`{agent}` has no instance")))?;
        Ok(StageResult {
            checkout: checkout.clone(),
            author: self.author(stage_run, id),
            agent,
            answer,
        })
    }

    fn author(&self, stage_run: &StageRun<'_>, agent: &AgentId) -> CommitAuthor {
        let mut agents = self.config.agents.iter();
        let agent_config = agents.find(|agent_config| agent_config.id == *agent);
        let model = agent_config.map_or("", |agent_config| agent_config.backend.model.as_str());
        let role = &stage_run.stage.role.name;
        CommitAuthor::new(
            &format!("{role} ({model})"),
            &format!("{role}@massgen.invalid"),
        )
    }

    fn checkouts(&self, stage_run: &StageRun<'_>) -> Vec<Checkout> {
        let agent_count = stage_run.stage.agents.len();
        let checkout = |agent_index| {
            self.repository
                .checkout(&stage_run.instance.checkout_name(agent_index, agent_count))
        };
        (0..agent_count).map(checkout).collect()
    }

    /// Returns the directory for the sessions of a stage run.
    pub(super) fn sessions(&self, instance: &RoleInstance, attempt: u32) -> AbsPath {
        let name = match attempt {
            0 => instance.iteration.to_string(),
            attempt => format!("{}.{attempt}", instance.iteration),
        };
        self.repository.dir.sessions(&instance.name).join(name)
    }

    /// Returns the number of the newest repair attempt of an instance; 0 if there is none.
    pub(super) fn newest_repair_attempt(&self, instance: &RoleInstance) -> Result<u32> {
        let mut newest_attempt = 0;
        for attempt in 1..u32::MAX {
            if sessions::list(&self.sessions(instance, attempt))?.is_empty() {
                break;
            }
            newest_attempt = attempt;
        }
        Ok(newest_attempt)
    }

    fn earlier_run(&self, stage_run: &StageRun<'_>) -> Result<EarlierRun> {
        let directory = self.sessions(&stage_run.instance, stage_run.task.attempt());
        for session in sessions::list(&directory)? {
            // All runs have their logs in the same directory, whatever their names.
            let logs =
                RunLayout::plan(&self.config, &self.context.state_parent, RunName::new(0)).logs;
            if let Some(interrupted_run) = find_interrupted(&logs, Some(&session.id()), |_| true)? {
                let end = run_end(&read_events(&interrupted_run.run)?);
                return Ok(match end {
                    RunEnd::Unfinished => {
                        EarlierRun::Interrupted(Box::new(interrupted_run), directory)
                    }
                    // Only its log contains its end, for example because the disk was full.
                    RunEnd::Answered { agent, answer } => EarlierRun::Answered { agent, answer },
                    RunEnd::Failed => EarlierRun::NoneUsable,
                });
            }
            let Some(turn) = session.turns()?.pop() else {
                continue;
            };
            let log_dir = &turn.metadata.log_dir;
            let run = runs::find(&log_dir.to_string(), log_dir, &self.context.run.base)?;
            if let RunEnd::Answered { .. } = run_end(&read_events(&run)?) {
                return Ok(EarlierRun::Answered {
                    agent: turn.metadata.winning_agent,
                    answer: turn.answer,
                });
            }
        }
        Ok(EarlierRun::NoneUsable)
    }

    /// Adds the usage of earlier stage runs that have ended to the totals.
    pub(super) fn load_usage(&self) -> Result<()> {
        let mut totals = UsageTotals::default();
        let logs = RunLayout::plan(&self.config, &self.context.state_parent, RunName::new(0)).logs;
        let run_ids = self.repository.dir.runs()?;
        // Runs whose records were removed no longer count.
        let all_runs = runs::list(&logs)?.into_iter();
        for run in all_runs.filter(|run| run_ids.contains(&run.name())) {
            let events = read_events(&run)?;
            // An unfinished run is resumed, and adds its own usage.
            if let RunEnd::Answered { .. } | RunEnd::Failed = run_end(&events) {
                for event in &events {
                    event.add_to_totals(&mut totals);
                }
            }
        }
        *self.usage() = totals;
        Ok(())
    }

    /// Prepares the checkouts of an instance.
    async fn prepare_checkouts(
        &self,
        stage_run: &StageRun<'_>,
        checkouts: &[Checkout],
        tip: &ObjectId,
    ) -> Result<()> {
        let (bare_repository, instance) = (&self.repository.bare_repository, &stage_run.instance);
        let branch = self.repository.branch(&instance.name)?;
        let branch_tip = bare_repository.tip(&branch).await?;
        // A repair continues the branch; other work starts it anew at the shared branch.
        let (shown_tree, head) = match (&stage_run.task, branch_tip) {
            (StageTask::Repair { tree, .. }, Some(branch_tip)) => (tree, branch_tip),
            (StageTask::Repair { .. } | StageTask::Initial { .. }, branch_tip) => {
                bare_repository
                    .move_branch(&branch, tip, branch_tip.as_ref())
                    .await?;
                (tip, tip.clone())
            }
        };
        for (agent_index, checkout) in checkouts.iter().enumerate() {
            checkout.show(shown_tree).await?;
            if stage_run.stage.role.has_right(RoleRight::Bash) {
                let agent = stage_run
                    .stage
                    .agents
                    .get(agent_index)
                    .ok_or_else(|| Error::bug("an instance without an agent"))?;
                let author = self.author(stage_run, agent);
                let spec = PrivateRepositorySpec {
                    branch: &branch,
                    branch_tip: &head,
                    main_tip: tip,
                    author: &author,
                };
                bare_repository
                    .create_private_repository(checkout.dir(), spec)
                    .await?;
            }
        }
        Ok(())
    }

    fn stage_config(&self, stage_run: &StageRun<'_>, checkouts: &[Checkout]) -> Result<Config> {
        let write_scope =
            WriteScope::for_role(&stage_run.stage.role, &self.repository.record.directory);
        for checkout in checkouts {
            let mut directories = write_scope.write.iter().chain(&write_scope.read);
            directories.try_for_each(|dir| checkout.make_directory(dir))?;
            if stage_run.stage.role.has_right(RoleRight::Bash) {
                checkout.refuse_symlinks(&RelPath::new(PRIVATE_GIT_DIR).unwrap_or_default())?;
            }
        }
        let dirs: Vec<AbsPath> = checkouts
            .iter()
            .map(|checkout| checkout.dir().clone())
            .collect();
        let mut objects = vec![self.repository.bare_repository.dir().join("objects")];
        let project = self.repository.project.as_ref();
        objects.extend(project.map(|project| project.objects.clone()));
        let totals = self.usage().clone();
        let directories = InstanceDirectories {
            roles_directory: &self.repository.record.directory,
            checkouts: &dirs,
            objects: &objects,
            sessions: self.sessions(&stage_run.instance, stage_run.task.attempt()),
            usage: &totals,
        };
        instance_config(
            &self.config,
            stage_run.stage,
            &stage_run.instance,
            &directories,
        )
    }

    fn models(&self, stage_run: &StageRun<'_>) -> Result<ModelsByAgent> {
        let mut models = ModelsByAgent::new();
        for id in &stage_run.stage.agents {
            let model = self
                .context
                .run
                .models
                .get(id)
                .ok_or_else(|| Error::bug(format!("agent `{id}` has no model")))?;
            models.insert(instance_agent_id(id, &stage_run.instance)?, model.clone());
        }
        Ok(models)
    }

    /// Returns the heading of a stage run in the lists of runs.
    pub(super) fn heading(&self, instance: &RoleInstance) -> String {
        let RoleInstance {
            iteration, name, ..
        } = instance;
        let task = single_line(&self.repository.record.task, HEADING_CHARS_MAX);
        format!("[{name}, iteration {iteration}] {task}")
    }

    /// Returns the request for a new run with the name `run`.
    fn run_request(
        &self,
        stage_run: &StageRun<'_>,
        config: Config,
        run: RunName,
    ) -> Result<RunRequest> {
        let layout = RunLayout::plan(&config, &self.context.state_parent, run);
        let context = RunContext {
            models: self.models(stage_run)?,
            ..self.context.run.clone()
        };
        let task = self.heading(&stage_run.instance);
        let question = Arc::from(stage_run.task.question());
        Ok(RunRequest {
            snapshot_mode: SnapshotMode::InPlace,
            ..RunRequest::new(context, config, layout, task, question)
        })
    }

    /// Returns the request for resuming an interrupted run.
    fn resume_request(
        &self,
        stage_run: &StageRun<'_>,
        config: Config,
        interrupted_run: &InterruptedRun,
        sessions: &AbsPath,
    ) -> Result<RunRequest> {
        let resume_state = ResumeState::read(&interrupted_run.run)?;
        let stored_session = sessions::find(&interrupted_run.metadata.session_id, sessions)?;
        let redactor = self.context.run.redactor.clone();
        let session = Session::resume_turn(stored_session, interrupted_run.turn, redactor)?;
        let session = session.after(self.earlier_conversation(stage_run)?);
        let mut request = self.run_request(stage_run, config, resume_state.name)?;
        resume_state.resume_in(&mut request, session);
        Ok(request)
    }

    /// Returns whether an event is new: the sandbox report of an agent is the same in every stage
    /// run, so only the first one is forwarded.
    fn is_new(&self, event: &Event) -> bool {
        let Event::Run(RunEvent::SandboxSelected { agents, by, .. }) = event else {
            return true;
        };
        let key = format!("{agents:?} {by}");
        let reported_sandboxes = self.reported_sandboxes.lock();
        reported_sandboxes
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key)
    }

    /// Executes a run, to which `earlier_messages` are sent again, and forwards its events. Returns
    /// the answer that counts and its agent, or why the pipeline ends there.
    async fn execute(
        &self,
        stage_run: &StageRun<'_>,
        mut request: RunRequest,
        earlier_messages: Vec<UserMessage>,
    ) -> Result<std::result::Result<(AgentId, Arc<str>), PipelineStop>> {
        let (role, limits) = (&stage_run.instance.name, request.config.limits);
        let agents: Vec<AgentId> = request
            .config
            .agents
            .iter()
            .map(|agent| agent.id.clone())
            .collect();
        let (sender, messages) = user_message_channel(agents.iter().cloned());
        request.messages = messages;
        let run = RunExecution::prepare(request, self.shutdown.clone())?;
        let log_dir = run.output_paths().log_dir;
        self.repository.dir.record_run(&log_dir)?;
        if let Some(run) = runs::name_of(&log_dir) {
            let role = role.clone();
            self.events
                .emit(PipelineEvent::StageRun { role, run })
                .await;
        }
        let (event_sender, mut events) = mpsc::channel::<Event>(EVENTS_WAITING_MAX);
        let mut own_usage = UsageTotals::default();
        let mut message_events = StageMessageEvents::new(&self.messages, agents);
        let forward_events = async {
            while let Some(event) = events.recv().await {
                event.add_to_totals(&mut self.usage());
                event.add_to_totals(&mut own_usage);
                let event = self.restate_limit(event);
                if is_pipeline_event(&event) && self.is_new(&event) {
                    for event in message_events.convert(event) {
                        self.events.emit(event).await;
                    }
                }
            }
        };
        self.resend(earlier_messages, &sender).await;
        let stage_run_number = self.messages.begin_stage_run(stage_run.position(), sender);
        let (result, ()) = tokio::join!(run.execute(event_sender), forward_events);
        self.messages.end_stage_run(stage_run_number);
        let TurnResult {
            status,
            summary,
            answer,
            ..
        } = result?;
        let answer = answer.filter(|_| status == ExitStatus::Success);
        let status = match (status, &answer) {
            (ExitStatus::Success, None) => ExitStatus::Failure,
            (status, _) => status,
        };
        let is_limited = status == ExitStatus::Limit;
        let limit = self.reached_limit(stage_run.stage).filter(|_| is_limited);
        let reason = match &limit {
            Some(limit) => format!("{role}: {}", limit.reason()),
            None if status == ExitStatus::Interrupted => format!("interrupted while {role} worked"),
            None => format!("{role}: {summary}"),
        };
        // A copy of a role may use up its share of a limit before the pipeline reaches that limit.
        let limit_of_copy = || PipelineLimit::find(&limits, &own_usage);
        let stop = PipelineStop {
            status,
            reason,
            is_final: false,
            limit: limit.or_else(|| limit_of_copy().filter(|_| is_limited)),
        };
        Ok(answer.map(|answer| (answer.agent, answer.text)).ok_or(stop))
    }
}

/// Returns the events in the log of a run.
pub(super) fn read_events(run: &RunDir) -> Result<Vec<Event>> {
    let entries = run.events()?.intact_entries();
    let events = entries.filter_map(|entry| entry.map(|entry| entry.event).transpose());
    events.collect()
}

/// End of a run.
#[derive(Debug)]
pub(super) enum RunEnd {
    /// It has not ended.
    Unfinished,
    /// It ended normally, with an answer.
    Answered {
        /// The agent that gave it.
        agent: AgentId,
        /// The answer.
        answer: String,
    },
    /// It ended without one, or the user stopped it.
    Failed,
}

/// Returns how a run ended, according to its log.
pub(super) fn run_end(events: &[Event]) -> RunEnd {
    let mut final_answer = None;
    let mut end = RunEnd::Unfinished;
    for event in events {
        if let Event::Delivery(DeliveryEvent::FinalAnswer { agent, content }) = event {
            final_answer = Some((agent.clone(), content.as_ref().to_owned()));
        } else if let Event::Run(RunEvent::RunEnded { status, .. }) = event {
            end = match final_answer.take() {
                Some((agent, answer)) if *status == ExitStatus::Success => {
                    RunEnd::Answered { agent, answer }
                }
                Some(_) | None => RunEnd::Failed,
            };
        }
    }
    end
}

/// Returns whether an event of a stage run is forwarded as one of the pipeline: the pipeline
/// reports the starts and ends of stage runs in another way.
fn is_pipeline_event(event: &Event) -> bool {
    !matches!(
        event,
        Event::Run(RunEvent::RunStarted { .. } | RunEvent::RunEnded { .. })
            | Event::Delivery(DeliveryEvent::FinalAnswer { .. } | DeliveryEvent::Delivered { .. })
    )
}
