//! Owns `massgen logs …`: what the records of runs tell. It reads them and changes none.

use crate::cli::args::LogsCommand;
use crate::cli::output::{Form, Output};
use crate::config::place::{LOGS, STATE_DIR};
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::wording::counted;
use crate::world::store::runs::{self, RunDir, State};

mod list;
mod story;

/// Carries out what follows `massgen logs`.
pub(crate) fn run(
    host: &Host,
    command: &LogsCommand,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    match command {
        LogsCommand::List { json } => list::list(host, Form::from(*json), output)?,
        LogsCommand::Show { run, json } => story::show(&find(run, host)?, Form::from(*json), host)?,
        LogsCommand::Follow { run, json } => {
            story::follow(&find(run, host)?, Form::from(*json), host)?;
        }
        LogsCommand::Export { run, output: file } => {
            export(&find(run, host)?, file.as_deref(), host, output)?;
        }
    }
    Ok(ExitStatus::Delivered)
}

/// The run that `wanted` means here.
pub(crate) fn find(wanted: &str, host: &Host) -> Result<RunDir> {
    runs::find(wanted, &logs(host), &host.cwd)
}

/// Where the records of the runs of this directory lie.
fn logs(host: &Host) -> AbsPath {
    host.cwd.join(STATE_DIR).join(LOGS)
}

fn export(run: &RunDir, file: Option<&str>, host: &Host, output: &mut Output<'_>) -> Result<()> {
    let to = match file {
        Some(file) => host.cwd.join(file),
        None => host.cwd.join(format!("{}.tar.gz", run.name())),
    };
    if run.state(run.status().as_ref()) == State::Running {
        output.warning("the run still goes on: the archive holds what there is by now");
    }
    let files = run.export(&to)?;
    output.result(&format!("{to}\n"))?;
    output.note(&format!("{} packed", counted(files, "file")));
    Ok(())
}
