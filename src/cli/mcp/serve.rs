//! Owns `massgen mcp serve`: the tools of one gate, offered until the client or the user ends it.
//! Whatever is told to the user goes to standard error.

use crate::cli::args::ServeArguments;
use crate::cli::interrupts::listen;
use crate::cli::mcp::guarded::Guarded;
use crate::cli::mcp::http::Place;
use crate::cli::mcp::stdio;
use crate::cli::mcp::token::{TOKEN_BYTES_MAX, Token};
use crate::cli::output::Output;
use crate::cli::run::{CALLS_END_MAX, runtime};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::orchestrator::conduct::Stop;
use crate::tools::spec::ToolOffer;
use crate::wording::counted;
use crate::world::files::read_capped;
use crate::world::gate::Gate;

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
    pub(crate) fn of(asked: &ServeArguments, host: &Host) -> Result<Self> {
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
        let bytes = read_capped(&host.cwd.join(file), TOKEN_BYTES_MAX)?.ok_or_else(|| {
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
}

/// Serves the tools in `offers`, whose calls `gate` decides about.
pub(crate) fn serve(
    way: Way,
    (gate, offers): (Gate, Vec<ToolOffer>),
    host: &Host,
    output: &mut Output<'_>,
) -> Result<ExitStatus> {
    let tools = Guarded::new(gate, &offers);
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let stop = listen(host.hangup)?;
        let served = until_the_end(way, &tools, &stop, output).await;
        stop.soon.cancel();
        end(&tools, &stop, output).await;
        served
    });
    runtime.shutdown_timeout(CALLS_END_MAX);
    served.map(|()| ExitStatus::Delivered)
}

async fn until_the_end(
    way: Way,
    tools: &Guarded,
    stop: &Stop,
    output: &mut Output<'_>,
) -> Result<()> {
    let count = counted(tools.count(), "tool");
    match way {
        Way::Streams => {
            output.note(&format!("serving {count} on standard input and output"));
            stdio::serve(tools.clone(), stop.soon.clone()).await
        }
        Way::Http { place, token, told } => {
            let listening = place.listen().await?;
            output.note(&format!("serving {count} at {}", listening.url()?));
            if let Some(token) = told {
                output.note(&format!("token: {token}"));
            }
            listening.serve(tools.clone(), token, &stop.soon).await;
            Ok(())
        }
    }
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
