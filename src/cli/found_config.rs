//! Owns what a config may do that lies in the project and that nobody named. Somebody else may have
//! written it, so it reaches nothing beyond the project: no endpoint that is not a vendor's own, no
//! path outside, no server of tools, no hook, no program as an agent, and no command that does more
//! than one without a config could.
//! Naming it with `--config` is the user's word for it.

use url::Url;

use crate::config::command_line::{CommandLineConfig, ExecutionMode, Variable};
use crate::config::docker::{BecomingRoot, ContainerNetwork, DockerConfig, IMAGE};
use crate::config::place::{Place, STATE_DIR};
use crate::config::servers::{Link, ServerConfig};
use crate::config::vendors::{is_key_variable, is_known_host};
use crate::config::{AgentConfig, Config};
use crate::confinement::network::Network;
use crate::confinement::tier::{Tier, TierChoice};
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::protected::protected_name;
use crate::wording::one_line;
use crate::world::locate::locate;

/// How much of a hook's command is repeated, in characters.
const COMMAND_CHARS_MAX: usize = 80;

/// Refuses a config that was found as `name` in the project at `base` and reaches beyond it.
pub(crate) fn stay_inside(config: &Config, name: &str, base: &AbsPath) -> Result<()> {
    let beyond = |what: String| {
        Error::new(
            ErrorKind::Config,
            format!("`{name}` was found, not named, and {what}"),
        )
        .hint(format!(
            "if you trust this project's config: massgen --config {name} …"
        ))
    };
    if let Some((agent, url)) = config.agents.iter().find_map(foreign_endpoint) {
        return Err(beyond(format!(
            "would send your key for `{}` to `{url}`",
            agent.id
        )));
    }
    let mut commands = config
        .agents
        .iter()
        .filter_map(|agent| agent.commands.as_ref());
    if let Some(what) = commands.find_map(opened_to_commands) {
        return Err(beyond(what));
    }
    if let Some(what) = starts_programs(config) {
        return Err(beyond(what));
    }
    let root = locate(base)?.into_real();
    for path in opened(config)
        .chain(storage(config))
        .chain(recordings(config))
    {
        if !locate(path)?.into_real().is_within(&root) {
            return Err(beyond(format!(
                "uses `{path}`, which is outside this directory"
            )));
        }
    }
    if let Some(what) = unprotects(config) {
        return Err(beyond(what));
    }
    for path in config.write_paths() {
        let below = locate(path)?.into_real().below(&root);
        if let Some(name) = below.and_then(|below| protected_name(&below, &[])) {
            return Err(beyond(format!(
                "opens `{path}` for writing, where `{name}` is protected"
            )));
        }
    }
    // The directory of such a config is open to its recordings.
    let open = [STATE_DIR.to_owned()];
    for path in recordings(config) {
        let below = locate(path)?.into_real().below(&root);
        if let Some(name) = below.and_then(|below| protected_name(&below, &open)) {
            return Err(beyond(format!(
                "writes to `{path}`, where `{name}` is protected"
            )));
        }
    }
    Ok(())
}

/// A server, an agent or a hook that is a program, if the config has one.
fn starts_programs(config: &Config) -> Option<String> {
    let mut servers = config.agents.iter().flat_map(|agent| &agent.servers);
    let mut agents = config.agents.iter();
    let mut hooks = config.agents.iter().flat_map(|agent| agent.hooks.iter());
    let server = servers.next().map(|server| names_server(server));
    let program = server.or_else(|| agents.find_map(starts_guest));
    program.or_else(|| {
        let command = one_line(&hooks.next()?.command, COMMAND_CHARS_MAX);
        Some(format!("would run the hook `{command}`"))
    })
}

/// The variables that such a config may put into its text: the vendors' keys, and nothing else of
/// what the user's environment holds.
pub(crate) fn variables_of_found(variables: &ConfigVariables) -> ConfigVariables {
    variables.only(is_key_variable)
}

fn foreign_endpoint(agent: &AgentConfig) -> Option<(&AgentConfig, &str)> {
    let mut models = agent.backend.with_fallbacks();
    models.find_map(|model| {
        let url = model.base_url.as_deref()?;
        let known = Url::parse(url).is_ok_and(|url| is_known_host(&url));
        (!known).then_some((agent, url))
    })
}

/// What commands are given that nothing but a config can give them.
fn opened_to_commands(commands: &CommandLineConfig) -> Option<String> {
    let is_yours = |variable: &Variable| match variable {
        Variable::Passed | Variable::Filled(_) => true,
        Variable::Written(_) => false,
    };
    let yours = commands.env.iter().find(|(_, value)| is_yours(value));
    if let ExecutionMode::Docker(docker) = &commands.mode
        && let Some(what) = opened_to_container(docker)
    {
        return Some(what);
    }
    if commands.sandbox == TierChoice::Only(Tier::Off) {
        Some("switches the sandbox of commands off".to_owned())
    } else if commands.network != Network::Off {
        Some("opens the network to commands".to_owned())
    } else {
        yours.map(|(name, _)| format!("gives commands `{name}` from your environment"))
    }
}

/// What a server of the config would mean; the user has named no program and no other host.
fn names_server(server: &ServerConfig) -> String {
    let name = server.name();
    match &server.link {
        Link::Program(program) => {
            let program = program.command.first().map_or("", String::as_str);
            format!("would start the program `{program}` as the server `{name}`")
        }
        Link::Remote(remote) => {
            let host = remote.url.host_str().unwrap_or_default();
            format!("would send what agents work on to `{host}`, the server `{name}`")
        }
    }
}

/// What an agent that is a program would mean; the user has named no program.
fn starts_guest(agent: &AgentConfig) -> Option<String> {
    let guest = agent.backend.guest.as_ref()?;
    let program = guest.command.first().map_or("", String::as_str);
    Some(format!(
        "would start the program `{program}` as the agent `{}`",
        agent.id
    ))
}

/// Which protected names the config opens.
fn unprotects(config: &Config) -> Option<String> {
    let own = config.agents.iter().flat_map(|agent| &agent.context_paths);
    let mut paths = config.orchestrator.context_paths.iter().chain(own);
    let open = paths.find(|context| !context.unprotected.is_empty())?;
    Some(format!(
        "opens protected names in `{}`: {}",
        open.path,
        open.unprotected.join(", ")
    ))
}

/// What a container is given that nothing but a config can give it.
fn opened_to_container(docker: &DockerConfig) -> Option<String> {
    let exposed = docker.credentials.exposed();
    if !exposed.is_empty() {
        Some(format!("gives commands {}", exposed.join(", ")))
    } else if docker.network != ContainerNetwork::None {
        Some("opens the network to commands".to_owned())
    } else if docker.root != BecomingRoot::Never {
        Some("lets commands become root in their container".to_owned())
    } else if docker.image != IMAGE {
        let image = &docker.image;
        Some(format!(
            "runs commands in your image `{image}`, with all that is in it"
        ))
    } else {
        None
    }
}

/// Every path that the config opens to an agent.
fn opened(config: &Config) -> impl Iterator<Item = &AbsPath> {
    let workspaces = config.agents.iter().filter_map(|agent| agent.cwd.as_ref());
    let workspaces = workspaces.filter_map(Place::absolute);
    config.opened_paths().chain(workspaces)
}

/// Every file that the config has written at the end of the run.
fn recordings(config: &Config) -> impl Iterator<Item = &AbsPath> {
    let agents = config.agents.iter();
    agents.filter_map(|agent| agent.record.as_ref())
}

/// Every directory of the user's that massgen itself would write into.
fn storage(config: &Config) -> impl Iterator<Item = &AbsPath> {
    let orchestrator = &config.orchestrator;
    let places = [
        &orchestrator.snapshot_storage,
        &orchestrator.agent_temporary_workspace,
        &orchestrator.session_storage,
    ];
    places.into_iter().filter_map(Place::absolute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Context, Origin, load};

    #[track_caller]
    fn check(backend: &str, context_path: &str, expected: &str) {
        let yaml = format!(
            "agent:\n  id: a\n  backend: {{model: m, {backend}}}\n\
             orchestrator:\n  context_paths: [{context_path}]\n"
        );
        check_yaml(&yaml, expected);
    }

    #[track_caller]
    fn check_yaml(yaml: &str, expected: &str) {
        let base = AbsPath::new("/tmp").unwrap();
        let origin = Origin {
            name: "c.yaml".to_owned(),
            directory: None,
        };
        let key = ("OPENAI_API_KEY".to_owned(), "k-1".to_owned());
        let context = Context {
            base: &base,
            home: None,
            env: &ConfigVariables::from_iter([key]),
        };
        let config = load(yaml.as_bytes(), &origin, &context).unwrap().config;
        let refused = stay_inside(&config, "c.yaml", &base).err();
        let refused = refused.map(|error| error.to_string()).unwrap_or_default();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(refused.is_empty(), expected.is_empty(), "{refused}");
    }

    #[test]
    fn a_found_config_opens_no_protected_name_for_writing() {
        let check = |path: &str, expected: &str| check("type: openrouter", path, expected);
        check("{path: ., permission: write}", "");
        check("{path: .git}", "");
        check(
            "{path: .git, permission: write}",
            "where `.git` is protected",
        );
        check(
            "{path: sub/.git/hooks, permission: write}",
            "where `.git` is protected",
        );
        check(
            "{path: ., permission: write, unprotected: [.git]}",
            "opens protected names",
        );
        let state = "{path: .massgen/deliveries, permission: write, allow_broad: true}";
        check(state, "is protected");
    }

    #[test]
    fn a_found_config_stores_nothing_beyond_the_project() {
        for key in [
            "snapshot_storage",
            "agent_temporary_workspace",
            "session_storage",
        ] {
            let yaml = |place: &str| {
                format!(
                    "agent:\n  id: a\n  backend: {{type: openrouter, model: m}}\n\
                     orchestrator:\n  {key}: {place}\n"
                )
            };
            check_yaml(&yaml("kept"), "");
            check_yaml(&yaml("/tmp/.massgen/kept"), "");
            check_yaml(&yaml("/usr/share/kept"), "outside this directory");
        }
    }

    #[test]
    fn a_found_config_reaches_nothing_beyond_the_project() {
        check("type: openrouter", ".", "");
        check(
            "type: chatcompletion, base_url: 'https://api.groq.com/openai/v1'",
            ".",
            "",
        );
        check(
            "type: chatcompletion, base_url: 'http://localhost:8000/v1'",
            ".",
            "",
        );
        check(
            "type: chatcompletion, base_url: 'https://evil.example/v1'",
            ".",
            "evil.example",
        );
        check(
            "type: openrouter, base_url: 'https://notopenrouter.ai/v1'",
            ".",
            "notopenrouter",
        );
        check(
            "type: openrouter, fallback: [{type: chatcompletion, model: m, base_url: 'https://evil.example/v1'}]",
            ".",
            "evil.example",
        );
        check("type: openrouter", "../usr/share", "outside this directory");
    }

    #[test]
    fn a_found_config_opens_nothing_to_commands() {
        for (line, expected) in [
            ("command_line_sandbox: A", ""),
            (
                "command_line_sandbox: off",
                "switches the sandbox of commands off",
            ),
            ("command_line_network: off", ""),
            ("command_line_network: on", "opens the network"),
            ("command_line_network: [example.org]", "opens the network"),
            ("env: {NODE_ENV: test}", ""),
            ("env: [SSH_AUTH_SOCK]", "gives commands `SSH_AUTH_SOCK`"),
            ("env: {A: '${OPENAI_API_KEY}'}", "gives commands `A`"),
        ] {
            let run = "type: openrouter, cwd: w, enable_mcp_command_line: true";
            check(&format!("{run}, {line}"), ".", expected);
        }
    }

    #[test]
    fn a_found_config_starts_no_program_as_an_agent() {
        check("type: scripted, replies: [{text: x}], cwd: w", ".", "");
        let named = "would start the program `claude` as the agent `a`";
        check("type: claude_code, cwd: w", ".", named);
        let named = "would start the program `/tmp/own` as the agent `a`";
        check("type: acp, cwd: w, command: [./own]", ".", named);
    }

    #[test]
    fn a_found_config_starts_and_reaches_no_server() {
        for (line, expected) in [
            ("mcp_servers: []", ""),
            (
                "mcp_servers: [{name: s, command: npx}]",
                "would start the program `npx`",
            ),
            (
                "mcp_servers: {s: {url: 'https://tools.example/mcp'}}",
                "to `tools.example`",
            ),
        ] {
            check(&format!("type: openrouter, cwd: w, {line}"), ".", expected);
        }
    }

    #[test]
    fn a_found_config_runs_no_hook() {
        for (line, expected) in [
            ("hooks: {PreToolUse: []}", ""),
            (
                "hooks: {AfterDelivery: [./notify.sh]}",
                "would run the hook `./notify.sh`",
            ),
        ] {
            check(&format!("type: openrouter, {line}"), ".", expected);
        }
    }

    #[test]
    fn a_found_config_opens_nothing_to_containers() {
        for (line, expected) in [
            ("docker_image: massgen/mcp-runtime:latest", ""),
            ("docker_image: mine", "in your image `mine`"),
            (
                "docker_image: massgen/mcp-runtime-sudo:latest",
                "in your image",
            ),
            ("docker_memory_limit: 64g", ""),
            ("docker_cpu_limit: 64", ""),
            ("docker_packages: {preinstall: {python: [x]}}", ""),
            (
                "srt_network_allowed_domains: [example.org]",
                "opens the network",
            ),
            ("sandbox: off", "switches the sandbox"),
            ("network: on", "opens the network"),
            ("docker_network_mode: bridge", "opens the network"),
            ("docker_enable_sudo: true", "become root"),
            ("docker_credentials: {mount: [ssh_keys]}", "`~/.ssh`"),
            ("docker_credentials: {env_file: .env}", "all variables of"),
            ("docker_credentials: {env_vars: [TOKEN]}", "`TOKEN`"),
            (
                "docker_credentials: {pass_all_env: true}",
                "whole environment",
            ),
            (
                "docker_credentials: {additional_mounts: {/srv/k: {bind: /k}}}",
                "`/srv/k`",
            ),
        ] {
            let run = "type: openrouter, cwd: w, enable_mcp_command_line: true, \
                       command_line_execution_mode: docker";
            check(&format!("{run}, command_line_{line}"), ".", expected);
        }
    }

    #[test]
    fn a_found_config_sees_keys_and_no_other_variable() {
        let env = [
            ("OPENAI_API_KEY", "k"),
            ("DEEPSEEK_API_KEY", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("HOME", "/h"),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let seen = variables_of_found(&ConfigVariables::from_iter(env));
        assert_eq!(
            ["OPENAI_API_KEY", "DEEPSEEK_API_KEY"].map(|name| seen.get(name)),
            [Some("k"), Some("k")]
        );
        assert_eq!(
            ["AWS_SECRET_ACCESS_KEY", "HOME"].map(|name| seen.get(name)),
            [None, None]
        );
    }
}
