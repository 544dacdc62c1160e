//! The `massgen logs` commands: list, show, follow and export the records of runs. It must only
//! read them.

use crate::cli::logs_arguments::LogsCommand;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::text::count_noun;
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
            log_output::show(&find_run(run, host)?, ReportFormat::from(*json), host)?;
        }
        LogsCommand::Follow {
            run,
            json: _,
            dashboard: true,
        } => {
            let run = find_run(run, host)?;
            dashboard_follow::follow(&run, host)?;
        }
        LogsCommand::Follow { run, json, .. } => {
            log_output::follow(&find_run(run, host)?, ReportFormat::from(*json), host)?;
        }
        LogsCommand::Export { run, output: file } => {
            export(&find_run(run, host)?, file.as_deref(), host, output)?;
        }
    }
    Ok(ExitStatus::Delivered)
}

/// Finds the run `wanted` of this directory.
pub(crate) fn find_run(wanted: &str, host: &Host) -> Result<RunDir> {
    runs::find(wanted, &logs_directory(host), &host.cwd)
}

/// Returns the directory of the records of this directory's runs.
pub(crate) fn logs_directory(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(LOGS)
}

fn export(run: &RunDir, file: Option<&str>, host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    let to = match file {
        Some(file) => host.cwd.join(file),
        None => host.cwd.join(format!("{}.tar.gz", run.name())),
    };
    if run.state(run.status().as_ref()) == RunStatus::Running {
        output.warning("the run is still active: the archive contains its log so far");
    }
    let files = run.export(&to)?;
    output.result(&format!("{to}\n"))?;
    output.note(&format!("{} packed", count_noun(files, "file")));
    Ok(())
}
