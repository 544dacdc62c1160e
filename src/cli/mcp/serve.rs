//! Owns `massgen mcp serve`: the tools of one gate, offered until the client or the user ends it.
//! Whatever is told to the user goes to standard error.

use crate::cli::interrupts::listen;
use crate::cli::mcp::guarded::Guarded;
use crate::cli::mcp::way::Way;
use crate::cli::output::Output;
use crate::cli::run::{CALLS_END_MAX, runtime};
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::conduct::Stop;
use crate::tools::spec::ToolOffer;
use crate::wording::counted;
use crate::world::gate::Gate;

/// Serves the tools in `offers` and those of the servers of `gate`, which decides about all calls.
pub(crate) fn serve(
    way: Way,
    (gate, offers): (Gate, Vec<ToolOffer>),
    host: &Host,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let tools = Guarded::new(gate, offers);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let stop = listen(host.hangup)?;
        let count = counted(tools.count(), "tool");
        let served = way.serve((&tools, &count), &stop, output).await;
        stop.soon.cancel();
        end(&tools, &stop, output).await;
        // The programs of servers end with it, as long as there is something that waits for them.
        drop(tools);
        served
    });
    runtime.shutdown_timeout(CALLS_END_MAX);
    served.map(|()| ExitStatus::Delivered)
}

/// Waits for the calls that are carried out; whoever does not want to wait says so a second time.
async fn end(tools: &Guarded, stop: &Stop, output: &mut Output<'_>) {
    let late = tokio::select! {
        late = tools.end() => late,
        () = stop.at_once.cancelled() => Vec::new(),
    };
    if !late.is_empty() {
        let changes = counted(late.len(), "file");
        output.note(&format!(
            "commands in the background changed {changes} that no call told of"
        ));
    }
}
