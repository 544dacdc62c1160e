//! Packages of servers: what a run says about a missing one, and what it starts once it is installed.
//! Everything comes from local files; no registry is asked.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::mcp::calls_of;
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::{agent, team};

const SERVER: &str = include_str!("../servers/packaged.cjs");
/// Makes a wheel with a module and a program; its directory is the argument.
const WHEEL: &str = r"
import sys, zipfile
server = '''
import json, os, sys
def main():
    for line in sys.stdin:
        asked = json.loads(line)
        if 'id' not in asked:
            continue
        method, result = asked['method'], None
        if method == 'initialize':
            result = {'protocolVersion': asked['params']['protocolVersion'],
                      'capabilities': {'tools': {}}, 'serverInfo': {'name': 'p', 'version': '1'}}
        elif method == 'tools/list':
            result = {'tools': [{'name': 'probe', 'inputSchema': {'type': 'object'}}]}
        elif method == 'tools/call':
            text = json.dumps({'version': '0.4', 'arguments': sys.argv[1:],
                               'writes': os.access(os.path.dirname(__file__), os.W_OK), 'network': False})
            result = {'content': [{'type': 'text', 'text': text}]}
        answer = {'jsonrpc': '2.0', 'id': asked['id']}
        answer.update({'result': result} if result else {'error': {'code': -32601, 'message': 'none'}})
        print(json.dumps(answer), flush=True)
'''
info = 'py_server-0.4.dist-info/'
with zipfile.ZipFile(sys.argv[1] + '/py_server-0.4-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('py_server.py', server)
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: py-server\nVersion: 0.4\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'entry_points.txt', '[console_scripts]\npy-server = py_server:main\n')
    wheel.writestr(info + 'RECORD', '')
";
const RUN: [&str; 3] = ["--config", "team.yaml", "task"];
const INSTALL: [&str; 4] = ["mcp", "install", "--config", "team.yaml"];

/// Returns a project whose agent calls the tool of the server with this `command`; `{{cwd}}` is
/// replaced by the project.
fn project(command: &str) -> Project {
    let project = Project::new();
    let cwd = project.path("").display().to_string();
    let command = command.replace("{{cwd}}", cwd.trim_end_matches('/'));
    let calls = calls_of(&[("mcp__w__probe", json!({}))]);
    let replies = format!("{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]");
    let keys = format!("cwd: w1\nmcp_servers: [{{name: w, {command}}}]");
    project
        .file("team.yaml", team(&[agent("one", &keys, &replies)], ""))
        .env("PATH", "/usr/bin:/bin")
}

fn npm_project() -> Project {
    let manifest = json!({
        "name": "@tests/packaged",
        "version": "1.2.3",
        "bin": {"packaged": "packaged.cjs"},
        "scripts": {"postinstall": "touch installed-by-a-script"},
    });
    let command = "command: npx, args: [-y, '{{cwd}}/tests-packaged-1.2.3.tgz', --quick]";
    let project = project(command)
        .file("source/package.json", manifest.to_string())
        .file("source/packaged.cjs", SERVER);
    let packed = Command::new("npm")
        .args(["pack", "--silent", "./source"])
        .current_dir(project.path(""))
        .env("HOME", project.home(""))
        .output()
        .unwrap();
    assert!(packed.status.success(), "{packed:?}");
    project
}

/// Checks that a run names the command to type in one line.
#[track_caller]
fn names_the_command(project: Project) -> FinishedCommand {
    let finished = project.retyped(RUN).run();
    let stderr = finished.stderr().to_owned();
    let command = "is not installed: run `massgen mcp install --config team.yaml`";
    let is_named = stderr
        .lines()
        .any(|line| line.contains("the server `w` cannot be used, so ") && line.contains(command));
    assert!(is_named, "{stderr}");
    finished
}

/// Runs the agent and returns what its server said about itself.
#[track_caller]
fn run_probe(project: Project) -> (FinishedCommand, Value) {
    let finished = project.retyped(RUN).success();
    let stderr = finished.stderr();
    let report = stderr
        .lines()
        .find_map(|line| line.split_once("did mcp__w__probe: "));
    let report = report.unwrap_or_else(|| panic!("{stderr}")).1;
    let report = serde_json::from_str(report).unwrap_or_else(|_| panic!("{report}"));
    (finished, report)
}

/// Returns the files in the store whose name is `name`.
fn stored_packages(finished: &FinishedCommand, name: &str) -> Vec<PathBuf> {
    let store = finished.project().home(".massgen/mcp/servers");
    let found = Command::new("find")
        .arg(store)
        .args(["-name", name])
        .output()
        .unwrap();
    let found = String::from_utf8(found.stdout).unwrap();
    found.lines().map(PathBuf::from).collect()
}

#[test]
fn an_installed_package_runs_without_network_and_is_refused_once_it_has_changed() {
    let finished = names_the_command(npm_project());
    let check = ["config", "check", "team.yaml"];
    let finished = finished.then(check).success();
    let stdout = finished.stdout();
    assert!(
        stdout.contains("run `massgen mcp install --config team.yaml` once"),
        "{stdout}"
    );
    assert!(stdout.contains("network: [registry.npmjs.org]"), "{stdout}");

    let finished = finished.then(INSTALL).success();
    let stderr = finished.stderr();
    assert!(
        stderr.contains("installed @tests/packaged 1.2.3 ("),
        "{stderr}"
    );
    assert_eq!(stored_packages(&finished, "installed-by-a-script").len(), 0);
    let (finished, report) = run_probe(finished.then(RUN));
    let expected = json!({
        "version": "1.2.3", "arguments": ["--quick"], "writes": false, "network": false,
    });
    assert_eq!(report, expected);
    let finished = finished.then(check).success();
    assert!(
        finished.stdout().contains("team.yaml: ok"),
        "{}",
        finished.stdout()
    );
    let finished = finished.then(["mcp", "list"]).success();
    let stdout = finished.stdout();
    for expected in [
        "@tests/packaged 1.2.3",
        "tests-packaged-1.2.3.tgz",
        "sha512-",
    ] {
        assert!(stdout.contains(expected), "{stdout}");
    }

    let program = stored_packages(&finished, "packaged.cjs").remove(0);
    let mut file = OpenOptions::new().append(true).open(&program).unwrap();
    file.write_all(b"// changed\n").unwrap();
    let finished = finished.then(RUN).failure(3);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("have changed since it was installed"),
        "{stderr}"
    );
    assert_eq!(events(&finished, "replied").len(), 0);
    let (finished, report) = run_probe(finished.then(INSTALL).success().then(RUN));
    assert_eq!(report, expected);

    let finished = finished
        .then(["mcp", "uninstall", "@tests/packaged"])
        .success();
    assert_eq!(stored_packages(&finished, "packaged.cjs").len(), 0);
    names_the_command(finished.then(RUN));
}

#[test]
fn a_package_of_python_runs_from_its_own_environment() {
    let project = project(
        "command: uvx, args: [--from, '{{cwd}}/py_server-0.4-py3-none-any.whl', py-server, -x]",
    );
    let status = Command::new("/usr/bin/python3")
        .args(["-c", WHEEL])
        .arg(project.path(""))
        .status()
        .unwrap();
    assert!(status.success());
    let finished = names_the_command(project).then(INSTALL).success();
    let stderr = finished.stderr();
    assert!(stderr.contains("installed py-server 0.4 ("), "{stderr}");
    let (_, report) = run_probe(finished.then(RUN));
    let expected =
        json!({"version": "0.4", "arguments": ["-x"], "writes": false, "network": false});
    assert_eq!(report, expected);
}

#[test]
fn only_a_config_that_the_user_names_installs_something() {
    let project = npm_project();
    let config = fs::read_to_string(project.path("team.yaml")).unwrap();
    let finished = project
        .file(".massgen/config.yaml", config)
        .args(["mcp", "install"])
        .failure(2);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("was found in the project rather than named"),
        "{stderr}"
    );
    assert_eq!(stored_packages(&finished, "*").len(), 0);
    let unknown = ["mcp", "install", "other", "--config", "team.yaml"];
    let finished = finished.then(unknown).failure(2);
    assert!(
        finished.stderr().contains("servers with a package: w"),
        "{}",
        finished.stderr()
    );
    let named = ["mcp", "install", "w", "--config", ".massgen/config.yaml"];
    let finished = finished.then(named).success();
    assert_eq!(stored_packages(&finished, "packaged.cjs").len(), 1);
}
