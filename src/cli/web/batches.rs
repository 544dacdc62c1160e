//! The batches of the directory, and one of them with a part of its cells: those that were begun. A
//! reply is bounded however many cells there are.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::batch::cell_state::CellState;
use crate::batch::result::CellResult;
use crate::batch::table::{TagRow, tag_rows};
use crate::batch::task::CellId;
use crate::cli::batch::batches_directory;
use crate::cli::batch::compare::BatchComparison;
use crate::cli::batch_report::BatchReport;
use crate::cli::web::logged_run::LoggedRun;
use crate::cli::web::overview::run_blocking;
use crate::cli::web::reply::{ApiError, ApiResult, JsonReply};
use crate::cli::web::server_state::WebServer;
use crate::error::Result;
use crate::world::store::batches::survey::BegunCell;
use crate::world::store::batches::{self, BatchDir};

/// Maximum number of batches that are listed.
const BATCHES_MAX: usize = 100;
/// Number of cells of a reply unless the page asks for another.
const CELLS_DEFAULT: usize = 100;
/// Maximum number of cells of a reply.
const CELLS_MAX: usize = 500;
/// Maximum number of rows of the table by tag.
const ROWS_MAX: usize = 200;

/// Query of `GET /api/batches/{id}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CellsQuery {
    /// The state of the cells.
    state: Option<CellState>,
    /// A part of the id of a cell, or one of its tags.
    search: Option<String>,
    /// How many cells come before the first.
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
}

/// A cell of the list.
enum ListedCell<'s> {
    Begun(&'s BegunCell),
    Ended(&'s CellResult),
}

/// Answers `GET /api/batches`: the batches of the directory, newest first.
pub(super) async fn list(State(server): State<Arc<WebServer>>) -> ApiResult {
    let _batch_guard = server.lock_batches().await;
    let batches = batches_directory(&server.host);
    run_blocking(move || list_batches(&batches::list(&batches)?))
        .await
        .map(JsonReply)
}

/// Returns the newest batches. Those that came along with the project are left out.
fn list_batches(batches: &[BatchDir]) -> Result<Value> {
    let mut rows = Vec::new();
    for batch in batches.iter().take(BATCHES_MAX) {
        if let Ok(record) = batch.record() {
            let finished_cells = batch.finished_count()?;
            let is_open = finished_cells < usize::try_from(record.cells).unwrap_or(usize::MAX);
            rows.push(json!({
                "id": batch.name(),
                "tasks": record.tasks_name,
                "team": record.team(),
                "began": record.began,
                "cells": record.cells,
                "finished": finished_cells,
                "is_cancelled": is_open && batch.is_cancelled()?,
            }));
        }
    }
    Ok(json!({"batches": rows, "has_more": batches.len() > BATCHES_MAX}))
}

/// Answers `GET /api/batches/{id}`: the state of a batch, its table by tag, and some of its cells.
pub(super) async fn batch(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    query: std::result::Result<Query<CellsQuery>, QueryRejection>,
) -> ApiResult {
    let Query(query) = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let batch = find_batch(&server, id).await?;
    let _batch_guard = server.lock_batches().await;
    run_blocking(move || batch_json(&batch, &query))
        .await
        .map(JsonReply)
}

/// The query of `GET /api/batches/{id}/comparison`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ComparisonQuery {
    /// The other batch.
    with: String,
}

/// Answers `GET /api/batches/{id}/comparison`: how another batch differs from this one.
pub(super) async fn comparison(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    query: std::result::Result<Query<ComparisonQuery>, QueryRejection>,
) -> ApiResult {
    let Query(query) = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let first = find_batch(&server, id).await?;
    let second = find_batch(&server, query.with).await?;
    let _batch_guard = server.lock_batches().await;
    run_blocking(move || Ok(BatchComparison::read(&[first, second])?.to_json()))
        .await
        .map(JsonReply)
}

/// Finds the batch with this name.
pub(super) async fn find_batch(server: &WebServer, id: String) -> ApiResult<BatchDir> {
    let batches = batches_directory(&server.host);
    let batch_id = id.clone();
    let find = move || {
        let batch = batches::find_by_name(&batch_id, &batches)?;
        // One that came along with the project is refused.
        batch.map(|batch| batch.record().map(|_| batch)).transpose()
    };
    let batch = run_blocking(find).await?;
    batch.ok_or_else(|| ApiError::not_found(format!("no batch `{id}`")))
}

fn batch_json(batch: &BatchDir, query: &CellsQuery) -> Result<Value> {
    let record = batch.record()?;
    let survey = batch.survey(record.cells)?;
    let report = BatchReport::from_survey(batch, &record, &survey)?;
    let rows = tag_rows(&survey.results);
    let open_cells = survey.begun.iter().map(ListedCell::Begun);
    let ended_cells = survey.results.iter().map(ListedCell::Ended);
    let matching_cells: Vec<ListedCell<'_>> = open_cells
        .chain(ended_cells)
        .filter(|cell| cell.matches(query))
        .collect();
    let limit = query.limit.unwrap_or(CELLS_DEFAULT).min(CELLS_MAX);
    let page_cells = matching_cells.iter().skip(query.offset).take(limit);
    let cells = page_cells
        .map(|cell| cell.to_json(batch))
        .collect::<Result<Vec<_>>>()?;
    Ok(json!({
        "id": batch.name(),
        "tasks": record.tasks_name,
        "team": record.team(),
        "began": record.began,
        "counts": report.counts,
        "money": report.money_json(),
        "is_cancelled": report.is_cancelled,
        "rows": rows.iter().take(ROWS_MAX).collect::<Vec<&TagRow>>(),
        "more_rows": rows.len().saturating_sub(ROWS_MAX),
        "cells": cells,
        "matching": matching_cells.len(),
    }))
}

impl ListedCell<'_> {
    fn id(&self) -> &CellId {
        match self {
            ListedCell::Begun(cell) => &cell.id,
            ListedCell::Ended(result) => &result.id,
        }
    }

    fn state(&self) -> CellState {
        match self {
            ListedCell::Begun(cell) => cell.state,
            ListedCell::Ended(result) => result.outcome.into(),
        }
    }

    fn tags(&self) -> Option<&BTreeSet<String>> {
        match self {
            ListedCell::Begun(_) => None,
            ListedCell::Ended(result) => Some(&result.tags),
        }
    }

    fn matches(&self, query: &CellsQuery) -> bool {
        let has_state = query.state.is_none_or(|state| state == self.state());
        has_state
            && query.search.as_ref().is_none_or(|search| {
                let has_tag = self.tags().is_some_and(|tags| tags.contains(search));
                has_tag || self.id().as_str().contains(search.as_str())
            })
    }

    fn to_json(&self, batch: &BatchDir) -> Result<Value> {
        let logged_run = LoggedRun::of_cell(batch, self.id())?;
        let run = logged_run.map(|run| run.name().to_owned());
        Ok(match self {
            ListedCell::Begun(cell) => json!({
                "id": cell.id,
                "state": cell.state,
                "attempts": cell.attempt,
                "host": cell.mark.as_ref().map(|mark| &mark.host),
                "since": cell.mark.as_ref().map(|mark| &mark.since),
                "reason": cell.note.reason,
                "run": run,
            }),
            ListedCell::Ended(result) => {
                let mut value = json!(result);
                if let Some(fields) = value.as_object_mut() {
                    fields.insert("state".to_owned(), json!(self.state()));
                    fields.insert("success".to_owned(), result.is_success().into());
                    fields.insert("run".to_owned(), run.into());
                }
                value
            }
        })
    }
}
