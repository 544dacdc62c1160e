//! Implements `massgen batch`: starts batches of tasks, shows their state and results, and delivers
//! the work of their cells.

use crate::cli::args::batch::BatchCommand;
use crate::cli::output::CliOutput;
use crate::config::storage_path::{BATCHES, STATE_DIR};
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::world::store::batches::{BatchDir, BatchRecord, FoundBatch, find};

mod cell_scope;
mod copy_access;
mod task_mentions;
mod cell_team;
mod cell_report;
mod cell_run;
mod cell_delivery;
mod job;
mod start_settings;
mod results;
pub(crate) mod compare;
mod control;
mod start;
mod state;
mod watch;

/// Runs a command of `massgen batch`.
pub(crate) fn run(
    host: &Host,
    command: &BatchCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    match command {
        BatchCommand::Run(arguments) => start::run(host, arguments, output),
        BatchCommand::Resume(arguments) => start::resume(host, arguments, output),
        BatchCommand::Retry(arguments) => start::retry(host, arguments, output),
        BatchCommand::List { json } => state::list(host, *json, output),
        BatchCommand::Status(arguments) => state::status(host, arguments, output),
        BatchCommand::Watch(arguments) => watch::watch(host, arguments, output),
        BatchCommand::Results(arguments) => results::results(host, arguments, output),
        BatchCommand::Compare(arguments) => compare::compare(host, arguments, output),
        BatchCommand::Cancel(arguments) => state::cancel(host, arguments, output),
        BatchCommand::Apply(arguments) => cell_delivery::apply(host, arguments, output),
        BatchCommand::Job(arguments) => job::run(host, arguments, output),
    }
}

/// Returns the directory of the batches of this directory.
pub(crate) fn batches_directory(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(BATCHES)
}

/// Finds the batch `name` of this directory and reads how it began.
fn open_batch_and_record(
    name: &str,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<(BatchDir, BatchRecord)> {
    let FoundBatch { batch, warning } = find(name, &batches_directory(host))?;
    if let Some(warning) = warning {
        output.warning(&warning);
    }
    let record = batch.record()?;
    Ok((batch, record))
}
