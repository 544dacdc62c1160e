//! Executes a run: creates its directories, opens its session and records, runs the turn while
//! every event is recorded before it is shown, and saves the result.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::agent::user_messages::{UserMessageLog, UserMessageReceiver};
use crate::check_results::CheckRequirement;
use crate::config::Config;
use crate::config::checks::ChecksConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{Event, RunEvent};
use crate::layout::{RunLayout, RunName};
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::approvals::{ApprovalBroker, ApprovalConfig};
use crate::orchestrator::completed_turn::{CompletedTurn, ReplyRecordings, TurnRecords};
use crate::orchestrator::environments::AgentEnvironments;
use crate::orchestrator::event_sinks::EventSinks;
use crate::orchestrator::grants::InheritedPaths;
use crate::orchestrator::hooks::HookRunContext;
use crate::orchestrator::memory::{
    MemoryKeeper, MemoryOrigin, StoredMemory, keeps_memory, previous_workspaces, read_memory,
    turn_history,
};
use crate::orchestrator::overlays::OverlayFactory;
use crate::orchestrator::process_specs::HostEnvironment;
use crate::orchestrator::record_context::{RecordContext, RunInvocation};
use crate::orchestrator::replay_order::ReplayInput;
use crate::orchestrator::resumed_turn::{
    AlreadyLoggedEvents, InitialTurnState, ResumedTurn, recorded_answers,
};
use crate::orchestrator::review::{DeliverySettings, Reviewer};
use crate::orchestrator::run_directories::{
    create_workspaces, existing_directory, reopen_workspaces, workspace_seeds,
};
use crate::orchestrator::run_notices::run_notices;
use crate::orchestrator::snapshots::{SnapshotMode, SnapshotStore};
use crate::orchestrator::team::mcp_servers::ServerContext;
use crate::orchestrator::team::{AgentTeam, DeliveryAccess, TeamResources};
use crate::orchestrator::{ModelsByAgent, PreparedTurn, TurnResult, run};
use crate::path::AbsPath;
use crate::prompts::TaskPrompt;
use crate::spending::ledger::BudgetLedger;
use crate::spending::shared_budget::SharedBudget;
use crate::spending::totals::UsageTotals;
use crate::world::access::merge_bases::MergeBases;
use crate::world::access::policy::ConflictPolicy;
use crate::world::delivery::store::BASES;
use crate::world::diagnostics::telemetry::RunTelemetry;
use crate::world::diagnostics::telemetry::conventions::ProviderNames;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::io::event_sink::QueuedEvent;
use crate::world::mcp::packages::PackageStore;
use crate::world::mcp::tokens::TokenFile;
use crate::world::store::diagnostic_log::DiagnosticLog;
use crate::world::store::prepare_state_dir;
use crate::world::store::records::Recorder;
use crate::world::store::records::record_paths::{CoordinationLayout, EVENTS, RunRecordPaths};
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::{Session, TurnContext};
use crate::world::store::workspace::RunWorkspace;

/// Maximum number of queued events, without the ends of requests; senders wait when it is reached.
/// Events that are queued when the time of a run is over are still recorded before the run ends.
const EVENTS_WAITING_MAX: usize = 256;
/// The directory for the servers' standard error, within that of a run's logs.
const SERVER_LOGS: &str = "servers";

/// The directory for what setup commands leave, within the user's home directory.
const SETUPS: &str = ".massgen/setups";

/// What the runs of one invocation have in common, such as the stage runs of a pipeline.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The user's current directory.
    pub base: AbsPath,
    /// The paths that the prompts of the session opened, including this one.
    pub opened: Vec<OpenedPath>,
    /// The models of the agents.
    pub models: ModelsByAgent,
    /// Removes the secrets that the records must never hold.
    pub redactor: Redactor,
    /// Where the run's spans are sent, if anywhere.
    pub telemetry: Option<TelemetrySettings>,
    /// How the run was started, for the records.
    pub invocation: RunInvocation,
    /// What commands need to know about the massgen process.
    pub host: HostEnvironment,
    /// Where approval of calls is requested.
    pub approvals: ApprovalConfig,
    /// The directory from which messages of the user are read, if there is one: no agent may write
    /// to it.
    pub inbox: Option<AbsPath>,
}

/// The input of a run.
#[derive(Debug)]
pub struct RunRequest {
    /// What it has in common with other runs of the invocation.
    pub context: RunContext,
    /// The agents and the rules.
    pub config: Config,
    /// The paths of the run.
    pub layout: RunLayout,
    /// The task as the user wrote it.
    pub task: String,
    /// The task as agents read it, with mentions replaced by paths.
    pub question: Arc<str>,
    /// The session that the run continues; without one it begins one.
    pub session: Option<Session>,
    /// Receives the messages of the user to the agents.
    pub messages: UserMessageReceiver,
    /// The recording that a replay, which delivers nothing, or a resumed run follows.
    pub replay: Option<ReplayInput>,
    /// The interrupted turn, if the run resumes one.
    pub resumed: Option<ResumedTurn>,
    /// Reviews the delivery before it is applied. `None` applies everything.
    pub reviewer: Option<Reviewer>,
    /// Whether the files of the agents are copied.
    pub snapshot_mode: SnapshotMode,
    /// Money that the run shares with others, if any.
    pub shared_budget: Option<Arc<dyn SharedBudget>>,
}

/// Returns the name of a new run.
pub fn new_run_name() -> RunName {
    RunName::new(Uuid::new_v4().as_fields().0)
}

impl RunRequest {
    /// Returns the request for a new run of a session of its own, which nobody reviews.
    pub fn new(
        context: RunContext,
        config: Config,
        layout: RunLayout,
        task: String,
        question: Arc<str>,
    ) -> Self {
        Self {
            context,
            config,
            layout,
            task,
            question,
            session: None,
            messages: UserMessageReceiver::default(),
            replay: None,
            resumed: None,
            reviewer: None,
            snapshot_mode: SnapshotMode::Copied,
            shared_budget: None,
        }
    }
}

/// Tokens by which the user ends a run.
#[derive(Clone, Debug, Default)]
pub struct ShutdownSignal {
    /// Cancelled to end it with what it has.
    pub graceful: CancellationToken,
    /// Cancelled to abort it.
    pub immediate: CancellationToken,
    /// Cancelled to stop it without an end, so that it can be resumed.
    pub park: CancellationToken,
}

/// A run whose directories exist and whose records are open.
#[derive(Debug)]
pub struct RunExecution {
    turn: PreparedTurn,
    recorder: Recorder,
    telemetry: Option<RunTelemetry>,
    records: TurnRecords,
    events: Receiver<QueuedEvent>,
    /// The events that were recorded before the run was interrupted, if it was.
    recorded_events: Vec<Event>,
    /// Those of them that the turn emits again.
    already_logged: AlreadyLoggedEvents,
    /// The first events, including those about the sandboxes of the agents' commands.
    opening_events: Vec<Event>,
    abort: CancellationToken,
    park: CancellationToken,
    inbox: Option<AbsPath>,
    /// The user's own workspaces are locked until this is dropped.
    _workspaces: Vec<RunWorkspace>,
    _diagnostic_log: DiagnosticLog,
}

/// The paths of a run's results.
#[derive(Clone, Debug)]
pub struct RunOutputPaths {
    /// The directory of the run's logs.
    pub log_dir: AbsPath,
    /// The file with the status of the run.
    pub status_file: AbsPath,
    /// The file that will hold the final answer.
    pub answer_file: AbsPath,
    /// The directory of the winner's files in the session, if it leaves any.
    pub workspace: AbsPath,
    /// The directory from which messages of the user are read, if there is one.
    pub inbox: Option<AbsPath>,
}

impl RunExecution {
    /// Creates the directories, assembles the team, and opens session and records. No model is
    /// asked.
    pub fn prepare(mut request: RunRequest, shutdown: ShutdownSignal) -> Result<Self> {
        let turns = request.session.as_ref().map(Session::previous_turns);
        let earlier_workspaces = previous_workspaces(turns.unwrap_or_default());
        let mut workspaces = request.open_workspaces(earlier_workspaces.first())?;
        let team = request.assemble_team(&earlier_workspaces)?;
        let memory = request.memory_keeper(earlier_workspaces.first());
        let redactor = request.context.redactor.clone();
        let begin = || Session::begin(&request.layout.sessions, redactor.clone());
        let session = request.session.take().map_or_else(begin, Ok)?;
        let (resumed, models) = (request.resumed.as_ref(), &request.context.models);
        let mut state = InitialTurnState::from_resumed(resumed, &team, models);
        state.forget_conflicts(&session, &request.config);
        let (sender, events) = mpsc::channel(events_waiting_max(&team));
        let approvals = request.approval_broker(&team, &sender, &shutdown, &state.events)?;
        let (session, prepared) = request.prepare_environments(&team, session)?;
        let task = task_prompt(&request.question, &session, &prepared.environments);
        let paths = request.record_paths(&session)?;
        let team = team.with_resources(TeamResources {
            environments: Some(prepared.environments),
            records: Some(paths.log().clone()),
            server_context: Some(request.server_context(&paths, &sender)),
            conflicts: Some(prepared.conflicts),
            delivery: Some(request.delivery_settings(&paths, state.until_ns, &shutdown, &sender)),
            overlays: Some(request.overlays(&paths)),
            approvals: Some(approvals),
            hook_context: Some(HookRunContext::new(session.id(), &sender)),
        });
        state.discard_overlays(&team)?;
        let recordings = ReplyRecordings::validate(&request.config)?;
        let snapshots = request.snapshot_store(&mut workspaces)?;
        let context = request.context;
        let turn_context = TurnContext {
            cwd: context.base,
            config: context.invocation.config_path.clone(),
            opened: context.opened,
        };
        let input = RecordContext {
            config: &request.config,
            layout: &request.layout,
            session: &session,
            turn_context: &turn_context,
            task: &request.task,
            redactor: &redactor,
        };
        let (recorder, log) = input.open_records(paths, request.resumed, context.invocation)?;
        let vendors = ProviderNames::from_config(&request.config);
        let begin_telemetry = |settings| RunTelemetry::begin(settings, vendors, redactor);
        let turn = PreparedTurn {
            snapshots,
            ledger: ledger(&request.config, state.usage, request.shared_budget),
            config: request.config,
            team,
            models: context.models,
            task,
            cwd: turn_context.cwd.to_string().into(),
            event_log: recorder.paths().turn().join(EVENTS),
            messages: user_message_log(request.messages, request.replay.as_ref()),
            events: sender,
            stop: shutdown.graceful,
            replay: request.replay,
            recorded_conversations: state.recorded_conversations,
            additions: BTreeMap::new(),
            recorded_conclusion: state.recorded_conclusion,
        };
        Ok(Self {
            turn,
            recorder,
            telemetry: context.telemetry.map(begin_telemetry),
            records: TurnRecords {
                session,
                turn_context,
                task: request.task,
                snapshot_mode: request.snapshot_mode,
                recordings,
                memory,
            },
            events,
            recorded_events: state.events,
            already_logged: state.already_logged,
            opening_events: [state.first_events, prepared.events].concat(),
            abort: shutdown.immediate,
            park: shutdown.park,
            inbox: context.inbox,
            _workspaces: workspaces,
            _diagnostic_log: log,
        })
    }

    /// Returns the id of its session.
    pub fn session_id(&self) -> String {
        self.records.session.id()
    }

    /// Returns where the run will leave its results.
    pub fn output_paths(&self) -> RunOutputPaths {
        let turn_dir = self.records.session.turn_dir();
        RunOutputPaths {
            log_dir: self.recorder.paths().log().clone(),
            status_file: self.recorder.paths().status_file(),
            answer_file: turn_dir.join("answer.txt"),
            workspace: turn_dir.join("workspace"),
            inbox: self.inbox.clone(),
        }
    }

    /// Runs the turn to its end, sends every event to `display`, and saves the result.
    pub async fn execute(self, display: Sender<Event>) -> Result<TurnResult> {
        let first_events = opening_events(&self.turn.team, self.opening_events);
        let mut events = self.events;
        let mut sinks =
            EventSinks::new(self.recorder, self.telemetry, display, self.already_logged);
        let shutdown = async {
            // A run that is aborted at once still records that it has started.
            yield_now().await;
            tokio::select! {
                biased;
                () = self.park.cancelled() => parked_error(),
                () = self.abort.cancelled() => interrupted_twice_error(),
            }
        };
        let turn = async {
            tokio::select! {
                // A run that is aborted does not end by itself instead.
                biased;
                error = shutdown => Err(error),
                result = run_turn(self.turn) => result,
            }
        };
        for event in self.recorded_events {
            sinks.show(event).await;
        }
        for event in first_events {
            sinks.emit(event).await;
        }
        let recording = sinks.forward_until_parked(&mut events, &self.park);
        let (turn_result, ()) = tokio::join!(turn, recording);
        match turn_result {
            Ok(turn) => Ok(self.records.save(turn, sinks).await),
            Err(error) if error.kind() == ErrorKind::Parked => {
                sinks.park(&error).await;
                Err(error)
            }
            Err(error) => {
                sinks.abort(&error).await;
                self.records.leave_session(error.kind().exit_status());
                Err(error)
            }
        }
    }
}

/// Returns the events that precede those of the turn, beginning with `first`.
fn opening_events(team: &AgentTeam, first: Vec<Event>) -> Vec<Event> {
    let memory_warning = team.memory_warning().map(str::to_owned);
    let notices = memory_warning.into_iter().chain(run_notices(team));
    let warning = |message| Event::Run(RunEvent::Warning { message });
    first
        .into_iter()
        .chain(team.instruction_events())
        .chain(team.skill_events())
        .chain(team.memory_event())
        .chain(notices.map(warning))
        .collect()
}

/// Returns the maximum number of queued events of a run of `team`: the open request of each agent
/// keeps room for the event of its end.
fn events_waiting_max(team: &AgentTeam) -> usize {
    EVENTS_WAITING_MAX.saturating_add(team.members.len())
}

fn task_prompt(
    question: &Arc<str>,
    session: &Session,
    environments: &AgentEnvironments,
) -> TaskPrompt {
    let history = turn_history(session.previous_turns(), environments.command_home());
    TaskPrompt {
        question: Arc::clone(question),
        previous_turns: history.into(),
    }
}

/// Returns the log of the messages that arrive in `incoming`, with those of the recording that the
/// run follows.
fn user_message_log(incoming: UserMessageReceiver, replay: Option<&ReplayInput>) -> UserMessageLog {
    let mut log = UserMessageLog::new(incoming);
    for recorded_message in replay.iter().flat_map(|replay| &replay.messages.messages) {
        log.add(recorded_message.message.clone(), recorded_message.was_read);
    }
    log
}

/// The environments of a team's processes, and what its delivery does about conflicts.
struct PreparedEnvironments {
    conflicts: ConflictPolicy,
    environments: AgentEnvironments,
    /// The events about the environments.
    events: Vec<Event>,
}

impl RunRequest {
    /// Creates the directories of the run, and opens its workspaces: those of the interrupted run, or
    /// new ones that are initialized from `seed`.
    fn open_workspaces(&self, seed: Option<&AbsPath>) -> Result<Vec<RunWorkspace>> {
        prepare_state_dir(&self.layout.state, self.layout.directories())?;
        match self.resumed {
            None => create_workspaces(&self.config, &self.layout, seed),
            Some(_) => reopen_workspaces(&self.layout),
        }
    }

    /// Returns what keeps the winner's notes, which are based on those in `seed`, if the config
    /// asks for it.
    fn memory_keeper(&self, seed: Option<&AbsPath>) -> Option<MemoryKeeper> {
        let keeper =
            || MemoryKeeper::new(&self.layout, self.context.redactor.clone(), seed.cloned());
        self.keeps_memory().then(keeper)
    }

    /// Assembles the team, with the paths that prompts opened and the `workspaces` of earlier
    /// turns.
    fn assemble_team(&self, workspaces: &[AbsPath]) -> Result<AgentTeam> {
        let inherited = InheritedPaths {
            opened: &self.context.opened,
            workspaces,
            home: self.context.host.home.as_ref(),
            own_files: &self.context.invocation.own_files,
        };
        let is_replay = self.replay.is_some() && self.resumed.is_none();
        let delivery_access = if is_replay {
            DeliveryAccess::ReadOnly
        } else {
            DeliveryAccess::ReadWrite
        };
        let team = AgentTeam::assemble(
            &self.config,
            &self.layout,
            &self.context.base,
            inherited,
            delivery_access,
        )?
        .with_project_instructions()?
        .with_skills()?
        .with_subagent_types()?;
        Ok(team.with_memory(self.read_memory()?))
    }

    /// Returns whether agents keep notes: a role of a pipeline leaves its work on its branch.
    fn keeps_memory(&self) -> bool {
        keeps_memory(&self.config) && self.snapshot_mode == SnapshotMode::Copied
    }

    /// Reads the notes of earlier sessions, if the config keeps notes.
    fn read_memory(&self) -> Result<Option<StoredMemory>> {
        if !self.keeps_memory() {
            return Ok(None);
        }
        let origin = match &self.resumed {
            None => MemoryOrigin::Project,
            Some(_) => MemoryOrigin::InterruptedRun,
        };
        read_memory(&self.layout, origin).map(Some)
    }

    /// Creates the broker that requests approvals. Requests whose answers are in `recorded_events`
    /// are not repeated. Rejects a team that could write to the socket of approvals or to the inbox
    /// of messages.
    fn approval_broker(
        &self,
        team: &AgentTeam,
        events: &Sender<QueuedEvent>,
        shutdown: &ShutdownSignal,
        recorded_events: &[Event],
    ) -> Result<ApprovalBroker> {
        let broker = ApprovalBroker::new(
            self.context.approvals.clone(),
            &self.context.base,
            events,
            &shutdown.graceful,
            recorded_events,
        );
        team.protect_socket(&broker)?;
        if let Some(inbox) = &self.context.inbox {
            team.protect_directory(inbox, "the inbox of messages")?;
        }
        Ok(broker)
    }

    /// Creates the directory for massgen's versions of files that the user changes during the run,
    /// and the environments of the team's processes. If that fails, the session ends with nothing
    /// saved.
    fn prepare_environments(
        &mut self,
        team: &AgentTeam,
        session: Session,
    ) -> Result<(Session, PreparedEnvironments)> {
        if self.config.checks.setup.is_some() {
            // After a setup, no home directory is that of the last turn.
            self.context.host.session_sandboxes = None;
        }
        let prepare = || -> Result<PreparedEnvironments> {
            let conflicts_dir = existing_directory(&session.create_conflicts_dir()?)?;
            let conflicts = ConflictPolicy::from_now(conflicts_dir)?;
            team.validate_hooks(&self.context.host)?;
            team.validate_programs(&self.context.host.env)?;
            team.validate_judge()?;
            let specs = team.environment_specs();
            let environments = AgentEnvironments::prepare(specs, &self.layout, &self.context.host)?;
            let mut events = environments.sandbox_events();
            let check_warning = validate_checks(&environments, team.checks())?;
            events.extend(check_warning.map(|message| Event::Run(RunEvent::Warning { message })));
            Ok(PreparedEnvironments {
                conflicts,
                environments,
                events,
            })
        };
        match prepare() {
            Ok(prepared) => Ok((session, prepared)),
            Err(error) => {
                session.end();
                Err(error)
            }
        }
    }

    /// Returns the paths of the run's records; creates them, unless the run is resumed.
    fn record_paths(&self, session: &Session) -> Result<RunRecordPaths> {
        let (records, turn) = (coordination_layout(&self.config), session.turn());
        match &self.resumed {
            None => RunRecordPaths::create(&self.layout.logs, records, turn),
            Some(resumed) => Ok(RunRecordPaths::for_run(&resumed.log_dir, records, turn)),
        }
    }

    /// Returns where the servers of the run write their output.
    fn server_context(
        &self,
        paths: &RunRecordPaths,
        events: &Sender<QueuedEvent>,
    ) -> ServerContext {
        ServerContext {
            logs: paths.log().join(SERVER_LOGS),
            redactor: self.context.redactor.clone(),
            tokens: self.context.host.home.as_ref().map(TokenFile::in_home),
            packages: self.context.host.home.as_ref().map(PackageStore::in_home),
            events: Some(events.downgrade()),
        }
    }

    /// Returns how the run delivers. In a resumed run, files that changed after `until_ns` count as
    /// unread by its agents.
    fn delivery_settings(
        &self,
        paths: &RunRecordPaths,
        until_ns: Option<i128>,
        shutdown: &ShutdownSignal,
        events: &Sender<QueuedEvent>,
    ) -> DeliverySettings {
        let (dir, run) = (&self.layout.deliveries, paths.name());
        DeliverySettings {
            dir: dir.clone(),
            run: run.to_owned(),
            merge_bases: MergeBases::new(dir.join(run).join(BASES), until_ns),
            mode: self.config.delivery,
            on_failed_check: self.config.checks.on_failure,
            drift: self.config.orchestrator.drift,
            reviewer: self.reviewer.clone(),
            stop: shutdown.graceful.clone(),
            events: events.downgrade(),
        }
    }

    /// Returns the factory of the final agents' overlays.
    fn overlays(&self, paths: &RunRecordPaths) -> OverlayFactory {
        let overlays = OverlayFactory::new(
            &self.layout,
            paths.name(),
            self.config.agents.len(),
            &self.context.host.executable,
            &self.context.host.env,
        );
        match (&self.config.checks.setup, &self.context.host.home) {
            (Some(line), Some(home)) => overlays.with_setup(line, home.join(SETUPS)),
            (Some(line), None) => overlays.with_setup(line, self.layout.sandboxes.clone()),
            (None, _) => overlays,
        }
    }

    /// Returns the snapshots of a run that starts or resumes in `workspaces`.
    fn snapshot_store(&self, workspaces: &mut [RunWorkspace]) -> Result<SnapshotStore> {
        let agents = self.config.agents.as_slice();
        // Checks run on snapshots.
        if let (SnapshotMode::InPlace, [_], true) =
            (self.snapshot_mode, agents, self.config.checks.is_empty())
        {
            return Ok(SnapshotStore::disabled());
        }
        let layout = &self.layout;
        let (shared, storage) = (layout.temp_workspaces.clone(), layout.snapshots.clone());
        let mut snapshots = SnapshotStore::new(shared, storage);
        snapshots.set_seeds(workspace_seeds(layout, workspaces));
        if let Some(resumed) = &self.resumed {
            snapshots.restore(recorded_answers(resumed.events()))?;
        }
        Ok(snapshots)
    }
}

/// Rejects required checks that cannot run, before any model is paid; returns a warning if optional
/// ones cannot.
pub fn validate_checks(
    environments: &AgentEnvironments,
    checks: &ChecksConfig,
) -> Result<Option<String>> {
    let unsupported = environments.unsupported_check();
    let Some((agent, reason)) = unsupported.filter(|_| !checks.list.is_empty()) else {
        return Ok(None);
    };
    let required_check = checks
        .list
        .iter()
        .find(|check| check.requirement == CheckRequirement::Required);
    let Some(required_check) = required_check else {
        return Ok(Some(format!(
            "checks on the work of {agent} cannot run: {reason}"
        )));
    };
    let message = format!(
        "required check `{}` cannot run on the work of `{agent}`: {reason}",
        required_check.name
    );
    Err(Error::new(ErrorKind::Environment, message)
        .with_hint("see `massgen doctor` for the available sandbox levels")
        .with_hint("run the agents' commands in containers, or set `required: false`"))
}

fn coordination_layout(config: &Config) -> CoordinationLayout {
    match config.orchestrator.max_orchestration_restarts {
        0 => CoordinationLayout::One,
        _ => CoordinationLayout::Several,
    }
}

/// Runs `turn`; a panic in it becomes an error. The last sender of events is dropped with the turn,
/// which ends the recording.
async fn run_turn(mut turn: PreparedTurn) -> Result<CompletedTurn> {
    let turn = async {
        let result = run(&mut turn).await?;
        let PreparedTurn {
            team, snapshots, ..
        } = turn;
        Ok(CompletedTurn {
            result,
            team,
            snapshots,
        })
    };
    let turn_result = AssertUnwindSafe(turn.boxed()).catch_unwind().await;
    turn_result.unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
}

fn parked_error() -> Error {
    Error::new(ErrorKind::Parked, "the run is parked; it has no end yet")
        .with_hint("resume it: massgen --continue")
}

fn interrupted_twice_error() -> Error {
    let message = "interrupted twice; the run was abandoned";
    Error::new(ErrorKind::Interrupted, message).with_hint("to resume it: massgen --continue")
}

/// Creates a ledger with the limits of the config, in which `totals` are already used, and with the
/// money that the run shares with others.
fn ledger(
    config: &Config,
    totals: UsageTotals,
    shared: Option<Arc<dyn SharedBudget>>,
) -> Arc<Mutex<BudgetLedger>> {
    let agents = config.agents.iter();
    let limits = agents.map(|agent| (agent.id.clone(), agent.limits));
    let ledger = BudgetLedger::new(config.limits, limits);
    Arc::new(Mutex::new(
        ledger.with_totals(totals).with_shared_budget(shared),
    ))
}
