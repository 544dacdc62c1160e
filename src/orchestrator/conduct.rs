//! Owns the frame of a run: makes its directories, opens its session and records, lets the turn run
//! while every event is recorded before it is shown, and saves what it came to.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_util::sync::CancellationToken;

use crate::agent::emit;
use crate::brief::Task;
use crate::config::Config;
use crate::config::checks::Checks;
use crate::error::{Error, ErrorKind, Result};
use crate::event::{DeliveryRow, Event};
use crate::evidence::Need;
use crate::layout::Layout;
use crate::orchestrator::asking::{Asker, People};
use crate::orchestrator::course::Again;
use crate::orchestrator::earlier::{left, told};
use crate::orchestrator::grants::{Inherited, manager};
use crate::orchestrator::ground::{directory, make_workspaces, outset, seeds, take_workspaces};
use crate::orchestrator::hooks::HookGround;
use crate::orchestrator::listeners::Listeners;
use crate::orchestrator::recordings::Recordings;
use crate::orchestrator::resumed::{Beginning, Known, Resumed, answers};
use crate::orchestrator::review::{Deliveries, Reviewer};
use crate::orchestrator::shells::{Machine, Shells};
use crate::orchestrator::snapshots::SnapshotStore;
use crate::orchestrator::team::Team;
use crate::orchestrator::team::serving::ServerGround;
use crate::orchestrator::wings::{Rest, Wings};
use crate::orchestrator::{Models, Turn, TurnResult, run};
use crate::path::AbsPath;
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::prompt::opened::Opened;
use crate::spending::books::Books;
use crate::spending::ledger::Ledger;
use crate::world::bases::Bases;
use crate::world::delivery::store::BASES;
use crate::world::mcp::tokens::TokenFile;
use crate::world::policy::Conflicts;
use crate::world::secrets::readable_secrets;
use crate::world::store::prepare_state_dir;
use crate::world::store::records::Recorder;
use crate::world::store::records::metadata::RunMeta;
use crate::world::store::records::places::{Attempts, RunPlaces};
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::{Around, LiveWorkspace, Session, Turn as SessionTurn};
use crate::world::store::trace::{self, Detail, Trace};
use crate::world::store::workspace::Workspace;
use crate::world::telemetry::Telemetry;
use crate::world::telemetry::conventions::Vendors;
use crate::world::telemetry::settings::Settings;

/// Events that may wait to be recorded and shown; whoever has more waits. What waits when the time of a
/// run is over is still recorded before the run ends.
const EVENTS_WAITING_MAX: usize = 256;
/// The directory of what servers write on their standard error, in that of a run's logs.
const SERVER_LOGS: &str = "servers";

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
    /// What the run follows, where it is played again, and then delivers nothing, or gone on with.
    pub again: Option<Again>,
    /// The turn that was broken off, where the run goes on with it.
    pub resumed: Option<Resumed>,
    /// What commands need to know about the process.
    pub machine: Machine,
    /// Who is asked what of the delivery is applied; without one, everything is.
    pub reviewer: Option<Reviewer>,
    /// Who is asked about calls.
    pub people: People,
    /// What becomes of the files of the agents.
    pub files: Files,
}

/// What becomes of the files that agents make in their workspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Files {
    /// A copy goes with each answer and stays in the session.
    #[default]
    Kept,
    /// They stay where they are, for whoever gave the order; agents that see each other's answers see
    /// copies all the same.
    InPlace,
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
#[derive(Clone, Debug)]
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
    /// What was told before the run was broken off, if it was.
    told: Vec<Event>,
    /// What of it the turn tells again.
    known: Known,
    /// What is told first: among it what holds the agents' commands.
    first: Vec<Event>,
    given_up: CancellationToken,
    files: Files,
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
        let mut workspaces = workspaces(&config, &layout, order.resumed.as_ref(), left.first())?;
        let mut team = assembled((&config, &layout), &order.base, (&order.opened, &left))?;
        let session = begin_or_go_on(order.session, &layout, &order.redactor)?;
        let mut beginning = Beginning::of(order.resumed.as_ref(), &team, &order.models);
        beginning.forget_conflicts(&session, &config);
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        if order.again.is_some() && order.resumed.is_none() {
            team.deliver_nothing();
        }
        let surroundings = (&order.base, &sender, &stop.soon);
        team.ask(Asker::new(order.people, surroundings, &beginning.told))?;
        team.tell_of_hooks(HookGround::new(session.id(), &sender));
        let (session, first) = equip(&mut team, session, &layout, &order.machine)?;
        let around = around(order.base, &order.started_with, order.opened);
        let places = run_places(&config, &layout, &session, order.resumed.as_ref())?;
        let of_run = (&layout, &places);
        let leaves = (&order.redactor, &sender);
        place(&mut team, of_run, &order.machine, leaves);
        let how = (beginning.until_ns, order.reviewer);
        team.deliver_by(deliveries(of_run, &config, how, &stop));
        beginning.throw_away_stages(&team)?;
        let recordings = Recordings::expect(&config)?;
        let of_files = (&layout, &config, order.files);
        let snapshots = snapshots(of_files, &mut workspaces, order.resumed.as_ref())?;
        let begun = Begun {
            run: (&config, &layout),
            turn: (&session, &around, &order.task),
            redactor: &order.redactor,
        };
        let (recorder, trace) = begun.records(places, order.resumed, order.started_with)?;
        let vendors = Vendors::of(&config);
        let send = |to| Telemetry::begin(to, vendors, order.redactor);
        let turn = Turn {
            snapshots,
            ledger: ledger(&config, beginning.books),
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
            memories: beginning.memories,
            concluded: beginning.concluded,
        };
        Ok(Self {
            turn,
            recorder,
            recordings,
            telemetry: order.telemetry.map(send),
            session,
            around,
            task: order.task,
            events,
            told: beginning.told,
            known: beginning.known,
            first: beginning.given_up.into_iter().chain(first).collect(),
            given_up: stop.at_once,
            files: order.files,
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
            told,
            known,
            first,
            given_up,
            files,
            _workspaces,
            _trace,
        } = self;
        let notices = notices(&turn.team).into_iter();
        let warning = |message| Event::Warning { message };
        let first: Vec<Event> = first.into_iter().chain(notices.map(warning)).collect();
        let mut listeners = Listeners {
            recorder,
            telemetry,
            shown,
            known,
        };
        let playing = async {
            tokio::select! {
                // A run that is given up before it begins is recorded as begun.
                biased;
                played = play(turn) => played,
                () = given_up.cancelled() => Err(interrupted_twice()),
            }
        };
        for event in told {
            emit(&listeners.shown, event).await;
        }
        for event in first {
            listeners.tell(event).await;
        }
        let recording = listeners.follow(&mut events);
        let (played, ()) = tokio::join!(playing, recording);
        let mut played = match played {
            Ok(played) => played,
            Err(error) => {
                listeners.break_off(&error).await;
                session.end();
                return Err(error);
            }
        };
        let log_dir = listeners.recorder.places().log().clone();
        let of_turn = (task.as_str(), &around, &log_dir);
        let kept = save(&mut session, &mut played, of_turn, files);
        let unwritten = recordings.publish(&listeners.recorder);
        let is_left = |row: &DeliveryRow| !row.outcome.is_delivered();
        let rest = if played.result.rows.iter().any(is_left) {
            Rest::Some
        } else {
            Rest::None
        };
        let uncleared = played.team.clear_stages(rest).err();
        let uncleared = uncleared.map(|error| error.to_string());
        for message in kept.notes.into_iter().chain(unwritten).chain(uncleared) {
            listeners.tell(Event::Warning { message }).await;
        }
        let ended = ended(&played.result, kept.workspace.as_ref());
        listeners.end(ended).await;
        session.end();
        Ok(played.result)
    }
}

/// The team of a run, with what prompts opened and earlier turns left.
fn assembled(
    (config, layout): (&Config, &Layout),
    base: &AbsPath,
    (opened, workspaces): (&[Opened], &[AbsPath]),
) -> Result<Team> {
    let inherited = Inherited { opened, workspaces };
    Team::assemble(config, layout, base, inherited)
}

/// The last event of a run.
fn ended(result: &TurnResult, workspace: Option<&AbsPath>) -> Event {
    let summary = match workspace {
        Some(workspace) if result.rows.is_empty() => {
            format!("{}; its files are in `{workspace}`", result.summary)
        }
        Some(_) | None => result.summary.clone(),
    };
    Event::RunEnded {
        status: result.status,
        summary,
    }
}

fn around(cwd: AbsPath, started_with: &StartedWith, opened: Vec<Opened>) -> Around {
    Around {
        cwd,
        config: started_with.config_path.clone(),
        opened,
    }
}

/// The workspaces of a run: those that it was broken off in, or new ones that begin with `seed`.
fn workspaces(
    config: &Config,
    layout: &Layout,
    resumed: Option<&Resumed>,
    seed: Option<&AbsPath>,
) -> Result<Vec<Workspace>> {
    match resumed {
        None => make_workspaces(config, layout, seed),
        Some(_) => take_workspaces(layout),
    }
}

/// The snapshots of a run that begins in `workspaces`, or goes on in them.
fn snapshots(
    (layout, config, files): (&Layout, &Config, Files),
    workspaces: &mut [Workspace],
    resumed: Option<&Resumed>,
) -> Result<SnapshotStore> {
    if let (Files::InPlace, [_]) = (files, config.agents.as_slice()) {
        return Ok(SnapshotStore::of_nothing());
    }
    let (shared, storage) = (layout.temp_workspaces.clone(), layout.snapshots.clone());
    let mut snapshots = SnapshotStore::new(shared, storage);
    snapshots.begin_with(seeds(layout, workspaces));
    if let Some(resumed) = resumed {
        snapshots.go_on(answers(resumed.events()))?;
    }
    Ok(snapshots)
}

/// A run that begins or goes on, for its records.
#[derive(Clone, Copy)]
struct Begun<'a> {
    run: (&'a Config, &'a Layout),
    turn: (&'a Session, &'a Around, &'a str),
    redactor: &'a Redactor,
}

impl Begun<'_> {
    /// Begins the records, or goes on with those of the turn that was broken off.
    fn records(
        self,
        places: RunPlaces,
        resumed: Option<Resumed>,
        started_with: StartedWith,
    ) -> Result<(Recorder, Trace)> {
        match resumed {
            None => self.file(places, started_with),
            Some(resumed) => self.file_on(places, resumed, started_with.detail),
        }
    }

    /// Begins the records.
    fn file(self, places: RunPlaces, started_with: StartedWith) -> Result<(Recorder, Trace)> {
        let ((config, layout), (session, around, task)) = (self.run, self.turn);
        let meta = RunMeta {
            query: task.to_owned(),
            config_path: started_with.config_path,
            config: started_with.config_text,
            cli_args: started_with.arguments,
            cwd: around.cwd.clone(),
            session_id: session.id(),
        };
        let trace = trace::begin(places.turn(), started_with.detail, self.redactor.clone())?;
        let outset = outset(&meta, layout, config, &around.opened)?;
        let recorder = Recorder::start(places, &meta, self.redactor.clone())?;
        recorder.file_outset(&outset)?;
        Ok((recorder, trace))
    }

    /// Goes on with those of the turn that was broken off.
    fn file_on(
        self,
        places: RunPlaces,
        resumed: Resumed,
        detail: Detail,
    ) -> Result<(Recorder, Trace)> {
        let (session, ..) = self.turn;
        let Resumed { log, told, .. } = resumed;
        let trace = trace::begin(places.turn(), detail, self.redactor.clone())?;
        let records = (places, log);
        let recorder = Recorder::go_on(records, session.id(), &told, self.redactor.clone())?;
        Ok((recorder, trace))
    }
}

/// Where the records of the run go; they are made, unless it goes on.
fn run_places(
    config: &Config,
    layout: &Layout,
    session: &Session,
    resumed: Option<&Resumed>,
) -> Result<RunPlaces> {
    let (attempts, turn) = (attempts(config), session.turn());
    match resumed {
        None => RunPlaces::create(&layout.logs, attempts, turn),
        Some(resumed) => Ok(RunPlaces::of(&resumed.log_dir, attempts, turn)),
    }
}

/// The session that the run is a turn of.
fn begin_or_go_on(
    session: Option<Session>,
    layout: &Layout,
    redactor: &Redactor,
) -> Result<Session> {
    let anew = || Session::begin(&layout.sessions, redactor.clone());
    session.map_or_else(anew, Ok)
}

/// Tells the team where its stages lie in the run of these records, and what its servers leave.
fn place(
    team: &mut Team,
    (layout, places): (&Layout, &RunPlaces),
    machine: &Machine,
    (redactor, events): (&Redactor, &Sender<Event>),
) {
    team.deliver_from(Wings::new((layout, places.name()), &machine.executable));
    team.serve_from(ServerGround {
        logs: places.log().join(SERVER_LOGS),
        redactor: redactor.clone(),
        tokens: machine.home.as_ref().map(TokenFile::of),
        events: Some(events.downgrade()),
    });
}

/// How the run of this name delivers. Agents of one that goes on are told again what they had read
/// `until_ns`.
fn deliveries(
    (layout, places): (&Layout, &RunPlaces),
    config: &Config,
    (until_ns, reviewer): (Option<i128>, Option<Reviewer>),
    stop: &Stop,
) -> Deliveries {
    let run = places.name();
    Deliveries {
        dir: layout.deliveries.clone(),
        run: run.to_owned(),
        bases: Bases::in_directory(layout.deliveries.join(run).join(BASES), until_ns),
        mode: config.delivery,
        on_red: config.checks.on_red,
        reviewer,
        stop: stop.soon.clone(),
    }
}

/// Gives the team what only exists now: where our versions of files go that the user changes, and what
/// holds its commands, which is told.
/// Where that cannot be had, the session ends as one in which nothing was saved.
fn equip(
    team: &mut Team,
    session: Session,
    layout: &Layout,
    machine: &Machine,
) -> Result<(Session, Vec<Event>)> {
    let mut equipped = || -> Result<Vec<Event>> {
        let kept_in = directory(&session.conflicts()?)?;
        team.watch_conflicts(Conflicts::from_now(kept_in)?);
        team.expect_hooks(machine)?;
        let shells = Shells::prepare(team.runners(), layout, machine)?;
        let mut told = shells.told();
        let unfit = expect_checks(&shells, team.checks())?;
        told.extend(unfit.map(|message| Event::Warning { message }));
        team.run_commands_in(shells);
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

/// Refuses required checks that could not be run, before any model is paid; of others it is said.
pub fn expect_checks(shells: &Shells, checks: &Checks) -> Result<Option<String>> {
    let Some((agent, why)) = shells.unfit() else {
        return Ok(None);
    };
    let required = checks
        .list
        .iter()
        .find(|check| check.need == Need::Required);
    let Some(required) = required else {
        return Ok(Some(format!(
            "checks on the work of {agent} cannot be run: {why}"
        )));
    };
    let message = format!(
        "the required check `{}` cannot be run on the work of `{agent}`: {why}",
        required.name
    );
    Err(Error::new(ErrorKind::Environment, message)
        .hint("`massgen doctor` shows what this machine can hold")
        .hint("run the commands of the agents in containers, or write `required: false`"))
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

/// A ledger with the limits of the config, in which `books` are spent.
fn ledger(config: &Config, books: Books) -> Arc<Mutex<Ledger>> {
    let agents = config.agents.iter();
    let limits = agents.map(|agent| (agent.id.clone(), agent.limits));
    let empty = Ledger::new(config.limits, limits);
    Arc::new(Mutex::new(empty.going_on(books)))
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
    notices.extend(team.unheld());
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

/// What is left of a turn beside its answer.
#[derive(Debug, Default)]
struct Kept {
    workspace: Option<AbsPath>,
    notes: Vec<String>,
}

/// Saves the turn in its session; what did not work is said, the answer is shown in any case.
fn save(
    session: &mut Session,
    played: &mut Played,
    (task, around, log_dir): (&str, &Around, &AbsPath),
    files: Files,
) -> Kept {
    let Played {
        result,
        team,
        snapshots,
    } = played;
    let Some(answer) = &result.answer else {
        return Kept::default();
    };
    if let Some(saved) = session.saved() {
        return Kept {
            workspace: saved.workspace,
            notes: saved.notes,
        };
    }
    let snapshots = snapshots.of(&answer.agent);
    let member = team.members.iter().find(|member| member.id == answer.agent);
    let path = member.and_then(|member| member.workspace.as_ref());
    let path = path.filter(|_| files == Files::Kept);
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
