//! What the page shows first: the server with its teams, and the runs of its directory. Other
//! requests that read files use `run_blocking` too.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::deliveries::deliveries_directory;
use crate::cli::logs::run_summary::RecordedRunSummary;
use crate::cli::web::browse::ENTRIES_MAX;
use crate::cli::web::listed_pipelines::ListedPipelines;
use crate::cli::web::reply::{ApiError, ApiResult, JsonReply};
use crate::cli::web::server_state::{NamedTeam, WebServer};
use crate::config::DeliveryMode;
use crate::error::{Error, Result};
use crate::text::truncate;
use crate::world::delivery::delivered_files::DeliveriesByRun;
use crate::world::store::runs::{self, RunDir, RunState, RunStatus};

/// Number of runs that are listed unless the page asks for another.
const RUNS_DEFAULT: usize = 100;
/// Maximum number of runs that are listed.
const RUNS_MAX: usize = 500;
/// Number of digits in the name of a run that are its date and time.
const TIME_DIGITS: usize = 14;
/// Maximum length of a task in the list, in characters.
pub(super) const TASK_CHARS_MAX: usize = 500;
/// Milliseconds in a second.
const SECOND_MS: f64 = 1000.0;

/// Query of `GET /api/runs`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunsQuery {
    limit: Option<usize>,
}

/// Answers `GET /api/info`.
pub(super) async fn info(State(server): State<Arc<WebServer>>) -> JsonReply {
    let teams: Vec<Value> = server.teams.iter().map(team_json).collect();
    JsonReply(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "directory": server.host.cwd.to_string(),
        "read_only": server.is_read_only,
        "teams": teams,
        "limits": {
            "browse_entries": ENTRIES_MAX,
            "runs": RUNS_MAX,
        },
    }))
}

fn team_json(team: &NamedTeam) -> Value {
    let config = &team.team.config;
    let agents = config
        .agents
        .iter()
        .map(|agent| json!({"id": agent.id, "model": agent.backend.model}));
    let workflow = config.workflow.as_ref();
    let iterations = workflow
        .map(|workflow| workflow.pipeline.iterations_max)
        .filter(|_| config.has_iterations());
    let pipeline_stages = workflow.map(|workflow| workflow.pipeline.stages.iter());
    let stages = pipeline_stages.map(|stages| stages.map(|stage| stage.role.name.as_str()));
    json!({
        "id": team.name,
        "name": team.name,
        "agents": agents.collect::<Vec<_>>(),
        "max_cost_usd": config.limits.cost.map(|cost| cost.to_string()),
        "max_tokens_total": config.limits.tokens,
        "max_tool_calls": config.limits.tool_calls,
        "orchestrator_timeout_seconds": config.timeouts.orchestrator_seconds,
        "max_iterations": iterations,
        "stages": stages.map(Iterator::collect::<Vec<_>>),
        "review": config.delivery == DeliveryMode::Review,
    })
}

/// Answers `GET /api/runs`: the runs of the directory, newest first.
pub(super) async fn runs(
    State(server): State<Arc<WebServer>>,
    query: std::result::Result<Query<RunsQuery>, QueryRejection>,
) -> ApiResult {
    let Query(query) = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let limit = query.limit.unwrap_or(RUNS_DEFAULT).min(RUNS_MAX);
    run_blocking(move || list_runs(&server, limit))
        .await
        .map(JsonReply)
}

/// Returns the newest runs and pipelines, at most `limit`.
fn list_runs(server: &WebServer, limit: usize) -> Result<Value> {
    let runs = runs::list(&server.logs_directory())?;
    let mut logged_runs = Vec::new();
    for run in runs {
        if run.has_log()? {
            logged_runs.push(run);
        }
    }
    let runs = logged_runs;
    let pipelines = ListedPipelines::read(server, limit)?;
    let deliveries = DeliveriesByRun::list(&deliveries_directory(&server.host))?;
    let mut sessions = BTreeSet::new();
    let mut rows = Vec::new();
    for run in runs.iter().take(limit) {
        let mut row = run_json(server, run, &deliveries, &mut sessions)?;
        if let Some(pipeline) = pipelines.of_run(&run.name())
            && let Some(fields) = row.as_object_mut()
        {
            fields.insert("pipeline".to_owned(), pipeline.into());
            // It is resumed with its pipeline.
            fields.insert("resumable".to_owned(), false.into());
        }
        rows.push(row);
    }
    rows.extend(pipelines.rows(server, &rows, &deliveries)?);
    rows.sort_by_key(|row| Reverse(time_digits(row)));
    let has_more = runs.len() > limit || rows.len() > limit;
    rows.truncate(limit);
    Ok(json!({"runs": rows, "has_more": has_more}))
}

/// Returns the digits of the date and time in the name of a run or pipeline, by which both are
/// sorted: their names begin differently.
fn time_digits(row: &Value) -> String {
    let name = row.get("id").and_then(Value::as_str).unwrap_or_default();
    let digits = name.chars().filter(char::is_ascii_digit);
    digits.take(TIME_DIGITS).collect()
}

/// Returns a row of the list. `sessions` are those of newer runs.
fn run_json(
    server: &WebServer,
    run: &RunDir,
    deliveries: &DeliveriesByRun,
    sessions: &mut BTreeSet<String>,
) -> Result<Value> {
    let RunState {
        status,
        status_file,
    } = run.state()?;
    let summary = RecordedRunSummary::read(run, status_file.as_ref());
    let duration_ms = summary.seconds.map(|seconds| (seconds * SECOND_MS).round());
    let session = run.metadata().map(|metadata| metadata.session_id);
    let is_last = session
        .as_ref()
        .is_some_and(|id| sessions.insert(id.clone()));
    let is_live = server.runs.is_live(&run.name());
    let is_interrupted = match status {
        RunStatus::Running => false,
        RunStatus::Interrupted => true,
        RunStatus::Ended => summary.finish_reason.as_deref() == Some("interrupted"),
    };
    let is_resumable =
        is_last && is_interrupted && !is_live && run.is_own()? && run.manifest().is_ok();
    Ok(json!({
        "id": run.name(),
        "session": session,
        "pipeline": null,
        "task": truncate(&summary.task, TASK_CHARS_MAX),
        "state": state_word(status),
        "agents": summary.agents,
        "started": summary.start_time,
        "duration_ms": duration_ms,
        "tokens": summary.input_tokens.saturating_add(summary.output_tokens),
        "cost_usd": summary.cost_usd,
        "outcome": summary.outcome_word(&deliveries.delivered_files(&run.name())?),
        "winner": summary.winner,
        "live": is_live,
        "resumable": is_resumable,
    }))
}

/// Returns the state of a run in one word.
pub(super) fn state_word(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Running => "running",
        RunStatus::Ended => "ended",
        RunStatus::Interrupted => "interrupted",
    }
}

/// Does work that reads files, apart from the threads that serve requests.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> ApiResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(ApiError::from),
        Err(_) => Err(Error::bug("the request failed unexpectedly").into()),
    }
}
