//! Owns one part of a pipeline: a seat at work in a run of its own. A part that was broken off is gone on
//! with, and one that has ended is not played again.

use std::sync::{Arc, PoisonError};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::agent::emit;
use crate::config::Config;
use crate::error::{Error, ExitStatus, Result};
use crate::event::{DeliveryEvent, Event, RunEvent};
use crate::id::AgentId;
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::execution::{RunExecution, RunRequest, SnapshotMode};
use crate::orchestrator::replay_order::ReplayInput;
use crate::orchestrator::{ModelsByAgent, TurnResult};
use crate::path::{AbsPath, RelPath};
use crate::pipeline::role_instance::{
    InstanceDirectories, RoleInstance, WriteScope, instance_agent_id, instance_config,
};
use crate::pipeline::{PipelineRun, PipelineStop, StopFinality};
use crate::resume::{InterruptedRun, ResumeState, find_interrupted};
use crate::roles::{PipelineStage, RoleRight};
use crate::spending::totals::UsageTotals;
use crate::text::single_line;
use crate::world::git::checkout::{Checkout, PRIVATE};
use crate::world::git::object::{CommitAuthor, ObjectId};
use crate::world::git::private_repository::PrivateRepositorySpec;
use crate::world::store::runs::{self, RunDir};
use crate::world::store::sessions::session::Session;
use crate::world::store::sessions::{self, find};

/// The longest task in what a part is called, in characters.
const HEADING_CHARS_MAX: usize = 200;
/// Events that may wait to be passed on.
const EVENTS_WAITING_MAX: usize = 256;

/// A part to be played.
#[derive(Debug)]
pub(super) struct StageRun<'a> {
    pub(super) stage: &'a PipelineStage,
    pub(super) instance: RoleInstance,
    pub(super) task: StageTask,
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum StageTask {
    /// The role's own work.
    Initial {
        /// What its agents are told.
        question: String,
    },
    /// Work that did not merge is put right.
    Repair {
        /// What its agents are told.
        question: String,
        /// Which try it is, from 1.
        attempt: u32,
        /// What they begin with.
        tree: ObjectId,
    },
}

/// What a part came to.
#[derive(Debug)]
pub(super) enum StageOutcome {
    /// It was played to its end.
    Completed(Box<StageResult>),
    /// It was not, and the pipeline ends there.
    Stopped(PipelineStop),
}

fn completed(whole: StageResult) -> StageOutcome {
    StageOutcome::Completed(Box::new(whole))
}

/// A part that was played to its end.
#[derive(Debug)]
pub(super) struct StageResult {
    /// The files.
    pub(super) checkout: Checkout,
    /// Who they are by.
    pub(super) author: CommitAuthor,
    /// Whose answer counts.
    pub(super) agent: AgentId,
    /// The answer.
    pub(super) answer: Arc<str>,
}

/// What is left of a part that was begun before.
enum PreviousAttempt {
    Nothing,
    Interrupted(Box<InterruptedRun>, AbsPath),
    Ended { agent: AgentId, answer: String },
}

impl StageTask {
    fn question(&self) -> &str {
        match self {
            StageTask::Initial { question } | StageTask::Repair { question, .. } => question,
        }
    }

    /// Which try it is; the role's own work is none.
    pub(super) fn attempt(&self) -> u32 {
        match self {
            StageTask::Initial { .. } => 0,
            StageTask::Repair { attempt: tried, .. } => *tried,
        }
    }
}

impl PipelineRun {
    /// Plays a part whose branch begins at `tip` of the shared branch.
    pub(super) async fn run_stage_instance(
        &self,
        part: &StageRun<'_>,
        tip: &ObjectId,
    ) -> Result<StageOutcome> {
        let checkouts = self.checkouts(part);
        let order = match self.previous_attempt(part)? {
            PreviousAttempt::Ended { agent, answer } => {
                let answered = (agent, Arc::from(answer));
                return self.stage_result(part, &checkouts, answered).map(completed);
            }
            PreviousAttempt::Interrupted(unfinished, sessions) => {
                let config = self.stage_config(part, &checkouts)?;
                self.resumed_run(part, config, (*unfinished, &sessions))?
            }
            PreviousAttempt::Nothing => {
                self.prepare_checkouts(part, &checkouts, tip).await?;
                let config = self.stage_config(part, &checkouts)?;
                self.run_request(part, config)?
            }
        };
        match Box::pin(self.execute(&part.instance.name, order)).await? {
            Ok(answered) => self.stage_result(part, &checkouts, answered).map(completed),
            Err(halt) => Ok(StageOutcome::Stopped(halt)),
        }
    }

    /// Whose files count, and who they are by.
    fn stage_result(
        &self,
        part: &StageRun<'_>,
        checkouts: &[Checkout],
        (agent, answer): (AgentId, Arc<str>),
    ) -> Result<StageResult> {
        let (stage, seat) = (part.stage, &part.instance);
        let mut found = None;
        for (id, checkout) in stage.agents.iter().zip(checkouts) {
            if instance_agent_id(id, seat)? == agent {
                found = Some((id, checkout));
            }
        }
        let (id, checkout) = found.ok_or_else(|| Error::bug(format!("`{agent}` has no seat")))?;
        Ok(StageResult {
            checkout: checkout.clone(),
            author: self.author(part, id),
            agent,
            answer,
        })
    }

    fn author(&self, part: &StageRun<'_>, agent: &AgentId) -> CommitAuthor {
        let agents = self.config.agents.iter();
        let known = agents.into_iter().find(|known| known.id == *agent);
        let model = known.map_or("", |known| known.backend.model.as_str());
        let role = &part.stage.role.name;
        CommitAuthor::new(
            &format!("{role} ({model})"),
            &format!("{role}@massgen.invalid"),
        )
    }

    fn checkouts(&self, part: &StageRun<'_>) -> Vec<Checkout> {
        let agents = part.stage.agents.len();
        let checkout = |number| {
            self.repository
                .checkout(&part.instance.checkout_name(number, agents))
        };
        (0..agents).map(checkout).collect()
    }

    /// Where the sessions of a part are kept.
    fn sessions(&self, seat: &RoleInstance, tried: u32) -> AbsPath {
        let name = match tried {
            0 => seat.iteration.to_string(),
            tried => format!("{}.{tried}", seat.iteration),
        };
        self.repository.dir.sessions(&seat.name).join(name)
    }

    /// The newest try of a seat that was begun before; 0 if it has not mended anything yet.
    pub(super) fn attempts_so_far(&self, seat: &RoleInstance) -> Result<u32> {
        let mut tried = 0;
        for next in 1..u32::MAX {
            if sessions::list(&self.sessions(seat, next))?.is_empty() {
                break;
            }
            tried = next;
        }
        Ok(tried)
    }

    fn previous_attempt(&self, part: &StageRun<'_>) -> Result<PreviousAttempt> {
        let place = self.sessions(&part.instance, part.task.attempt());
        for session in sessions::list(&place)? {
            let logs = RunLayout::plan(&self.config, &self.base, RunName::new(0)).logs;
            if let Some(unfinished) = find_interrupted(&logs, Some(&session.id()), |_| true)? {
                let ended = run_end(&read_events(&unfinished.run)?);
                return Ok(match ended {
                    RunEnd::Unfinished => PreviousAttempt::Interrupted(Box::new(unfinished), place),
                    // Its end was written down in its log and nowhere else: the disk was full, say.
                    RunEnd::Answered { agent, answer } => PreviousAttempt::Ended { agent, answer },
                    RunEnd::Failed => PreviousAttempt::Nothing,
                });
            }
            let Some(turn) = session.turns()?.pop() else {
                continue;
            };
            let log_dir = &turn.metadata.log_dir;
            let run = runs::find(&log_dir.to_string(), log_dir, &self.base)?;
            if let RunEnd::Answered { .. } = run_end(&read_events(&run)?) {
                return Ok(PreviousAttempt::Ended {
                    agent: turn.metadata.winning_agent,
                    answer: turn.answer,
                });
            }
        }
        Ok(PreviousAttempt::Nothing)
    }

    /// Enters into the books what parts used that have ended before.
    pub(super) fn load_usage(&self) -> Result<()> {
        let mut books = UsageTotals::default();
        let logs = RunLayout::plan(&self.config, &self.base, RunName::new(0)).logs;
        let known = self.repository.dir.runs()?;
        // Records that were removed tell nothing any more.
        let own = runs::list(&logs)?.into_iter();
        for run in own.filter(|run| known.contains(&run.name())) {
            let events = read_events(&run)?;
            // What has not ended is gone on with, and counts for itself.
            if let RunEnd::Answered { .. } | RunEnd::Failed = run_end(&events) {
                for event in &events {
                    event.add_to_totals(&mut books);
                }
            }
        }
        *self.usage() = books;
        Ok(())
    }

    /// Makes the checkouts of a seat what it begins with.
    async fn prepare_checkouts(
        &self,
        part: &StageRun<'_>,
        checkouts: &[Checkout],
        tip: &ObjectId,
    ) -> Result<()> {
        let (hub, seat) = (&self.repository.hub, &part.instance);
        let branch = self.repository.branch(&seat.name)?;
        let at = hub.tip(&branch).await?;
        let (shown, head) = match (&part.task, at) {
            (StageTask::Repair { tree, .. }, Some(at)) => (tree, at),
            (StageTask::Repair { .. } | StageTask::Initial { .. }, at) => {
                hub.move_branch(&branch, tip, at.as_ref()).await?;
                (tip, tip.clone())
            }
        };
        for (number, checkout) in checkouts.iter().enumerate() {
            checkout.show(shown).await?;
            if part.stage.role.has_right(RoleRight::Bash) {
                let agent = part.stage.agents.get(number);
                let agent = agent.ok_or_else(|| Error::bug("a seat without an agent"))?;
                let author = self.author(part, agent);
                let outset = PrivateRepositorySpec {
                    branch: &branch,
                    tip: &head,
                    main: tip,
                    author: &author,
                };
                hub.make_private(checkout.dir(), outset).await?;
            }
        }
        Ok(())
    }

    fn stage_config(&self, part: &StageRun<'_>, checkouts: &[Checkout]) -> Result<Config> {
        let reach = WriteScope::for_role(&part.stage.role, &self.repository.record.directory);
        for checkout in checkouts {
            let mut both = reach.write.iter().chain(&reach.read);
            both.try_for_each(|dir| checkout.make_directory(dir))?;
            if part.stage.role.has_right(RoleRight::Bash) {
                checkout.refuse_symlinks(&RelPath::new(PRIVATE).unwrap_or_default())?;
            }
        }
        let dirs: Vec<AbsPath> = checkouts.iter().map(|one| one.dir().clone()).collect();
        let mut objects = vec![self.repository.hub.dir().join("objects")];
        let project = self.repository.project.as_ref();
        objects.extend(project.map(|project| project.objects.clone()));
        let books = self.usage().clone();
        let desk = InstanceDirectories {
            directory: &self.repository.record.directory,
            checkouts: &dirs,
            objects: &objects,
            sessions: self.sessions(&part.instance, part.task.attempt()),
            usage: &books,
        };
        instance_config(&self.config, (part.stage, &part.instance), &desk)
    }

    fn models(&self, part: &StageRun<'_>) -> Result<ModelsByAgent> {
        let mut models = ModelsByAgent::new();
        for id in &part.stage.agents {
            let own = self.context.models.get(id);
            let own = own.ok_or_else(|| Error::bug(format!("agent `{id}` has no model")))?;
            models.insert(instance_agent_id(id, &part.instance)?, own.clone());
        }
        Ok(models)
    }

    /// What a part is called in the lists of runs.
    pub(super) fn heading(&self, seat: &RoleInstance) -> String {
        let RoleInstance {
            iteration, name, ..
        } = seat;
        let task = single_line(&self.repository.record.task, HEADING_CHARS_MAX);
        format!("[{name}, iteration {iteration}] {task}")
    }

    /// The order of a part that begins.
    fn run_request(&self, part: &StageRun<'_>, config: Config) -> Result<RunRequest> {
        let run = RunName::new(Uuid::new_v4().as_fields().0);
        let company = &self.context;
        Ok(RunRequest {
            layout: RunLayout::plan(&config, &self.base, run),
            config,
            base: self.base.clone(),
            task: self.heading(&part.instance),
            question: Arc::from(part.task.question()),
            opened: self.opened.clone(),
            session: None,
            models: self.models(part)?,
            redactor: company.redactor.clone(),
            telemetry: company.telemetry.clone(),
            invocation: company.invocation.clone(),
            replay: None,
            resumed: None,
            host: company.host.clone(),
            reviewer: None,
            approvals: company.approvals.clone(),
            snapshot_mode: SnapshotMode::InPlace,
        })
    }

    /// The order of a part that was broken off.
    fn resumed_run(
        &self,
        part: &StageRun<'_>,
        config: Config,
        (unfinished, sessions): (InterruptedRun, &AbsPath),
    ) -> Result<RunRequest> {
        let reading = ResumeState::read(&unfinished.run)?;
        let place = find(&unfinished.started.session_id, sessions)?;
        let session = Session::resume_turn(place, unfinished.turn, self.context.redactor.clone())?;
        let question = reading.question();
        let order = self.run_request(part, config)?;
        Ok(RunRequest {
            layout: RunLayout::plan(&order.config, &self.base, reading.name),
            session: Some(session),
            question: question.unwrap_or(order.question),
            replay: Some(ReplayInput {
                coordinations: reading.courses,
                diverged: CancellationToken::new(),
            }),
            resumed: Some(reading.resumed),
            ..order
        })
    }

    /// Whether an event says what was not said before: the sandbox of an agent is the same in every part.
    fn is_new(&self, event: &Event) -> bool {
        let Event::Run(RunEvent::SandboxSelected { agents, by, .. }) = event else {
            return true;
        };
        let said = format!("{agents:?} {by}");
        let confined = self.reported_sandboxes.lock();
        confined
            .unwrap_or_else(PoisonError::into_inner)
            .insert(said)
    }

    /// Carries out a part and passes on what happens in it. Gives whose answer counts, or why the pipeline
    /// ends there.
    async fn execute(
        &self,
        role: &str,
        order: RunRequest,
    ) -> Result<std::result::Result<(AgentId, Arc<str>), PipelineStop>> {
        let run = RunExecution::prepare(order, self.stop.clone())?;
        self.repository
            .dir
            .record_run(&run.output_paths().log_dir)?;
        let (shown, mut told) = mpsc::channel::<Event>(EVENTS_WAITING_MAX);
        let passing = async {
            while let Some(event) = told.recv().await {
                event.add_to_totals(&mut self.usage());
                if is_pipeline_event(&event) && self.is_new(&event) {
                    emit(&self.events, event).await;
                }
            }
        };
        let (result, ()) = tokio::join!(run.execute(shown), passing);
        let TurnResult {
            status,
            summary,
            answer,
            ..
        } = result?;
        let answer = answer.filter(|_| status == ExitStatus::Delivered);
        let status = match (status, &answer) {
            (ExitStatus::Delivered, None) => ExitStatus::NoAnswer,
            (status, _) => status,
        };
        let why = if status == ExitStatus::Interrupted {
            format!("interrupted while {role} worked")
        } else {
            format!("{role}: {summary}")
        };
        let halt = PipelineStop {
            status,
            reason: why,
            finality: StopFinality::Resumable,
        };
        Ok(answer.map(|answer| (answer.agent, answer.text)).ok_or(halt))
    }
}

fn read_events(run: &RunDir) -> Result<Vec<Event>> {
    let read = run.events()?.flatten();
    Ok(read.filter_map(|entry| entry.event()).collect())
}

/// How a run ended.
enum RunEnd {
    /// It has not.
    Unfinished,
    /// As it was meant to, with an answer.
    Answered {
        agent: AgentId,
        answer: String,
    },
    Failed,
}

/// How a run ended by its log.
fn run_end(events: &[Event]) -> RunEnd {
    let mut said = None;
    let mut end = RunEnd::Unfinished;
    for event in events {
        if let Event::Delivery(DeliveryEvent::FinalAnswer { agent, content }) = event {
            said = Some((agent.clone(), content.as_ref().to_owned()));
        } else if let Event::Run(RunEvent::RunEnded { status, .. }) = event {
            end = match said.take() {
                Some((agent, answer)) if *status == ExitStatus::Delivered => {
                    RunEnd::Answered { agent, answer }
                }
                Some(_) | None => RunEnd::Failed,
            };
        }
    }
    end
}

/// Whether an event of a part is told of the whole pipeline: how a part begins and ends is told otherwise.
fn is_pipeline_event(event: &Event) -> bool {
    !matches!(
        event,
        Event::Run(RunEvent::RunStarted { .. } | RunEvent::RunEnded { .. })
            | Event::Delivery(DeliveryEvent::FinalAnswer { .. } | DeliveryEvent::Delivered { .. })
    )
}
