//! Resumes interrupted runs for the page, as `massgen --continue` does without a task. A run is
//! resumed only with a team that the server was started with: its config gives the run its rights.

use std::io;
use std::sync::Arc;

use axum::extract::{Path, State};

use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::continued_session::default_sessions;
use crate::cli::deliveries::recover;
use crate::cli::execution::{
    OutputMode, RunOutcome, UserPresence, execute_and_show, secret_values,
};
use crate::cli::output::CliOutput;
use crate::cli::resume::{ResumedTeam, recorded_flags, resume_with_team};
use crate::cli::web::overview::run_blocking;
use crate::cli::web::page_run::PageRun;
use crate::cli::web::reply::{ApiError, ApiResult};
use crate::cli::web::run_log::find_run;
use crate::cli::web::run_start::begin_run;
use crate::cli::web::server_state::{NamedTeam, WebServer};
use crate::error::Result;
use crate::resume::{InterruptedRun, find_interrupted};
use crate::world::store::redact::Redactor;
use crate::world::store::runs::RunDir;
use crate::world::store::sessions::find;

/// An interrupted run, and what it is resumed with.
struct Resumption {
    unfinished: InterruptedRun,
    team: ResumedTeam,
    flags: RunArguments,
}

/// Answers `POST /api/runs/{id}/continue`.
pub(super) async fn resume(State(server): State<WebServer>, Path(id): Path<String>) -> ApiResult {
    let run = find_run(&server, id).await?;
    let resumption = {
        let server = server.clone();
        run_blocking(move || Ok(prepare(&server, &run))).await??
    };
    begin_run(&server, |run| execute_resumed(resumption, run)).await
}

/// Finds what a run is resumed with.
fn prepare(server: &WebServer, run: &RunDir) -> ApiResult<Resumption> {
    let unfinished = find_unfinished(server, run)?;
    let flags = recorded_flags(&unfinished.started)?;
    let NamedTeam { team, .. } = team_of(server, &unfinished, &flags)?;
    if team.config.workflow.is_some() {
        return Err(usage_error("the page resumes no pipelines")
            .with_hint("resume it in a terminal: massgen --continue")
            .into());
    }
    let team = ResumedTeam {
        host: server.host().clone(),
        config: team.config.clone(),
        file: team.file.clone(),
        models: server.models().clone(),
        telemetry: server.telemetry().cloned(),
    };
    Ok(Resumption {
        unfinished,
        team,
        flags,
    })
}

/// Returns `run` if it is the last run of its session, and was interrupted.
fn find_unfinished(server: &WebServer, run: &RunDir) -> ApiResult<InterruptedRun> {
    let not_resumable = || {
        let message = format!("`{}` cannot be resumed", run.name());
        ApiError::conflict(message)
            .with_hint("only the last run of a session can be, if it was interrupted")
    };
    let session = run.metadata().map(|metadata| metadata.session_id);
    let session = session.ok_or_else(not_resumable)?;
    let sessions = default_sessions(server.host());
    let is_there = |session: &str| find(session, &sessions).is_ok();
    let found = find_interrupted(&server.logs_directory(), Some(&session), is_there)?;
    let is_meant = |found: &InterruptedRun| found.run.name() == run.name();
    found.filter(is_meant).ok_or_else(not_resumable)
}

/// Returns the team of the server that has the config of the run, unchanged since.
fn team_of<'s>(
    server: &'s WebServer,
    unfinished: &InterruptedRun,
    flags: &RunArguments,
) -> ApiResult<&'s NamedTeam> {
    let started = &unfinished.started;
    // A team without a file is the one that the server has found, not one that flags describe.
    let is_described =
        !flags.model.is_empty() || flags.backend.is_some() || flags.system_message.is_some();
    let has_config = |named: &&NamedTeam| match &named.team.file {
        None => started.config.is_none() && !is_described,
        Some(file) => {
            let secrets = secret_values(&named.team.config, server.host());
            let text = Redactor::new(secrets).text(&file.text());
            file.place() == started.config_path.as_ref() && started.config == Some(text)
        }
    };
    server.teams().iter().find(has_config).ok_or_else(|| {
        let message =
            "no team of this server has the config of the run, unchanged since the run started";
        let terminal = format!(
            "resume it in a terminal: massgen --continue --session-id {}",
            started.session_id
        );
        let error = ApiError::conflict(message);
        match &started.config_path {
            Some(path) => error.with_hint(format!(
                "start the server with it: massgen web --config {path}; or {terminal}"
            )),
            None => error.with_hint(terminal),
        }
    })
}

async fn execute_resumed(resumption: Resumption, run: Arc<PageRun>) -> Result<RunOutcome> {
    let Resumption {
        unfinished,
        team,
        flags,
    } = resumption;
    let mut output = CliOutput::with_writers(io::sink(), io::stderr());
    recover(&team.host, &mut output)?;
    let order = resume_with_team(&unfinished, team, &flags, &mut output)?;
    let stop = run.stop().clone();
    Box::pin(execute_and_show(
        order,
        UserPresence::Absent,
        &flags,
        stop,
        &mut output,
        OutputMode::Page(&run),
    ))
    .await
}
