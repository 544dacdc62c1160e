//! A job of a queue: it claims cells and runs them until none is left, its node turns out to lack
//! something, or it is asked to end.

use crate::batch::next_step::AttemptEnd;
use crate::cli::args::batch::BatchWorkerArguments;
use crate::cli::batch::cell::{CellExit, CellWorker};
use crate::cli::output::CliOutput;
use crate::cli::run::{SHUTDOWN_TIMEOUT, runtime};
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};
use crate::world::diagnostics::probe::sandbox::select_sandbox;
use crate::world::store::batches::claims::ClaimOwner;
use crate::world::store::batches::queue::OpenCell;

/// Runs `massgen batch worker`.
pub(super) fn run(
    host: &Host,
    arguments: &BatchWorkerArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let owner = ClaimOwner::this_process(&arguments.engine, Some(&arguments.job));
    let worker = CellWorker::new(host, &arguments.batch, owner, output)?;
    if let Some(reason) = worker.batch.refusal(&arguments.node) {
        output.note(&format!(
            "starting no cell on `{}`: {reason}",
            arguments.node
        ));
        return Ok(status_for_scheduler(
            arguments,
            ExitStatus::Environment,
            false,
        ));
    }
    if let Some(reason) = arguments
        .require_sandbox
        .and_then(|level| sandbox_shortfall(host, &worker, level))
    {
        output.note(&format!(
            "starting no cell on `{}`: {reason}",
            arguments.node
        ));
        worker.batch.refuse_node(&arguments.node, &reason)?;
        return Ok(status_for_scheduler(
            arguments,
            ExitStatus::Environment,
            false,
        ));
    }
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = worker.listen()?;
        let status = Box::pin(run_open_cells(&worker, arguments, &stop, output)).await?;
        let was_signalled = stop.park.is_cancelled() && !worker.batch.is_cancelled()?;
        Ok(status_for_scheduler(arguments, status, was_signalled))
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result
}

/// Returns the exit status of a job that ends with `status`: with `--fail-only-on-signals`, success
/// unless a signal ends it, because the scheduler replaces jobs that fail.
fn status_for_scheduler(
    arguments: &BatchWorkerArguments,
    status: ExitStatus,
    was_signalled: bool,
) -> ExitStatus {
    if arguments.fail_only_on_signals && !was_signalled {
        ExitStatus::Success
    } else {
        status
    }
}

/// Returns why the sandbox of this node is weaker than `required_level`, if it is.
fn sandbox_shortfall(
    host: &Host,
    worker: &CellWorker,
    required_level: SandboxLevel,
) -> Option<String> {
    let batch_dir = worker.batch.dir();
    let trees = [batch_dir.join("cells")];
    let choice = SandboxLevelChoice::Auto;
    match select_sandbox(choice, &host.executable, batch_dir, &trees) {
        // `SandboxLevel` is ordered from the strongest level to the weakest.
        Ok(selection) if selection.level <= required_level => None,
        Ok(selection) => Some(format!(
            "its sandbox is only `{}`, but `{required_level}` is required: {}",
            selection.level,
            selection.reasons.join("; ")
        )),
        Err(error) => Some(format!(
            "it has no sandbox, but `{required_level}` is required: {error:#}"
        )),
    }
}

/// Runs open cells, one after another, until no other cell can be begun here.
async fn run_open_cells(
    worker: &CellWorker,
    arguments: &BatchWorkerArguments,
    stop: &ShutdownSignal,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let ids = worker.batch.cell_ids(&worker.record)?;
    release_earlier_claims(worker, arguments, &worker.batch.open_cells(&ids)?)?;
    loop {
        let mut open_cells = worker.batch.open_cells(&ids)?;
        // Workers begin at different cells, so that few of them try the same one.
        let start = start_index(&arguments.job, open_cells.len());
        open_cells.rotate_left(start);
        // Once a cell has run here, cells of this pass may be open again: it itself after a bug of
        // massgen, or one that another process has given up in the meantime.
        let mut has_run = false;
        for cell in &open_cells {
            if let Some(status) = worker.obstacle(stop, output)? {
                return Ok(status);
            }
            match Box::pin(worker.run_cell(cell.number, stop)).await? {
                CellExit::Taken | CellExit::Finished => {}
                CellExit::Published | CellExit::Unfinished(AttemptEnd::Bug) => has_run = true,
                CellExit::Unfinished(AttemptEnd::NodeFault) => {
                    let reason = format!("the node lacked something that `{}` needed", cell.id);
                    worker.batch.refuse_node(&arguments.node, &reason)?;
                    output.note(&reason);
                    return Ok(ExitStatus::Environment);
                }
                CellExit::Unfinished(_) => return Ok(ExitStatus::Parked),
                CellExit::WrongConfig => {
                    worker.batch.cancel_for_config()?;
                    return Ok(ExitStatus::Usage);
                }
            }
        }
        // All open cells belong to other processes.
        if !has_run {
            return Ok(ExitStatus::Success);
        }
    }
}

/// Records that the cells claimed by an earlier start of this job were lost: a scheduler starts a
/// job again only when it has ended.
fn release_earlier_claims(
    worker: &CellWorker,
    arguments: &BatchWorkerArguments,
    open_cells: &[OpenCell],
) -> Result<()> {
    let is_own = |owner: &ClaimOwner| {
        owner.engine == arguments.engine && owner.job.as_deref() == Some(arguments.job.as_str())
    };
    for cell in open_cells {
        if cell.owner.as_ref().is_some_and(is_own) {
            worker.batch.record_lost_job(cell)?;
        }
    }
    Ok(())
}

/// Returns the index of the cell at which the worker of this job begins.
fn start_index(job: &str, cells: usize) -> usize {
    let sum = job.bytes().fold(0_usize, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    // Names of jobs differ mostly in their last digits, which are spread over the cells.
    let hash = sum.wrapping_mul(0x9E37_79B9) >> 7;
    hash.checked_rem(cells).unwrap_or(0)
}
