//! What the page follows by an event log: a run, a pipeline, whose stages are runs, or the run of a
//! cell of a batch.

use std::io::BufRead;

use hyper::StatusCode;

use crate::batch::task::CellId;
use crate::cli::pipeline::run::pipelines_directory;
use crate::cli::web::batches::find_batch;
use crate::cli::web::overview::run_blocking;
use crate::cli::web::reply::{ApiError, ApiResult};
use crate::cli::web::server_state::WebServer;
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::error::{ExitStatus, Result};
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::world::store::batches::BatchDir;
use crate::world::store::event_log::{self, LogReader};
use crate::world::store::pipelines;
use crate::world::store::records::metadata;
use crate::world::store::runs::{self, RunDir};

/// What separates the name of a batch from that of a cell, in the name of the cell's run.
const CELL_SEPARATOR: char = ':';

/// A run or a pipeline with an event log.
#[derive(Clone, Debug)]
pub(super) struct LoggedRun {
    name: String,
    events: AbsPath,
}

impl LoggedRun {
    /// Finds the run or the pipeline with this name in the directory of its kind.
    pub(super) fn find(name: &str, logs: &AbsPath) -> Result<Option<Self>> {
        let events = if pipelines::is_name(name) {
            match pipelines::find_by_name(name, logs)? {
                Some(pipeline) if pipeline.has_log()? => Some(pipeline.events_file()),
                Some(_) | None => None,
            }
        } else {
            runs::find_by_name(name, logs)?.map(|run| run.events_file())
        };
        Ok(events.map(|events| Self {
            name: name.to_owned(),
            events,
        }))
    }

    /// Finds the last run of `cell`, if its log is on this machine.
    pub(super) fn of_cell(batch: &BatchDir, cell: &CellId) -> Result<Option<Self>> {
        let work = batch.cell_dir(cell).work();
        let logs = work.join(STATE_DIR).join(LOGS);
        // A log that an agent wrote was not created by massgen.
        for run in runs::list(&logs)? {
            if run.is_own()? && run.has_log()? {
                return Ok(Some(Self {
                    name: format!("{}{CELL_SEPARATOR}{cell}", batch.name()),
                    events: run.events_file(),
                }));
            }
        }
        Ok(None)
    }

    /// Returns its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of its log.
    pub(super) fn events(&self) -> &AbsPath {
        &self.events
    }

    /// Reads the limits in force, which are recorded next to the log.
    pub(super) fn limits(&self) -> Option<BudgetLimits> {
        metadata::read_limits(&self.events.parent()?)
    }

    /// Opens its log.
    pub(super) fn open_log(&self) -> Result<LogReader<impl BufRead + use<>>> {
        event_log::open(&self.events)
    }

    /// Returns whether a process writes its log.
    pub(super) fn is_written(&self) -> Result<bool> {
        event_log::is_written(&self.events)
    }

    /// Returns whether it may be resumed after it ended with `status`; `None` if its process is
    /// gone and did not record an end. The run of a cell is not: its batch starts another one.
    pub(super) fn may_be_resumed(&self, status: Option<ExitStatus>) -> bool {
        if self.name.contains(CELL_SEPARATOR) {
            return false;
        }
        if pipelines::is_name(&self.name) {
            return status != Some(ExitStatus::Success);
        }
        status.is_none_or(|status| status == ExitStatus::Interrupted)
    }

    /// Returns the length of its log in bytes, if it can be determined.
    pub(super) fn log_length(&self) -> Option<u64> {
        event_log::length(&self.events)
    }
}

/// Finds the run with this name.
pub(super) async fn find_run(server: &WebServer, id: String) -> ApiResult<RunDir> {
    let logs = server.logs_directory();
    let name = id.clone();
    let find = move || {
        let run = runs::find_by_name(&name, &logs)?;
        run.map(|run| Ok((run.has_log()?, run))).transpose()
    };
    match run_blocking(find).await? {
        Some((true, run)) => Ok(run),
        Some((false, _)) => {
            let message = format!("the run `{id}` has no log yet");
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message))
        }
        None => Err(ApiError::not_found(format!("no run `{id}`"))),
    }
}

/// Finds the run or the pipeline with this name.
pub(super) async fn find_logged(server: &WebServer, id: String) -> ApiResult<LoggedRun> {
    if let Some((batch, cell)) = id.split_once(CELL_SEPARATOR) {
        return find_cell_run(server, batch.to_owned(), cell.to_owned()).await;
    }
    if !pipelines::is_name(&id) {
        let run = find_run(server, id).await?;
        return Ok(LoggedRun {
            name: run.name(),
            events: run.events_file(),
        });
    }
    let (pipelines, name) = (pipelines_directory(&server.host), id.clone());
    let pipeline = run_blocking(move || LoggedRun::find(&name, &pipelines)).await?;
    pipeline.ok_or_else(|| ApiError::not_found(format!("no pipeline `{id}`")))
}

/// Finds the last run of a cell.
async fn find_cell_run(server: &WebServer, batch: String, cell: String) -> ApiResult<LoggedRun> {
    let batch = find_batch(server, batch).await?;
    let missing_error =
        || ApiError::not_found(format!("no run of the cell `{cell}` on this machine"));
    let id = CellId::parse(&cell).ok_or_else(missing_error)?;
    let run = run_blocking(move || LoggedRun::of_cell(&batch, &id)).await?;
    run.ok_or_else(missing_error)
}
