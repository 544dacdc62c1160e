//! The keys about containers.

use super::commands::with_commands;
use super::*;
use crate::config::docker::{
    ContainerNetwork, CredentialsConfig, DependencyInstall, DockerConfig, PackagesConfig,
    PassedEnvironment, RootAccess,
};
use crate::config::execution_mode::ExecutionMode;

const KEY: &str = "agent.backend.command_line_docker";

/// Returns an agent whose commands run in a container, with additional lines in its backend.
pub(super) fn in_docker(lines: &str) -> String {
    with_commands(&format!("command_line_execution_mode: docker\n{lines}"))
}

/// Returns the container of a config that must be valid; warnings are ignored.
#[track_caller]
fn docker(lines: &str) -> DockerConfig {
    let loaded =
        try_load(&in_docker(lines)).unwrap_or_else(|invalid| panic!("{}", invalid.render()));
    match &loaded.config.agents[0].commands.as_ref().unwrap().mode {
        ExecutionMode::Docker(docker) => (**docker).clone(),
        ExecutionMode::Local => panic!("not in a container"),
    }
}

#[test]
fn a_container_is_closed_unless_the_config_opens_it() {
    assert_eq!(docker(""), DockerConfig::default());
    check(&in_docker(""), &[]);
    let sudo = docker("command_line_docker_enable_sudo: true");
    assert_eq!(sudo.image, "massgen/mcp-runtime-sudo:latest");
    assert_eq!(sudo.root, RootAccess::BySudo);
}

#[test]
fn every_key_about_containers_is_read() {
    let read = docker(
        "\
command_line_docker_image: 'registry.example:5000/a/b:1'
command_line_docker_memory_limit: 2g
command_line_docker_cpu_limit: 1.5
command_line_docker_network_mode: bridge
command_line_docker_enable_sudo: true
command_line_docker_credentials:
  mount: [ssh_keys, gh_config, ssh_keys]
  additional_mounts: {'~/k.json': {bind: /home/massgen/k.json, mode: ro}, /srv/k: {bind: /srv/k}}
  env_file: secrets.env
  env_vars_from_file: [A]
  env_vars: [TOKEN]
  pass_all_env: true
command_line_docker_packages:
  preinstall: {system: [vim], python: ['pytest>=7'], npm: [typescript]}
  auto_install_deps: true",
    );
    let abs = |path: &str| AbsPath::new(path).unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let expected = DockerConfig {
        image: "registry.example:5000/a/b:1".to_owned(),
        memory_bytes: Some(2 << 30),
        nano_cpus: Some(1_500_000_000),
        network: ContainerNetwork::Bridge,
        root: RootAccess::BySudo,
        credentials: CredentialsConfig {
            mount: vec![".ssh", ".config/gh"],
            additional_mounts: std::collections::BTreeMap::from([
                (abs("/home/ann/k.json"), abs("/home/massgen/k.json")),
                (abs("/srv/k"), abs("/srv/k")),
            ]),
            env_file: Some(abs("/configs/secrets.env")),
            env_vars_from_file: names(&["A"]),
            env_vars: names(&["TOKEN"]),
            environment: PassedEnvironment::All,
        },
        packages: PackagesConfig {
            system: names(&["vim"]),
            python: names(&["pytest>=7"]),
            npm: names(&["typescript"]),
            dependencies: DependencyInstall::Automatic,
        },
    };
    assert_eq!(read, expected);
}

#[test]
fn exposed_docker_credentials_are_one_warning() {
    check(
        &in_docker(
            "command_line_docker_credentials: {mount: [ssh_keys], env_vars: [A, B], env_file: e}",
        ),
        &[
            "warning agent.backend.command_line_docker_credentials: every command of the agent can \
           read `~/.ssh`, all variables of `/configs/e`, `A`, `B`",
        ],
    );
}

#[track_caller]
fn refuses(lines: &str, key: &str, words: &str) {
    let expected = format!("error {KEY}_{key}: {words}");
    let findings = findings(&in_docker(lines));
    assert!(
        findings
            .iter()
            .any(|finding| finding.starts_with(&expected)),
        "{lines}\n{findings:#?}"
    );
}

#[test]
fn invalid_docker_settings_are_errors_at_their_keys() {
    let credentials = |inner: &str| format!("command_line_docker_credentials: {{{inner}}}");
    let mount = |inner: &str| credentials(&format!("additional_mounts: {inner}"));
    refuses(
        "command_line_docker_image: '-v'",
        "image",
        "`-v` is not an image name",
    );
    refuses(
        "command_line_docker_host: ssh://build1",
        "host",
        "`command_line_docker_host` cannot be used here",
    );
    refuses("command_line_docker_cpu_limit: 0", "cpu_limit", "");
    refuses("command_line_docker_memory_limit: 1k", "memory_limit", "");
    refuses("command_line_docker_network_mode: all", "network_mode", "");
    refuses(&credentials("mount: [aws]"), "credentials.mount[0]", "");
    refuses(
        &credentials("env_vars: ['A=1']"),
        "credentials.env_vars[0]",
        "`A=1` is not a variable name",
    );
    refuses(
        &credentials("env_vars_from_file: [A]"),
        "credentials.env_vars_from_file",
        "",
    );
    refuses(&mount("[a]"), "credentials.additional_mounts", "");
    refuses(
        &mount("{/a: /b}"),
        "credentials.additional_mounts./a",
        "`/a` has no path in the container",
    );
    let at = "credentials.additional_mounts./a";
    refuses(
        &mount("{/a: {bind: /b, mode: rw}}"),
        &format!("{at}.mode"),
        "credentials are mounted",
    );
    refuses(
        &mount("{/a: {mode: ro}}"),
        &format!("{at}.bind"),
        "`bind` is missing",
    );
    refuses(
        &mount("{/a: {bind: /b, x: 1}}"),
        &format!("{at}.x"),
        "unknown key",
    );
    for target in ["b", "/", "/proc/self", "/sys"] {
        let lines = mount(&format!("{{/a: {{bind: {target}}}}}"));
        refuses(&lines, &format!("{at}.bind"), "cannot mount at");
    }
    let packages =
        |inner: &str| format!("command_line_docker_packages: {{preinstall: {{{inner}}}}}");
    let at = "packages.preinstall";
    refuses(
        &packages("python: ['-r x']"),
        &format!("{at}.python[0]"),
        "`-r x` is not a package name",
    );
    refuses(
        &packages("system: [vim]"),
        &format!("{at}.system"),
        "system packages",
    );
}

#[test]
fn the_container_of_a_server_has_no_credentials_and_no_root() {
    let words = |word: &str| vec![word.to_owned()];
    let commands = DockerConfig {
        root: RootAccess::BySudo,
        network: ContainerNetwork::Bridge,
        credentials: CredentialsConfig {
            env_vars: words("TOKEN"),
            ..CredentialsConfig::default()
        },
        packages: PackagesConfig {
            system: words("git"),
            python: words("mcp"),
            ..PackagesConfig::default()
        },
        ..DockerConfig::default()
    };
    let image = "own:1".to_owned();
    let expected = DockerConfig {
        image: image.clone(),
        network: ContainerNetwork::Bridge,
        packages: PackagesConfig {
            python: words("mcp"),
            ..PackagesConfig::default()
        },
        ..DockerConfig::default()
    };
    assert_eq!(commands.for_server(Some(&image)), expected);
    assert_eq!(commands.for_server(None).image, commands.image);
}
