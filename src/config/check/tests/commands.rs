//! The keys about commands.

use super::*;
use crate::code_mode::language::{ProgramDialect, PythonLibraries};
use crate::commands::CommandPolicy;
use crate::config::command_line::{CommandLineConfig, EnvVariable};
use crate::config::execution_mode::ExecutionMode;
use crate::config::keys::backend::BACKEND;
use crate::config::keys::{commands, docker};
use crate::config::vendors::VENDORS;
use crate::permissions::domains::DomainPattern;
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::ResourceLimits;
use crate::sandbox_policy::sandbox_level::{SandboxLevel, SandboxLevelChoice};

/// Returns an agent that runs commands, with additional lines in its backend.
pub(super) fn with_commands(lines: &str) -> String {
    with_backend(&format!("cwd: w1\nenable_mcp_command_line: true\n{lines}"))
}

#[track_caller]
fn commands(lines: &str) -> CommandLineConfig {
    let config = config(&with_commands(lines));
    config.agents[0].commands.clone().unwrap()
}

#[test]
fn an_agent_runs_commands_when_it_is_said_and_has_a_workspace() {
    for lines in ["cwd: w1", "cwd: w1\nenable_mcp_command_line: no"] {
        assert!(config(&with_backend(lines)).agents[0].commands.is_none());
    }
    let commands = commands("");
    assert!(matches!(commands.mode, ExecutionMode::Local));
    assert!(commands.allowed.is_none() && commands.blocked.is_empty());
    assert_eq!(commands.sandbox, SandboxLevelChoice::Auto);
    assert_eq!(commands.network, NetworkPolicy::Off);
    assert_eq!(commands.limits, ResourceLimits::default());
    assert_eq!(commands.bounds.timeout_seconds, 60);
    assert_eq!(commands.bounds.output_bytes_max, 1024 * 1024);
    assert!(commands.env.is_empty());
    check(
        &with_backend("enable_mcp_command_line: true"),
        &["warning agent.backend.enable_mcp_command_line: commands need a workspace"],
    );
}

#[test]
fn every_key_about_commands_is_read() {
    let commands = commands(
        "\
command_line_execution_mode: docker
command_line_allowed_commands: ['python.*']
command_line_blocked_commands: ['git push.*', rm]
command_policy: strict
command_line_sandbox: landlock
command_line_network: [PyPI.org, '*.example.org']
command_line_limits: {memory: 2g, processes: 64, file_size: 100M, cpu_seconds: 9, timeout: 5, output: 64k}
env: [NUMBER, TOKEN]",
    );
    assert!(matches!(commands.mode, ExecutionMode::Docker(_)));
    assert_eq!(
        commands.sandbox,
        SandboxLevelChoice::Only(SandboxLevel::Landlock)
    );
    let domains = ["pypi.org", ".example.org"].map(|name| DomainPattern::parse(name).unwrap());
    assert_eq!(commands.network, NetworkPolicy::Domains(domains.into()));
    assert_eq!(commands.limits.memory_bytes, Some(2 << 30));
    assert_eq!(commands.limits.processes, 64);
    assert_eq!(commands.limits.file_bytes, 100 << 20);
    assert_eq!(commands.limits.cpu_seconds, Some(9));
    assert_eq!(commands.bounds.timeout_seconds, 5);
    assert_eq!(commands.bounds.output_bytes_max, 64 << 10);
    assert_eq!(
        format!("{:?}", commands.env),
        r#"{"NUMBER": Inherited, "TOKEN": Inherited}"#
    );
    let rules = commands.rules(SandboxLevel::Overlay);
    assert_eq!(rules.policy, CommandPolicy::Strict);
    assert!(rules.allowed.unwrap()[0].matches("python3 -V"));
    assert_eq!(rules.blocked.len(), 2);
}

#[test]
fn text_is_strict_where_nothing_enforces() {
    let policy = |lines: &str, level| commands(lines).rules(level).policy;
    for level in [
        SandboxLevel::Overlay,
        SandboxLevel::Namespaces,
        SandboxLevel::Landlock,
        SandboxLevel::Off,
    ] {
        assert_eq!(policy("", level), CommandPolicy::Standard);
        assert_eq!(
            policy("command_policy: strict", level),
            CommandPolicy::Strict
        );
    }
    let standard = "command_policy: standard";
    assert_eq!(
        policy(standard, SandboxLevel::Unavailable),
        CommandPolicy::Strict
    );
    let contained = format!("command_line_execution_mode: docker\n{standard}");
    assert_eq!(
        policy(&contained, SandboxLevel::Unavailable),
        CommandPolicy::Standard
    );
}

#[test]
fn bad_patterns_are_errors_with_their_place() {
    check(
        &with_commands("command_line_blocked_commands: [rm, '(a', '(?!x)']"),
        &[
            "error agent.backend.command_line_blocked_commands[1]: `(a` is not a regular expression: unclosed group",
            "error agent.backend.command_line_blocked_commands[2]: `(?!x)` is not a regular expression: look-around",
        ],
    );
    let many = vec!["a"; 257].join(", ");
    check(
        &with_commands(&format!("command_line_allowed_commands: [{many}]")),
        &[
            "error agent.backend.command_line_allowed_commands: `command_line_allowed_commands` has 257 entries: at most 256",
        ],
    );
}

#[test]
fn command_settings_without_effect_or_with_much_access_are_warnings() {
    let without = "cwd: w1\ncommand_policy: strict\ncommand_line_network: on";
    check(
        &with_backend(without),
        &[
            "warning agent.backend.command_policy: `command_policy` has no effect: the agent runs",
            "warning agent.backend.command_line_network: `command_line_network` has no effect",
        ],
    );
    let keys = "command_line_network: [example.org]\ncommand_policy: strict";
    let backend = indent(&format!("type: codex\ncwd: w1\n{keys}"), 4);
    check(
        &format!("agent:\n  id: a\n  backend:\n{backend}"),
        &[
            "`command_line_network` has no effect: it concerns massgen's commands",
            "`command_policy` has no effect: it concerns massgen's commands",
        ],
    );
    let container = "command_line_docker_enable_sudo: true";
    check(
        &with_commands(container),
        &["`command_line_docker_enable_sudo` has no effect: commands run on this machine"],
    );
    let elsewhere = "command_line_execution_mode: docker\ncommand_line_network: on";
    check(&with_commands(elsewhere), &[]);
    check(
        &with_commands("command_line_sandbox: off"),
        &["warning agent.backend.command_line_sandbox: the agent's commands run without a sandbox"],
    );
    check(
        &with_commands("command_line_network: on"),
        &["warning agent.backend.command_line_network: the agent's commands can access the whole"],
    );
    check(&with_commands("command_line_network: [example.org]"), &[]);
    for list in ["env: [NOT_SET]", "env: {NOT_SET: }"] {
        check(&with_commands(list), &["variable `NOT_SET` is not set"]);
    }
    check(&with_commands("env: {NOT_SET: value}"), &[]);
}

#[test]
fn a_key_about_commands_that_is_not_known_is_no_vendors() {
    check(
        &with_commands("command_line_colour: red"),
        &[
            "error agent.backend.command_line_colour: unknown key `command_line_colour` (keys here are `command_line_",
        ],
    );
    check(&with_commands("colour_of_replies: red"), &[]);
}

#[test]
fn values_about_commands_have_their_shape() {
    for (lines, expected) in [
        ("command_line_sandbox: D", "`command_line_sandbox` is `D`"),
        ("command_line_sandbox: overlays", "did you mean `overlay`?"),
        ("command_policy: none", "`command_policy` is `none`"),
        (
            "command_line_allowed_commands: ls",
            "error agent.backend.command_line_allowed_commands: `command_line_allowed_commands` is `ls`",
        ),
        ("command_line_network: offf", "did you mean `off`?"),
        (
            "command_line_network: [127.0.0.1]",
            "`127.0.0.1` is not a host name",
        ),
        (
            "command_line_network: {a: b}",
            "`command_line_network` is a mapping",
        ),
        ("command_line_limits: {memory: 1k}", "`memory` is `1k`"),
        ("command_line_limits: {memory: lots}", "`memory` is `lots`"),
        ("command_line_limits: {timeout: 0}", "`timeout` is `0`"),
        ("command_line_limits: {memry: 1g}", "did you mean `memory`?"),
        ("env: A", "`env` is `A`"),
        ("env: {A: [b]}", "`env` is a mapping"),
        ("env: ['A B']", "`A B` is not a variable name"),
        ("env: {1A: b}", "`1A` is not a variable name"),
    ] {
        check(&with_commands(lines), &[expected]);
    }
}

#[test]
fn a_variable_is_inherited_literal_or_expanded() {
    let commands = commands("env: {A: plain, B: '${KEY}', C: 7, D: 'x${KEY}', TOKEN:}");
    let is = |name: &str| match &commands.env[name] {
        EnvVariable::Inherited => "passed".to_owned(),
        EnvVariable::Literal(value) => format!("written {value}"),
        EnvVariable::Expanded(value) => format!("filled {}", value.expose_secret()),
    };
    let found = ["A", "B", "C", "D", "TOKEN"].map(is);
    assert_eq!(
        found,
        [
            "written plain",
            "filled sk-1",
            "written 7",
            "filled xsk-1",
            "passed"
        ]
    );
    assert!(!format!("{commands:?}").contains("sk-1"));
    let aliased = "x-a: &a ${KEY}\nagent: {id: a, backend: {type: grok, cwd: w, \
                   enable_mcp_command_line: true, env: {A: *a}}}";
    let aliased = config(aliased).agents[0].commands.clone().unwrap();
    assert!(matches!(
        aliased.env["A"],
        EnvVariable::Expanded(_) | EnvVariable::Literal(_)
    ));
    let key = "GROQ_API_KEY";
    assert!(
        VENDORS
            .iter()
            .any(|vendor| vendor.key_variables.contains(&key))
    );
    check(
        &with_commands(&format!("env: [{key}]")),
        &[&format!("every command of the agent can read `{key}`")],
    );
}

#[test]
fn srt_keys_are_mapped_or_reported() {
    let domains = "command_line_srt_network_allowed_domains: [example.org]";
    let network = commands(domains).network;
    let expected = DomainPattern::parse("example.org").unwrap();
    assert_eq!(network, NetworkPolicy::Domains(vec![expected]));
    let both = format!("{domains}\ncommand_line_network: off");
    assert_eq!(commands(&both).network, NetworkPolicy::Off);
    check(
        &with_commands(
            "\
command_line_execution_mode: srt
command_line_srt_read_mode: open
command_line_srt_allow_read: [/opt]
command_line_srt_deny_read: [~/.ssh]
command_line_srt_allow_unix_sockets: true
command_execution_prefix: nice",
        ),
        &[
            "warning agent.backend.command_line_srt_read_mode: `command_line_srt_read_mode` is not supported",
            "warning agent.backend.command_line_srt_allow_read",
            "error agent.backend.command_line_srt_deny_read",
            "warning agent.backend.command_line_srt_allow_unix_sockets",
            "error agent.backend.command_execution_prefix",
        ],
    );
    check(&with_commands("command_line_srt_read_mode: confined"), &[]);
}

#[test]
fn an_agent_works_by_programs_where_the_config_says_so() {
    let programs = |lines: &str| {
        let yaml = with_backend(&format!("cwd: w1\n{lines}"));
        config(&yaml).agents[0].programs
    };
    let on = "enable_code_based_tools: true";
    assert_eq!(programs(""), None);
    assert_eq!(programs("enable_code_based_tools: no"), None);
    assert_eq!(
        programs(on).unwrap().dialect,
        ProgramDialect::Python(PythonLibraries::Standard)
    );
    let go = programs(&format!(
        "{on}\ncode_language: go\ncommand_line_limits: {{timeout: 5}}"
    ))
    .unwrap();
    assert_eq!(
        (go.dialect, go.bounds.timeout_seconds),
        (ProgramDialect::Go, 5)
    );
    let off = programs(&format!("{on}\ncommand_line_sandbox: 'off'\nenv: {{A: b}}")).unwrap();
    assert_eq!(off.sandbox_config().sandbox, SandboxLevelChoice::Auto);
    assert!(off.sandbox_config().env.is_empty());
    check(
        &with_backend(on),
        &["warning agent.backend.enable_code_based_tools: programs need a workspace"],
    );
    check(
        &with_backend("cwd: w1\ncode_language: go"),
        &["warning agent.backend.code_language: `code_language` has no effect"],
    );
    let pandas = programs(&format!("{on}\ncode_libraries: pandas")).unwrap();
    assert_eq!(
        pandas.dialect,
        ProgramDialect::Python(PythonLibraries::Pandas)
    );
    check(
        &with_backend(&format!("cwd: w1\n{on}\ncode_libraries: polars")),
        &["error agent.backend.code_libraries"],
    );
    check(
        &with_backend(&format!("cwd: w1\n{on}\ncode_language: rust")),
        &["error agent.backend.code_language"],
    );
}

#[test]
fn prefixes_belong_to_keys() {
    for prefix in [
        commands::COMMAND_PREFIX,
        commands::CODE_PREFIX,
        commands::SRT_PREFIX,
        docker::PREFIX,
    ] {
        let mut keys = BACKEND.keys.iter().filter(|key| key.is_implemented());
        assert!(keys.any(|key| key.name().starts_with(prefix)), "{prefix}");
    }
}
