//! Prepares a run from the command line: task, environment, team and mentions are combined, and
//! every error in them is reported before a model is asked.

use std::io;

use crate::cli::args::RunArguments;
use crate::cli::broad_paths::{reject_broad_cwd, reject_broad_mentions};
use crate::cli::command_line::usage_error;
use crate::cli::continued_session::{ContinuedSession, default_sessions, requested_session};
use crate::cli::deliveries::finish_interrupted_deliveries;
use crate::cli::execution::execute;
use crate::cli::format::OutputFormat;
use crate::cli::found_check::add_found_check;
use crate::cli::interrupts::{
    SHUTDOWN_TIMEOUT, interrupted_before_run, listen, listen_for_parking, parked_before_run,
    runtime,
};
use crate::cli::missing_keys::settle_missing_keys;
use crate::cli::model_prices::model_list;
use crate::cli::opening_question::confirm_openings;
use crate::cli::output::CliOutput;
use crate::cli::resume::{find_interrupted_run, find_running_session, resume};
use crate::cli::run_context::{PreparedRun, RunTeam};
use crate::cli::run_directory::{
    DirectoryDecision, ask_about_directory, remember_closed_directory,
};
use crate::cli::run_flags::{
    apply_flags, open_cwd, reject_parking, telemetry_settings, with_implied_review,
};
use crate::cli::run_frontend::{OutputMode, RunFrontend, RunOutcome, UserPresence};
use crate::cli::task::TaskSource;
use crate::cli::team::choose_team;
use crate::cli::{dry_run, environment, mentions, pipeline};
use crate::config::team::WorkspaceMode;
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::{Host, StreamTarget};
use crate::mentions::opened_paths::{OpenedPath, open_mentions, open_path};
use crate::mentions::{LookupResult, ParsedPrompt};
use crate::orchestrator::approvals::SessionApprovals;
use crate::path::AbsPath;
use crate::resume::InterruptedRun;
use crate::text::shell_line;
use crate::world::io::files::inspect;
use crate::world::io::terminal_input::has_unread_bytes;
use crate::world::store::naming::LAST;
use crate::world::store::pipelines::PipelineDir;
use crate::world::store::sessions::{find, list};

/// Name of the directory to which a user may copy the files of an answer.
const COPY_DIRECTORY: &str = "massgen_files";

/// Executes a run. A system call that still blocks at its end, such as reading a standard input
/// that never arrives, does not delay it.
pub(crate) fn run(
    host: &Host,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
    report: Option<&mut dyn RunFrontend>,
) -> Result<ExitStatus> {
    let runtime = runtime()?;
    let result = runtime.block_on(execute_task(host, arguments, output, report));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

async fn execute_task(
    host: &Host,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
    report: Option<&mut dyn RunFrontend>,
) -> Result<ExitStatus> {
    let arguments = &with_implied_review(arguments.clone(), host);
    let stop = if arguments.park {
        listen_for_parking(host.hangup)?
    } else {
        listen(host.hangup)?
    };
    output.set_stop(&stop);
    if arguments.display.screen_reader {
        output.disable_transients();
    }
    finish_interrupted_deliveries(host, output)?;
    let is_for_person = report.is_none()
        && !arguments.automation
        && UserPresence::detect(host) == UserPresence::Present;
    if let Some(pipeline) = find_requested_pipeline(host, arguments)? {
        reject_parking(arguments)?;
        let mode = OutputMode::new(host, report);
        let resumption = pipeline::run::resume(pipeline, host, arguments, stop, output, mode);
        return Ok(Box::pin(resumption).await?.status);
    }
    if let Some(interrupted_run) = requested_interrupted_run(host, arguments)? {
        let resumption = resume(interrupted_run, host, arguments, stop, output, report);
        let outcome = Box::pin(resumption).await?;
        return Ok(show_next_steps(
            &outcome,
            is_for_person && !arguments.display.quiet,
            &host.cwd,
            output,
        ));
    }
    if arguments.task.is_empty() && requested_session(&arguments.session).is_some() {
        return show_ended_answer(host, arguments, output);
    }
    let mut prepared = tokio::select! {
        prepared = prepare(host, arguments, output) => prepared?,
        () = stop.graceful.cancelled() => return Err(interrupted_before_run()),
        () = stop.park.cancelled() => return Err(parked_before_run()),
    };
    let user = UserPresence::from_flag(is_for_person && !arguments.delivery.yes);
    let parts = (&prepared.team.host, &prepared.team.models);
    let (config, stopped) = (&mut prepared.team.config, &stop.graceful);
    settle_missing_keys(config, parts, arguments, user, stopped, output)?;
    if arguments.best_of.is_some() && !prepared.team.config.checks.has_required() {
        add_found_check(&mut prepared, user, &stop.graceful, output)?;
    }
    confirm_openings(
        &mut prepared.team.config,
        &mut prepared.opened_paths,
        &prepared.team.host,
        user,
        &stop.graceful,
        output,
    )?;
    if arguments.dry_run {
        return dry_run::show(&prepared, output).await;
    }
    let decision = if is_for_person {
        ask_about_directory(&mut prepared, arguments, &stop.graceful, output)?
    } else {
        DirectoryDecision::NotDeclined
    };
    let orchestrator = &prepared.team.config.orchestrator;
    let sessions = orchestrator
        .session_storage
        .resolve(&host.state_parent, None);
    let execution = execute(
        prepared,
        arguments,
        stop,
        output,
        OutputMode::new(host, report),
    );
    let outcome = Box::pin(execution).await?;
    if decision == DirectoryDecision::Declined {
        remember_closed_directory(&outcome.session, &sessions, &host.cwd)?;
    }
    Ok(show_next_steps(
        &outcome,
        is_for_person && !arguments.display.quiet,
        &host.cwd,
        output,
    ))
}

/// Shows a person in `cwd` the next commands after a run, and everyone how to resume an interrupted
/// one. Returns the status of the run.
fn show_next_steps(
    outcome: &RunOutcome,
    is_for_person: bool,
    cwd: &AbsPath,
    output: &mut CliOutput<'_>,
) -> ExitStatus {
    if let Some(files) = outcome.kept_files.as_ref().filter(|_| is_for_person) {
        let command = copy_command(files, cwd);
        output.note(&format!("to copy its files to a new directory: {command}"));
        output.note("to let the winner write here: massgen --continue --cwd-context rw \"…\"");
    }
    let shows_hint = is_for_person || outcome.status == ExitStatus::Interrupted;
    if let Some(hint) = outcome.hint.as_ref().filter(|_| shows_hint) {
        output.note(hint);
    }
    outcome.status
}

/// Returns the command that copies the directory `files` to a new one in `cwd`. A copy over what is
/// there would lack the checks of a delivery: it would replace files, and write protected names.
fn copy_command(files: &AbsPath, cwd: &AbsPath) -> String {
    let source = files
        .below(cwd)
        .map_or_else(|| files.to_string(), |below| below.to_string());
    let numbered_names = (2_u32..).map(|number| format!("{COPY_DIRECTORY}_{number}"));
    let mut names = std::iter::once(COPY_DIRECTORY.to_owned()).chain(numbered_names);
    let free_name = names.find(|name| inspect(&cwd.join(name)) == LookupResult::Missing);
    let words = [
        "cp",
        "-r",
        &source,
        free_name.as_deref().unwrap_or(COPY_DIRECTORY),
    ];
    shell_line(&words.map(str::to_owned))
}

/// Finds the pipeline to resume: `--continue` without a task selects the last one, and
/// `--session-id` may name one. The last interrupted run has precedence over a pipeline that began
/// earlier, or on which another process works.
fn find_requested_pipeline(host: &Host, arguments: &RunArguments) -> Result<Option<PipelineDir>> {
    let Some(session) = requested_session(&arguments.session) else {
        return Ok(None);
    };
    if !arguments.task.is_empty() || arguments.dry_run {
        return Ok(None);
    }
    if session != LAST {
        return pipeline::run::find_pipeline_to_resume(Some(session), host);
    }
    let Some(last_pipeline) = pipeline::run::find_pipeline_to_resume(None, host)? else {
        return Ok(None);
    };
    let interrupted_run = find_interrupted_run(arguments, host)?;
    let run_name = interrupted_run.map(|interrupted_run| interrupted_run.run.name());
    let has_precedence = match run_name {
        Some(run_name) => last_pipeline.is_newer(&run_name) && !last_pipeline.is_running()?,
        None => true,
    };
    Ok(has_precedence.then_some(last_pipeline))
}

/// Finds the run to resume, if a session is selected without a task.
fn requested_interrupted_run(
    host: &Host,
    arguments: &RunArguments,
) -> Result<Option<InterruptedRun>> {
    if !arguments.task.is_empty() || requested_session(&arguments.session).is_none() {
        return Ok(None);
    }
    if arguments.dry_run {
        return Err(usage_error("`--dry-run` needs a task"));
    }
    if let Some(interrupted_run) = find_interrupted_run(arguments, host)? {
        return Ok(Some(interrupted_run));
    }
    if let Some(session) = find_running_session(arguments, host)? {
        let message = format!("a turn of session `{session}` is running");
        return Err(Error::new(ErrorKind::Environment, message)
            .with_hint("wait until it ends; `massgen logs list` shows its run"));
    }
    let sessions = default_sessions(host);
    if requested_session(&arguments.session) == Some(LAST) && list(&sessions)?.is_empty() {
        return Err(usage_error(format!("no sessions in `{sessions}`"))
            .with_hint("start one with a task: massgen \"…\""));
    }
    Ok(None)
}

/// Shows the answer of the session's last turn, which a script that resumes a run asks for if the
/// run was killed after the turn was saved.
///
/// # Errors
/// There is none, the session was not created here, or a report in JSON was requested.
fn show_ended_answer(
    host: &Host,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let sessions = default_sessions(host);
    let session = match requested_session(&arguments.session) {
        None | Some(LAST) => list(&sessions)?.into_iter().next(),
        Some(name) => Some(find(name, &sessions)?),
    };
    let own_session = session.filter(|session| session.expect_own().is_ok());
    let last_turn = own_session
        .filter(|_| arguments.output_format == OutputFormat::Text)
        .map(|session| session.turns())
        .transpose()?
        .and_then(|mut turns| turns.pop());
    let Some(last_turn) = last_turn else {
        let message = "the session has no interrupted run, and no task was given";
        return Err(usage_error(message)
            .with_hint("pass the next task: massgen --continue \"…\"")
            .with_hint("to see the last answer: massgen sessions show last"));
    };
    output.note("the last turn has ended; this is its answer");
    output.result(&format!("{}\n", last_turn.answer.trim()))?;
    Ok(ExitStatus::Success)
}

async fn prepare(
    host: &Host,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<PreparedRun> {
    let source = task_source(arguments, host)?;
    note_unread_input(&source, host, output);
    let read_task = tokio::task::spawn_blocking(move || source.read(io::stdin()));
    let task = read_task
        .await
        .map_err(|_| Error::bug("cannot read the task"))??;
    let telemetry = telemetry_settings(host, output);
    let loaded_environment = environment::load(host);
    let host = loaded_environment.host;
    let prompt = mentions::parse(&task, &host.cwd, &host);
    let mention_warnings = mentions::mention_warnings(&prompt);
    let warnings = loaded_environment.warnings.iter().chain(&mention_warnings);
    warnings.for_each(|warning| output.warning(warning));
    reject_broad_mention(&prompt)?;
    report_interrupted_run(&host, arguments, output)?;
    let mut continued = match (requested_session(&arguments.session), &arguments.config) {
        (Some(session), None) => Some(ContinuedSession::find_without_config(session, &host)?),
        (_, Some(_)) | (None, None) => None,
    };
    let session_file = match &continued {
        Some(session) => session.team_file(&host)?,
        None => None,
    };
    let mut opened = opened_earlier(continued.as_ref(), &host, output)?;
    let opens_nothing =
        arguments.cwd_context.is_none() && prompt.mentions.is_empty() && opened.is_empty();
    let mode = if opens_nothing {
        WorkspaceMode::None
    } else {
        WorkspaceMode::PerAgent
    };
    let models = model_list(&host, arguments.models.as_deref(), output)?;
    let team = choose_team(&host, arguments, session_file, mode, &models, output).await?;
    let mut config = team.config;
    if team.file.is_none() && opens_nothing {
        output.note(
            "the agents see no files and run no commands; to open this directory, add \
             `--cwd-context ro`, or `rw` to let the winner write",
        );
    }
    // Only the config says where its sessions are, and it may name one.
    let session_of_config = match (requested_session(&arguments.session), &arguments.config) {
        (Some(session), Some(_)) => Some(session),
        (Some(_), None) => None,
        (None, _) => config.session_id.as_deref(),
    };
    if let Some(session) = session_of_config {
        let sessions = config
            .orchestrator
            .session_storage
            .resolve(&host.state_parent, None);
        continued = Some(ContinuedSession::find(session, &sessions)?);
        opened = opened_earlier(continued.as_ref(), &host, output)?;
    }
    let turn = continued
        .as_ref()
        .map_or(Ok(1), |continued| continued.session_dir.next_turn())?;
    let context_paths = &config.orchestrator.context_paths;
    reject_broad_mentions(&prompt, context_paths, &host)?;
    if let Some(access) = arguments.cwd_context {
        reject_broad_cwd(access.into(), context_paths, &host)?;
        open_path(&mut opened, &host.cwd, access.into(), turn);
    }
    open_mentions(&mut opened, &prompt, turn);
    apply_flags(&mut config, arguments, output)?;
    if let Some(access) = arguments.cwd_context {
        open_cwd(&mut config, &host, access.into());
    }
    Ok(PreparedRun {
        team: RunTeam {
            host,
            config,
            file: team.file,
            other_files: Vec::new(),
            models,
            telemetry,
        },
        prompt,
        opened_paths: opened,
        continued_session: continued,
        approvals: SessionApprovals::default(),
        session_sandboxes: None,
    })
}

/// Returns where the task is: with `--print` and without a task, it is standard input.
fn task_source(arguments: &RunArguments, host: &Host) -> Result<TaskSource> {
    let is_input =
        arguments.print && arguments.task.is_empty() && host.stdin == StreamTarget::Plain;
    if is_input {
        return Ok(TaskSource::Input);
    }
    TaskSource::parse(&arguments.task, &host.arguments)
}

/// Notes that standard input has text that the task does not contain.
fn note_unread_input(source: &TaskSource, host: &Host, output: &mut CliOutput<'_>) {
    if matches!(source, TaskSource::Typed(_))
        && host.stdin == StreamTarget::Plain
        && has_unread_bytes()
    {
        output
            .note("standard input is not read; to append it to the task, add `-`: massgen \"…\" -");
    }
}

/// Notes that the last run was interrupted and can be resumed. It is an error if that run belongs
/// to another session: `last` would then mean an older session than the user expects.
fn report_interrupted_run(
    host: &Host,
    arguments: &RunArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let (Some(requested), Some(InterruptedRun { run, metadata, .. })) = (
        requested_session(&arguments.session),
        find_interrupted_run(arguments, host)?,
    ) else {
        return Ok(());
    };
    let session = metadata.session_id;
    let requested = ContinuedSession::find_without_config(requested, host);
    let requested_id = requested.ok().map(|session| session.session_dir.id());
    if requested_id.as_ref() == Some(&session) {
        let note =
            "the last run was interrupted; to resume it, run `massgen --continue` without a task";
        output.note(note);
        return Ok(());
    }
    let run = run.name();
    let message =
        format!("run `{run}` of the last session `{session}` was interrupted and not saved");
    let error = Error::new(ErrorKind::Usage, message)
        .with_hint("resume that run first, without a task: massgen --continue")
        .with_hint(format!("or remove it: massgen sessions delete {session}"));
    Err(match requested_id {
        Some(requested_id) => error.with_hint(format!(
            "or continue the session before it: massgen --session-id {requested_id} \"…\""
        )),
        None => error,
    })
}

/// Returns the paths that earlier turns opened and that are still open, and warns about the others.
fn opened_earlier(
    continued: Option<&ContinuedSession>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<Vec<OpenedPath>> {
    let earlier = continued.map(|continued| continued.opened_paths(host));
    let (opened_paths, warnings) = earlier.transpose()?.unwrap_or_default();
    for warning in warnings {
        output.warning(&warning);
    }
    Ok(opened_paths)
}

/// Rejects a mention of the home directory or of `/`, which is rarely intended.
pub(crate) fn reject_broad_mention(prompt: &ParsedPrompt) -> Result<()> {
    match prompt.broad_mentions().next() {
        None => Ok(()),
        Some(mention) => {
            let message = format!(
                "the task would open all of `{}` to the agents",
                mention.path
            );
            Err(Error::new(ErrorKind::Config, message)
                .with_hint(
                    "mention a directory inside it, or write `\\@` for an `@` that does not \
                            name a path",
                )
                .with_hint(
                    "to open it deliberately, add it to `orchestrator.context_paths` in a config",
                ))
        }
    }
}
