//! The official conformance suite of the protocol, with massgen as a client and as a server. The files
//! in `tests/cases/conformance` list the scenarios that fail, with the reasons; a listed scenario that
//! passes is a failure, too.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::mcp_serve_http::McpHttpServer;
use crate::mcp_servers::installed_servers;
use crate::project::{Project, binary};
use crate::scripted_team::{agent, team};

const BEARER: &str = include_str!("../servers/bearer.cjs");
const CLIENT: &str = include_str!("../servers/conformance_client.py");
const SUITE_TOOLS: &str = include_str!("../servers/suite_tools.cjs");

/// The prefix of the tools of the server with the suite's tools.
const PREFIX: &str = "mcp__s__";

/// The suite's names of what is in no version of the protocol, and of what only its oldest one has.
const EXTENSIONS: &str = "extensions";
const BACKCOMPAT: &str = "backcompat";

/// Returns the suite's program, with the Node.js that it needs.
fn suite_command() -> Command {
    let modules = PathBuf::from(installed_servers()).join("conformance/node_modules");
    let mut command = Command::new(modules.join("node/bin/node"));
    command.arg(modules.join("@modelcontextprotocol/conformance/dist/index.js"));
    command
}

/// Number of attempts: a few scenarios measure times, which another test may prolong.
const ATTEMPTS: usize = 4;

/// Runs the scenarios of one version of the protocol, and compares what fails with the list.
#[track_caller]
fn check_conformance(project: &Project, side: &str, version: &str, arguments: &[&str]) {
    let list = format!("tests/cases/conformance/{side}-{version}.yaml");
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join(list);
    let mut suite = suite_command();
    suite
        .args([side, "--suite"])
        .args(match version {
            EXTENSIONS | BACKCOMPAT => vec![version],
            _ => vec!["all", "--spec-version", version],
        })
        .args(arguments)
        .arg("--expected-failures")
        .arg(list)
        .current_dir(project.path(""));
    let mut output = String::new();
    for _ in 0..ATTEMPTS {
        let done = suite.output().unwrap();
        if done.status.success() {
            return;
        }
        output.push_str(&String::from_utf8_lossy(&done.stdout));
        output.push_str(&String::from_utf8_lossy(&done.stderr));
    }
    panic!("{output}");
}

/// Checks the client in one version of the protocol.
#[track_caller]
fn check_client(version: &str) {
    let project = Project::new().file("client.py", CLIENT);
    let client = project.path("client.py");
    let command = format!("python3 {} {}", client.display(), binary().display());
    check_conformance(
        &project,
        "client",
        version,
        &["--timeout", "120000", "--command", &command],
    );
}

#[test]
fn the_client_conforms_to_the_protocol_of_2025_11_25() {
    check_client("2025-11-25");
}

#[test]
fn the_client_conforms_to_the_protocol_of_2026_07_28() {
    check_client("2026-07-28");
}

#[test]
fn the_client_signs_in_at_the_oldest_servers_and_lacks_the_listed_extensions() {
    check_client(BACKCOMPAT);
    check_client(EXTENSIONS);
}

/// The suite's tools are those of an MCP server of the agent, without its prefix.
#[test]
fn the_server_conforms_to_both_protocols() {
    let project = Project::new()
        .file("tools/suite_tools.cjs", SUITE_TOOLS)
        .file("bearer.cjs", BEARER);
    let tools = project.path("tools");
    let keys = format!(
        "cwd: w1\nmcp_servers: [{{name: s, command: node, args: ['{}/suite_tools.cjs']}}]",
        tools.display()
    );
    let rest = "orchestrator: {context_paths: [tools]}";
    let config = team(&[agent("one", &keys, "- text: done")], rest);
    let arguments = ["mcp", "serve", "--config", "team.yaml", "--http"];
    let served = McpHttpServer::start_server(project.file("team.yaml", config), &arguments);
    let mut bearer = Command::new("node")
        .args(["bearer.cjs", &served.url(), &served.token, PREFIX])
        .current_dir(served.project.path(""))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();
    let mut lines = BufReader::new(bearer.stdout.take().unwrap());
    lines.read_line(&mut address).unwrap();
    for version in ["2025-11-25", "2026-07-28"] {
        let arguments = ["--url", address.trim()];
        check_conformance(&served.project, "server", version, &arguments);
    }
    bearer.kill().unwrap();
    bearer.wait().unwrap();
}

/// Every scenario that is not passed has its reason in the documentation.
#[test]
fn the_documentation_says_why_a_scenario_fails() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (side, page) in [("client", "docs/mcp.md"), ("server", "docs/mcp-server.md")] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        for version in ["2025-11-25", "2026-07-28", EXTENSIONS] {
            let list = format!("tests/cases/conformance/{side}-{version}.yaml");
            let list = fs::read_to_string(root.join(list)).unwrap_or_default();
            let scenarios = list
                .lines()
                .filter_map(|line| line.trim().strip_prefix("- "));
            for scenario in scenarios {
                let mut families = scenario
                    .match_indices('-')
                    .map(|(end, _)| scenario.split_at(end).0);
                let is_named = text.contains(&format!("`{scenario}`"))
                    || families.any(|family| text.contains(&format!("`{family}-*`")));
                assert!(is_named, "{page} does not mention `{scenario}`");
            }
        }
    }
}
