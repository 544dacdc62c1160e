//! Owns how the command line conducts a run: connects the models, and shows what happens while it
//! happens.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backend::connect::{Surroundings, connect};
use crate::backend::pace::Pace;
use crate::cli::args::RunArguments;
use crate::cli::automation::Automation;
use crate::cli::follow::{Asked, View, follow};
use crate::cli::gathered::Begun;
use crate::cli::mcp::board::Board;
use crate::cli::output::Output;
use crate::cli::pipeline;
use crate::cli::prices::expect_prices;
use crate::cli::prune::after_a_run;
use crate::cli::render::Render;
use crate::cli::report::Report;
use crate::cli::run::Prepared;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::command_line::ExecutionMode;
use crate::config::vendors::key_variables;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::{Host, Stream};
use crate::layout::{Layout, RunName};
use crate::orchestrator::Models;
use crate::orchestrator::asking::{Consents, People, To};
use crate::orchestrator::conduct::{Files, Order, Places, Run, StartedWith, Stop};
use crate::orchestrator::review::{Question, Reviewer, reviewer};
use crate::orchestrator::shells::Machine;
use crate::path::AbsPath;
use crate::permissions::path_rules::Ruling;
use crate::spending::models::ModelList;
use crate::world::ask_socket;
use crate::world::docker::credentials::{self, User};
use crate::world::files::{expect_output_file, read_found, write_output_file};
use crate::world::http::HttpClient;
use crate::world::store::consents::ConsentFile;
use crate::world::store::prune::Store;
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::Session;
use crate::world::store::trace::Detail;

/// Events that may wait to be shown; a run waits for a slow terminal.
pub(crate) const EVENTS_WAITING_MAX: usize = 256;
/// The largest file of scripted replies, in bytes.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Runs what is prepared and shows it.
pub(crate) async fn conduct(
    prepared: Prepared,
    arguments: &RunArguments,
    stop: Stop,
    output: &mut Output<'_>,
    reader: Reader<'_>,
) -> Result<Conducted> {
    if prepared.config.workflow.is_some() {
        let conducted = pipeline::run::begin(prepared, arguments, stop, output, reader);
        return Box::pin(conducted).await;
    }
    let person = Person::at(&prepared.host);
    let order = order(prepared, arguments)?;
    Box::pin(show(order, (person, arguments), stop, output, reader)).await
}

/// Who reads what a run tells.
#[derive(Debug)]
pub(crate) enum Reader<'r> {
    /// Whoever reads the two standard streams.
    Streams,
    /// A script that reads JSON.
    Script(&'r mut Report),
    /// Agents of others, which ask how it stands. They decide nothing: what is to be looked at before it
    /// is delivered stays where it is.
    Agents(&'r Board),
}

impl<'r> Reader<'r> {
    /// A script, if there is a report for it.
    pub(crate) fn of(report: Option<&'r mut Report>) -> Self {
        report.map_or(Reader::Streams, Reader::Script)
    }
}

/// Whether somebody sits there who can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Person {
    /// At a terminal.
    Present,
    /// Nobody reads and types.
    Absent,
}

impl Person {
    /// Who is at the standard streams of `host`.
    pub(crate) fn at(host: &Host) -> Self {
        match (host.stdin, host.stderr) {
            (Stream::Terminal, Stream::Terminal) => Person::Present,
            _ => Person::Absent,
        }
    }
}

/// Runs `order` and shows it.
pub(crate) async fn show(
    mut order: Order,
    (person, arguments): (Person, &RunArguments),
    stop: Stop,
    output: &mut Output<'_>,
    reader: Reader<'_>,
) -> Result<Conducted> {
    let answer_file = arguments.output_file.as_ref();
    let answer_file = answer_file.map(|file| order.base.join(file));
    if let Some(path) = &answer_file {
        expect_output_file(path)?;
    }
    let around = (&order.config, &order.base, order.machine.home.as_ref());
    let consents = order.people.consents.clone();
    let seated = seat_people(around, consents, (person, arguments), &reader, output)?;
    order.people = seated.people.clone();
    if seated.reviewer.is_some() {
        order.reviewer.clone_from(&seated.reviewer);
    }
    let asked = seated.asked(stop.soon.clone());
    let (task, redactor) = (order.task.clone(), order.redactor.clone());
    let retention = order.config.retention;
    let store = Store {
        state: order.layout.state.clone(),
        sessions: order.layout.sessions.clone(),
    };
    let run = Run::prepare(order, stop)?;
    let (session, log_dir) = (run.session_id(), run.places().log_dir);
    let begun = Begun {
        session_id: run.session_id(),
        log_dir: log_dir.to_string(),
        task,
    };
    let view = view(reader, (begun, redactor), (arguments, run.places()), output)?;
    let (shown, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let (result, followed) = tokio::join!(run.conduct(shown), follow(events, view, asked));
    let result = result?;
    if let (Some(path), Some(answer)) = (&answer_file, &result.answer) {
        write_output_file(path, &answer.text)?;
    }
    followed?;
    after_a_run(&store, &retention, output);
    Ok(Conducted {
        status: result.status,
        session,
        log_dir,
    })
}

/// Whether a rule of an agent's has people asked.
fn has_questions(config: &Config) -> bool {
    let mut rules = config
        .agents
        .iter()
        .flat_map(|agent| agent.permissions.rules.iter());
    rules.any(|rule| rule.ruling == Ruling::Ask)
}

/// Who is asked about what agents of a run do.
#[derive(Debug)]
pub(crate) struct Seated {
    /// Who is asked about calls.
    pub(crate) people: People,
    /// Who looks at a delivery, if somebody does.
    reviewer: Option<Reviewer>,
    /// The questions that come to the terminal.
    questions: mpsc::Receiver<Question>,
}

/// Says who is asked about the calls and the delivery of a run of `config` by a user who stands in `base`.
pub(crate) fn seat_people(
    (config, base, home): (&Config, &AbsPath, Option<&AbsPath>),
    consents: Consents,
    (person, arguments): (Person, &RunArguments),
    reader: &Reader<'_>,
    output: &mut Output<'_>,
) -> Result<Seated> {
    let reads_streams = matches!(reader, Reader::Streams);
    let may_ask = person == Person::Present && reads_streams && !arguments.automation;
    let only_asks = matches!(reader, Reader::Agents(_));
    let (reviewer, questions) = reviewer();
    let to = match &arguments.ask_file {
        Some(socket) => To::Socket(ask_socket::expect(&base.join(socket))?),
        None if may_ask => To::Terminal(reviewer.clone()),
        None => To::Nobody,
    };
    if matches!(to, To::Nobody) && has_questions(config) {
        output.warning(
            "nobody can be asked here: calls that `ask` of `permissions` names are denied, unless \
             `--ask-file` says where answers come from",
        );
    }
    let is_reviewed = only_asks || (may_ask && !arguments.delivery.yes);
    Ok(Seated {
        people: People {
            to,
            consents,
            always: home.map(ConsentFile::of),
        },
        reviewer: is_reviewed.then_some(reviewer),
        questions,
    })
}

/// Begins to tell `reader` of what `begun` says, which leaves its results in `places`.
pub(crate) fn view<'o, 'w>(
    reader: Reader<'o>,
    (begun, redactor): (Begun, Redactor),
    (arguments, places): (&RunArguments, Places),
    output: &'o mut Output<'w>,
) -> Result<View<'o, 'w>> {
    Ok(match reader {
        Reader::Script(report) => {
            report.begin(begun, redactor, output)?;
            View::Json(report, output)
        }
        Reader::Agents(board) => {
            board.begin(begun, redactor);
            View::Agents(board, output)
        }
        Reader::Streams if arguments.automation => View::Script(Automation::new(output, places)),
        Reader::Streams => View::Person(Render::new(output)),
    })
}

impl Seated {
    /// The questions that are put at the terminal until `stop` says that the user wants to stop.
    pub(crate) fn asked(self, stop: CancellationToken) -> Asked {
        Asked {
            questions: self.questions,
            stop,
        }
    }
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Conducted {
    /// How the process should end.
    pub(crate) status: ExitStatus,
    /// The id of its session; one of which nothing was saved is gone.
    pub(crate) session: String,
    /// The directory of its logs.
    pub(crate) log_dir: AbsPath,
}

fn order(prepared: Prepared, arguments: &RunArguments) -> Result<Order> {
    let Prepared {
        host,
        config,
        file,
        models,
        prompt,
        opened,
        going_on,
        telemetry,
        consents,
    } = prepared;
    let redactor = Redactor::new(secrets(&config, &host));
    let session = going_on.map(|going_on| Session::go_on(going_on.place, redactor.clone()));
    let session = session.transpose()?;
    let run = RunName::new(Uuid::new_v4().as_fields().0);
    let machine = machine(&host);
    Ok(Order {
        layout: Layout::plan(&config, &host.cwd, run),
        models: connect_all(&config, &models, &host)?,
        redactor,
        opened,
        session,
        question: Arc::from(prompt.cleaned_prompt),
        task: prompt.original_prompt,
        started_with: started_with(file.as_ref(), &host, arguments),
        base: host.cwd,
        telemetry,
        config,
        again: None,
        resumed: None,
        machine,
        reviewer: None,
        people: People {
            consents,
            ..People::default()
        },
        files: Files::Kept,
    })
}

/// What a run of the team in `file` was started with, for its records.
pub(crate) fn started_with(
    file: Option<&TeamFile>,
    host: &Host,
    arguments: &RunArguments,
) -> StartedWith {
    StartedWith {
        config_path: file.and_then(TeamFile::place).cloned(),
        config_text: file.map(TeamFile::text),
        arguments: host.arguments.clone(),
        detail: if arguments.debug {
            Detail::Debug
        } else {
            Detail::Plain
        },
    }
}

/// What commands need to know about the process.
pub(crate) fn machine(host: &Host) -> Machine {
    Machine {
        executable: host.executable.clone(),
        env: host.env.clone(),
        variables: host.config_variables(),
        home: host.home.clone(),
    }
}

/// The models of all agents; nobody is called yet.
pub(crate) fn connect_all(config: &Config, models: &ModelList, host: &Host) -> Result<Models> {
    expect_prices(config, models)?;
    let http = HttpClient::new();
    let variables = host.config_variables();
    let env = |name: &str| variables.get_filled(name).map(str::to_owned);
    let around = Surroundings {
        env: &env,
        http: &http,
        cwd: &host.cwd,
        pace: &Pace::new(&config.rate_limits),
        models,
        read: &read_script,
    };
    let connected = config
        .agents
        .iter()
        .map(|agent| Ok((agent.id.clone(), connect(&agent.backend, around)?)));
    connected.collect()
}

/// The text of a file of scripted replies.
pub(crate) fn read_script(path: &AbsPath) -> Result<String> {
    let missing = || {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` does not exist"),
        )
        .hint("`script` is relative to the directory of the config file")
    };
    let bytes = read_found(path, SCRIPT_BYTES_MAX)?.ok_or_else(missing)?;
    String::from_utf8(bytes).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` is not UTF-8"),
        )
        .caused_by(error)
    })
}

/// Every key that this run could send: those of the config, those of the environment, and what the
/// config gives to servers, agent programs and commands.
pub(crate) fn secrets(config: &Config, host: &Host) -> Vec<SecretString> {
    let written = config
        .agents
        .iter()
        .flat_map(|agent| agent.backend.with_fallbacks())
        .filter_map(|model| model.api_key.as_ref());
    let written = written.map(|key| SecretString::from(key.expose_secret()));
    let variables = host.config_variables();
    let set = key_variables()
        .filter_map(|name| variables.get_filled(name))
        .map(SecretString::from);
    let guests = config.agents.iter();
    let guests = guests.filter_map(|agent| agent.backend.guest.as_ref());
    let of_guests = guests.flat_map(|guest| guest.secrets(&variables));
    let servers = config.agents.iter().flat_map(|agent| &agent.servers);
    let of_servers = servers.flat_map(|server| server.secrets(&variables));
    let commands = config.agents.iter();
    let commands = commands.filter_map(|agent| agent.commands.as_ref());
    let user = User {
        home: host.home.as_ref(),
        env: &host.env,
        variables: &variables,
    };
    let of_containers = commands
        .clone()
        .filter_map(|commands| match &commands.mode {
            ExecutionMode::Docker(docker) => Some(credentials::secrets(&docker.credentials, user)),
            ExecutionMode::Local => None,
        });
    let of_commands = commands.flat_map(|commands| commands.secrets(&variables));
    let all = written.chain(set).chain(of_servers);
    let all = all.chain(of_guests).chain(of_commands);
    all.chain(of_containers.flatten()).collect()
}
