//! Stdio transport of an MCP server: standard output must carry only the protocol.

use rmcp::service::ServerInitializeError;
use tokio::io::{stdin, stdout};
use tokio_util::sync::CancellationToken;

use crate::cli::mcp::transport::MESSAGE_BYTES_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::world::mcp::tool_server::ToolServer;

/// Serves one client until it closes standard input or `stop` is cancelled.
pub(crate) async fn serve(server: ToolServer, stop: CancellationToken) -> Result<()> {
    let handshake = server.serve_stream(stdin(), stdout(), MESSAGE_BYTES_MAX, stop);
    let service = match handshake.await {
        Ok(service) => service,
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            return Ok(());
        }
        Err(error) => {
            let message = "the client does not follow the MCP handshake";
            return Err(Error::new(ErrorKind::Usage, message)
                .with_source(error)
                .with_hint("start this from an agent that speaks MCP: see `massgen mcp --help`"));
        }
    };
    let result = service.waiting().await;
    result.map_err(|error| Error::bug(format!("the server failed: {error}")))?;
    Ok(())
}
