//! The `massgen logs` commands: list, show, follow and export the records of runs, and show and
//! follow those of pipelines. They only read the records.

use crate::cli::args::logs::LogsCommand;
use crate::cli::deliveries::deliveries_directory;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::cli::pipeline::run::pipelines_directory;
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::spending::limits::BudgetLimits;
use crate::text::count_noun;
use crate::world::delivery::delivered_files::DeliveriesByRun;
use crate::world::store::pipelines;
use crate::world::store::records::metadata;
use crate::world::store::runs::{self, RunDir, RunStatus};

mod dashboard_follow;
mod list;
mod log_output;
pub(crate) mod run_summary;

/// Runs a `massgen logs` subcommand.
pub(crate) fn run(
    host: &Host,
    command: &LogsCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    match command {
        LogsCommand::List { json } => list::list(host, ReportFormat::from(*json), output)?,
        LogsCommand::Show { run, json } => {
            let (log, format) = (RecordedLog::find(run, host)?, ReportFormat::from(*json));
            log_output::show(&log.events, format, host)?;
            note_revert(&log, format, host, output)?;
        }
        LogsCommand::Follow {
            run,
            json: _,
            dashboard: true,
        } => dashboard_follow::follow(&RecordedLog::find(run, host)?, host)?,
        LogsCommand::Follow { run, json, .. } => {
            let (log, format) = (RecordedLog::find(run, host)?, ReportFormat::from(*json));
            log_output::follow(&log, format, host)?;
            note_revert(&log, format, host, output)?;
        }
        LogsCommand::Export { run, output: file } => {
            export(&find_run(run, host)?, file.as_deref(), host, output)?;
        }
    }
    Ok(ExitStatus::Success)
}

/// The event log of a run or of a pipeline that the command line names.
#[derive(Debug)]
struct RecordedLog {
    /// The name of the run or pipeline.
    name: String,
    events: AbsPath,
    /// The limits in force, if they are recorded.
    limits: Option<BudgetLimits>,
}

impl RecordedLog {
    /// Finds the log of the run, or of the pipeline, that `name` names in this directory.
    fn find(name: &str, host: &Host) -> Result<Self> {
        if !pipelines::is_name(name) {
            let run = find_run(name, host)?;
            return Ok(Self {
                name: run.name(),
                events: run.events_file(),
                limits: run.limits(),
            });
        }
        let pipeline = pipelines::find(name, &pipelines_directory(host))?;
        // This refuses a pipeline that came with a copied project.
        pipeline.record()?;
        if !pipeline.has_log()? {
            let message = format!("the pipeline `{}` has no log", pipeline.name());
            return Err(Error::new(ErrorKind::Environment, message)
                .with_hint("see `massgen logs list` for the runs of its stages"));
        }
        Ok(Self {
            name: pipeline.name(),
            events: pipeline.events_file(),
            limits: metadata::read_limits(pipeline.dir()),
        })
    }

    /// Returns the message about a log that ends without a result.
    fn interrupted_message(&self) -> String {
        let subject = if pipelines::is_name(&self.name) {
            "pipeline"
        } else {
            "run"
        };
        format!("the {subject} was interrupted: its process ended without recording a result")
    }

    /// Returns the note about a delivery that was undone after the end of the log, if it was.
    fn revert_note(&self, host: &Host) -> Result<Option<&'static str>> {
        let deliveries = DeliveriesByRun::list(&deliveries_directory(host))?;
        let files = if pipelines::is_name(&self.name) {
            deliveries.files_of_pipeline(pipelines::short_name(&self.name))?
        } else {
            deliveries.delivered_files(&self.name)?
        };
        Ok(if files.is_reverted() {
            Some("what was delivered has been undone since")
        } else if files.is_partly_reverted() {
            Some("some of the files that were delivered have been undone since")
        } else {
            None
        })
    }
}

/// Notes that what the log shows as delivered was undone, if it was.
fn note_revert(
    log: &RecordedLog,
    format: ReportFormat,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    if format == ReportFormat::Text
        && let Some(note) = log.revert_note(host)?
    {
        output.note(note);
    }
    Ok(())
}

/// Finds the run `name` of this directory.
pub(crate) fn find_run(name: &str, host: &Host) -> Result<RunDir> {
    runs::find(name, &logs_directory(host), &host.cwd)
}

/// Returns the directory of the records of this directory's runs.
pub(crate) fn logs_directory(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(LOGS)
}

fn export(run: &RunDir, file: Option<&str>, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let archive = match file {
        Some(file) => host.cwd.join(file),
        None => host.cwd.join(format!("{}.tar.gz", run.name())),
    };
    if run.state()?.status == RunStatus::Running {
        output.warning("the run is still active: the archive contains its log so far");
    }
    let file_count = run.export(&archive)?;
    output.result(&format!("{archive}\n"))?;
    output.note(&format!("{} packed", count_noun(file_count, "file")));
    Ok(())
}
