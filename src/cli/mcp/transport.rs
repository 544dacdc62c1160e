//! Transports of an MCP server: the two standard streams, or HTTP. Standard output must carry only
//! the protocol; the server's address goes to standard error.

use rmcp::service::ServerInitializeError;
use tokio::io::{stdin, stdout};
use tokio_util::sync::CancellationToken;

use crate::cli::args::mcp::TransportArguments;
use crate::cli::http::listener::ListenAddress;
use crate::cli::http::token::BearerToken;
use crate::cli::mcp::http;
use crate::cli::output::CliOutput;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::world::mcp::tool_server::ToolServer;

/// Maximum size of a client's message, in bytes. Arguments that exceed their own limit but fit in
/// here get an error; a longer message is dropped.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Transport of a server.
#[derive(Debug)]
pub(crate) enum McpTransport {
    /// One client, on the two standard streams.
    Streams,
    /// All clients that have the token, over HTTP.
    Http {
        /// The address.
        address: ListenAddress,
        /// The required token.
        token: BearerToken,
        /// The text of a generated token, which must be shown to the user.
        new_token: Option<String>,
    },
}

impl McpTransport {
    /// Returns the transport that the user asked for.
    pub(crate) fn from_arguments(arguments: &TransportArguments, host: &Host) -> Result<Self> {
        let Some(socket_address) = arguments.http else {
            return Ok(McpTransport::Streams);
        };
        let address = ListenAddress::new(socket_address, arguments.allowed_host.clone())?;
        let Some(file) = &arguments.token_file else {
            let (token, text) = BearerToken::random();
            return Ok(McpTransport::Http {
                address,
                token,
                new_token: Some(text),
            });
        };
        Ok(McpTransport::Http {
            address,
            token: BearerToken::read_file(file, host)?,
            new_token: None,
        })
    }

    /// Serves clients with `server`, which offers `offer`, until the client or the user ends it.
    pub(crate) async fn serve(
        self,
        server: ToolServer,
        offer: &str,
        stop: &ShutdownSignal,
        output: &mut CliOutput<'_>,
    ) -> Result<()> {
        match self {
            McpTransport::Streams => {
                output.note(&format!("serving {offer} on standard input and output"));
                serve_streams(server, stop.graceful.clone()).await
            }
            McpTransport::Http {
                address,
                token,
                new_token,
            } => {
                let listener = address.listen().await?;
                let url = http::endpoint_url(listener.address());
                output.note(&format!("serving {offer} at {url}"));
                if let Some(token) = new_token {
                    output.note(&format!("token: {token}"));
                }
                let stop = &stop.graceful;
                let routes = http::routes(server, token, listener.names(), stop);
                listener.serve(routes, stop).await;
                Ok(())
            }
        }
    }
}

/// Serves one client until it closes standard input or `stop` is cancelled.
async fn serve_streams(server: ToolServer, stop: CancellationToken) -> Result<()> {
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
