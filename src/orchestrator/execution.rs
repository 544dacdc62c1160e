//! Executes a run: creates its directories, opens its session and records, runs the turn while
//! every event is recorded before it is shown, and saves the result.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::check_results::CheckRequirement;
use crate::config::Config;
use crate::config::checks::ChecksConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{DeliveryRow, Event, RunEvent};
use crate::layout::RunLayout;
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::approvals::{ApprovalBroker, ApprovalConfig};
use crate::orchestrator::environments::{AgentEnvironments, HostEnvironment};
use crate::orchestrator::event_sinks::EventSinks;
use crate::orchestrator::grants::{InheritedPaths, permission_manager};
use crate::orchestrator::hooks::HookRunContext;
use crate::orchestrator::overlays::{OverlayFactory, PendingDelivery};
use crate::orchestrator::previous_turns::{describe, previous_workspaces};
use crate::orchestrator::replay_order::ReplayInput;
use crate::orchestrator::reply_recordings::ReplyRecordings;
use crate::orchestrator::resumed_turn::{
    AlreadyLoggedEvents, InitialTurnState, ResumedTurn, recorded_answers,
};
use crate::orchestrator::review::{DeliverySettings, Reviewer};
use crate::orchestrator::run_directories::{
    create_workspaces, existing_directory, reopen_workspaces, replay_manifest, workspace_seeds,
};
use crate::orchestrator::snapshots::SnapshotStore;
use crate::orchestrator::team::AgentTeam;
use crate::orchestrator::team::mcp_servers::ServerContext;
use crate::orchestrator::{ModelsByAgent, PreparedTurn, TurnResult, run};
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::prompts::TaskPrompt;
use crate::spending::ledger::BudgetLedger;
use crate::spending::totals::UsageTotals;
use crate::world::access::merge_bases::MergeBases;
use crate::world::access::policy::ConflictPolicy;
use crate::world::delivery::store::BASES;
use crate::world::diagnostics::telemetry::RunTelemetry;
use crate::world::diagnostics::telemetry::conventions::ProviderNames;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::io::secrets::readable_secrets;
use crate::world::mcp::tokens::TokenFile;
use crate::world::store::diagnostic_log::{self, DiagnosticLog, LogDetail};
use crate::world::store::prepare_state_dir;
use crate::world::store::records::Recorder;
use crate::world::store::records::metadata::RunMetadata;
use crate::world::store::records::record_paths::{AttemptLayout, RunRecordPaths};
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::{FinishedTurn, LiveWorkspace, Session, TurnContext};
use crate::world::store::workspace::RunWorkspace;

/// Maximum number of queued events; senders wait when it is reached. Events that are queued when
/// the time of a run is over are still recorded before the run ends.
const EVENTS_WAITING_MAX: usize = 256;
/// The directory for the servers' standard error, within that of a run's logs.
const SERVER_LOGS: &str = "servers";

/// The input of a run.
#[derive(Debug)]
pub struct RunRequest {
    /// The agents and the rules.
    pub config: Config,
    /// The paths of the run.
    pub layout: RunLayout,
    /// The user's current directory.
    pub base: AbsPath,
    /// The task as the user wrote it.
    pub task: String,
    /// The task as agents read it, with mentions replaced by paths.
    pub question: Arc<str>,
    /// The paths that the prompts of the session opened, including this one.
    pub opened: Vec<OpenedPath>,
    /// The session that the run continues; without one it begins one.
    pub session: Option<Session>,
    /// The models of the agents.
    pub models: ModelsByAgent,
    /// Removes the secrets that the records must never hold.
    pub redactor: Redactor,
    /// Where the run's spans are sent, if anywhere.
    pub telemetry: Option<TelemetrySettings>,
    /// How the run was started, for the records.
    pub invocation: RunInvocation,
    /// The recording that a replay, which delivers nothing, or a resumed run follows.
    pub replay: Option<ReplayInput>,
    /// The interrupted turn, if the run resumes one.
    pub resumed: Option<ResumedTurn>,
    /// What commands need to know about the massgen process.
    pub host: HostEnvironment,
    /// Reviews the delivery before it is applied. `None` applies everything.
    pub reviewer: Option<Reviewer>,
    /// Where approval of calls is requested.
    pub approvals: ApprovalConfig,
    /// Whether the files of the agents are copied.
    pub snapshot_mode: SnapshotMode,
}

/// Handling of the files that agents create in their workspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotMode {
    /// A copy is made with each answer and stays in the session.
    #[default]
    Copied,
    /// They stay where they are, for the caller of massgen; agents that see each other's answers
    /// see copies all the same.
    InPlace,
}

/// Tokens by which the user ends a run.
#[derive(Clone, Debug, Default)]
pub struct ShutdownSignal {
    /// Cancelled to end it with what it has.
    pub graceful: CancellationToken,
    /// Cancelled to abort it.
    pub immediate: CancellationToken,
}

/// Command line and config with which a run was started.
#[derive(Clone, Debug)]
pub struct RunInvocation {
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The config's text, before variables were expanded.
    pub config_text: Option<String>,
    /// The command-line arguments.
    pub arguments: Vec<String>,
    /// How much is logged.
    pub detail: LogDetail,
}

/// A run whose directories exist and whose records are open.
#[derive(Debug)]
pub struct RunExecution {
    turn: PreparedTurn,
    recorder: Recorder,
    recordings: ReplyRecordings,
    telemetry: Option<RunTelemetry>,
    session: Session,
    turn_context: TurnContext,
    task: String,
    events: Receiver<Event>,
    /// The events that were recorded before the run was interrupted, if it was.
    recorded_events: Vec<Event>,
    /// Those of them that the turn emits again.
    already_logged: AlreadyLoggedEvents,
    /// The first events, including those about the sandboxes of the agents' commands.
    opening_events: Vec<Event>,
    abort: CancellationToken,
    snapshot_mode: SnapshotMode,
    /// The user's own workspaces are locked until this is dropped.
    _workspaces: Vec<RunWorkspace>,
    _trace: DiagnosticLog,
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
}

impl RunExecution {
    /// Creates the directories, assembles the team, and opens session and records. No model is
    /// asked.
    pub fn prepare(order: RunRequest, stop: ShutdownSignal) -> Result<Self> {
        let (config, layout) = (order.config, order.layout);
        prepare_state_dir(&layout.state, layout.directories())?;
        let earlier = order
            .session
            .as_ref()
            .map_or(&[][..], Session::previous_turns);
        let (told, left) = (describe(earlier), previous_workspaces(earlier));
        let mut workspaces =
            open_workspaces(&config, &layout, order.resumed.as_ref(), left.first())?;
        let mut team = assemble_team((&config, &layout), &order.base, (&order.opened, &left))?;
        let session = session_or_new(order.session, &layout, &order.redactor)?;
        let mut beginning =
            InitialTurnState::from_resumed(order.resumed.as_ref(), &team, &order.models);
        beginning.forget_conflicts(&session, &config);
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        if order.replay.is_some() && order.resumed.is_none() {
            team.disable_delivery();
        }
        let surroundings = (&order.base, &sender, &stop.graceful);
        team.set_approval_broker(ApprovalBroker::new(
            order.approvals,
            surroundings,
            &beginning.events,
        ))?;
        team.set_hook_context(HookRunContext::new(session.id(), &sender));
        let (session, first) = attach_environments(&mut team, session, &layout, &order.host)?;
        let around = turn_context(order.base, &order.invocation, order.opened);
        let places = record_paths(&config, &layout, &session, order.resumed.as_ref())?;
        let of_run = (&layout, &places);
        let leaves = (&order.redactor, &sender);
        configure_team(&mut team, of_run, &order.host, leaves);
        let how = (beginning.until_ns, order.reviewer);
        team.set_delivery_settings(delivery_settings(of_run, &config, how, &stop));
        beginning.discard_overlays(&team)?;
        let recordings = ReplyRecordings::validate(&config)?;
        let of_files = (&layout, &config, order.snapshot_mode);
        let snapshots = snapshot_store(of_files, &mut workspaces, order.resumed.as_ref())?;
        let begun = RecordContext {
            run: (&config, &layout),
            turn: (&session, &around, &order.task),
            redactor: &order.redactor,
        };
        let (recorder, trace) = begun.open_records(places, order.resumed, order.invocation)?;
        let vendors = ProviderNames::from_config(&config);
        let send = |to| RunTelemetry::begin(to, vendors, order.redactor);
        let turn = PreparedTurn {
            snapshots,
            ledger: ledger(&config, beginning.usage),
            config,
            team,
            models: order.models,
            task: TaskPrompt {
                question: order.question,
                earlier: told.into(),
            },
            events: sender,
            stop: stop.graceful,
            replay: order.replay,
            recorded_conversations: beginning.recorded_conversations,
            recorded_conclusion: beginning.recorded_conclusion,
        };
        Ok(Self {
            turn,
            recorder,
            recordings,
            telemetry: order.telemetry.map(send),
            session,
            turn_context: around,
            task: order.task,
            events,
            recorded_events: beginning.events,
            already_logged: beginning.already_logged,
            opening_events: beginning
                .interrupted_requests
                .into_iter()
                .chain(first)
                .collect(),
            abort: stop.immediate,
            snapshot_mode: order.snapshot_mode,
            _workspaces: workspaces,
            _trace: trace,
        })
    }

    /// Returns the id of its session.
    pub fn session_id(&self) -> String {
        self.session.id()
    }

    /// Returns where the run will leave its results.
    pub fn output_paths(&self) -> RunOutputPaths {
        let turn_dir = self.session.turn_dir();
        RunOutputPaths {
            log_dir: self.recorder.paths().log().clone(),
            status_file: self.recorder.paths().status_file(),
            answer_file: turn_dir.join("answer.txt"),
        }
    }

    /// Runs the turn to its end, sends every event to `shown`, and saves the result.
    pub async fn execute(self, shown: Sender<Event>) -> Result<TurnResult> {
        let Self {
            turn,
            recorder,
            recordings,
            telemetry,
            mut session,
            turn_context: around,
            task,
            mut events,
            recorded_events: told,
            already_logged: known,
            opening_events: first,
            abort: given_up,
            snapshot_mode: files,
            _workspaces,
            _trace,
        } = self;
        let notices = notices(&turn.team).into_iter();
        let warning = |message| Event::Run(RunEvent::Warning { message });
        let first: Vec<Event> = first.into_iter().chain(notices.map(warning)).collect();
        let mut listeners = EventSinks::new(recorder, telemetry, shown, known);
        let playing = async {
            tokio::select! {
                // A run that is aborted before it begins is recorded as begun.
                biased;
                played = run_turn(turn) => played,
                () = given_up.cancelled() => Err(interrupted_twice_error()),
            }
        };
        for event in told {
            listeners.show(event).await;
        }
        for event in first {
            listeners.emit(event).await;
        }
        let recording = listeners.forward(&mut events);
        let (played, ()) = tokio::join!(playing, recording);
        let mut played = match played {
            Ok(played) => played,
            Err(error) => {
                listeners.abort(&error).await;
                session.end();
                return Err(error);
            }
        };
        let log_dir = listeners.recorder().paths().log().clone();
        let of_turn = (task.as_str(), &around, &log_dir);
        let kept = save_turn(&mut session, &mut played, of_turn, files);
        let unwritten = recordings.publish(listeners.recorder());
        let is_left = |row: &DeliveryRow| !row.outcome.is_delivered();
        let rest = if played.result.rows.iter().any(is_left) {
            PendingDelivery::Undelivered
        } else {
            PendingDelivery::Nothing
        };
        let uncleared = played.team.clear_overlays(rest).err();
        let uncleared = uncleared.map(|error| error.to_string());
        for message in kept.notes.into_iter().chain(unwritten).chain(uncleared) {
            listeners.emit(RunEvent::Warning { message }).await;
        }
        let ended = run_ended_event(&played.result, kept.workspace.as_ref());
        listeners.finish(ended).await;
        session.end();
        Ok(played.result)
    }
}

/// Assembles the team of a run, with the paths that prompts opened and the workspaces of earlier
/// turns.
fn assemble_team(
    (config, layout): (&Config, &RunLayout),
    base: &AbsPath,
    (opened, workspaces): (&[OpenedPath], &[AbsPath]),
) -> Result<AgentTeam> {
    let inherited = InheritedPaths { opened, workspaces };
    AgentTeam::assemble(config, layout, base, inherited)
}

/// Returns the last event of a run.
fn run_ended_event(result: &TurnResult, workspace: Option<&AbsPath>) -> Event {
    let summary = match workspace {
        Some(workspace) if result.rows.is_empty() => {
            format!("{}; its files are in `{workspace}`", result.summary)
        }
        Some(_) | None => result.summary.clone(),
    };
    Event::Run(RunEvent::RunEnded {
        status: result.status,
        summary,
    })
}

fn turn_context(
    cwd: AbsPath,
    started_with: &RunInvocation,
    opened: Vec<OpenedPath>,
) -> TurnContext {
    TurnContext {
        cwd,
        config: started_with.config_path.clone(),
        opened,
    }
}

/// Opens the workspaces of a run: those of the interrupted run, or new ones that are initialized
/// from `seed`.
fn open_workspaces(
    config: &Config,
    layout: &RunLayout,
    resumed: Option<&ResumedTurn>,
    seed: Option<&AbsPath>,
) -> Result<Vec<RunWorkspace>> {
    match resumed {
        None => create_workspaces(config, layout, seed),
        Some(_) => reopen_workspaces(layout),
    }
}

/// Returns the snapshots of a run that starts or resumes in `workspaces`.
fn snapshot_store(
    (layout, config, files): (&RunLayout, &Config, SnapshotMode),
    workspaces: &mut [RunWorkspace],
    resumed: Option<&ResumedTurn>,
) -> Result<SnapshotStore> {
    if let (SnapshotMode::InPlace, [_]) = (files, config.agents.as_slice()) {
        return Ok(SnapshotStore::disabled());
    }
    let (shared, storage) = (layout.temp_workspaces.clone(), layout.snapshots.clone());
    let mut snapshots = SnapshotStore::new(shared, storage);
    snapshots.set_seeds(workspace_seeds(layout, workspaces));
    if let Some(resumed) = resumed {
        snapshots.restore(recorded_answers(resumed.events()))?;
    }
    Ok(snapshots)
}

/// Context of a run for its records.
#[derive(Clone, Copy)]
struct RecordContext<'a> {
    run: (&'a Config, &'a RunLayout),
    turn: (&'a Session, &'a TurnContext, &'a str),
    redactor: &'a Redactor,
}

impl RecordContext<'_> {
    /// Starts the records, or resumes those of the interrupted turn.
    fn open_records(
        self,
        places: RunRecordPaths,
        resumed: Option<ResumedTurn>,
        started_with: RunInvocation,
    ) -> Result<(Recorder, DiagnosticLog)> {
        match resumed {
            None => self.start_records(places, started_with),
            Some(resumed) => self.resume_records(places, resumed, started_with.detail),
        }
    }

    /// Starts the records.
    fn start_records(
        self,
        places: RunRecordPaths,
        started_with: RunInvocation,
    ) -> Result<(Recorder, DiagnosticLog)> {
        let ((config, layout), (session, around, task)) = (self.run, self.turn);
        let meta = RunMetadata {
            query: task.to_owned(),
            config_path: started_with.config_path,
            config: started_with.config_text,
            cli_args: started_with.arguments,
            cwd: around.cwd.clone(),
            session_id: session.id(),
        };
        let trace =
            diagnostic_log::begin(places.turn(), started_with.detail, self.redactor.clone())?;
        let outset = replay_manifest(&meta, layout, config, &around.opened)?;
        let recorder = Recorder::start(places, &meta, self.redactor.clone())?;
        recorder.write_manifest(&outset)?;
        Ok((recorder, trace))
    }

    /// Resumes the records of the interrupted turn.
    fn resume_records(
        self,
        places: RunRecordPaths,
        resumed: ResumedTurn,
        detail: LogDetail,
    ) -> Result<(Recorder, DiagnosticLog)> {
        let (session, ..) = self.turn;
        let ResumedTurn {
            log, events: told, ..
        } = resumed;
        let trace = diagnostic_log::begin(places.turn(), detail, self.redactor.clone())?;
        let records = (places, log);
        let recorder = Recorder::resume(records, session.id(), &told, self.redactor.clone())?;
        Ok((recorder, trace))
    }
}

/// Returns the paths of the run's records; creates them, unless the run is resumed.
fn record_paths(
    config: &Config,
    layout: &RunLayout,
    session: &Session,
    resumed: Option<&ResumedTurn>,
) -> Result<RunRecordPaths> {
    let (attempts, turn) = (attempt_layout(config), session.turn());
    match resumed {
        None => RunRecordPaths::create(&layout.logs, attempts, turn),
        Some(resumed) => Ok(RunRecordPaths::for_run(&resumed.log_dir, attempts, turn)),
    }
}

/// Returns the session that the run is a turn of.
fn session_or_new(
    session: Option<Session>,
    layout: &RunLayout,
    redactor: &Redactor,
) -> Result<Session> {
    let anew = || Session::begin(&layout.sessions, redactor.clone());
    session.map_or_else(anew, Ok)
}

/// Configures where the team's overlays and the logs of its servers are.
fn configure_team(
    team: &mut AgentTeam,
    (layout, places): (&RunLayout, &RunRecordPaths),
    machine: &HostEnvironment,
    (redactor, events): (&Redactor, &Sender<Event>),
) {
    team.set_overlays(OverlayFactory::new(
        (layout, places.name()),
        &machine.executable,
    ));
    team.set_server_context(ServerContext {
        logs: places.log().join(SERVER_LOGS),
        redactor: redactor.clone(),
        tokens: machine.home.as_ref().map(TokenFile::in_home),
        events: Some(events.downgrade()),
    });
}

/// Returns how the run delivers. In a resumed run, files that changed after `until_ns` count as
/// unread by its agents.
fn delivery_settings(
    (layout, places): (&RunLayout, &RunRecordPaths),
    config: &Config,
    (until_ns, reviewer): (Option<i128>, Option<Reviewer>),
    stop: &ShutdownSignal,
) -> DeliverySettings {
    let run = places.name();
    DeliverySettings {
        dir: layout.deliveries.clone(),
        run: run.to_owned(),
        merge_bases: MergeBases::new(layout.deliveries.join(run).join(BASES), until_ns),
        mode: config.delivery,
        on_failed_check: config.checks.on_failure,
        reviewer,
        stop: stop.graceful.clone(),
    }
}

/// Gives the team what exists only now: where massgen's versions of files go that the user changes
/// too, and the environments of its commands. Returns the events about these. If it fails, the
/// session ends as one in which nothing was saved.
fn attach_environments(
    team: &mut AgentTeam,
    session: Session,
    layout: &RunLayout,
    machine: &HostEnvironment,
) -> Result<(Session, Vec<Event>)> {
    let mut equipped = || -> Result<Vec<Event>> {
        let kept_in = existing_directory(&session.conflicts()?)?;
        team.set_conflicts(ConflictPolicy::from_now(kept_in)?);
        team.validate_hooks(machine)?;
        let shells = AgentEnvironments::prepare(team.environment_specs(), layout, machine)?;
        let mut told = shells.sandbox_events();
        let unfit = validate_checks(&shells, team.checks())?;
        told.extend(unfit.map(|message| Event::Run(RunEvent::Warning { message })));
        team.set_environments(shells);
        Ok(told)
    };
    match equipped() {
        Ok(told) => Ok((session, told)),
        Err(error) => {
            session.end();
            Err(error)
        }
    }
}

/// Rejects required checks that cannot run, before any model is paid; returns a warning if optional
/// ones cannot.
pub fn validate_checks(
    shells: &AgentEnvironments,
    checks: &ChecksConfig,
) -> Result<Option<String>> {
    let Some((agent, why)) = shells.unsupported_check() else {
        return Ok(None);
    };
    let required = checks
        .list
        .iter()
        .find(|check| check.requirement == CheckRequirement::Required);
    let Some(required) = required else {
        return Ok(Some(format!(
            "checks on the work of {agent} cannot run: {why}"
        )));
    };
    let message = format!(
        "required check `{}` cannot run on the work of `{agent}`: {why}",
        required.name
    );
    Err(Error::new(ErrorKind::Environment, message)
        .with_hint("see `massgen doctor` for the available sandbox levels")
        .with_hint("run the agents' commands in containers, or set `required: false`"))
}

fn attempt_layout(config: &Config) -> AttemptLayout {
    match config.orchestrator.max_orchestration_restarts {
        0 => AttemptLayout::One,
        _ => AttemptLayout::Several,
    }
}

/// A turn that has run to its end.
struct CompletedTurn {
    result: TurnResult,
    team: AgentTeam,
    snapshots: SnapshotStore,
}

/// Runs `turn`; a panic in it becomes an error. The last sender of events is dropped with the turn,
/// and that ends the recording.
async fn run_turn(mut turn: PreparedTurn) -> Result<CompletedTurn> {
    let playing = async {
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
    let played = AssertUnwindSafe(playing).catch_unwind().await;
    played.unwrap_or_else(|panic| Err(Error::from_panic(&*panic)))
}

fn interrupted_twice_error() -> Error {
    let message = "interrupted twice; the run was abandoned";
    Error::new(ErrorKind::Interrupted, message).with_hint("its logs are in `.massgen/massgen_logs`")
}

/// Creates a ledger with the limits of the config, in which `books` are already spent.
fn ledger(config: &Config, books: UsageTotals) -> Arc<Mutex<BudgetLedger>> {
    let agents = config.agents.iter();
    let limits = agents.map(|agent| (agent.id.clone(), agent.limits));
    let empty = BudgetLedger::new(config.limits, limits);
    Arc::new(Mutex::new(empty.with_totals(books)))
}

/// Returns the notices for the user about what the run opens.
fn notices(team: &AgentTeam) -> Vec<String> {
    let mut grants: Vec<Grant> = Vec::new();
    for grant in team.members.iter().flat_map(|member| &member.grants) {
        if grant.kind == GrantKind::Context && !grants.contains(grant) {
            grants.push(grant.clone());
        }
    }
    let open = |grant: &Grant| {
        let names = grant.unprotected.join(", ");
        (!names.is_empty()).then(|| format!("unprotected in `{}`: {names}", grant.root))
    };
    let mut notices: Vec<String> = grants.iter().filter_map(open).collect();
    notices.extend(team.unsandboxed_notes());
    let secrets = readable_secrets(&permission_manager(&grants, Phase::Coordination));
    if let Some(first) = secrets.first() {
        let more = match secrets.len() {
            1 => String::new(),
            count => format!(" and {} more", count.saturating_sub(1)),
        };
        notices.push(format!(
            "agents may read `{first}`{more}, which looks like a secret: hide it with \
             `hidden_paths` of its context path"
        ));
    }
    notices
}

/// Result of saving a turn, in addition to its answer.
#[derive(Debug, Default)]
struct SaveOutcome {
    workspace: Option<AbsPath>,
    notes: Vec<String>,
}

/// Saves the turn in its session; failures become notes, and the answer is shown in any case.
fn save_turn(
    session: &mut Session,
    played: &mut CompletedTurn,
    (task, around, log_dir): (&str, &TurnContext, &AbsPath),
    files: SnapshotMode,
) -> SaveOutcome {
    let CompletedTurn {
        result,
        team,
        snapshots,
    } = played;
    let Some(answer) = &result.answer else {
        return SaveOutcome::default();
    };
    if let Some(saved) = session.saved_turn() {
        return SaveOutcome {
            workspace: saved.workspace,
            notes: saved.notes,
        };
    }
    let snapshots = snapshots.agent_snapshots(&answer.agent);
    let member = team.members.iter().find(|member| member.id == answer.agent);
    let path = member.and_then(|member| member.workspace.as_ref());
    let path = path.filter(|_| files == SnapshotMode::Copied);
    let saved = session.save_turn(&FinishedTurn {
        task,
        winner: &answer.agent,
        answer: &answer.text,
        workspace: path.map(|path| LiveWorkspace {
            path,
            snapshots: &snapshots,
        }),
        around,
        log_dir,
    });
    match saved {
        Ok(saved) => SaveOutcome {
            workspace: saved.workspace,
            notes: saved.notes,
        },
        Err(error) => SaveOutcome {
            workspace: None,
            notes: vec![format!("cannot save the session: {error:#}")],
        },
    }
}
