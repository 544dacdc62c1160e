//! Shows a batch until every cell has a result or nothing works on it any more: a line for each
//! change.

use std::time::Duration;

use crate::cli::args::batch::BatchNameArguments;
use crate::cli::batch::open_batch_and_record;
use crate::cli::batch::state::write_report;
use crate::cli::batch_report::{BatchActivity, BatchReport};
use crate::cli::interrupts::{SHUTDOWN_TIMEOUT, listen_for_parking, runtime};
use crate::cli::output::CliOutput;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::world::io::clock::Stopwatch;
use crate::world::store::batches::BatchDir;

/// Minimum pause between two polls of the files of the batch.
const POLL_PAUSE_MIN: Duration = Duration::from_secs(2);
/// How many times longer than a poll the pause after it is, so that polls use little of the disk.
const PAUSE_PER_POLL_TIME: u32 = 10;
/// Runs `massgen batch watch`.
pub(super) fn watch(
    host: &Host,
    arguments: &BatchNameArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let (batch, _) = open_batch_and_record(&arguments.batch, host, output)?;
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = listen_for_parking(host.hangup)?;
        output.set_stop(&stop);
        write_changes(&batch, arguments.json, &stop, output).await
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Writes each change of the counts.
async fn write_changes(
    batch: &BatchDir,
    is_json: bool,
    stop: &ShutdownSignal,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let mut last_state = None;
    let mut last_hint = None;
    loop {
        let began = Stopwatch::start();
        let report = BatchReport::read(batch)?;
        let pause = began.elapsed().saturating_mul(PAUSE_PER_POLL_TIME);
        let is_stopped = report.activity == BatchActivity::Stopped;
        let state = Some((report.counts.clone(), is_json && is_stopped));
        let is_new = last_state != state;
        if is_new {
            write_report(&report, is_json, output)?;
            last_state = state;
        }
        if report.is_finished() || output.is_closed() {
            return Ok(ExitStatus::Success);
        }
        // If something has just changed, a process may be between two cells.
        if !is_new && last_hint != report.idle_hint() {
            last_hint = report.idle_hint();
            if let Some(hint) = &last_hint {
                output.note(hint);
            }
        }
        if !is_new && is_stopped {
            return Ok(ExitStatus::Parked);
        }
        tokio::select! {
            () = tokio::time::sleep(pause.max(POLL_PAUSE_MIN)) => {}
            () = stop.graceful.cancelled() => return Ok(ExitStatus::Interrupted),
            () = stop.park.cancelled() => return Ok(ExitStatus::Interrupted),
        }
    }
}
