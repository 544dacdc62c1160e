//! Resumes interrupted runs and pipelines for the page, as `massgen --continue` does without a
//! task. It uses only a team that the server was started with, because a resumed run has the rights
//! that the config of its team gives.

use std::sync::Arc;

use axum::extract::{Path, State};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::args::RunArguments;
use crate::cli::continued_session::default_sessions;
use crate::cli::deliveries::finish_interrupted_deliveries;
use crate::cli::execution::execute_and_show;
use crate::cli::output::CliOutput;
use crate::cli::pipeline::run::{pipelines_directory, resume_with_team as resume_pipeline};
use crate::cli::resume::resume_with_team;
use crate::cli::run_context::{RunTeam, secret_values};
use crate::cli::run_frontend::OutputMode;
use crate::cli::run_frontend::RunOutcome;
use crate::cli::team::is_team_from_flags;
use crate::cli::web::logged_run::find_run;
use crate::cli::web::overview::run_blocking;
use crate::cli::web::page_run::PageRun;
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody};
use crate::cli::web::run_limits::RequestedLimits;
use crate::cli::web::run_start::begin_run;
use crate::cli::web::server_state::{NamedTeam, WebServer};
use crate::error::Result;
use crate::path::AbsPath;
use crate::pipeline::repository::PipelineRepository;
use crate::resume::{InterruptedRun, find_interrupted};
use crate::world::store::pipelines::{self, PipelineDir, PipelineRecord};
use crate::world::store::records::metadata::RunMetadata;
use crate::world::store::redact::Redactor;
use crate::world::store::runs::RunDir;
use crate::world::store::sessions;

/// Body of `POST /api/runs/{id}/continue`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeRequest {
    /// Limits of a pipeline instead of those that it has.
    #[serde(default)]
    limits: Map<String, Value>,
}

/// The config with which a run or pipeline was started.
struct RecordedConfig<'r> {
    path: Option<&'r AbsPath>,
    /// Its text, without secrets.
    text: Option<&'r str>,
    /// Whether flags described the team instead.
    is_team_from_flags: bool,
    /// The id by which a terminal resumes it.
    id: &'r str,
}

impl<'r> RecordedConfig<'r> {
    /// Returns the config of a run with this record and these flags.
    fn from_run(metadata: &'r RunMetadata, flags: &RunArguments) -> Self {
        Self {
            path: metadata.config_path.as_ref(),
            text: metadata.config.as_deref(),
            is_team_from_flags: is_team_from_flags(flags),
            id: &metadata.session_id,
        }
    }

    /// Returns the config of the pipeline with this name.
    fn from_pipeline(record: &'r PipelineRecord, name: &'r str) -> Self {
        Self {
            path: record.config_path.as_ref(),
            text: record.config.as_deref(),
            // Flags describe no pipeline.
            is_team_from_flags: false,
            id: name,
        }
    }
}

/// An interrupted pipeline, and what it is resumed with.
struct PipelineResumption {
    dir: PipelineDir,
    team: RunTeam,
    flags: RunArguments,
}

/// An interrupted run, and what it is resumed with.
struct RunResumption {
    interrupted_run: InterruptedRun,
    team: RunTeam,
    flags: RunArguments,
}

/// Answers `POST /api/runs/{id}/continue`.
pub(super) async fn resume(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    JsonBody(request): JsonBody<ResumeRequest>,
) -> ApiResult {
    let limits = RequestedLimits::parse(&request.limits)?;
    if pipelines::is_name(&id) {
        let resumption = {
            let server = Arc::clone(&server);
            // The outer result is that of the blocking task.
            run_blocking(move || Ok(prepare_pipeline(&server, &id, limits))).await??
        };
        return begin_run(&server, |run| execute_resumed_pipeline(resumption, run)).await;
    }
    let run = find_run(&server, id).await?;
    if limits != RequestedLimits::default() {
        let message = "a run is continued with the limits that it was started with";
        return Err(ApiError::invalid(message));
    }
    let resumption = {
        let server = Arc::clone(&server);
        run_blocking(move || Ok(prepare_run(&server, &run))).await??
    };
    begin_run(&server, |run| execute_resumed_run(resumption, run)).await
}

/// Finds what a run is resumed with.
fn prepare_run(server: &WebServer, run: &RunDir) -> ApiResult<RunResumption> {
    let interrupted_run = find_interrupted_run(server, run)?;
    let flags = RunArguments::default().with_recorded(&interrupted_run.metadata.cli_args)?;
    let metadata = &interrupted_run.metadata;
    let team = find_team(server, &RecordedConfig::from_run(metadata, &flags))?;
    Ok(RunResumption {
        interrupted_run,
        team,
        flags,
    })
}

/// Finds what a pipeline is resumed with.
fn prepare_pipeline(
    server: &WebServer,
    id: &str,
    limits: RequestedLimits,
) -> ApiResult<PipelineResumption> {
    let pipeline = pipelines::find_by_name(id, &pipelines_directory(&server.host))?;
    let dir = pipeline.ok_or_else(|| ApiError::not_found(format!("no pipeline `{id}`")))?;
    let record = dir.record()?;
    let mut flags = RunArguments::default().with_recorded(&record.arguments)?;
    limits.apply_to(&mut flags);
    let team = find_team(server, &RecordedConfig::from_pipeline(&record, id))?;
    limits.require_effect(&team.config, &team.models)?;
    Ok(PipelineResumption { dir, team, flags })
}

/// Returns `run` if it is the last run of its session, and was interrupted.
fn find_interrupted_run(server: &WebServer, run: &RunDir) -> ApiResult<InterruptedRun> {
    let not_resumable = || {
        let message = format!("`{}` cannot be resumed", run.name());
        ApiError::conflict(message)
            .with_hint("only the last run of a session can be, if it was interrupted")
    };
    let session = run
        .metadata()
        .map(|metadata| metadata.session_id)
        .ok_or_else(not_resumable)?;
    let sessions_directory = default_sessions(&server.host);
    let session_exists = |session: &str| sessions::find(session, &sessions_directory).is_ok();
    let interrupted_run =
        find_interrupted(&server.logs_directory(), Some(&session), session_exists)?;
    let is_requested_run =
        |interrupted_run: &InterruptedRun| interrupted_run.run.name() == run.name();
    interrupted_run
        .filter(is_requested_run)
        .ok_or_else(not_resumable)
}

/// Returns the team of the server that has this config, unchanged since.
fn find_team(server: &WebServer, config: &RecordedConfig<'_>) -> ApiResult<RunTeam> {
    let has_config = |named: &&NamedTeam| match &named.team.file {
        // A team without a file is the one that the server has detected.
        None => config.text.is_none() && !config.is_team_from_flags,
        Some(file) => {
            let secrets = secret_values(&named.team.config, &server.host);
            let text = Redactor::new(secrets).text(&file.text());
            file.path() == config.path && config.text == Some(text.as_str())
        }
    };
    let named_team = server.teams.iter().find(has_config);
    let NamedTeam { team, .. } = named_team.ok_or_else(|| {
        let message =
            "no team of this server has the config of the run, unchanged since the run started";
        let id = config.id;
        let terminal = format!("resume it in a terminal: massgen --session-id {id}");
        let error = ApiError::conflict(message);
        match config.path {
            Some(path) => error.with_hint(format!(
                "start the server with it: massgen web --config {path}; or {terminal}"
            )),
            None => error.with_hint(terminal),
        }
    })?;
    Ok(server.run_team(team))
}

/// Resumes and executes a pipeline.
async fn execute_resumed_pipeline(
    resumption: PipelineResumption,
    run: Arc<PageRun>,
) -> Result<RunOutcome> {
    let PipelineResumption { dir, team, flags } = resumption;
    let mut output = CliOutput::for_server_run(run.stop());
    finish_interrupted_deliveries(&team.host, &mut output)?;
    let repository = PipelineRepository::reopen(dir, &team.host.env).await?;
    repository.require_start_directory(&team.host.cwd, "start the server there")?;
    let mut page = &*run;
    let (stop, mode) = (run.stop().clone(), OutputMode::Frontend(&mut page));
    let execution = resume_pipeline(repository, team, &flags, stop, &mut output, mode);
    // Boxed: the future is large.
    Box::pin(execution).await
}

/// Resumes and executes a run.
async fn execute_resumed_run(resumption: RunResumption, run: Arc<PageRun>) -> Result<RunOutcome> {
    let RunResumption {
        interrupted_run,
        team,
        flags,
    } = resumption;
    let mut output = CliOutput::for_server_run(run.stop());
    finish_interrupted_deliveries(&team.host, &mut output)?;
    let run_request = resume_with_team(&interrupted_run, team, &flags, &mut output)?;
    let stop = run.stop().clone();
    let mut page = &*run;
    let mode = OutputMode::Frontend(&mut page);
    // Boxed: the future is large.
    Box::pin(execute_and_show(
        run_request,
        &flags,
        stop,
        &mut output,
        mode,
    ))
    .await
}
