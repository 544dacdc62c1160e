//! Owns the frame of a run: makes its directories, opens its session and records, lets the turn run
//! while every event is recorded before it is shown, and saves what it came to.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::agent::emit;
use crate::brief::Task;
use crate::config::Config;
use crate::config::recorded::recorded;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{DeliveryRow, Event};
use crate::id::AgentId;
use crate::layout::{Layout, Owner};
use crate::orchestrator::course::Again;
use crate::orchestrator::earlier::{left, told};
use crate::orchestrator::grants::{Inherited, directories_to_make, manager, real};
use crate::orchestrator::recordings::Recordings;
use crate::orchestrator::review::{Deliveries, Reviewer};
use crate::orchestrator::shells::{Machine, Shells};
use crate::orchestrator::snapshots::SnapshotStore;
use crate::orchestrator::team::Team;
use crate::orchestrator::wings::{Rest, Wings};
use crate::orchestrator::{Models, Turn, TurnResult, run};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::prompt::opened::Opened;
use crate::spending::ledger::Ledger;
use crate::world::bases::Bases;
use crate::world::delivery::store::BASES;
use crate::world::gate::Conflicts;
use crate::world::locate::{Located, locate};
use crate::world::secrets::readable_secrets;
use crate::world::store::prepare_state_dir;
use crate::world::store::records::Recorder;
use crate::world::store::records::metadata::RunMeta;
use crate::world::store::records::outset::Outset;
use crate::world::store::records::places::{Attempts, RunPlaces};
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::{Around, LiveWorkspace, Session, Turn as SessionTurn};
use crate::world::store::trace::{self, Detail, Trace};
use crate::world::store::workspace::{Workspace, make_new};
use crate::world::telemetry::Telemetry;
use crate::world::telemetry::conventions::Vendors;
use crate::world::telemetry::settings::Settings;

/// Events that may wait to be recorded and shown; whoever has more waits.
const EVENTS_WAITING_MAX: usize = 1024;

/// What a run is made from.
#[derive(Debug)]
pub struct Order {
    /// Who takes part, by which rules.
    pub config: Config,
    /// Where everything lies.
    pub layout: Layout,
    /// The directory that the user stands in.
    pub base: AbsPath,
    /// The task as the user wrote it.
    pub task: String,
    /// The task as agents read it, with mentions replaced by paths.
    pub question: Arc<str>,
    /// What the prompts of the session open, this one's among them.
    pub opened: Vec<Opened>,
    /// The session that the run goes on with; without one it begins one.
    pub session: Option<Session>,
    /// The models.
    pub models: Models,
    /// What the records must never hold.
    pub redactor: Redactor,
    /// Where the run's spans are sent, if anywhere.
    pub telemetry: Option<Settings>,
    /// What the run was started with, for the records.
    pub started_with: StartedWith,
    /// What the run follows, where it is played again. It then delivers nothing.
    pub again: Option<Again>,
    /// What commands need to know about the process.
    pub machine: Machine,
    /// Who is asked what of the delivery is applied; without one, everything is.
    pub reviewer: Option<Reviewer>,
}

/// How the user ends a run.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// It is to end with what it has.
    pub soon: CancellationToken,
    /// It is to be given up.
    pub at_once: CancellationToken,
}

/// What a run was started with.
#[derive(Debug)]
pub struct StartedWith {
    /// The config file, if there was one.
    pub config_path: Option<AbsPath>,
    /// The config's text, before variables were put in.
    pub config_text: Option<String>,
    /// The words of the command line.
    pub arguments: Vec<String>,
    /// How much is logged.
    pub detail: Detail,
}

/// A run whose directories are made and whose records are open.
#[derive(Debug)]
pub struct Run {
    turn: Turn,
    recorder: Recorder,
    recordings: Recordings,
    telemetry: Option<Telemetry>,
    session: Session,
    around: Around,
    task: String,
    events: Receiver<Event>,
    /// What holds the agents' commands.
    confined: Vec<Event>,
    given_up: CancellationToken,
    /// Users' own workspaces stay locked as long as this lives.
    _workspaces: Vec<Workspace>,
    _trace: Trace,
}

/// Where a run leaves its results.
#[derive(Clone, Debug)]
pub struct Places {
    /// The directory of the run's logs.
    pub log_dir: AbsPath,
    /// The file that tells how the run stands.
    pub status_file: AbsPath,
    /// The file that will hold the final answer.
    pub answer_file: AbsPath,
}

impl Run {
    /// Makes the directories, puts the team together, and opens session and records. No model is
    /// asked.
    pub fn prepare(order: Order, stop: Stop) -> Result<Self> {
        let (config, layout) = (order.config, order.layout);
        prepare_state_dir(&layout.state, layout.directories())?;
        let earlier = order.session.as_ref().map_or(&[][..], Session::earlier);
        let (told, left) = (told(earlier), left(earlier));
        let workspaces = make_workspaces(&config, &layout, left.first())?;
        make_new(&layout.temp_workspaces)?;
        let inherited = Inherited {
            opened: &order.opened,
            workspaces: &left,
        };
        let mut team = Team::assemble(&config, &layout, &order.base, inherited)?;
        let session = match order.session {
            Some(session) => session,
            None => Session::begin(&layout.sessions, order.redactor.clone())?,
        };
        let confined = equip(&mut team, &session, &layout, &order.machine)?;
        if order.again.is_some() {
            team.deliver_nothing();
        }
        let around = Around {
            cwd: order.base,
            config: order.started_with.config_path.clone(),
            opened: order.opened,
        };
        let meta = RunMeta {
            query: order.task.clone(),
            config_path: order.started_with.config_path,
            config: order.started_with.config_text,
            cli_args: order.started_with.arguments,
            cwd: around.cwd.clone(),
            session_id: session.id(),
        };
        let places = RunPlaces::create(&layout.logs, attempts(&config), session.turn())?;
        let of_run = layout.deliveries.join(places.name());
        team.deliver_from(Wings::new(
            &layout,
            places.name(),
            &order.machine.executable,
        ));
        team.deliver_by(Deliveries {
            dir: layout.deliveries.clone(),
            run: places.name().to_owned(),
            bases: Bases::in_directory(of_run.join(BASES)),
            reviewer: order.reviewer,
            stop: stop.soon.clone(),
        });
        let (detail, redactor) = (order.started_with.detail, order.redactor);
        let trace = trace::begin(places.turn(), detail, redactor.clone())?;
        let outset = outset(&meta, &layout, &config, &around.opened)?;
        let recordings = Recordings::expect(&config)?;
        let recorder = Recorder::start(places, &meta, redactor.clone())?;
        recorder.file_outset(&outset)?;
        let begin = |settings| Telemetry::begin(settings, Vendors::of(&config), redactor);
        let telemetry = order.telemetry.map(begin);
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        let turn = Turn {
            snapshots: SnapshotStore::new(layout.temp_workspaces, layout.snapshots),
            ledger: Arc::new(Mutex::new(empty_ledger(&config))),
            config,
            team,
            models: order.models,
            task: Task {
                question: order.question,
                earlier: told.into(),
            },
            events: sender,
            stop: stop.soon,
            again: order.again,
        };
        Ok(Self {
            turn,
            recorder,
            recordings,
            telemetry,
            session,
            around,
            task: order.task,
            events,
            confined,
            given_up: stop.at_once,
            _workspaces: workspaces,
            _trace: trace,
        })
    }

    /// The name of its session.
    pub fn session_id(&self) -> String {
        self.session.id()
    }

    /// Where the run will leave its results.
    pub fn places(&self) -> Places {
        let turn_dir = self.session.turn_dir();
        Places {
            log_dir: self.recorder.places().log().clone(),
            status_file: self.recorder.places().status_file(),
            answer_file: turn_dir.join("answer.txt"),
        }
    }

    /// Runs the turn to its end, showing every event to `shown`, and saves what it came to.
    pub async fn conduct(self, shown: Sender<Event>) -> Result<TurnResult> {
        let Self {
            turn,
            recorder,
            recordings,
            telemetry,
            mut session,
            around,
            task,
            mut events,
            confined,
            given_up,
            _workspaces,
            _trace,
        } = self;
        let notices = notices(&turn.team);
        let mut listeners = Listeners {
            recorder,
            telemetry,
            shown,
        };
        let playing = async {
            tokio::select! {
                // A run that is given up before it begins is recorded as begun.
                biased;
                played = play(turn) => played,
                () = given_up.cancelled() => Err(interrupted_twice()),
            }
        };
        for event in confined {
            listeners.tell(event).await;
        }
        for message in notices {
            listeners.tell(Event::Warning { message }).await;
        }
        let recording = listeners.follow(&mut events);
        let (played, ()) = tokio::join!(playing, recording);
        let Played {
            result,
            team,
            mut snapshots,
        } = match played {
            Ok(played) => played,
            Err(error) => {
                listeners.break_off(&error).await;
                session.end();
                return Err(error);
            }
        };
        let log_dir = listeners.recorder.places().log().clone();
        let kept = save(
            &mut session,
            (&team, &mut snapshots),
            (&task, &around, &log_dir),
            &result,
        );
        let unwritten = recordings.publish(&listeners.recorder);
        let is_left = |row: &DeliveryRow| !row.outcome.is_delivered();
        let rest = if result.rows.iter().any(is_left) {
            Rest::Some
        } else {
            Rest::None
        };
        let uncleared = team.clear_stages(rest).err().map(|error| error.to_string());
        for message in kept.notes.into_iter().chain(unwritten).chain(uncleared) {
            listeners.tell(Event::Warning { message }).await;
        }
        let status = result.status;
        let summary = match &kept.workspace {
            Some(workspace) if result.rows.is_empty() => {
                format!("{}; its files are in `{workspace}`", result.summary)
            }
            Some(_) | None => result.summary.clone(),
        };
        listeners.end(Event::RunEnded { status, summary }).await;
        session.end();
        Ok(result)
    }
}

/// Gives the team what only exists now: where our versions of files go that the user changes, and what
/// holds its commands, which is told.
fn equip(
    team: &mut Team,
    session: &Session,
    layout: &Layout,
    machine: &Machine,
) -> Result<Vec<Event>> {
    let kept_in = directory(&session.conflicts()?)?;
    team.watch_conflicts(Conflicts::from_now(kept_in)?);
    let shells = Shells::prepare(team.runners(), layout, machine)?;
    let confined = shells.told();
    team.run_commands_in(shells);
    Ok(confined)
}

fn attempts(config: &Config) -> Attempts {
    match config.orchestrator.max_orchestration_restarts {
        0 => Attempts::One,
        _ => Attempts::Several,
    }
}

/// A turn that has been played to its end.
struct Played {
    result: TurnResult,
    team: Team,
    snapshots: SnapshotStore,
}

/// Plays `turn`; a panic in it ends it with an error. The last sender of events goes with the turn,
/// and ends the recording.
async fn play(mut turn: Turn) -> Result<Played> {
    let playing = async {
        let result = run(&mut turn).await?;
        let Turn {
            team, snapshots, ..
        } = turn;
        Ok(Played {
            result,
            team,
            snapshots,
        })
    };
    let played = AssertUnwindSafe(playing).catch_unwind().await;
    played.unwrap_or_else(|panic| Err(Error::panicked(&*panic)))
}

fn interrupted_twice() -> Error {
    let message = "interrupted twice; the run was given up";
    Error::new(ErrorKind::Interrupted, message)
        .hint("what was recorded is under `.massgen/massgen_logs`")
}

/// A ledger in which nothing is spent, with the limits of the config.
fn empty_ledger(config: &Config) -> Ledger {
    let agents = config.agents.iter();
    let limits = agents.map(|agent| (agent.id.clone(), agent.limits));
    Ledger::new(config.limits, limits)
}

/// What the user should know about what the run opens.
fn notices(team: &Team) -> Vec<String> {
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
    let secrets = readable_secrets(&manager(&grants, Phase::Coordination));
    if let Some(first) = secrets.first() {
        let more = match secrets.len() {
            1 => String::new(),
            count => format!(" and {} more", count.saturating_sub(1)),
        };
        notices.push(format!(
            "agents may read `{first}`{more}, which looks like a secret: close it with \
             `hidden_paths` of its context path"
        ));
    }
    notices
}

/// Makes the workspaces. Those of massgen's own begin with what is in `seed`.
fn make_workspaces(
    config: &Config,
    layout: &Layout,
    seed: Option<&AbsPath>,
) -> Result<Vec<Workspace>> {
    let seed = seed.map(directory).transpose()?;
    let mut made = Vec::new();
    for workspace in layout.workspaces.values() {
        made.push(match workspace.owner {
            Owner::Massgen => Workspace::make(&workspace.path, seed.as_ref())?,
            Owner::User => Workspace::take(&workspace.path)?,
        });
    }
    for agent in &config.agents {
        let workspace = layout
            .workspaces
            .get(&agent.id)
            .map(|workspace| &workspace.path);
        for path in directories_to_make(agent, workspace) {
            make_new(&path)?;
        }
    }
    Ok(made)
}

/// How the run begins.
fn outset(meta: &RunMeta, layout: &Layout, config: &Config, opened: &[Opened]) -> Result<Outset> {
    let workspaces = layout.workspaces.iter();
    let workspaces = workspaces.map(|(agent, workspace)| {
        let spellings = spellings(&workspace.path)?;
        Ok((agent.clone(), spellings))
    });
    Ok(Outset {
        task: meta.query.clone(),
        cwd: meta.cwd.to_string(),
        workspaces: workspaces.collect::<Result<_>>()?,
        temp_workspaces: spellings(&layout.temp_workspaces)?,
        opened: opened.to_vec(),
        team: recorded(config),
    })
}

/// `path` as it is written, and as the kernel knows it where that differs.
fn spellings(path: &AbsPath) -> Result<Vec<String>> {
    let mut spellings = vec![path.to_string(), real(path)?.to_string()];
    spellings.dedup();
    Ok(spellings)
}

fn directory(path: &AbsPath) -> Result<RealPath> {
    match locate(path)? {
        Located::Directory(real) => Ok(real),
        Located::File(_) | Located::Missing(_) => {
            Err(Error::bug(format!("`{path}` should be a directory")))
        }
    }
}

/// All who are told what happens.
struct Listeners {
    recorder: Recorder,
    telemetry: Option<Telemetry>,
    shown: Sender<Event>,
}

impl Listeners {
    /// Tells events until the turn is over. In the silence between them `status.json` is brought up
    /// to date.
    async fn follow(&mut self, events: &mut Receiver<Event>) {
        loop {
            let due = self.recorder.status_due();
            let fault = tokio::select! {
                event = events.recv() => match event {
                    None => return,
                    Some(event) => {
                        self.tell(event).await;
                        continue;
                    }
                },
                () = wait(due) => self.recorder.write_status(),
            };
            warn(&self.shown, fault).await;
        }
    }

    async fn tell(&mut self, event: Event) {
        log(&event);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.event(&event);
        }
        let fault = self.recorder.record(&event);
        emit(&self.shown, event).await;
        warn(&self.shown, fault).await;
    }

    /// Tells the last event. What became of the spans is told before it, because nothing follows it.
    async fn end(mut self, ended: Event) {
        if let Some(mut telemetry) = self.telemetry.take() {
            telemetry.event(&ended);
            if let Some(message) = telemetry.finish().await {
                self.tell(Event::Warning { message }).await;
            }
        }
        self.tell(ended).await;
        let fault = self.recorder.finish();
        warn(&self.shown, fault).await;
    }

    /// Ends the records and the spans of a run that broke off. Why it did is told by the caller.
    async fn break_off(mut self, error: &Error) {
        let ended = Event::RunEnded {
            status: error.kind().exit_status(),
            summary: error.to_string(),
        };
        log(&ended);
        let fault = self.recorder.record(&ended);
        warn(&self.shown, fault.or(self.recorder.finish())).await;
        if let Some(mut telemetry) = self.telemetry {
            telemetry.event(&ended);
            if let Some(message) = telemetry.finish().await {
                emit(&self.shown, Event::Warning { message }).await;
            }
        }
    }
}

async fn warn(shown: &Sender<Event>, fault: Option<Error>) {
    if let Some(fault) = fault {
        let message = format!("the run goes on without some of its records: {fault:#}");
        emit(shown, Event::Warning { message }).await;
    }
}

/// Puts what may be a fault into the diagnostic log; what went well stands in the event log.
fn log(event: &Event) {
    let agent = event.agent().map_or("-", AgentId::as_str);
    if let Event::Retrying { reason, .. } = event {
        tracing::warn!(agent, %reason, "a model is asked again");
    }
    if let Event::LimitMet { limit, .. } = event {
        tracing::warn!(agent, %limit, "a limit is met");
    }
    if let Event::DroppedOut { reason, .. } = event {
        tracing::warn!(agent, %reason, "an agent drops out");
    }
    if let Event::ToolCalled {
        tool,
        denied: Some(denied),
        ..
    } = event
    {
        tracing::info!(agent, %tool, %denied, "a call is denied");
    }
    if let Event::Warning { message } = event {
        tracing::warn!(%message, "a warning is shown");
    }
    if let Event::RunEnded { status, summary } = event {
        tracing::info!(?status, %summary, "the run ends");
    }
}

async fn wait(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}

/// What is left of a turn beside its answer.
#[derive(Debug, Default)]
struct Kept {
    workspace: Option<AbsPath>,
    notes: Vec<String>,
}

/// Saves the turn in its session; what did not work is said, the answer is shown in any case.
fn save(
    session: &mut Session,
    (team, snapshots): (&Team, &mut SnapshotStore),
    (task, around, log_dir): (&str, &Around, &AbsPath),
    result: &TurnResult,
) -> Kept {
    let Some(answer) = &result.answer else {
        return Kept::default();
    };
    let snapshots = snapshots.of(&answer.agent);
    let member = team.members.iter().find(|member| member.id == answer.agent);
    let path = member.and_then(|member| member.workspace.as_ref());
    let saved = session.save_turn(&SessionTurn {
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
        Ok(saved) => Kept {
            workspace: saved.workspace,
            notes: saved.notes,
        },
        Err(error) => Kept {
            workspace: None,
            notes: vec![format!("the session could not be saved: {error:#}")],
        },
    }
}
