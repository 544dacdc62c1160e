//! Implements `massgen mcp login` and `massgen mcp logout`: finds the server in a config, and talks
//! to the user during sign-in. `world::mcp::tokens` stores the tokens; they must never be shown.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Stdin, stdin};
use tokio::time::timeout;
use url::Url;

use crate::cli::args::mcp::{LoginArguments, LogoutArguments, NamedServer};
use crate::cli::interrupts::{listen, runtime};
use crate::cli::mcp::oauth_callback::CallbackListener;
use crate::cli::output::CliOutput;
use crate::cli::team::load_config;
use crate::cli::team_file::TeamFile;
use crate::config::servers::{RemoteServer, ServerTransport};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::Host;
use crate::world::io::http::display_url;
use crate::world::io::user_programs::WebBrowser;
use crate::world::mcp::sign_in::PendingSignIn;
use crate::world::mcp::tokens::{TokenFile, TokenRemoval};

/// Timeout of a sign-in.
const LOGIN_TIME_MAX: Duration = Duration::from_mins(10);
/// Maximum length of a pasted line, in bytes; a longer one is not an address.
const PASTED_BYTES_MAX: usize = 16 * 1024;

/// Signs the user in.
pub(crate) fn login(
    host: &Host,
    arguments: &LoginArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let server = find_server(&arguments.server, host, output)?;
    let file = token_file(host)?;
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let stop = listen(host.hangup)?;
        let sign_in_with_timeout = timeout(
            LOGIN_TIME_MAX,
            sign_in(&server, &file, host, arguments, output),
        );
        tokio::select! {
            result = sign_in_with_timeout => result.unwrap_or_else(|_| Err(timeout_error())),
            () = stop.graceful.cancelled() => {
                Err(Error::new(ErrorKind::Interrupted, "you are not signed in"))
            }
        }
    });
    // A thread that blocks on reading standard input cannot be woken.
    runtime.shutdown_background();
    result?;
    let name = &arguments.server.name;
    output.note(&format!(
        "signed in at `{name}`; credentials are in `{}`",
        file.path()
    ));
    Ok(ExitStatus::Success)
}

/// Deletes the tokens of a server.
pub(crate) fn logout(
    host: &Host,
    arguments: &LogoutArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let server = find_server(&arguments.server, host, output)?;
    let name = &arguments.server.name;
    output.note(&match token_file(host)?.remove(&server.url)? {
        TokenRemoval::Something => format!("signed out of `{name}`"),
        TokenRemoval::Nothing => format!("not signed in at `{name}`"),
    });
    Ok(ExitStatus::Success)
}

/// Signs in at `server`, and stores its tokens in `file`.
async fn sign_in(
    server: &RemoteServer,
    file: &TokenFile,
    host: &Host,
    arguments: &LoginArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let callback = CallbackListener::listen(arguments.port).await?;
    let redirect = callback.url().clone();
    let begin = PendingSignIn::begin(server, file, redirect.as_str(), &arguments.scope);
    let pending_sign_in = Box::pin(begin).await?;
    let address = pending_sign_in.address();
    output.note(&format!("sign in at {}:\n{address}", display_url(address)));
    let browser = if arguments.no_browser {
        None
    } else {
        WebBrowser::open_page(address, &host.env)
    };
    if browser.is_none() {
        output.note("if the browser cannot reach this machine, paste the address that it ends at");
    }
    let is_answer = |url: &Url| pending_sign_in.is_answer(url);
    let redirect_url = tokio::select! {
        url = callback.wait_for_redirect(is_answer) => url,
        url = read_pasted_url(is_answer, output) => url,
    };
    pending_sign_in.finish(&redirect_url).await
}

/// Waits until the user pastes the address at which the browser ended; forever at the end of the
/// input.
async fn read_pasted_url(is_answer: impl Fn(&Url) -> bool, output: &mut CliOutput<'_>) -> Url {
    let mut lines = BufReader::new(stdin());
    while let Some(line) = read_line(&mut lines).await {
        let url = Url::parse(line.trim()).ok();
        match url.filter(&is_answer) {
            Some(url) => return url,
            None if line.trim().is_empty() => {}
            None => output.note("not the redirect address: paste the whole address of the browser"),
        }
    }
    std::future::pending().await
}

/// Reads the next line; `None` at the end of the input, or if the line is too long or not UTF-8.
async fn read_line(lines: &mut BufReader<Stdin>) -> Option<String> {
    let mut line = Vec::new();
    loop {
        let buffer = lines.fill_buf().await.ok()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let bytes = end.map_or(buffer.len(), |end| end.saturating_add(1));
        line.extend(buffer.iter().take(bytes));
        let is_over = buffer.is_empty() || line.len() > PASTED_BYTES_MAX;
        lines.consume(bytes);
        if end.is_some() {
            return String::from_utf8(line).ok();
        }
        if is_over {
            return None;
        }
    }
}

/// Finds the remote server that the user named.
fn find_server(
    server: &NamedServer,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<RemoteServer> {
    let file = match &server.config {
        Some(argument) => TeamFile::find(argument, host)?,
        None => TeamFile::find_default(host, output)?.ok_or_else(|| {
            let message = "no config found that names a server";
            Error::new(ErrorKind::Config, message).with_hint("name one with `--config`")
        })?,
    };
    let config = load_config(&file, host, output)?;
    let servers = config.agents.iter().flat_map(|agent| &agent.servers);
    let remote_servers = servers.filter_map(|server| match &server.transport {
        ServerTransport::Remote(remote) => Some((server.name().as_str(), remote)),
        ServerTransport::Program(_) => None,
    });
    let (named_servers, other_servers): (Vec<_>, Vec<_>) =
        remote_servers.partition(|(name, _)| *name == server.name);
    let Some((_, first_server)) = named_servers.first() else {
        let mut names: Vec<&str> = other_servers.into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        let message = format!("no remote server `{}`", server.name);
        let hint = match names.as_slice() {
            [] => "only remote servers need a sign-in".to_owned(),
            names => format!("`{}` names: {}", file.name(), names.join(", ")),
        };
        return Err(Error::new(ErrorKind::Config, message).with_hint(hint));
    };
    if named_servers
        .iter()
        .any(|(_, remote)| remote.url != first_server.url)
    {
        let message = format!(
            "agents use the name `{}` for different servers",
            server.name
        );
        return Err(Error::new(ErrorKind::Config, message).with_hint("give each a unique name"));
    }
    Ok((*first_server).clone())
}

fn token_file(host: &Host) -> Result<TokenFile> {
    host.home.as_ref().map(TokenFile::in_home).ok_or_else(|| {
        let message = "no home directory to store a token in";
        Error::new(ErrorKind::Environment, message).with_hint("set `HOME`")
    })
}

fn timeout_error() -> Error {
    let minutes = LOGIN_TIME_MAX.as_secs() / 60;
    let message = format!("not signed in: no redirect from the browser within {minutes} minutes");
    Error::new(ErrorKind::Environment, message).with_hint("try again, perhaps with `--no-browser`")
}
