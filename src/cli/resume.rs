//! Owns how the command line goes on with a run that was broken off: the same team, task and paths,
//! from its last recorded event. What has changed since is named. The records may have come with the
//! project, so what reaches beyond it, or holds commands less, has to be typed again.

use std::sync::Arc;

use clap::Parser as _;
use tokio_util::sync::CancellationToken;

use crate::cli::args::{Arguments, RunArguments};
use crate::cli::conduct::{
    Conducted, Person, Reader, connect_all, machine, secrets, show, started_with,
};
use crate::cli::environment;
use crate::cli::go_on::{default_sessions, still_open, wanted};
use crate::cli::output::Output;
use crate::cli::prices::model_list;
use crate::cli::report::Report;
use crate::cli::run::{apply_flags, open_cwd, telemetry};
use crate::cli::team::{ChosenTeam, checked, team};
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::examples;
use crate::config::place::{LOGS, STATE_DIR};
use crate::config::recorded::recorded;
use crate::config::team::Workspaces;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::layout::Layout;
use crate::orchestrator::asking::People;
use crate::orchestrator::conduct::{Files, Order, Stop};
use crate::orchestrator::course::Again;
use crate::path::AbsPath;
use crate::resume::{Reading, Unfinished};
use crate::wording::counted;
use crate::world::store::naming::LAST;
use crate::world::store::records::metadata::Started;
use crate::world::store::records::outset::Outset;
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::session::Session;
use crate::world::store::sessions::{SessionDir, find, list};

/// The run that `arguments` would go on with: the last one of the session that they mean, if it was
/// broken off.
pub(crate) fn unfinished(arguments: &RunArguments, host: &Host) -> Result<Option<Unfinished>> {
    let sessions = default_sessions(host);
    let named = match wanted(&arguments.session) {
        None => return Ok(None),
        Some(LAST) => None,
        Some(wanted) => Some(find(wanted, &sessions)?.id()),
    };
    let logs = host.cwd.join(STATE_DIR).join(LOGS);
    let is_there = |session: &str| find(session, &sessions).is_ok();
    crate::resume::unfinished(&logs, named.as_deref(), is_there)
}

/// The id of the session that `arguments` mean, if a turn of it runs now; of several that run, the first.
pub(crate) fn running(arguments: &RunArguments, host: &Host) -> Result<Option<String>> {
    let sessions = default_sessions(host);
    let meant = match wanted(&arguments.session) {
        None => None,
        Some(LAST) => list(&sessions)?.into_iter().next(),
        Some(wanted) => Some(find(wanted, &sessions)?),
    };
    let running = meant.filter(SessionDir::is_running);
    Ok(running.map(|session| session.id()))
}

/// Goes on with `unfinished` and shows it.
pub(crate) async fn resume(
    unfinished: Unfinished,
    (host, arguments): (&Host, &RunArguments),
    stop: Stop,
    output: &mut Output<'_>,
    report: Option<&mut Report>,
) -> Result<Conducted> {
    let order = order(&unfinished, (host, arguments), output).await?;
    let typed = (Person::at(host), arguments);
    Box::pin(show(order, typed, stop, output, Reader::of(report))).await
}

async fn order(
    unfinished: &Unfinished,
    (host, arguments): (&Host, &RunArguments),
    output: &mut Output<'_>,
) -> Result<Order> {
    let Unfinished { run, started, turn } = unfinished;
    let telemetry = telemetry(host, output);
    let completed = environment::complete(host);
    let host = completed.host;
    let warnings = completed.warnings.iter();
    warnings.for_each(|warning| output.warning(warning));
    let arguments = &with_recorded(arguments, &started.cli_args)?;
    let outset = run.outset()?;
    expect_here(&outset, &host)?;
    let chosen = chosen(unfinished, &outset, (&host, arguments), output).await?;
    let mut config = chosen.config;
    apply_flags(&mut config, arguments, output);
    let models = model_list(&host, arguments.models.as_deref(), output)?;
    if let Some(access) = arguments.cwd_context {
        open_cwd(&mut config, &host, access.into());
    }
    let redactor = Redactor::new(secrets(&config, &host));
    if arguments.config.is_none() {
        expect_text(chosen.file.as_ref(), started, &redactor)?;
    }
    expect_team(&config, &outset, &redactor)?;
    let reading = Reading::of(run)?;
    let layout = Layout::plan(&config, &host.cwd, reading.name);
    expect_places(&layout, &outset)?;
    let (opened, warnings) = still_open(&outset.opened, &host)?;
    for warning in &warnings {
        output.warning(warning);
    }
    let place = find(&started.session_id, &layout.sessions)?;
    let session = Session::take_up(place, *turn, redactor.clone())?;
    announce(&reading, unfinished, output);
    let question = reading.question();
    let question = question.unwrap_or_else(|| Arc::from(outset.task.as_str()));
    Ok(Order {
        models: connect_all(&config, &models, &host)?,
        redactor,
        opened,
        session: Some(session),
        question,
        task: outset.task,
        machine: machine(&host),
        started_with: started_with(chosen.file.as_ref(), &host, arguments),
        base: host.cwd,
        telemetry,
        layout,
        config,
        again: Some(Again {
            courses: reading.courses,
            departed: CancellationToken::new(),
        }),
        resumed: Some(reading.resumed),
        reviewer: None,
        people: People::default(),
        files: Files::Kept,
    })
}

fn announce(reading: &Reading, unfinished: &Unfinished, output: &mut Output<'_>) {
    if let Some(cut) = &reading.cut {
        output.warning(&format!(
            "{cut} in the event log: the run goes on from what is recorded before it"
        ));
    }
    let Unfinished { run, started, turn } = unfinished;
    output.note(&format!(
        "going on with {}, turn {turn} of {}, after {}",
        run.name(),
        started.session_id,
        counted(reading.resumed.told.len(), "recorded event")
    ));
}

/// The flags of now, and for those that are missing what the run was begun with.
fn with_recorded(now: &RunArguments, words: &[String]) -> Result<RunArguments> {
    let words = std::iter::once("massgen").chain(words.iter().map(String::as_str));
    let Ok(Arguments { run: then, .. }) = Arguments::try_parse_from(words) else {
        return Ok(now.clone());
    };
    let has_to_be_typed = [
        (
            "--base-url",
            then.base_url.is_some() && now.base_url.is_none(),
        ),
        ("--sandbox", then.sandbox.is_some() && now.sandbox.is_none()),
    ];
    for (flag, is_missing) in has_to_be_typed {
        if is_missing {
            let message =
                format!("the run was begun with `{flag}`, and records are not trusted with it");
            return Err(Error::new(ErrorKind::Usage, message)
                .hint(format!("give `{flag}` again beside `--continue`")));
        }
    }
    let mut all = now.clone();
    // A file is found again by its place; the name of a built-in one is all there is.
    let example = then.config.filter(|name| examples::find(name).is_some());
    all.config = all.config.or(example);
    if all.config.is_none() {
        all.model = all.model.or(then.model);
        all.backend = all.backend.or(then.backend);
        all.system_message = all.system_message.or(then.system_message);
    }
    all.cwd_context = all.cwd_context.or(then.cwd_context);
    all.orchestrator_timeout = all.orchestrator_timeout.or(then.orchestrator_timeout);
    if all.rate_limit.is_empty() {
        all.rate_limit = then.rate_limit;
    }
    all.limits.cost = all.limits.cost.or(then.limits.cost);
    all.limits.tokens = all.limits.tokens.or(then.limits.tokens);
    all.limits.tool_calls = all.limits.tool_calls.or(then.limits.tool_calls);
    all.models = all.models.or(then.models);
    Ok(all)
}

/// The team of the run: by the config that is named now, else by the one that it had.
async fn chosen(
    unfinished: &Unfinished,
    outset: &Outset,
    (host, arguments): (&Host, &RunArguments),
    output: &mut Output<'_>,
) -> Result<ChosenTeam> {
    let workspaces = if outset.workspaces.is_empty() {
        Workspaces::None
    } else {
        Workspaces::Given
    };
    match (&unfinished.started.config_path, &arguments.config) {
        (Some(path), None) => {
            let file = TeamFile::remembered(path, host)?;
            Ok(ChosenTeam {
                config: checked(&file, host, output)?,
                file: Some(file),
            })
        }
        (_, Some(_)) | (None, None) => team(host, arguments, (None, workspaces), output).await,
    }
}

/// A run is gone on with where it was begun: its paths are written in what the models have read.
fn expect_here(outset: &Outset, host: &Host) -> Result<()> {
    if outset.cwd == host.cwd.to_string() {
        return Ok(());
    }
    let message = format!(
        "the run was begun in `{}`, and this is another directory",
        outset.cwd
    );
    Err(Error::new(ErrorKind::Environment, message)
        .hint("move the project back, or begin the task again"))
}

/// The config must read as it did: another one has to be named.
fn expect_text(file: Option<&TeamFile>, started: &Started, redactor: &Redactor) -> Result<()> {
    let text = file.map(|file| redactor.text(&file.text()));
    if text == started.config {
        return Ok(());
    }
    let message = match file {
        Some(file) => format!(
            "the config `{}` has changed since the run began",
            file.name()
        ),
        None => "the team is not the one that the run began with".to_owned(),
    };
    Err(Error::new(ErrorKind::Config, message)
        .hint("put it back as it was, or name the config that shall hold now with `--config`"))
}

/// The agents must be those of the run: their answers and votes are recorded.
fn expect_team(config: &Config, outset: &Outset, redactor: &Redactor) -> Result<()> {
    let ids = |team: &serde_json::Value| -> Option<Vec<String>> {
        let agents = team.get("agents")?.as_array()?.iter();
        let ids = agents.map(|agent| Some(agent.get("id")?.as_str()?.to_owned()));
        ids.collect()
    };
    if ids(&redactor.json(recorded(config))) == ids(&outset.team) {
        return Ok(());
    }
    let message = "the config has other agents than the run";
    Err(Error::new(ErrorKind::Config, message)
        .hint("name a config of the same agents, or begin the task again"))
}

/// The workspaces must be those of the run: they hold its files.
fn expect_places(layout: &Layout, outset: &Outset) -> Result<()> {
    let spelled = |paths: &[String]| paths.first().and_then(AbsPath::new);
    for (agent, paths) in &outset.workspaces {
        let planned = layout.workspaces.get(agent);
        let planned = planned.map(|workspace| workspace.path.clone());
        if spelled(paths) != planned {
            let message = format!("the config gives {agent} another workspace than the run");
            return Err(Error::new(ErrorKind::Config, message)
                .hint("put its `cwd` back as it was, or begin the task again"));
        }
    }
    Ok(())
}
