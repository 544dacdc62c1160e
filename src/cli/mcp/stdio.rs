//! Stdio transport of an MCP server: standard output must carry only the protocol.

use rmcp::ServerHandler;
use rmcp::service::{ServerInitializeError, serve_server_with_ct};
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio_util::sync::CancellationToken;

use crate::cli::mcp::transport::MESSAGE_BYTES_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::world::mcp::message_size::BoundedLines;

/// Serves one client until it closes standard input or `stop` is cancelled.
pub(crate) async fn serve(tools: impl ServerHandler, stop: CancellationToken) -> Result<()> {
    let streams =
        AsyncRwTransport::new_server(BoundedLines::new(tokio::io::stdin()), tokio::io::stdout())
            .with_max_line_length(MESSAGE_BYTES_MAX);
    let serving = match serve_server_with_ct(tools, streams, stop).await {
        Ok(serving) => serving,
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
    let ended = serving.waiting().await;
    ended.map_err(|error| Error::bug(format!("the server failed: {error}")))?;
    Ok(())
}
