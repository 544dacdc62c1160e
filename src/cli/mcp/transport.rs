//! Owns the ways on which clients come to a server: the two standard streams, or HTTP. Standard output
//! carries the protocol alone; where the server is found goes to standard error.

use rmcp::ServerHandler;

use crate::cli::mcp::http::ListenAddress;
use crate::cli::mcp::stdio;
use crate::cli::mcp::token::{BearerToken, TOKEN_BYTES_MAX};
use crate::cli::mcp_arguments::TransportArguments;
use crate::cli::output::CliOutput;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::orchestrator::execution::ShutdownSignal;
use crate::world::io::files::read_secret;

/// The longest message of a client, in bytes. Arguments that are too long but fit in here are told so;
/// a longer message is dropped.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How clients come to a server.
#[derive(Debug)]
pub(crate) enum McpTransport {
    /// One client, on the two standard streams.
    Streams,
    /// Whoever has the token, on HTTP.
    Http {
        /// Where.
        address: ListenAddress,
        /// What is asked for.
        token: BearerToken,
        /// The token, if the user does not know it yet.
        new_token: Option<String>,
    },
}

impl McpTransport {
    /// What the user asked for.
    pub(crate) fn from_arguments(asked: &TransportArguments, host: &Host) -> Result<Self> {
        let Some(address) = asked.http else {
            return Ok(McpTransport::Streams);
        };
        let place = ListenAddress::new(address, asked.reached_as.clone())?;
        let Some(file) = &asked.token_file else {
            let (token, text) = BearerToken::random();
            return Ok(McpTransport::Http {
                address: place,
                token,
                new_token: Some(text),
            });
        };
        let bytes = read_secret(&host.cwd.join(file), TOKEN_BYTES_MAX)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                format!("there is no token file `{file}`"),
            )
            .with_hint("make one: `openssl rand -hex 32 > token; chmod 600 token`")
        })?;
        Ok(McpTransport::Http {
            address: place,
            token: BearerToken::parse(&String::from_utf8_lossy(&bytes))?,
            new_token: None,
        })
    }

    /// Lets clients use `server`, which offers `what`, until the client or the user ends it.
    pub(crate) async fn serve<S>(
        self,
        (server, what): (&S, &str),
        stop: &ShutdownSignal,
        output: &mut CliOutput<'_>,
    ) -> Result<()>
    where
        S: ServerHandler + Clone,
    {
        match self {
            McpTransport::Streams => {
                output.note(&format!("serving {what} on standard input and output"));
                stdio::serve(server.clone(), stop.graceful.clone()).await
            }
            McpTransport::Http {
                address: place,
                token,
                new_token: told,
            } => {
                let listening = place.listen().await?;
                output.note(&format!("serving {what} at {}", listening.url()?));
                if let Some(token) = told {
                    output.note(&format!("token: {token}"));
                }
                listening.serve(server.clone(), token, &stop.graceful).await;
                Ok(())
            }
        }
    }
}
