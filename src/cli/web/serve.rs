//! Runs the server of `massgen web` until the user ends it, and prints the links to it.

use std::io::BufRead;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;

use tokio::sync::mpsc;
use url::Url;

use crate::cli::args::RunArguments;
use crate::cli::args::web::WebArguments;
use crate::cli::command_line::usage_error;
use crate::cli::environment;
use crate::cli::http::listener::{HttpListener, ListenAddress};
use crate::cli::http::origin_guard::{LoopbackPort, OriginGuard};
use crate::cli::http::token::{BearerToken, BearerTokens};
use crate::cli::interrupts::{SHUTDOWN_TIMEOUT, listen, runtime};
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::run_context::secret_values;
use crate::cli::run_flags::telemetry_settings;
use crate::cli::team::{ChosenTeam, configured_team, detect_team, find_named_config, load_config};
use crate::cli::team_file::TeamFile;
use crate::cli::web::browse::FileLookups;
use crate::cli::web::link_codes::{CODE_TIME_MAX, LinkCodes};
use crate::cli::web::router;
use crate::cli::web::server_state::{NamedTeam, WebServer};
use crate::cli::web::web_run_registry::WebRunRegistry;
use crate::config::team::{DEMO_HINT, WorkspaceMode};
use crate::error::{Error, ErrorKind, ExitStatus, Result};
use crate::host::{Host, StreamTarget};
use crate::spending::models::ModelList;
use crate::world::io::user_programs::WebBrowser;
use crate::world::store::redact::Redactor;

/// Name of a team without a config.
const UNNAMED_TEAM: &str = "default";

/// What to do without a model or a key: try the demo at the page.
const PAGE_DEMO_HINT: &str =
    "without an API key: massgen web --config @examples/basic/offline_demo";

/// Serves the page until the user ends it.
pub(crate) fn serve_page(
    host: &Host,
    arguments: &WebArguments,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let address = ListenAddress::new(arguments.address(), arguments.allowed_host.clone())?;
    let tokens = accepted_tokens(arguments, &address, host)?;
    if !address.is_loopback() {
        output
            .warning("other machines can reach the page: use it only in a network that you trust");
    }
    let runtime = runtime()?;
    let result = runtime.block_on(serve(host, arguments, address, tokens, output));
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    result.map(|()| ExitStatus::Success)
}

/// Returns the tokens that are accepted from the start.
fn accepted_tokens(
    arguments: &WebArguments,
    address: &ListenAddress,
    host: &Host,
) -> Result<BearerTokens> {
    match &arguments.token_file {
        Some(file) => BearerToken::read_file(file, host).map(BearerTokens::from),
        None if address.is_loopback() => Ok(BearerTokens::default()),
        None => Err(
            usage_error("a page that other machines reach needs `--token-file`")
                .with_hint("create one: `openssl rand -hex 32 > token; chmod 600 token`")
                .with_hint("or reach this machine's loopback: `ssh -L PORT:127.0.0.1:PORT HOST`"),
        ),
    }
}

async fn serve(
    host: &Host,
    arguments: &WebArguments,
    address: ListenAddress,
    tokens: BearerTokens,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let stop = listen(host.hangup)?;
    output.set_stop(&stop);
    let telemetry = telemetry_settings(host, output);
    let loaded_environment = environment::load(host);
    for warning in &loaded_environment.warnings {
        output.warning(warning);
    }
    let host = loaded_environment.host;
    let models = model_list(&host, arguments.models.as_deref(), output)?;
    let teams = load_teams(arguments, &host, &models, output).await?;
    let secrets = teams
        .iter()
        .flat_map(|named| secret_values(&named.team.config, &host));
    let redactor = Redactor::new(secrets.collect());
    let listener = address.listen().await?;
    let own_port = LoopbackPort::Own(listener.address().port());
    let server = Arc::new(WebServer {
        teams,
        models,
        telemetry,
        redactor,
        is_read_only: arguments.read_only,
        guard: OriginGuard::new(own_port, listener.names()),
        tokens,
        codes: LinkCodes::default(),
        lookups: FileLookups::new(&host.cwd, host.home.as_ref()),
        runs: WebRunRegistry::new(arguments.parallel, stop.clone()),
        newest_session: Mutex::default(),
        batch_lock: tokio::sync::Mutex::default(),
        host: host.clone(),
    });
    let start = start_address(&listener);
    let link = print_link(&server, &start, output)?;
    if host.stdin == StreamTarget::Terminal {
        output.note("press Enter for another link, Ctrl-C to stop the server");
    }
    let mut browser = if arguments.no_browser {
        None
    } else {
        WebBrowser::open_page(&link, &host.env)
    };
    let mut link_requests = link_requests(&host);
    let service = listener.serve(router::routes(&server), &stop.graceful);
    let mut service = std::pin::pin!(service);
    let mut link_expiry = std::pin::pin!(tokio::time::sleep(CODE_TIME_MAX));
    loop {
        tokio::select! {
            () = service.as_mut() => break,
            // Only the first link is opened in a browser; the user opens this one.
            () = &mut link_expiry, if browser.is_some() => browser = None,
            Some(()) = link_requests.recv() => drop(print_link(&server, &start, output)?),
        }
    }
    // Runs that are stopping keep their results, unless the user stops them immediately.
    tokio::select! {
        () = server.runs.end() => {}
        () = stop.immediate.cancelled() => {}
    }
    Ok(())
}

/// Returns the teams that the command line names, or the one that a run would use, if there is one.
async fn load_teams(
    arguments: &WebArguments,
    host: &Host,
    models: &ModelList,
    output: &mut CliOutput<'_>,
) -> Result<Vec<NamedTeam>> {
    let mut teams: Vec<NamedTeam> = Vec::new();
    for argument in &arguments.config {
        let file = find_named_config(argument, host, output)?;
        if teams.iter().any(|known| known.name == file.name()) {
            return Err(usage_error(format!("`{argument}` is named twice")));
        }
        let config = load_config(&file, host, output)?;
        teams.push(NamedTeam {
            name: file.name().to_owned(),
            team: ChosenTeam {
                config,
                file: Some(file),
            },
        });
    }
    if teams.is_empty() && !arguments.read_only {
        let team = default_team(host, models, output).await?;
        teams.extend(team.map(|team| {
            let name = team.file.as_ref().map_or(UNNAMED_TEAM, TeamFile::name);
            NamedTeam {
                name: name.to_owned(),
                team,
            }
        }));
    }
    Ok(teams)
}

/// Returns the team that a run would use. If no model is available, it warns and returns `None`:
/// the page can still show runs and write configs.
async fn default_team(
    host: &Host,
    models: &ModelList,
    output: &mut CliOutput<'_>,
) -> Result<Option<ChosenTeam>> {
    let (flags, workspaces) = (RunArguments::default(), WorkspaceMode::PerAgent);
    let team = configured_team(host, &flags, None, workspaces, models, output).await?;
    if team.is_some() {
        return Ok(team);
    }
    match detect_team(host, workspaces, output).await {
        Ok(team) => Ok(Some(team)),
        Err(error) if error.kind() == ErrorKind::Environment => {
            output.warning(&format!("the page starts no runs: {error}"));
            for hint in error.hints() {
                let hint = match hint.as_str() {
                    DEMO_HINT => PAGE_DEMO_HINT,
                    hint => hint,
                };
                output.note(&format!("hint: {hint}"));
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the address of the page. Other machines reach it by the first name that was given.
fn start_address(listener: &HttpListener) -> String {
    let address: SocketAddr = listener.address();
    match listener.names().first() {
        Some(name) if !address.ip().is_loopback() => format!("http://{name}:{}/", address.port()),
        Some(_) | None => format!("http://{address}/"),
    }
}

/// Prints a link with a new code, and returns it.
fn print_link(server: &WebServer, start: &str, output: &mut CliOutput<'_>) -> Result<Url> {
    let link = format!("{start}#k={}", server.codes.create());
    let seconds = CODE_TIME_MAX.as_secs();
    output.note(&format!(
        "serving the page at {start}; this link works once, for {seconds} s:"
    ));
    output.note(&link);
    Url::parse(&link).map_err(|error| Error::bug("the page has no address").with_source(error))
}

/// Returns a receiver of every Enter in the terminal; of none if standard input is not a terminal.
fn link_requests(host: &Host) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel(1);
    if host.stdin == StreamTarget::Terminal {
        // Reading blocks until the process exits.
        thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                if line.is_err() || sender.blocking_send(()).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
