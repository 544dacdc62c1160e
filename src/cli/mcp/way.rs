//! Owns the ways on which clients come to a server: the two standard streams, or HTTP. Standard output
//! carries the protocol alone; where the server is found goes to standard error.

use rmcp::ServerHandler;

use crate::cli::mcp::http::Place;
use crate::cli::mcp::stdio;
use crate::cli::mcp::token::{TOKEN_BYTES_MAX, Token};
use crate::cli::mcp_arguments::WayArguments;
use crate::cli::output::Output;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::orchestrator::conduct::Stop;
use crate::world::files::read_secret;

/// The longest message of a client, in bytes. Arguments that are too long but fit in here are told so;
/// a longer message is dropped.
pub(crate) const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How clients come to a server.
#[derive(Debug)]
pub(crate) enum Way {
    /// One client, on the two standard streams.
    Streams,
    /// Whoever has the token, on HTTP.
    Http {
        /// Where.
        place: Place,
        /// What is asked for.
        token: Token,
        /// The token, if the user does not know it yet.
        told: Option<String>,
    },
}

impl Way {
    /// What the user asked for.
    pub(crate) fn of(asked: &WayArguments, host: &Host) -> Result<Self> {
        let Some(address) = asked.http else {
            return Ok(Way::Streams);
        };
        let place = Place::new(address, asked.reached_as.clone())?;
        let Some(file) = &asked.token_file else {
            let (token, text) = Token::random();
            return Ok(Way::Http {
                place,
                token,
                told: Some(text),
            });
        };
        let bytes = read_secret(&host.cwd.join(file), TOKEN_BYTES_MAX)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                format!("there is no token file `{file}`"),
            )
            .hint("make one: `openssl rand -hex 32 > token; chmod 600 token`")
        })?;
        Ok(Way::Http {
            place,
            token: Token::read(&String::from_utf8_lossy(&bytes))?,
            told: None,
        })
    }

    /// Lets clients use `server`, which offers `what`, until the client or the user ends it.
    pub(crate) async fn serve<S>(
        self,
        (server, what): (&S, &str),
        stop: &Stop,
        output: &mut Output<'_>,
    ) -> Result<()>
    where
        S: ServerHandler + Clone,
    {
        match self {
            Way::Streams => {
                output.note(&format!("serving {what} on standard input and output"));
                stdio::serve(server.clone(), stop.soon.clone()).await
            }
            Way::Http { place, token, told } => {
                let listening = place.listen().await?;
                output.note(&format!("serving {what} at {}", listening.url()?));
                if let Some(token) = told {
                    output.note(&format!("token: {token}"));
                }
                listening.serve(server.clone(), token, &stop.soon).await;
                Ok(())
            }
        }
    }
}
