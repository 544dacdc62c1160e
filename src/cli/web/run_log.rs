//! The events of a run as its log has them, its answers, and whether it was resumed since.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::cli::web::logged_run::{LoggedRun, find_logged};
use crate::cli::web::overview::run_blocking;
use crate::cli::web::reply::{ApiError, ApiResult, JsonReply};
use crate::cli::web::run_feed::{RunFeed, markdown_json};
use crate::cli::web::server_state::WebServer;
use crate::error::Result;

/// Number of events of a reply unless the page asks for another.
const EVENTS_DEFAULT: usize = 200;
/// Maximum number of events of a reply.
const EVENTS_MAX: usize = 1000;
/// Size of the events at which a reply ends, in bytes.
const EVENTS_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Query of `GET /api/runs/{id}/log`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LogQuery {
    #[serde(default)]
    after: u64,
    limit: Option<usize>,
}

/// Answers `GET /api/runs/{id}/log`: the events after a sequence number.
pub(super) async fn events(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    query: std::result::Result<Query<LogQuery>, QueryRejection>,
) -> ApiResult {
    let Query(query) = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let run = find_logged(&server, id).await?;
    let read = move || read_events(&run, &query);
    run_blocking(read).await.map(JsonReply)
}

/// Query of `GET /api/runs/{id}/resumption`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumptionQuery {
    /// The length of the log when its stream ended, in bytes.
    log_bytes: u64,
}

/// Answers `GET /api/runs/{id}/resumption`: whether the run was resumed since its stream ended,
/// here or by another process.
pub(super) async fn resumption(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    query: std::result::Result<Query<ResumptionQuery>, QueryRejection>,
) -> ApiResult {
    let Query(query) = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let run = find_logged(&server, id).await?;
    let compare_lengths = move || {
        // The log is only read: a lock could keep the process that resumes the run from opening it.
        let length = run.log_length();
        let is_resumed = length.is_some_and(|length| length != query.log_bytes);
        Ok(json!({"is_resumed": is_resumed}))
    };
    run_blocking(compare_lengths).await.map(JsonReply)
}

/// Answers `GET /api/runs/{id}/answers/{label}`: the whole answer, with its checks.
pub(super) async fn answer(
    State(server): State<Arc<WebServer>>,
    Path((id, label)): Path<(String, String)>,
) -> ApiResult {
    let run = find_logged(&server, id).await?;
    let feed = find_feed(&server, run.clone()).await?;
    feed.wait_until_read().await;
    let answer_json = feed.with_view(|view| {
        let mut answers = view.ballot().answers.iter();
        let answer = answers.find(|answer| answer.label.to_string() == label)?;
        let mut value = serde_json::to_value(answer).ok()?;
        let markdown = markdown_json(&answer.content);
        value
            .as_object_mut()?
            .insert("markdown".to_owned(), markdown);
        Some(value)
    });
    let missing_error = || ApiError::not_found(format!("no answer `{label}` in `{}`", run.name()));
    answer_json.map(JsonReply).ok_or_else(missing_error)
}

/// Returns the feed of a run.
pub(super) async fn find_feed(server: &Arc<WebServer>, run: LoggedRun) -> ApiResult<Arc<RunFeed>> {
    let server = Arc::clone(server);
    run_blocking(move || server.runs.feed(&run)).await
}

fn read_events(run: &LoggedRun, query: &LogQuery) -> Result<Value> {
    let limit = query.limit.unwrap_or(EVENTS_DEFAULT).min(EVENTS_MAX);
    let (mut events, mut bytes, mut has_more) = (Vec::new(), 0_usize, false);
    let mut log = run.open_log()?;
    log.skip_lines(query.after);
    for entry in log.intact_entries() {
        let entry = entry?;
        if events.len() == limit || bytes > EVENTS_BYTES_MAX {
            has_more = true;
            break;
        }
        bytes = bytes.saturating_add(entry.json.len());
        events.extend(serde_json::from_str::<Value>(&entry.json));
    }
    Ok(json!({"events": events, "has_more": has_more}))
}
