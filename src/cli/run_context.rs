//! What a run begins with: a checked task and team, the connected models, and the secrets that its
//! records must not contain.

use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};

use crate::backend::connect::{ConnectContext, connect, require_scripts};
use crate::backend::rate_limit::RateLimiter;
use crate::cli::args::RunArguments;
use crate::cli::continued_session::ContinuedSession;
use crate::cli::model_prices::require_prices;
use crate::cli::team_file::TeamFile;
use crate::config::Config;
use crate::config::secrets::is_secret;
use crate::config::vendors::{is_key_variable, key_variables};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::layout::RunLayout;
use crate::mentions::ParsedPrompt;
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::ModelsByAgent;
use crate::orchestrator::approvals::{ApprovalConfig, SessionApprovals};
use crate::orchestrator::execution::{RunContext, RunRequest, new_run_name};
use crate::orchestrator::process_specs::HostEnvironment;
use crate::orchestrator::record_context::RunInvocation;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::spending::models::ModelList;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::io::files::read_regular_file;
use crate::world::io::http::HttpClient;
use crate::world::sandbox::docker::credentials::{self, HostUser};
use crate::world::store::diagnostic_log::LogDetail;
use crate::world::store::redact::Redactor;
use crate::world::store::sandboxes::SessionSandboxes;
use crate::world::store::sessions::session::Session;

/// Maximum size of a script of replies, in bytes.
const SCRIPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A team at work, and what its runs have in common.
#[derive(Debug)]
pub(crate) struct RunTeam {
    /// The process, and the variables of `.env` files.
    pub host: Host,
    /// The team, with the changes that flags make.
    pub config: Config,
    /// Its config file, if there is one.
    pub file: Option<TeamFile>,
    /// The configs of other teams that the same process starts.
    pub other_files: Vec<AbsPath>,
    /// The known models, with their prices.
    pub models: ModelList,
    /// The settings of the telemetry export, if it is enabled.
    pub telemetry: Option<TelemetrySettings>,
}

/// Everything that a run needs, already checked.
#[derive(Debug)]
pub(crate) struct PreparedRun {
    /// Who works on the task.
    pub team: RunTeam,
    /// The task, with the paths that it mentions.
    pub prompt: ParsedPrompt,
    /// The paths that the prompts of the session open, including those of this one.
    pub opened_paths: Vec<OpenedPath>,
    /// The session that the run continues, if any.
    pub continued_session: Option<ContinuedSession>,
    /// The approvals that the user gave for the session.
    pub approvals: SessionApprovals,
    /// The directories of the last turn, in an interactive session.
    pub session_sandboxes: Option<SessionSandboxes>,
}

/// Builds the request of a prepared run.
pub(crate) fn run_request(prepared: PreparedRun, arguments: &RunArguments) -> Result<RunRequest> {
    let (team, prompt) = (prepared.team, prepared.prompt);
    let mut context = run_context(&team, prepared.opened_paths, arguments)?;
    context.host.session_sandboxes = prepared.session_sandboxes;
    context.approvals.session = prepared.approvals;
    let session = prepared
        .continued_session
        .map(|continued| Session::open(continued.session_dir, context.redactor.clone()))
        .transpose()?;
    let layout = RunLayout::plan(&team.config, &team.host.state_parent, new_run_name());
    let question = Arc::from(prompt.cleaned_prompt);
    Ok(RunRequest {
        session,
        ..RunRequest::new(
            context,
            team.config,
            layout,
            prompt.original_prompt,
            question,
        )
    })
}

/// Connects the models of `team`, and returns what its runs have in common, with the paths that
/// prompts opened.
pub(crate) fn run_context(
    team: &RunTeam,
    opened: Vec<OpenedPath>,
    arguments: &RunArguments,
) -> Result<RunContext> {
    let (host, file) = (&team.host, team.file.as_ref());
    let inbox = arguments.inbox_dir.as_ref();
    Ok(RunContext {
        base: host.cwd.clone(),
        opened,
        models: connect_all(&team.config, &team.models, host)?,
        redactor: Redactor::new(secret_values(&team.config, host)),
        telemetry: team.telemetry.clone(),
        invocation: RunInvocation {
            config_path: file.and_then(TeamFile::path).cloned(),
            own_files: own_files(file, &team.other_files),
            config_text: file.map(TeamFile::text),
            arguments: host.arguments.clone(),
            detail: if arguments.debug {
                LogDetail::Debug
            } else {
                LogDetail::Plain
            },
        },
        host: host_environment(host),
        approvals: ApprovalConfig::default(),
        inbox: inbox.map(|dir| host.cwd.join(dir)),
    })
}

/// Returns the files that a run with the config `file` obeys: that one and `other_files`.
pub(crate) fn own_files(file: Option<&TeamFile>, other_files: &[AbsPath]) -> Vec<AbsPath> {
    let config_path = file.and_then(TeamFile::path);
    config_path
        .into_iter()
        .chain(other_files)
        .cloned()
        .collect()
}

/// Returns what commands need to know about the process.
pub(crate) fn host_environment(host: &Host) -> HostEnvironment {
    HostEnvironment {
        executable: host.executable.clone(),
        cwd: host.cwd.clone(),
        env: host.env.clone(),
        variables: host.config_variables(),
        home: host.home.clone(),
        policy: host.policy.clone(),
        session_sandboxes: None,
    }
}

/// Connects the models of all agents; no request is sent yet.
pub(crate) fn connect_all(
    config: &Config,
    models: &ModelList,
    host: &Host,
) -> Result<ModelsByAgent> {
    let (models_by_agent, failures) = connect_agents(config, models, host)?;
    match connection_error(failures) {
        None => Ok(models_by_agent),
        Some(error) => Err(error),
    }
}

/// Connects the models of all agents, and returns why those of some agents cannot be asked.
pub(crate) fn connect_agents(
    config: &Config,
    models: &ModelList,
    host: &Host,
) -> Result<(ModelsByAgent, Vec<(AgentId, Error)>)> {
    require_prices(config, models)?;
    require_agent_scripts(config, &host.cwd)?;
    let http = HttpClient::new();
    let variables = host.config_variables();
    let env = |name: &str| variables.get_non_empty(name).map(str::to_owned);
    let context = ConnectContext {
        env: &env,
        http: &http,
        cwd: &host.cwd,
        rate_limiter: &RateLimiter::new(&config.rate_limits),
        models,
        read: &read_script,
        policy: &host.policy,
    };
    let (mut models_by_agent, mut failures) = (ModelsByAgent::new(), Vec::new());
    for agent in &config.agents {
        match connect(&agent.backend, context) {
            Ok(models) => {
                models_by_agent.insert(agent.id.clone(), models);
            }
            Err(error) => failures.push((agent.id.clone(), error)),
        }
    }
    Ok((models_by_agent, failures))
}

/// Returns one error for all agents whose models cannot be asked: with every key that would help.
pub(crate) fn connection_error(failures: Vec<(AgentId, Error)>) -> Option<Error> {
    let mut failures = failures.into_iter();
    let (_, first_error) = failures.next()?;
    let mut other_errors: Vec<(AgentId, Error)> = failures.collect();
    other_errors.retain(|(_, error)| error.to_string() != first_error.to_string());
    Some(
        other_errors
            .into_iter()
            .fold(first_error, |all, (agent, error)| {
                let hint = error.hints().first().map_or("", String::as_str);
                all.with_hint(format!("{agent}: {error}; {hint}"))
            }),
    )
}

/// Checks the scripts of all agents. The error names the agent.
pub(crate) fn require_agent_scripts(config: &Config, cwd: &AbsPath) -> Result<()> {
    for agent in &config.agents {
        require_scripts(&agent.backend, cwd, &read_script).map_err(|error| {
            let message = format!("agent `{}`: {error}", agent.id);
            let hints = error.hints().iter();
            hints.fold(Error::new(error.kind(), message), |named, hint| {
                named.with_hint(hint.as_str())
            })
        })?;
    }
    Ok(())
}

/// Reads a script of replies.
pub(crate) fn read_script(path: &AbsPath) -> Result<String> {
    let missing_error = || {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` does not exist"),
        )
        .with_hint("`script` is relative to the directory of the config file")
    };
    let bytes = read_regular_file(path, SCRIPT_BYTES_MAX)?.ok_or_else(missing_error)?;
    String::from_utf8(bytes).map_err(|error| {
        Error::new(
            ErrorKind::Config,
            format!("the script `{path}` is not UTF-8"),
        )
        .with_source(error)
    })
}

/// Returns the secrets of the environment that can be recognized by name: no others are known
/// before a config is read.
pub(crate) fn environment_secrets(host: &Host) -> Vec<SecretString> {
    let variables = host.config_variables();
    let secrets = variables.retain_named(|name| is_key_variable(name) || is_secret(name));
    secrets.values().map(SecretString::from).collect()
}

/// Returns every secret that this run could send: the keys in the config and the environment, and
/// what the config passes to servers, agent programs and commands.
pub(crate) fn secret_values(config: &Config, host: &Host) -> Vec<SecretString> {
    let api_keys = config
        .agents
        .iter()
        .flat_map(|agent| agent.backend.with_subagent_models())
        .filter_map(|model| model.api_key.as_ref());
    let written_secrets = api_keys.map(|key| SecretString::from(key.expose_secret()));
    let variables = host.config_variables();
    let variable_secrets = key_variables()
        .filter_map(|name| variables.get_non_empty(name))
        .map(SecretString::from);
    let external = config
        .agents
        .iter()
        .flat_map(|agent| agent.backend.with_subagent_models())
        .filter_map(|model| model.external_agent.as_ref());
    let agent_secrets = external.flat_map(|agent| agent.secrets(&variables));
    let servers = config.agents.iter().flat_map(|agent| &agent.servers);
    let server_secrets = servers.flat_map(|server| server.secrets(&variables));
    let commands = config.commands();
    let user = HostUser {
        home: host.home.as_ref(),
        env: &host.env,
        variables: &variables,
    };
    let container_secrets = commands.clone().filter_map(|commands| {
        let docker = commands.mode.container()?;
        Some(credentials::secrets(&docker.credentials, user))
    });
    let command_secrets = commands.flat_map(|commands| commands.secrets(&variables));
    written_secrets
        .chain(variable_secrets)
        .chain(server_secrets)
        .chain(agent_secrets)
        .chain(command_secrets)
        .chain(container_secrets.flatten())
        .collect()
}

/// Returns the user's paths that agents of `request` may write to.
pub(crate) fn write_paths(request: &RunRequest) -> impl Iterator<Item = &AbsPath> {
    let opened = request.context.opened.iter();
    let opened = opened.filter(|opened| opened.permission == Permission::Write);
    let config_paths = request.config.write_paths();
    config_paths.chain(opened.map(|opened| &opened.path))
}
