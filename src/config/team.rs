//! Teams without a config file: from the models that the command line names, or from the available
//! keys and local servers.

use serde_json::Map;
use url::Url;

use crate::config::agent::{PermissionsConfig, STEPS_PER_ROUND_DEFAULT};
use crate::config::checks::ChecksConfig;
use crate::config::command_line::CommandLineConfig;
use crate::config::diagnostic::quote;
use crate::config::external_agents::find_kind;
use crate::config::keys::nearest;
use crate::config::machine_policy::MachinePolicy;
use crate::config::model_family::{FAMILIES, find_family, reject_model_lists, unknown_model_error};
use crate::config::retention::RetentionConfig;
use crate::config::storage_path::StoragePath;
use crate::config::vendors::{self, UrlDestination, VENDORS, Vendor};
use crate::config::{
    AgentConfig, BackendConfig, Config, DashboardMode, DeliveryMode, KeyHosts, MediaModels,
    OrchestratorConfig, ReplyTimeouts, TimeoutConfig, ToolFilter, WinnerChoice,
};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::HookList;
use crate::id::AgentId;
use crate::permissions::guard::FolderGuard;
use crate::permissions::history::ReadBeforeDelete;
use crate::sandbox_policy::NetworkPolicy;
use crate::spending::limits::BudgetLimits;
use crate::spending::models::ModelList;
use crate::text::list_names;

/// The maximum number of agents in an automatic team: each of them costs the user money.
pub const TEAM_AGENTS_MAX: usize = 3;
/// The id of an agent that works alone.
const SINGLE_AGENT_ID: &str = "agent1";
/// The backend type at an endpoint, unless it is named: most servers speak Chat Completions,
/// whatever models they have.
const ENDPOINT_TYPE_DEFAULT: &str = "chatcompletion";

/// The command line's settings for a team without a config: one agent for each model.
#[derive(Clone, Copy, Debug, Default)]
pub struct TeamOptions<'a> {
    /// `--model`, which may be given several times; without it, one agent has the default model.
    pub models: &'a [String],
    /// `--backend`.
    pub backend: Option<&'a str>,
    /// `--base-url`.
    pub base_url: Option<&'a str>,
    /// `--system-message`.
    pub system_message: Option<&'a str>,
}

impl<'a> TeamOptions<'a> {
    /// Returns these settings with one model.
    #[must_use]
    pub fn with_model(self, model: &'a String) -> Self {
        Self {
            models: std::slice::from_ref(model),
            ..self
        }
    }
}

/// A server on this machine that responded, with its models.
#[derive(Clone, Debug)]
pub struct LocalServer {
    /// The backend type, such as `ollama`.
    pub vendor: &'static Vendor,
    /// Its endpoint.
    pub base_url: String,
    /// The names of its models, the preferred one first.
    pub models: Vec<String>,
}

/// Whether agents get a workspace, and with it the file tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceMode {
    /// Each agent gets one.
    PerAgent,
    /// The agents only talk.
    None,
}

/// A team that was formed automatically.
#[derive(Clone, Debug)]
pub struct DetectedTeam {
    /// The team.
    pub config: Config,
    /// A one-line summary of the team for the user.
    pub summary: String,
}

/// Returns the team that the command line describes. Without `--backend`, the name of a model
/// determines its vendor; the error about an unknown name suggests `known_models`.
pub fn team_from_options(
    options: &TeamOptions<'_>,
    env: &ConfigVariables,
    known_models: &ModelList,
    workspaces: WorkspaceMode,
    policy: &MachinePolicy,
) -> Result<Config> {
    reject_model_lists(options.models)?;
    let mut agents = Vec::new();
    match options.models {
        [] | [_] => {
            let model = options.models.first().map(String::as_str);
            let backend = backend_from_options(options, env, known_models, model)?;
            agents.push(agent_config(SINGLE_AGENT_ID, backend, 1, workspaces)?);
        }
        models => {
            let mut names: Vec<String> = Vec::new();
            for (number, model) in (1..).zip(models) {
                let backend = backend_from_options(options, env, known_models, Some(model))?;
                let maker = find_family(model).map_or(backend.vendor.name, |family| family.maker);
                let name = unused_name(maker, &names);
                agents.push(agent_config(&name, backend, number, workspaces)?);
                names.push(name);
            }
        }
    }
    for agent in &mut agents {
        agent.system_message = options.system_message.map(str::to_owned);
    }
    Ok(team_config(agents, policy))
}

/// Returns the backend of a team whose endpoint has to say which models it has: the command line
/// names none, and the default model of the vendor need not exist there.
pub fn backend_without_model(options: &TeamOptions<'_>) -> Result<Option<BackendConfig>> {
    let name = match (options.models, options.backend, options.base_url) {
        ([], Some(name), _) => name,
        ([], None, Some(_)) => ENDPOINT_TYPE_DEFAULT,
        ([], None, None) | ([_, ..], _, _) => return Ok(None),
    };
    let vendor = supported_vendor(name)?;
    let url = options.base_url.and_then(|url| Url::parse(url).ok());
    let is_asked = match url.as_ref().map(vendors::destination) {
        Some(UrlDestination::Vendor(variables)) => variables != vendor.key_variables,
        Some(UrlDestination::ThisMachine | UrlDestination::Elsewhere(_)) => true,
        None => vendor.is_local_server,
    };
    let needs_model = is_asked || vendor.default_model.is_none();
    let has_endpoint = options.base_url.is_some() || vendor.is_local_server;
    Ok((needs_model && has_endpoint).then(|| backend_config(vendor, "", options.base_url)))
}

/// Returns `name`, or with the first number that makes it differ from `names`.
pub(super) fn unused_name(name: &str, names: &[String]) -> String {
    let numbered_names = (2..).map(|number: usize| format!("{name}{number}"));
    let mut candidates = std::iter::once(name.to_owned()).chain(numbered_names);
    let unused = candidates.find(|candidate| !names.contains(candidate));
    unused.unwrap_or_else(|| name.to_owned())
}

/// Returns the backend of one agent that the command line describes.
fn backend_from_options(
    options: &TeamOptions<'_>,
    env: &ConfigVariables,
    known_models: &ModelList,
    model: Option<&str>,
) -> Result<BackendConfig> {
    let family = model.and_then(find_family);
    let vendor = match (options.backend, options.base_url, family) {
        (Some(name), _, _) => supported_vendor(name)?,
        (None, Some(_), _) => supported_vendor(ENDPOINT_TYPE_DEFAULT)?,
        (None, None, Some(family)) => supported_vendor(family.backend_type(env))?,
        (None, None, None) => return Err(unknown_model_error(model, known_models)),
    };
    let model = model.or(vendor.default_model).ok_or_else(|| {
        let message = format!("`{}` has no default model", vendor.name);
        Error::new(ErrorKind::Usage, message).with_hint("add `--model NAME`")
    })?;
    Ok(backend_config(vendor, model, options.base_url))
}

/// Returns a team with one agent for each key that is set and each local server that responded, at
/// most `TEAM_AGENTS_MAX`.
pub fn team_from_environment(
    env: &ConfigVariables,
    servers: &[LocalServer],
    workspaces: WorkspaceMode,
    policy: &MachinePolicy,
) -> Result<DetectedTeam> {
    let mut agents = Vec::new();
    let mut descriptions = Vec::new();
    let backends = detected_backends(env, servers, policy).into_iter();
    for (number, detected) in (1..).zip(backends.take(TEAM_AGENTS_MAX)) {
        let DetectedBackend {
            name,
            backend,
            source,
        } = detected;
        descriptions.push(format!("{name} ({}, {source})", backend.model));
        agents.push(agent_config(name, backend, number, workspaces)?);
    }
    if agents.is_empty() {
        let allowed = policy.describe();
        let allowed = allowed.map(|text| format!("the policy of this machine sets: {text}"));
        return Err(allowed
            .into_iter()
            .fold(no_backend_error(env), Error::with_hint));
    }
    Ok(DetectedTeam {
        config: team_config(agents, policy),
        summary: format!("team: {}", descriptions.join(", ")),
    })
}

/// A backend that can be used because its key is set, or because its server responded.
#[derive(Clone, Debug)]
pub struct DetectedBackend<'a> {
    /// The agent's name.
    pub name: &'static str,
    /// The backend.
    pub backend: BackendConfig,
    /// The variable that holds its key, or the endpoint of the server.
    pub source: &'a str,
}

/// Returns the backends whose key is set, makers first, and then those of the local servers that
/// responded.
pub fn detected_backends<'a>(
    env: &ConfigVariables,
    servers: &'a [LocalServer],
    policy: &MachinePolicy,
) -> Vec<DetectedBackend<'a>> {
    let local_backends = servers.iter().filter_map(|server| {
        let model = server.models.first()?;
        Some(DetectedBackend {
            name: server.vendor.name,
            backend: backend_config(server.vendor, model, Some(&server.base_url)),
            source: &server.base_url,
        })
    });
    let with_keys = backends_with_keys(env, |vendor| set_key_variable(vendor, env));
    let backends = with_keys.into_iter().chain(local_backends);
    let is_allowed = |detected: &DetectedBackend<'_>| {
        let DetectedBackend { backend, .. } = detected;
        let url = backend
            .vendor
            .endpoint(backend.base_url.as_deref(), |name| {
                env.get(name).map(str::to_owned)
            });
        let url = url.and_then(|url| Url::parse(&url).ok());
        policy.refuse_model(backend.vendor, url.as_ref()).is_none()
    };
    backends.filter(is_allowed).collect()
}

/// Returns the variable that holds the key of a vendor, if one is set.
fn set_key_variable(vendor: &Vendor, env: &ConfigVariables) -> Option<&'static str> {
    let is_set = |name: &&str| env.get_non_empty(name).is_some();
    vendor.key_variables.iter().copied().find(is_set)
}

/// Returns the makers and vendors that have a default model and for which `key_variable_of` returns
/// the variable with the key, makers first.
fn backends_with_keys(
    env: &ConfigVariables,
    key_variable_of: impl Fn(&Vendor) -> Option<&'static str>,
) -> Vec<DetectedBackend<'static>> {
    let makers = FAMILIES.iter().filter_map(|family| {
        let maker = vendors::find_vendor(family.maker)?;
        let vendor = vendors::find_vendor(family.backend_type(env))?;
        Some(DetectedBackend {
            name: maker.name,
            backend: backend_config(vendor, maker.default_model?, None),
            source: key_variable_of(maker)?,
        })
    });
    let is_maker = |vendor: &Vendor| FAMILIES.iter().any(|family| family.maker == vendor.name);
    let other_vendors = VENDORS
        .iter()
        .filter(|vendor| vendor.is_http() && !is_maker(vendor))
        .filter_map(|vendor| {
            Some(DetectedBackend {
                name: vendor.name,
                backend: backend_config(vendor, vendor.default_model?, None),
                source: key_variable_of(vendor)?,
            })
        });
    makers.chain(other_vendors).collect()
}

/// Returns the vendor with this name, if the command line may name it without a config.
fn supported_vendor(name: &str) -> Result<&'static Vendor> {
    let usage_error = |message| Error::new(ErrorKind::Usage, message);
    match vendors::find_vendor(name) {
        Some(vendor) if vendor.is_http() => Ok(vendor),
        Some(vendor) => {
            let mut error = usage_error(format!(
                "the backend type `{name}` cannot be used with `--backend`"
            ));
            if let Some(hint) = program_hint(vendor) {
                error = error.with_hint(hint);
            }
            let alternative = vendor.alternative;
            Err(error.with_hint(alternative.unwrap_or("describe the agent in a config file")))
        }
        None => {
            let supported = VENDORS.iter().filter(|vendor| vendor.is_http());
            let names: Vec<&str> = supported.map(|vendor| vendor.name).collect();
            let error = usage_error(format!("unknown backend type {}", quote(name)));
            let similar_name =
                vendors::type_of_company(name).or_else(|| nearest(name, names.iter().copied()));
            Err(match similar_name {
                Some(similar_name) => error.with_hint(format!("did you mean `{similar_name}`?")),
                None => error.with_hint(format!("known types: {}", list_names(&names, "and"))),
            })
        }
    }
}

/// Returns how an agent that is a program of its own gets into a config, if massgen knows the
/// program.
fn program_hint(vendor: &Vendor) -> Option<String> {
    let kind = find_kind(vendor.name)?;
    (!kind.command.is_empty()).then(|| {
        format!(
            "write a config with this program: massgen init --yes --backend {}",
            kind.vendor
        )
    })
}

/// Number of keys that a hint names.
const KEYS_NAMED: usize = 3;

/// Returns what to do without a model: set one of the keys that suffice for a team.
pub fn key_hint() -> String {
    // The hint does not depend on what is set: it names a key of every vendor.
    let backends = backends_with_keys(&ConfigVariables::default(), |vendor| {
        vendor.key_variables.first().copied()
    });
    let key_variables: Vec<&str> = backends.iter().map(|backend| backend.source).collect();
    let examples = key_variables.get(..KEYS_NAMED).unwrap_or(&key_variables);
    let names = list_names(examples, "or");
    format!(
        "set an API key in the environment or in `~/.massgen/.env`, such as {names}; `massgen models` \
         names the others"
    )
}

/// What to do without a model or a key: try the demo.
pub const DEMO_HINT: &str = "see it work without an API key: massgen demo";

/// Returns how to use the keys that are set for vendors without a default model: with `command`
/// and the name of a model.
pub fn hints_for_unused_keys(env: &ConfigVariables, command: &str) -> Vec<String> {
    let lacks_default = |vendor: &&Vendor| vendor.is_http() && vendor.default_model.is_none();
    let vendors = VENDORS.iter().filter(lacks_default);
    let hints = vendors.filter_map(|vendor| {
        let key = set_key_variable(vendor, env)?;
        let name = vendor.name;
        Some(format!(
            "`{key}` is set, and `{name}` has no default model: {command} --backend {name} --model MODEL"
        ))
    });
    hints.collect()
}

fn no_backend_error(env: &ConfigVariables) -> Error {
    let unused = hints_for_unused_keys(env, "massgen");
    let message = if unused.is_empty() {
        "no model available: no API key is set, and no local server is running"
    } else {
        "no model available: no API key of a vendor with a default model is set, and no local server \
         is running"
    };
    let mut error = Error::new(ErrorKind::Environment, message);
    for hint in unused {
        error = error.with_hint(hint);
    }
    error
        .with_hint(key_hint())
        .with_hint(
            "`massgen init` also looks for programs such as `claude`, and writes a config \
             that you can change",
        )
        .with_hint(DEMO_HINT)
}

fn backend_config(vendor: &'static Vendor, model: &str, base_url: Option<&str>) -> BackendConfig {
    BackendConfig {
        vendor,
        model: model.to_owned(),
        base_url: base_url.map(str::to_owned),
        api_key: None,
        key_hosts: KeyHosts::default(),
        parameters: Map::new(),
        external_agent: None,
        media: MediaModels::default(),
        image_input: vendor.image_input_at(base_url),
        reasoning_echo: None,
        timeouts: ReplyTimeouts::default(),
        subagent_models: Vec::new(),
        fallback: Vec::new(),
        script: None,
    }
}

fn agent_config(
    name: &str,
    backend: BackendConfig,
    number: usize,
    workspaces: WorkspaceMode,
) -> Result<AgentConfig> {
    let id = AgentId::parse(name).map_err(|error| Error::bug(error.to_string()))?;
    let has_workspace = workspaces == WorkspaceMode::PerAgent;
    let workspace = || StoragePath::relocated(&format!("workspace{number}"));
    Ok(AgentConfig {
        id,
        system_message: None,
        backend,
        cwd: has_workspace.then(workspace),
        context_paths: Vec::new(),
        uploaded_images: Vec::new(),
        uploaded_image_urls: Vec::new(),
        uploaded_files: Vec::new(),
        folder_guard: FolderGuard::Off,
        read_before_delete: ReadBeforeDelete::Enforced,
        tools: ToolFilter::default(),
        commands: has_workspace.then(CommandLineConfig::default),
        programs: None,
        merges_files: false,
        pages: NetworkPolicy::Off,
        servers: Vec::new(),
        record: None,
        limits: BudgetLimits::default(),
        permissions: PermissionsConfig::default(),
        hooks: HookList::default(),
        steps_per_round_max: STEPS_PER_ROUND_DEFAULT,
    })
}

fn team_config(mut agents: Vec<AgentConfig>, policy: &MachinePolicy) -> Config {
    for agent in &mut agents {
        agent.permissions = policy.permissions.clone();
    }
    Config {
        agents,
        orchestrator: OrchestratorConfig::default(),
        timeouts: TimeoutConfig::default(),
        rate_limits: Vec::new(),
        delivery: DeliveryMode::default(),
        winner_choice: WinnerChoice::default(),
        dashboard: DashboardMode::default(),
        permissions: policy.permissions.clone(),
        retention: RetentionConfig::default(),
        session_id: None,
        checks: ChecksConfig::default(),
        limits: policy.limits,
        limits_max: policy.limits,
        workflow: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built_in_models() -> ModelList {
        ModelList::with_user_rows(Vec::new())
    }

    fn describe_team(
        model: Option<&str>,
        backend: Option<&str>,
        base_url: Option<&str>,
    ) -> Result<String> {
        let models: Vec<String> = model.map(str::to_owned).into_iter().collect();
        let options = TeamOptions {
            models: &models,
            backend,
            base_url,
            system_message: Some("be brief"),
        };
        let env = ConfigVariables::default();
        let config = team_from_options(
            &options,
            &env,
            &built_in_models(),
            WorkspaceMode::None,
            &MachinePolicy::default(),
        )?;
        let agent = &config.agents[0];
        assert_eq!(agent.id.as_str(), "agent1");
        assert_eq!(agent.system_message.as_deref(), Some("be brief"));
        let url = agent.backend.base_url.as_deref().unwrap_or("-");
        Ok(format!(
            "{} {} {url}",
            agent.backend.vendor.name, agent.backend.model
        ))
    }

    #[track_caller]
    fn check(options: (Option<&str>, Option<&str>, Option<&str>), expected: &str) {
        match describe_team(options.0, options.1, options.2) {
            Ok(found) => assert_eq!(found, expected, "{options:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Usage);
                assert!(!error.hints().is_empty());
                assert!(error.to_string().contains(expected), "{options:?}: {error}");
            }
        }
    }

    #[test]
    fn several_models_make_a_team_of_as_many_agents() {
        let models = ["gpt-5", "claude-sonnet-5-5", "gpt-5-mini"].map(str::to_owned);
        let options = TeamOptions {
            models: &models,
            ..TeamOptions::default()
        };
        let agents = |workspaces| {
            let env = ConfigVariables::default();
            let config = team_from_options(
                &options,
                &env,
                &built_in_models(),
                workspaces,
                &MachinePolicy::default(),
            )
            .unwrap();
            let describe = |agent: &AgentConfig| {
                let has = |something: bool| if something { "+" } else { "-" };
                format!(
                    "{} {} {} {}{}",
                    agent.id,
                    agent.backend.vendor.name,
                    agent.backend.model,
                    has(agent.cwd.is_some()),
                    has(agent.commands.is_some()),
                )
            };
            let agents = config.agents.iter().map(describe);
            agents.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(
            agents(WorkspaceMode::None),
            "openai openai gpt-5 --, claude claude claude-sonnet-5-5 --, \
             openai2 openai gpt-5-mini --"
        );
        assert_eq!(
            agents(WorkspaceMode::PerAgent),
            "openai openai gpt-5 ++, claude claude claude-sonnet-5-5 ++, \
             openai2 openai gpt-5-mini ++"
        );
    }

    #[test]
    fn the_model_says_whose_it_is() {
        check((Some("gpt-4o"), None, None), "openai gpt-4o -");
        check((Some("o4-mini"), None, None), "openai o4-mini -");
        check((Some("claude-x"), None, None), "claude claude-x -");
        check(
            (Some("gemini-3.8-flash"), None, None),
            "gemini gemini-3.8-flash -",
        );
        check((Some("grok-4"), None, None), "grok grok-4 -");
        check((Some("glm-4.5"), None, None), "zai glm-4.5 -");
        check(
            (Some("llama3"), None, None),
            "cannot derive the backend from the model name `llama3`",
        );
        check(
            (None, None, None),
            "neither a model nor a backend type is given",
        );
    }

    #[test]
    fn explicit_flags_take_precedence() {
        check((None, Some("grok"), None), "grok grok-4 -");
        check(
            (Some("gpt-4o"), Some("openrouter"), None),
            "openrouter gpt-4o -",
        );
        check(
            (Some("m"), None, Some("http://h/v1")),
            "chatcompletion m http://h/v1",
        );
        check(
            (Some("m"), Some("ollama"), Some("http://h/v1")),
            "ollama m http://h/v1",
        );
        check(
            (None, Some("openrouter"), None),
            "`openrouter` has no default model",
        );
        check((None, Some("grokk"), None), "unknown backend type `grokk`");
        check(
            (None, Some("anthropic"), None),
            "unknown backend type `anthropic`",
        );
        check(
            (Some("m"), Some("claude_code"), None),
            "`claude_code` cannot be used with `--backend`",
        );
        check(
            (Some("m"), Some("scripted"), None),
            "`scripted` cannot be used with `--backend`",
        );
    }

    #[test]
    fn a_type_without_a_model_of_its_own_has_a_hint() {
        let hints = |backend| {
            let error = describe_team(None, Some(backend), None).unwrap_err();
            error.hints().join("; ")
        };
        assert_eq!(hints("anthropic"), "did you mean `claude`?");
        assert_eq!(hints("grokk"), "did you mean `grok`?");
        let config = "describe the agent in a config file";
        assert_eq!(
            hints("claude_code"),
            format!(
                "write a config with this program: massgen init --yes --backend claude_code; \
                 {config}"
            )
        );
        assert_eq!(hints("acp"), config, "its program is in the config");
        assert_eq!(hints("scripted"), config);
    }

    fn server(name: &str, models: &[&str]) -> LocalServer {
        LocalServer {
            vendor: vendors::find_vendor(name).unwrap(),
            base_url: "http://localhost:11434/v1".to_owned(),
            models: models.iter().map(|model| (*model).to_owned()).collect(),
        }
    }

    fn surroundings(keys: &[&str], servers: &[LocalServer]) -> Result<DetectedTeam> {
        let env = keys
            .iter()
            .map(|name| ((*name).to_owned(), "k".to_owned()))
            .collect();
        team_from_environment(
            &env,
            servers,
            WorkspaceMode::PerAgent,
            &MachinePolicy::default(),
        )
    }

    #[test]
    fn a_team_is_made_of_the_keys_and_servers_that_are_there() {
        let servers = [
            server("lmstudio", &[]),
            server("ollama", &["qwen3:8b", "llama3"]),
        ];
        let found = surroundings(&["GEMINI_API_KEY", "GROQ_API_KEY"], &servers).unwrap();
        assert_eq!(
            found.summary,
            "team: gemini (gemini-3.8-flash, GEMINI_API_KEY), groq (llama-3.3-70b-versatile, \
             GROQ_API_KEY), ollama (qwen3:8b, http://localhost:11434/v1)"
        );
        let workspaces: Vec<String> = found
            .config
            .agents
            .iter()
            .map(|a| a.cwd.as_ref().unwrap().to_string())
            .collect();
        assert_eq!(workspaces, ["workspace1", "workspace2", "workspace3"]);
        let every_key: Vec<&str> = VENDORS
            .iter()
            .flat_map(|vendor| vendor.key_variables)
            .copied()
            .collect();
        let many = surroundings(&every_key, &servers).unwrap();
        assert_eq!(many.config.agents.len(), TEAM_AGENTS_MAX);
    }

    #[test]
    fn the_error_without_any_model_has_hints() {
        for keys in [[].as_slice(), &["SOME_OTHER_KEY"]] {
            let error = surroundings(keys, &[server("ollama", &[])]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Environment);
            assert!(
                error
                    .hints()
                    .iter()
                    .any(|hint| hint.contains("massgen demo"))
            );
        }
        let env = ConfigVariables::from_iter([("OPENAI_API_KEY".to_owned(), String::new())]);
        assert!(
            team_from_environment(&env, &[], WorkspaceMode::None, &MachinePolicy::default())
                .is_err(),
            "an empty key is none"
        );
    }

    #[test]
    fn a_key_without_a_default_model_is_named_with_its_use() {
        let error = surroundings(&["OPENROUTER_API_KEY"], &[]).unwrap_err();
        assert!(!error.to_string().contains("no API key is set"), "{error}");
        assert_eq!(
            error.hints()[0],
            "`OPENROUTER_API_KEY` is set, and `openrouter` has no default model: massgen --backend \
             openrouter --model MODEL"
        );
    }

    #[test]
    fn every_family_is_reached_with_the_key_of_its_maker() {
        for family in FAMILIES {
            let maker = vendors::find_vendor(family.maker).unwrap();
            assert!(maker.is_supported() && maker.default_model.is_some());
            let Some(older) = family.older_api else {
                continue;
            };
            let older = vendors::find_vendor(older).unwrap();
            assert_eq!(older.key_variables, maker.key_variables);
            assert_eq!(older.base_url_variable, maker.base_url_variable);
        }
    }

    #[test]
    fn another_server_in_the_users_environment_is_asked_by_the_older_api() {
        let models = ["gpt-5".to_owned()];
        let options = TeamOptions {
            models: &models,
            ..TeamOptions::default()
        };
        let cases = [
            ("http://localhost:8080/v1", "chatcompletion"),
            ("https://api.openai.com/v1/", "openai"),
            (" ", "openai"),
        ];
        for (endpoint, expected) in cases {
            let variables = [("OPENAI_BASE_URL", endpoint), ("OPENAI_API_KEY", "k")];
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let env = ConfigVariables::from_iter(variables);
            let config = team_from_options(
                &options,
                &env,
                &built_in_models(),
                WorkspaceMode::None,
                &MachinePolicy::default(),
            )
            .unwrap();
            assert_eq!(config.agents[0].backend.vendor.name, expected, "{endpoint}");
            let detected =
                team_from_environment(&env, &[], WorkspaceMode::None, &MachinePolicy::default())
                    .unwrap();
            assert_eq!(
                detected.config.agents[0].backend.vendor.name, expected,
                "{endpoint}"
            );
        }
    }
}
