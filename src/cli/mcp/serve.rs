//! Implements `massgen mcp serve`: serves the tools of one gate until the client or the user ends
//! it. Messages to the user go to standard error.

use crate::cli::interrupts::{SHUTDOWN_TIMEOUT, listen, runtime};
use crate::cli::mcp::tool_handler::ToolHandler;
use crate::cli::mcp::transport::McpTransport;
use crate::cli::output::CliOutput;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::text::count_noun;
use crate::tools::spec::ToolOffer;
use crate::world::access::gate::Gate;
use crate::world::mcp::tool_server::ToolServer;

/// Serves the tools in `offers` and those of the servers of `gate`, which decides about all calls.
pub(crate) fn serve_tools(
    transport: McpTransport,
    gate: Gate,
    offers: Vec<ToolOffer>,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let tools = ToolHandler::new(gate, offers);
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = listen(host.hangup)?;
        output.set_stop(&stop);
        let count = count_noun(tools.count(), "tool");
        let server = ToolServer::new(tools.clone());
        let result = transport.serve(server, &count, &stop, output).await;
        stop.graceful.cancel();
        wait_for_calls(&tools, &stop, output).await;
        // Dropping this ends the programs of MCP servers while the runtime can still wait for them.
        drop(tools);
        result
    });
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result.map(|()| ExitStatus::Success)
}

/// Waits for the calls that are being executed; a second signal ends the wait.
async fn wait_for_calls(tools: &ToolHandler, stop: &ShutdownSignal, output: &mut CliOutput<'_>) {
    let unreported_changes = tokio::select! {
        changes = tools.end() => changes,
        () = stop.immediate.cancelled() => Vec::new(),
    };
    if !unreported_changes.is_empty() {
        let files = count_noun(unreported_changes.len(), "file");
        output.note(&format!(
            "background commands changed {files} that no call reported"
        ));
    }
}
