//! How much memory massgen takes for messages of other programs that are small as text and large as values.

use std::process::{Command, Output};

use crate::project::{Project, binary};
use crate::scripted_team::{agent, team};

/// The most memory that massgen may take, in KiB. It takes some 60 MiB without such a message.
const PEAK_KIB_MAX: u64 = 240 * 1024;
/// Runs a program and prints the most memory that it or one of its processes took, in KiB, on a last line.
const MEASURE: &str = "import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode
print(f'\\npeak {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}')
sys.exit(code)";

/// A server whose tool answers with a large message, and once more with a text.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    r = json.loads(line); m = r.get("method"); o = {}
    if m == "initialize":
        o = {"protocolVersion": r["params"]["protocolVersion"], "capabilities": {"tools": {}},
             "serverInfo": {"name": "x", "version": "1"}}
    elif m == "tools/list":
        o = {"tools": [{"name": "t", "description": "t", "inputSchema": {"type": "object"}}]}
    elif m == "tools/call":
        o = {"content": [{"type": "text", "text": "heard"}]}
        sys.stdout.write('{"jsonrpc": "2.0", "id": ' + json.dumps(r["id"]) + ', "result": {"content": []'
                         ', "structuredContent": {"a": ' + $VALUE + '}}}\n')
        sys.stdout.flush()
    if r.get("id") is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "result": o}), flush=True)
"#;

/// The values of a large message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// One text.
    One,
    /// As many as fit.
    Many,
}

impl Values {
    /// Python for a value of 15 MiB.
    fn python(self) -> &'static str {
        match self {
            Self::One => r#"'"' + 'x' * (15 << 20) + '"'"#,
            Self::Many => r#"'[' + '{"":0},' * ((15 << 20) // 7) + '0]'"#,
        }
    }
}

/// Runs the arguments of `project`; gives the output and the peak.
fn run_measured(project: &Project) -> (Output, u64) {
    let plain = project.command();
    let mut command = Command::new("python3");
    command
        .args(["-c", MEASURE])
        .arg(binary())
        .args(plain.get_args());
    command.env_clear();
    for (name, value) in plain.get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command.current_dir(plain.get_current_dir().unwrap());
    let output = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let peak = stdout.lines().find_map(|line| line.strip_prefix("peak "));
    (output, peak.unwrap().parse().unwrap())
}

/// A run whose agent calls a server that answers so.
fn with_server(values: Values) -> (String, u64) {
    let server = SERVER.replace("$VALUE", values.python());
    let replies = "- calls: [{name: mcp__x__t, arguments: {}}]\n\
                   - calls: [{name: new_answer, arguments: {content: done}}]\n\
                   - {text: done, repeat: true}\n";
    let project = Project::new().file("server.py", server);
    let path = project.path("server.py").display().to_string();
    let keys = format!("cwd: w\nmcp_servers: [{{name: x, command: python3, args: ['{path}']}}]");
    let rest = "orchestrator: {context_paths: [{path: .}], skip_coordination_rounds: true}";
    let project = project
        .file("team.yaml", team(&[agent("a", &keys, replies)], rest))
        .args(["--config", "team.yaml", "task"]);
    let (output, peak) = run_measured(&project);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let mut grep = Command::new("grep");
    let found = grep
        .args(["-rahs", "-e", "heard", "-e", "xxxxxxxx"])
        .arg(project.path(".massgen"));
    let log = found.output().unwrap().stdout;
    (
        String::from_utf8_lossy(&log).chars().take(1000).collect(),
        peak,
    )
}

#[test]
fn a_message_of_a_server_with_many_values_is_passed_over() {
    let (log, peak) = with_server(Values::Many);
    assert!(peak < PEAK_KIB_MAX, "{peak} KiB");
    // The next message is heard.
    assert!(log.contains("heard"), "{log}");
    // The control: a text of the same length is.
    let (log, peak) = with_server(Values::One);
    assert!(peak < PEAK_KIB_MAX, "{peak} KiB");
    assert!(log.contains("xxxxxxxx"), "{log}");
}

#[test]
fn a_line_of_an_agents_program_with_many_values_ends_it() {
    let script = format!(
        "import sys\nsys.stdin.readline()\nvalue = {}\n\
         sys.stdout.write('{{\"jsonrpc\": \"2.0\", \"a\": ' + value + '}}\\n')\nsys.stdout.flush()\nsys.stdin.read()\n",
        Values::Many.python()
    );
    let project = Project::new().file("given/agent.py", script);
    let path = project.path("given/agent.py").display().to_string();
    let one = format!(
        "agents:\n  - id: one\n    backend: {{type: acp, cwd: w, command: [python3, '{path}']}}\n\
         orchestrator: {{context_paths: [{{path: given}}]}}\n"
    );
    let project = project
        .file("team.yaml", one)
        .args(["--config", "team.yaml", "task"]);
    let (output, peak) = run_measured(&project);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{stderr}");
    assert!(stderr.contains("more than 100000 values"), "{stderr}");
    assert!(peak < PEAK_KIB_MAX, "{peak} KiB");
}
