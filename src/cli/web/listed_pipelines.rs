//! The pipelines of the directory, as the list of runs shows them: a pipeline is a row, which adds
//! up what the runs of its stages used.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cli::pipeline::run::pipelines_directory;
use crate::cli::web::overview::{TASK_CHARS_MAX, state_word};
use crate::cli::web::server_state::WebServer;
use crate::error::{ExitStatus, Result};
use crate::event::{Event, RunEvent};
use crate::text::truncate;
use crate::world::delivery::delivered_files::{DeliveredFiles, DeliveriesByRun};
use crate::world::io::clock::{LocalDateTime, milliseconds};
use crate::world::store::event_log;
use crate::world::store::pipeline_log::{LastLine, last_line};
use crate::world::store::pipelines::{self, PipelineDir, PipelineRecord};
use crate::world::store::runs::RunStatus;

/// The pipelines with a log, newest first.
#[derive(Debug)]
pub(super) struct ListedPipelines(Vec<ListedPipeline>);

#[derive(Debug)]
struct ListedPipeline {
    dir: PipelineDir,
    record: PipelineRecord,
    /// The names of the runs of its stages.
    runs: BTreeSet<String>,
}

impl ListedPipelines {
    /// Reads the newest pipelines of the server's directory, at most `limit`. Those that came along
    /// with the project are left out.
    pub(super) fn read(server: &WebServer, limit: usize) -> Result<Self> {
        let directories = pipelines::list(&pipelines_directory(&server.host))?;
        let mut logged_pipelines = Vec::new();
        for dir in directories {
            if logged_pipelines.len() < limit
                && dir.has_log()?
                && let Ok(record) = dir.record()
            {
                let runs = dir.runs()?;
                logged_pipelines.push(ListedPipeline { dir, record, runs });
            }
        }
        Ok(Self(logged_pipelines))
    }

    /// Returns the name of the pipeline of which the run with this name is a stage.
    pub(super) fn of_run(&self, run: &str) -> Option<String> {
        let mut pipelines = self.0.iter();
        let pipeline = pipelines.find(|pipeline| pipeline.runs.contains(run))?;
        Some(pipeline.dir.name())
    }

    /// Returns the rows of the list; `runs` are those of the runs.
    pub(super) fn rows(
        &self,
        server: &WebServer,
        runs: &[Value],
        deliveries: &DeliveriesByRun,
    ) -> Result<Vec<Value>> {
        let pipelines = self.0.iter();
        pipelines
            .map(|pipeline| pipeline.row(server, runs, deliveries))
            .collect()
    }
}

impl ListedPipeline {
    fn row(
        &self,
        server: &WebServer,
        runs: &[Value],
        deliveries: &DeliveriesByRun,
    ) -> Result<Value> {
        let Self { dir, record, .. } = self;
        // Looks at the lock before the last line, so that a pipeline that ends meanwhile does
        // not count as interrupted.
        let is_written = event_log::is_written(&dir.events_file())?;
        let last_line = last_line(dir);
        let status = last_line.as_ref().and_then(end_status);
        let state = match status {
            Some(_) => RunStatus::Ended,
            None if is_written => RunStatus::Running,
            None => RunStatus::Interrupted,
        };
        let began = LocalDateTime::parse(&record.began);
        let ended_at = last_line
            .map(|last_line| last_line.time)
            .filter(|_| state == RunStatus::Ended);
        let duration = began
            .zip(ended_at)
            .map(|(began, ended_at)| ended_at.since(&began));
        let name = Value::from(dir.name());
        let tokens = stage_values(runs, &name, "tokens").filter_map(Value::as_u64);
        let costs = stage_values(runs, &name, "cost_usd").filter_map(Value::as_f64);
        let is_live = server.runs.is_live(&dir.name());
        // One that met a limit is continued with another one.
        let is_over = status == Some(ExitStatus::Success);
        let files = deliveries.files_of_pipeline(pipelines::short_name(&dir.name()))?;
        Ok(json!({
            "id": name,
            "session": null,
            "pipeline": null,
            "task": truncate(&record.task, TASK_CHARS_MAX),
            "state": state_word(state),
            "agents": record.roles,
            "started": record.began,
            "duration_ms": duration.map(milliseconds),
            "tokens": tokens.sum::<u64>(),
            "cost_usd": costs.reduce(|sum, cost| sum + cost),
            "outcome": outcome_word(status, &files),
            "winner": null,
            "live": is_live,
            "resumable": state != RunStatus::Running && !is_live && !is_over,
        }))
    }
}

/// Returns the values of a field in the runs of the stages of a pipeline.
fn stage_values<'r>(
    runs: &'r [Value],
    pipeline: &'r Value,
    field: &'static str,
) -> impl Iterator<Item = &'r Value> {
    let stage_runs = runs
        .iter()
        .filter(move |run| run.get("pipeline") == Some(pipeline));
    stage_runs.filter_map(move |run| run.get(field))
}

/// Returns how a pipeline ended, or that what was delivered of it was undone since; `files` are
/// those that were delivered, as they are now.
fn outcome_word(status: Option<ExitStatus>, files: &DeliveredFiles) -> Value {
    match status {
        Some(ExitStatus::Success) if files.is_reverted() => json!("undone"),
        Some(ExitStatus::Success) if files.is_partly_reverted() => json!("partly undone"),
        status => json!(status),
    }
}

/// Returns how the pipeline ended, if that is its last line.
fn end_status(last_line: &LastLine) -> Option<ExitStatus> {
    if let Event::Run(RunEvent::RunEnded { status, .. }) = &last_line.event {
        return Some(*status);
    }
    None
}
