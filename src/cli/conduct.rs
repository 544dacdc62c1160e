//! Owns how the command line conducts a run: connects the models, shows what happens while it
//! happens, and passes interrupts on.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::backend::connect::{Surroundings, connect};
use crate::backend::pace::Pace;
use crate::cli::args::RunArguments;
use crate::cli::automation::Automation;
use crate::cli::follow::{View, follow};
use crate::cli::output::Output;
use crate::cli::prices::expect_prices;
use crate::cli::render::Render;
use crate::cli::run::Prepared;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::vendors::VENDORS;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::layout::{Layout, RunName};
use crate::orchestrator::Models;
use crate::orchestrator::conduct::{Order, Run, StartedWith};
use crate::orchestrator::grants::mentioned;
use crate::path::AbsPath;
use crate::spending::models::ModelList;
use crate::world::files::{expect_output_file, read_capped, write_output_file};
use crate::world::http::HttpClient;
use crate::world::store::redact::Redactor;
use crate::world::store::trace::Detail;

/// Events that may wait to be shown; a run waits for a slow terminal.
const EVENTS_WAITING_MAX: usize = 256;
/// The largest file of scripted replies, in bytes.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Runs what is prepared and shows it.
pub(crate) async fn conduct(
    prepared: Prepared,
    arguments: &RunArguments,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let stop = CancellationToken::new();
    let answer_file = arguments
        .output_file
        .as_ref()
        .map(|file| prepared.host.cwd.join(file));
    if let Some(path) = &answer_file {
        expect_output_file(path)?;
    }
    let run = Run::prepare(order(prepared, arguments)?, stop.clone())?;
    let view = if arguments.automation {
        View::Script(Automation::new(output, run.places()))
    } else {
        View::Person(Render::new(output))
    };
    let (shown, events) = mpsc::channel(EVENTS_WAITING_MAX);
    let conducting = async {
        tokio::select! {
            result = run.conduct(shown) => result,
            interrupted = pass_interrupts_on(&stop) => Err(interrupted),
        }
    };
    let (result, followed) = tokio::join!(conducting, follow(events, view));
    let result = result?;
    if let (Some(path), Some(answer)) = (&answer_file, &result.answer) {
        write_output_file(path, &answer.text)?;
    }
    followed?;
    Ok(result.status)
}

/// The first interrupt asks the run to end with what it has; with the second it is given up.
pub(crate) async fn pass_interrupts_on(stop: &CancellationToken) -> Error {
    let failed =
        |error| Error::new(ErrorKind::Environment, "signals cannot be received").caused_by(error);
    let (mut interrupts, mut terminations) = match (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) {
        (Ok(interrupts), Ok(terminations)) => (interrupts, terminations),
        (Err(error), _) | (_, Err(error)) => return failed(error),
    };
    for _ in 0..2 {
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
        if stop.is_cancelled() {
            break;
        }
        stop.cancel();
    }
    Error::new(
        ErrorKind::Interrupted,
        "interrupted twice; the run was given up",
    )
    .hint("what was recorded is under `.massgen/massgen_logs`")
}

fn order(prepared: Prepared, arguments: &RunArguments) -> Result<Order> {
    let Prepared {
        host,
        config,
        file,
        models,
        prompt,
        telemetry,
    } = prepared;
    let run = RunName::new(Uuid::new_v4().as_fields().0);
    Ok(Order {
        layout: Layout::plan(&config, &host.cwd, run),
        models: connect_all(&config, &models, &host)?,
        redactor: Redactor::new(secrets(&config, &host)),
        mentions: mentioned(&prompt),
        question: Arc::from(prompt.cleaned_prompt),
        task: prompt.original_prompt,
        base: host.cwd,
        telemetry,
        started_with: StartedWith {
            config_path: file.as_ref().and_then(TeamFile::place).cloned(),
            config_text: file.as_ref().map(TeamFile::text),
            arguments: host.arguments,
            detail: if arguments.debug {
                Detail::Debug
            } else {
                Detail::Plain
            },
        },
        config,
        again: None,
    })
}

/// The models of all agents; nobody is called yet.
pub(crate) fn connect_all(config: &Config, models: &ModelList, host: &Host) -> Result<Models> {
    expect_prices(config, models)?;
    let http = HttpClient::new();
    let env = |name: &str| host.env(name).map(str::to_owned);
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

fn read_script(path: &AbsPath) -> Result<String> {
    let missing = || {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` does not exist"),
        )
        .hint("`script` is relative to the directory of the config file")
    };
    let bytes = read_capped(path, SCRIPT_BYTES_MAX)?.ok_or_else(missing)?;
    String::from_utf8(bytes).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` is not UTF-8"),
        )
        .caused_by(error)
    })
}

/// Every key that this run could send: those of the config, and those of the environment.
fn secrets(config: &Config, host: &Host) -> Vec<SecretString> {
    let written = config
        .agents
        .iter()
        .flat_map(|agent| agent.backend.with_fallbacks())
        .filter_map(|model| model.api_key.as_ref());
    let written = written.map(|key| SecretString::from(key.expose_secret()));
    let names = VENDORS
        .iter()
        .flat_map(|vendor| vendor.key_variables.iter());
    let set = names
        .filter_map(|name| host.env(name))
        .map(SecretString::from);
    written.chain(set).collect()
}
