//! Finds what can take part in a first team: models whose key is set, local servers that respond,
//! and installed agent programs.

use crate::cli::args::init::InitArguments;
use crate::cli::init::discovery::{FoundLogin, describe_program};
use crate::cli::interrupts::single_thread_runtime;
use crate::cli::model_prices::model_list;
use crate::cli::output::CliOutput;
use crate::cli::team::{list_models, listed_model, probe_local_servers};
use crate::config::BackendConfig;
use crate::config::draft::first_team::TeamCandidate;
use crate::config::external_agents::{ExternalAgentKind, KINDS, SIGN_IN_HINT, find_kind};
use crate::config::model_family::reject_model_lists;
use crate::config::team::{
    DEMO_HINT, TEAM_AGENTS_MAX, TeamOptions, WorkspaceMode, backend_without_model,
    detected_backends, hints_for_unused_keys, key_hint, team_from_options,
};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::spending::models::ModelList;
use crate::text::quote_word;
use crate::world::exec::agent_launcher::find_program;

/// What to do with a server that is not found.
const ENDPOINT_HINT: &str =
    "name the URL of a server that you run: massgen init --yes --base-url http://127.0.0.1:8080/v1";

/// Returns the agents that the flags describe; none if there are no such flags.
pub(super) fn agents_from_flags(
    arguments: &InitArguments,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<Vec<TeamCandidate>> {
    let InitArguments {
        model: models,
        backend,
        base_url,
        ..
    } = arguments;
    if models.is_empty() && backend.is_none() && base_url.is_none() {
        return Ok(Vec::new());
    }
    reject_model_lists(models)?;
    let program = backend.as_deref().and_then(find_kind);
    // A type without a program of its own has to be described in a config, and a program has no
    // endpoint to set: `team_from_options` reports both.
    if let Some(kind) = program.filter(|kind| !kind.command.is_empty() && base_url.is_none()) {
        let names = models.iter().map(|model| Some(model.as_str()));
        let no_name = models.is_empty().then_some(None);
        let agents = names
            .chain(no_name)
            .filter_map(|model| TeamCandidate::from_program(kind, model));
        return Ok(agents.collect());
    }
    let options = TeamOptions {
        models,
        backend: backend.as_deref(),
        base_url: base_url.as_deref(),
        system_message: None,
    };
    let env = host.config_variables();
    let listed_model = single_thread_runtime()?.block_on(listed_model(&options, host))?;
    let options = match &listed_model {
        Some(model) => options.with_model(model),
        None => options,
    };
    // Only the hints about an unknown model name need the list.
    let models_with_prices = model_list(host, None, output).unwrap_or_else(|error| {
        output.warning(&format!("ignoring your list of models: {error:#}"));
        ModelList::with_user_rows(Vec::new())
    });
    let team = team_from_options(
        &options,
        &env,
        &models_with_prices,
        WorkspaceMode::PerAgent,
        &host.policy,
    )?;
    let agents = team.agents.iter();
    Ok(agents
        .map(|agent| TeamCandidate::from_agent(agent, &env))
        .collect())
}

/// Returns the backend at `url`, which has no model yet.
pub(super) fn endpoint_backend(url: &str) -> Result<Option<BackendConfig>> {
    backend_without_model(&TeamOptions {
        base_url: Some(url),
        ..TeamOptions::default()
    })
}

/// Returns the models that the endpoint of `backend` lists.
///
/// # Errors
/// Those of [`list_models`].
pub(super) fn endpoint_models(backend: &BackendConfig, host: &Host) -> Result<Vec<String>> {
    single_thread_runtime()?.block_on(list_models(backend, host))
}

/// Returns everything that is found, models before programs.
pub(super) fn find_candidates(host: &Host) -> Result<Vec<TeamCandidate>> {
    let env = host.config_variables();
    let servers = single_thread_runtime()?.block_on(probe_local_servers(&env, &host.policy));
    let backends = detected_backends(&env, &servers, &host.policy).into_iter();
    let models = backends.map(|entry| {
        let source = if entry.backend.vendor.is_local_server {
            entry.source.to_owned()
        } else {
            format!("key {}", entry.source)
        };
        TeamCandidate::from_backend(entry.name, &entry.backend, &source, &env)
    });
    let path = host.env("PATH").unwrap_or_default();
    let is_installed = |kind: &&ExternalAgentKind| {
        let command: Vec<String> = kind.command.iter().map(ToString::to_string).collect();
        !command.is_empty() && find_program(&command, path, kind.package).is_ok()
    };
    let installed_programs = KINDS.iter().filter(is_installed);
    let programs = installed_programs.filter_map(|kind| {
        let candidate = TeamCandidate::from_program(kind, None)?;
        let source = describe_program(kind, &candidate, &env);
        Some(TeamCandidate {
            source,
            ..candidate
        })
    });
    Ok(models.chain(programs).collect())
}

/// Returns the indexes of the candidates that take part unless the user chooses others: models, and
/// a program only if there is nothing else.
pub(super) fn default_indexes(candidates: &[TeamCandidate]) -> Vec<usize> {
    let is_model = |(_, candidate): &(usize, &TeamCandidate)| !candidate.is_program();
    let models: Vec<usize> = candidates
        .iter()
        .enumerate()
        .filter(is_model)
        .map(|(index, _)| index)
        .take(TEAM_AGENTS_MAX)
        .collect();
    if models.is_empty() { vec![0] } else { models }
}

/// Returns the candidates that take part if the user is not asked. A program works with the user's
/// own login, so it is not among them.
pub(super) fn choose_default_agents(candidates: Vec<TeamCandidate>) -> Result<Vec<TeamCandidate>> {
    let program = candidates
        .iter()
        .find(|candidate| candidate.is_program())
        .map(|candidate| candidate.vendor.name);
    let models: Vec<TeamCandidate> = candidates
        .into_iter()
        .filter(|candidate| !candidate.is_program())
        .take(TEAM_AGENTS_MAX)
        .collect();
    match program {
        Some(vendor) if models.is_empty() => {
            let message = format!("no model found; `{vendor}` is installed, but was not named");
            Err(Error::new(ErrorKind::Environment, message)
                .with_hint(format!("name it: massgen init --yes --backend {vendor}"))
                .with_hint(key_hint()))
        }
        Some(_) | None => Ok(models),
    }
}

/// Returns how to get a team of two agents, if `agents` is one agent with a model.
pub(super) fn second_agent_hint(agents: &[TeamCandidate]) -> Option<String> {
    let [only] = agents else {
        return None;
    };
    let model = only.model.as_deref().filter(|_| !only.is_program())?;
    let quoted_model = quote_word(model);
    let endpoint = only
        .base_url
        .as_deref()
        .map(|url| format!(" --base-url {}", quote_word(url)));
    Some(format!(
        "one agent does not vote; two agents of this model do: massgen init --yes --backend {}{} \
         --model {quoted_model} --model {quoted_model}",
        only.vendor.name,
        endpoint.unwrap_or_default(),
    ))
}

/// Returns the error that nothing can take part. Logins are only named.
pub(super) fn nothing_found_error(host: &Host, logins: &[FoundLogin]) -> Error {
    let key_hints = hints_for_unused_keys(&host.config_variables(), "massgen init --yes");
    let keys = if key_hints.is_empty() {
        "no API key is set"
    } else {
        "no API key of a vendor with a default model is set"
    };
    let message = format!(
        "no model found: {keys}, no local server is running, and neither `claude`, `codex` nor \
         `gemini` is installed"
    );
    let mut error = Error::new(ErrorKind::Environment, message);
    let login_hints = logins
        .iter()
        .map(|login| format!("{} is not used: {SIGN_IN_HINT}", login.describe()));
    for hint in key_hints.into_iter().chain(login_hints) {
        error = error.with_hint(hint);
    }
    error
        .with_hint(key_hint())
        .with_hint(ENDPOINT_HINT)
        .with_hint(DEMO_HINT)
}
