//! Restrictions on a config that was discovered in the project rather than named with `--config`.
//! Another person may have written it, so it must not reach outside the project. The table of keys
//! says what each key may do there; this module checks the paths on disk. Naming the config with
//! `--config` lifts the restrictions.

use crate::config::keys::found_config::{PathUseAccess, RestrictedUse};
use crate::config::storage_path::STATE_DIR;
use crate::config::vendors::is_key_variable;
use crate::dotenv::ConfigVariables;
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::permissions::protected::protected_name;
use crate::world::io::locate::locate;

/// Rejects a config that was found as `name` in the project at `base` and reaches outside it.
pub(crate) fn reject_outside_reach(
    restricted_uses: &[RestrictedUse],
    name: &str,
    base: &AbsPath,
) -> Result<()> {
    let root = locate(base)?.into_real();
    for restricted_use in restricted_uses {
        let refusal = match restricted_use {
            RestrictedUse::Always(effect) => Some(effect.clone()),
            RestrictedUse::Path { path, access } => outside_reach(path, *access, &root)?,
        };
        if let Some(effect) = refusal {
            let message =
                format!("`{name}` was found in the project rather than named, and {effect}");
            return Err(Error::new(ErrorKind::Config, message).with_hint(format!(
                "if you trust this config, add `--config {name}` to the command"
            )));
        }
    }
    Ok(())
}

/// Describes what the config would do outside the project at `root` with `path`; `None` if it stays
/// inside.
fn outside_reach(path: &AbsPath, access: PathUseAccess, root: &RealPath) -> Result<Option<String>> {
    let Some(below) = locate(path)?.into_real().below(root) else {
        return Ok(Some(format!(
            "uses `{path}`, which is outside this directory"
        )));
    };
    // massgen may write to its state directory, in which such a config lies.
    let allowed_names = [STATE_DIR.to_owned()];
    Ok(match access {
        PathUseAccess::Read => None,
        PathUseAccess::AgentWrites => protected_name(&below, &[])
            .map(|name| format!("opens `{path}` for writing, where `{name}` is protected")),
        PathUseAccess::MassgenWrites => protected_name(&below, &allowed_names)
            .map(|name| format!("writes to `{path}`, where `{name}` is protected")),
    })
}

/// Returns the variables that a found config may use: the vendors' keys, and nothing else from the
/// user's environment.
pub(crate) fn found_config_variables(variables: &ConfigVariables) -> ConfigVariables {
    variables.retain_named(is_key_variable)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::machine_policy::MachinePolicy;
    use crate::config::{ConfigContext, ConfigOrigin, load};

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
        let [base, home] = ["/tmp", "/home/ann"].map(|path| AbsPath::new(path).unwrap());
        let origin = ConfigOrigin {
            name: "c.yaml".to_owned(),
            directory: None,
        };
        let key = ("OPENAI_API_KEY".to_owned(), "k-1".to_owned());
        let context = ConfigContext {
            base: &base,
            state_parent: &base,
            home: Some(&home),
            env: &ConfigVariables::from_iter([key]),
            packages: &BTreeSet::new(),
            policy: &MachinePolicy::default(),
        };
        let loaded = load(yaml.as_bytes(), &origin, &context).unwrap();
        let refused = reject_outside_reach(&loaded.restricted_uses, "c.yaml", &base)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(refused.contains(expected), "{refused}");
        assert_eq!(refused.is_empty(), expected.is_empty(), "{refused}");
    }

    #[test]
    fn a_found_config_gives_agents_no_file_outside_of_the_project() {
        let check = |file: &str, expected: &str| {
            check(
                &format!("type: openrouter, upload_files: [{file}]"),
                "{path: .}",
                expected,
            );
        };
        check("{file_path: a.pdf}", "");
        check(
            "{file_path: /srv/a.pdf}",
            "uses `/srv/a.pdf`, which is outside",
        );
        check("{audio_path: ../a.wav}", "which is outside");
        check(
            "{video_path: 'https://example.org/a.mp4'}",
            "gives an agent the file at `https://example.org/a.mp4`",
        );
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
        let yaml = |dir: &str| {
            format!(
                "agent:\n  id: a\n  backend: {{type: openrouter, model: m}}\n\
                 orchestrator:\n  session_storage: {dir}\n"
            )
        };
        check_yaml(&yaml("kept"), "");
        check_yaml(&yaml("/tmp/.massgen/kept"), "");
        check_yaml(&yaml("/usr/share/kept"), "outside this directory");
        check_yaml(&yaml("~/.ssh"), "outside this directory");
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
            ("command_line_sandbox: overlay", ""),
            (
                "command_line_sandbox: off",
                "switches the sandbox of commands off",
            ),
            ("fetch_url: off", ""),
            ("fetch_url: on", "reads pages of the Web"),
            ("fetch_url: [example.org]", "reads pages of the Web"),
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
        let named = "would start the program `./own` as the agent `a`";
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
            ("docker_credentials: {mount: [ssh_keys]}", "mount: ssh_keys"),
            ("docker_credentials: {env_file: .env}", "env_file: .env"),
            ("docker_credentials: {env_vars: [TOKEN]}", "env_vars: TOKEN"),
            (
                "docker_credentials: {pass_all_env: true}",
                "pass_all_env: true",
            ),
            (
                "docker_credentials: {additional_mounts: {/srv/k: {bind: /k}}}",
                "additional_mounts: /srv/k",
            ),
        ] {
            let run = "type: openrouter, cwd: w, enable_mcp_command_line: true, \
                       command_line_execution_mode: docker";
            check(&format!("{run}, command_line_{line}"), ".", expected);
        }
    }

    #[test]
    fn a_found_config_sends_a_key_to_its_vendor_only() {
        let key = "api_key: '${OPENAI_API_KEY}'";
        for (line, expected) in [
            ("type: openai", ""),
            ("type: openai, THEIRS", ""),
            ("type: chatcompletion, THEIRS", ""),
            ("type: groq, THEIRS", "would send `OPENAI_API_KEY` to"),
            ("type: ollama, THEIRS", "a server on this machine"),
            ("type: ollama, api_key: none", ""),
            ("type: openai, api_key: sk-2", "its own API key"),
            (
                "type: openai, api_key: 'a${OPENAI_API_KEY}'",
                "its own API key",
            ),
            (
                "type: openai, base_url: 'https://api.groq.com/openai/v1'",
                "not a host of `openai`",
            ),
            (
                "type: openai, base_url: 'http://api.openai.com/v1'",
                "which is not encrypted",
            ),
            (
                "type: openai, fallback: [{type: groq, model: m, THEIRS}]",
                "OPENAI_API_KEY",
            ),
            ("type: openai, fallback: [{model: m, THEIRS}]", ""),
            (
                "type: ollama, fallback: [{model: m, base_url: 'http://localhost:1/v1', THEIRS}]",
                "a server on this machine",
            ),
        ] {
            check(&line.replace("THEIRS", key), ".", expected);
        }
        // The model of subagents belongs to no agent.
        let root = "agent:\n  id: a\n  backend: {type: openrouter, model: m}\n";
        let subagents = "orchestrator:\n  coordination:\n    enable_subagents: true\n    \
                         subagent_orchestrator:\n      enabled: true\n      agents: [{backend: {type: \
                         openai, model: m, base_url: 'https://api.groq.com/openai/v1'}}]\n";
        let expected = "would send your key to `https://api.groq.com/openai/v1`";
        check_yaml(&format!("{root}{subagents}"), expected);
    }

    #[test]
    fn a_found_config_sends_no_unknown_key_and_gives_models_no_network() {
        for (line, expected) in [
            ("temperature: 1", ""),
            ("enable_web_search: false", ""),
            ("enable_web_search: true", "use the network"),
            ("plugins: [{id: web}]", "use the network"),
            ("remote_tools: x", "sends `remote_tools`"),
            ("web_options: {a: b}", "sends `web_options`"),
            ("extra_body: {tools: []}", "does not know"),
            ("extra_body: {}", ""),
        ] {
            check(&format!("type: openrouter, {line}"), ".", expected);
        }
    }

    #[test]
    fn a_found_config_has_workspaces_of_massgens_own() {
        check("type: openrouter, cwd: w", ".", "");
        check("type: openrouter, cwd: .massgen/w", ".", "");
        for cwd in ["/tmp/w", "'${cwd}/w'", "~/.ssh"] {
            let line = format!("type: openrouter, cwd: {cwd}");
            check(&line, ".", "in which no name is protected");
        }
    }

    #[test]
    fn a_found_config_reads_and_writes_files_of_the_project_only() {
        let scripted = |line: &str| format!("type: scripted, {line}");
        check(&scripted("script: replies.yaml"), ".", "");
        check(
            &scripted("script: /usr/share/x"),
            ".",
            "outside this directory",
        );
        let record = "type: openrouter, record";
        check(&format!("{record}: r.yaml"), ".", "");
        check(&format!("{record}: .git/hooks/x"), ".", "is protected");
        check(
            &format!("{record}: ../r.yaml"),
            ".",
            "outside this directory",
        );
        let root = "agent:\n  id: a\n  backend: {type: openrouter, model: m}\n";
        let days = "retention: {days: 1}\n";
        check_yaml(&format!("{root}{days}"), "removes earlier runs");
        let storage = "orchestrator: {session_storage: /tmp/.git/x}\n";
        check_yaml(&format!("{root}{storage}"), "is protected");
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
        let seen = found_config_variables(&ConfigVariables::from_iter(env));
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
