//! Chooses the team of a run: the one that the command line names or describes, the one whose
//! config is found, or one that is built from the keys and local servers that are available.

use futures_util::future::join_all;
use reqwest::header::HeaderMap;
use url::Url;

use crate::backend::connect::ConnectContext;
use crate::backend::rate_limit::RateLimiter;
use crate::backend::remote::model_list::model_list_request;
use crate::cli::args::RunArguments;
use crate::cli::command_line::usage_error;
use crate::cli::output::CliOutput;
use crate::cli::run_context::read_script;
use crate::cli::team_file::TeamFile;
use crate::config::diagnostic::Severity;
use crate::config::draft::first_team::{FirstTeam, TeamCandidate};
use crate::config::machine_policy::MachinePolicy;
use crate::config::model_family::{contradicting_backend_warning, misspelling_warning};
use crate::config::settings::ConfigSetting;
use crate::config::team::{
    LocalServer, TeamOptions, WorkspaceMode, backend_without_model, detected_backends,
    team_from_environment, team_from_options,
};
use crate::config::vendors::{VENDORS, Vendor, VendorConnection};
use crate::config::{BackendConfig, Config, LoadedConfig};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::spending::models::ModelList;
use crate::text::{count_noun, escape_name, list_first};
use crate::world::diagnostics::probe::endpoint::probe_endpoint;
use crate::world::io::http::{HttpClient, display_url};

/// The name of a team without a config file, in findings.
const TEAM_WITHOUT_FILE: &str = "team of the command line";
/// Maximum number of models that the error about several of them lists.
const LISTED_MODELS_MAX: usize = 20;

/// Chooses the team of a run. The command line takes precedence over the config of an earlier turn.
/// `workspaces` controls what agents get if no config describes it, and `models` are the known
/// models.
pub(crate) async fn choose_team(
    host: &Host,
    arguments: &RunArguments,
    remembered_file: Option<TeamFile>,
    workspaces: WorkspaceMode,
    models: &ModelList,
    output: &mut CliOutput<'_>,
) -> Result<ChosenTeam> {
    let team = configured_team(host, arguments, remembered_file, workspaces, models, output);
    if let Some(team) = team.await? {
        return Ok(team);
    }
    let team = detect_team(host, workspaces, output).await?;
    let config = set_in_team(team.config, &arguments.set, workspaces, host, output)?;
    Ok(ChosenTeam { config, file: None })
}

/// Returns a team without a config file in which `settings` are set: by way of the config that
/// describes it.
fn set_in_team(
    team: Config,
    settings: &[ConfigSetting],
    workspaces: WorkspaceMode,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<Config> {
    if settings.is_empty() {
        return Ok(team);
    }
    let env = host.config_variables();
    let agents = team.agents.iter();
    let first_team = FirstTeam {
        agents: agents
            .map(|agent| TeamCandidate::from_agent(agent, &env))
            .collect(),
        directory: None,
        runs_commands: true,
    };
    let yaml = first_team.to_draft().to_yaml();
    let file = TeamFile::from_text(TEAM_WITHOUT_FILE.to_owned(), None, yaml.into_bytes());
    let mut config = load_config(&file.with_settings(settings), host, output)?;
    for (agent, described_agent) in config.agents.iter_mut().zip(team.agents) {
        agent.system_message = agent
            .system_message
            .take()
            .or(described_agent.system_message);
        if workspaces == WorkspaceMode::None {
            (agent.cwd, agent.commands) = (None, None);
        }
    }
    Ok(config)
}

/// Builds a team from the keys and local servers that are available. Without any, it is an error of
/// the environment.
pub(crate) async fn detect_team(
    host: &Host,
    workspaces: WorkspaceMode,
    output: &mut CliOutput<'_>,
) -> Result<ChosenTeam> {
    let variables = host.config_variables();
    let servers = probe_local_servers(&variables, &host.policy).await;
    let team = team_from_environment(&variables, &servers, workspaces, &host.policy)?;
    output.note(&team.summary);
    if let [_] = team.config.agents.as_slice() {
        output.note("a second API key, or `-m MODEL -m MODEL`, makes a team that votes");
    }
    Ok(ChosenTeam {
        config: team.config,
        file: None,
    })
}

/// Like [`choose_team`], but returns `None` instead of building a team from keys and local servers.
pub(crate) async fn configured_team(
    host: &Host,
    arguments: &RunArguments,
    remembered_file: Option<TeamFile>,
    workspaces: WorkspaceMode,
    models: &ModelList,
    output: &mut CliOutput<'_>,
) -> Result<Option<ChosenTeam>> {
    // Clap makes these flags and `--config` conflict, so none is ignored here.
    if let Some(options) = team_options(arguments) {
        let variables = host.config_variables();
        let listed_model = listed_model(&options, host).await?;
        let options = match &listed_model {
            Some(model) => {
                output.note(&format!(
                    "model: {}, the only one of the endpoint",
                    escape_name(model)
                ));
                options.with_model(model)
            }
            None => options,
        };
        let config = team_from_options(&options, &variables, models, workspaces, &host.policy)?;
        for agent in &config.agents {
            let warning = contradicting_backend_warning(&agent.backend, &variables)
                .or_else(|| misspelling_warning(&agent.backend, &variables, models));
            if let Some(warning) = warning {
                output.warning(&warning);
            }
        }
        let config = set_in_team(config, &arguments.set, workspaces, host, output)?;
        return Ok(Some(ChosenTeam { config, file: None }));
    }
    let file = match &arguments.config {
        Some(argument) => Some(find_named_config(argument, host, output)?),
        None if remembered_file.is_some() => remembered_file,
        None => TeamFile::find_default(host, output)?,
    };
    let Some(file) = file else {
        return Ok(None);
    };
    if arguments.config.is_none() {
        output.note(&format!("config: {}", file.name()));
    }
    let file = file.with_settings(&arguments.set);
    let config = load_config(&file, host, output)?;
    Ok(Some(ChosenTeam {
        config,
        file: Some(file),
    }))
}

/// The team of a run, with its config file, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct ChosenTeam {
    /// The team.
    pub config: Config,
    /// The file that describes it.
    pub file: Option<TeamFile>,
}

/// Returns whether flags describe the team.
pub(crate) fn is_team_from_flags(arguments: &RunArguments) -> bool {
    team_options(arguments).is_some()
}

/// Returns what the flags say about a team, if there are any such flags.
fn team_options(arguments: &RunArguments) -> Option<TeamOptions<'_>> {
    let options = TeamOptions {
        models: &arguments.model,
        backend: arguments.backend.as_deref(),
        base_url: arguments.base_url.as_deref(),
        system_message: arguments.system_message.as_deref(),
    };
    let flags = [
        options.models.first().map(String::as_str),
        options.backend,
        options.base_url,
        options.system_message,
    ];
    flags.iter().any(Option::is_some).then_some(options)
}

/// Finds the config that `argument` names, and prints which file that is if it is another path than
/// the argument.
pub(crate) fn find_named_config(
    argument: &str,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<TeamFile> {
    let file = TeamFile::find(argument, host)?;
    if file.path().is_some() && file.name() != argument {
        output.note(&format!("config: {}", file.name()));
    }
    Ok(file)
}

/// Loads the team of a config. Findings are shown, and errors fail the run.
pub(crate) fn load_config(
    file: &TeamFile,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<Config> {
    let loaded_config = load_and_report(file, host, output)?;
    for warning in loaded_config.warning_lines() {
        output.warning(&warning);
    }
    Ok(loaded_config.config)
}

/// Like [`load_config`], for commands about single calls, which run again and again: it
/// leaves warnings to runs and to `massgen config check`.
pub(crate) fn load_config_without_warnings(
    file: &TeamFile,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<Config> {
    load_and_report(file, host, output).map(|loaded| loaded.config)
}

/// Loads a config, prints its errors, and refuses one that asks for more than a config found in the
/// project may.
fn load_and_report(
    file: &TeamFile,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<LoadedConfig> {
    match file.load(host) {
        Ok(loaded_config) => {
            file.require_trusted(&loaded_config, host)?;
            Ok(loaded_config)
        }
        Err(invalid) => {
            output.note(&invalid.render());
            let diagnostics = invalid.diagnostics.iter();
            let errors = diagnostics
                .filter(|diagnostic| diagnostic.severity == Severity::Error)
                .count();
            let error_count = count_noun(errors, "error");
            let message = format!("`{}` cannot be run: {error_count}", file.name());
            Err(Error::new(ErrorKind::Config, message)
                .with_hint("fix the errors above; nothing was started"))
        }
    }
}

/// Checks that a team can be built from keys and local servers.
pub(crate) async fn require_detectable_team(host: &Host) -> Result<()> {
    let variables = &host.config_variables();
    // Keys alone are enough: it asks no server.
    if !detected_backends(variables, &[], &host.policy).is_empty() {
        return Ok(());
    }
    let servers = probe_local_servers(variables, &host.policy).await;
    team_from_environment(variables, &servers, WorkspaceMode::None, &host.policy).map(drop)
}

/// Returns the local servers that answer and that `policy` allows, in the order of the vendor table.
pub(crate) async fn probe_local_servers(
    variables: &ConfigVariables,
    policy: &MachinePolicy,
) -> Vec<LocalServer> {
    let http = HttpClient::new();
    let queries = VENDORS
        .iter()
        .filter(|vendor| vendor.is_local_server)
        .map(|vendor| {
            probe_server(
                (&http, policy),
                vendor,
                vendor.endpoint(None, |name| {
                    variables.get_non_empty(name).map(str::to_owned)
                }),
            )
        });
    join_all(queries).await.into_iter().flatten().collect()
}

async fn probe_server(
    (http, policy): (&HttpClient, &MachinePolicy),
    vendor: &'static Vendor,
    endpoint: Option<String>,
) -> Option<LocalServer> {
    let base_url = endpoint?;
    let url = Url::parse(&format!("{}/models", base_url.trim_end_matches('/'))).ok()?;
    if policy.refuse_model(vendor, Some(&url)).is_some() {
        return None;
    }
    let reply = probe_endpoint(http, &url, HeaderMap::new()).await;
    Some(LocalServer {
        vendor,
        base_url,
        models: reply.into_models().ok()?,
    })
}

/// Returns the model of a team whose endpoint has to be asked for it: the only one that is listed.
///
/// # Errors
/// The list cannot be read, or it has another number of models.
pub(crate) async fn listed_model(options: &TeamOptions<'_>, host: &Host) -> Result<Option<String>> {
    let Some(backend) = backend_without_model(options)? else {
        return Ok(None);
    };
    let models = list_models(&backend, host).await?;
    if let [model] = models.as_slice() {
        return Ok(Some(model.clone()));
    }
    let names = match models.as_slice() {
        [] => "no models".to_owned(),
        models => {
            let names: Vec<String> = models.iter().map(|name| escape_name(name)).collect();
            format!("several models: {}", list_first(&names, LISTED_MODELS_MAX))
        }
    };
    Err(usage_error(format!("the endpoint has {names}")).with_hint("add `--model NAME`"))
}

/// Asks the endpoint of `backend` for its models.
pub(crate) async fn list_models(backend: &BackendConfig, host: &Host) -> Result<Vec<String>> {
    let VendorConnection::Http(format) = backend.vendor.connection else {
        return Ok(Vec::new());
    };
    let request =
        with_connect_context(host, |context| model_list_request(backend, format, context))?;
    let reply = probe_endpoint(&HttpClient::new(), &request.url, request.headers).await;
    reply.into_models().map_err(|reason| {
        let message = format!("`{}` {reason}", display_url(&request.url));
        Error::new(ErrorKind::Environment, message)
            .with_hint("start the server, or correct the URL: most end in `/v1`")
            .with_hint("or add `--model NAME`: an endpoint need not list its models")
    })
}

/// Calls `connect` with what connecting a backend needs.
pub(crate) fn with_connect_context<T>(
    host: &Host,
    connect: impl FnOnce(ConnectContext<'_>) -> T,
) -> T {
    let variables = host.config_variables();
    let env = |name: &str| variables.get_non_empty(name).map(str::to_owned);
    connect(ConnectContext {
        env: &env,
        http: &HttpClient::new(),
        cwd: &host.cwd,
        rate_limiter: &RateLimiter::default(),
        models: &ModelList::with_user_rows(Vec::new()),
        read: &read_script,
        policy: &host.policy,
    })
}
