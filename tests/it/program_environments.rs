//! Environment of every program that massgen starts, in a project whose `.env` and config set other
//! values. Each program reports what it sees; `tests/it/dotenv.rs` and `tests/it/git.rs` do the
//! same for git.

use std::fs;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::approvals::start_approval_server_with;
use crate::external_agents::{PROTOCOLS, check_with, external_agent_project};
use crate::mcp::calls_of;
use crate::mcp_login::{LOGIN, project as login_project};
use crate::oauth_server::{OauthBehaviour, OauthServer};
use crate::project::{FinishedCommand, Project, make_program};
use crate::scripted_team::{FINAL, agent, team};
use crate::terminal::{CTRL_D, Terminal};
use crate::waiting::wait_until;

/// Timeout for a program to write its file.
const REPORT_TIME_MAX: Duration = Duration::from_mins(2);

/// Variables that change what a program runs, loads, asks or trusts.
const HARMFUL_VARIABLES: [&str; 36] = [
    "ALL_PROXY",
    "BASH_ENV",
    "BROWSER",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "EDITOR",
    "ENV",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_PARAMETERS",
    "GIT_EXEC_PATH",
    "GIT_EXTERNAL_DIFF",
    "GIT_PAGER",
    "GIT_SSH_COMMAND",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LESSOPEN",
    "NODE_OPTIONS",
    "PAGER",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYOPT",
    "SHELLOPTS",
    "SSH_ASKPASS",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "VISUAL",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "http_proxy",
];
/// Part of the value of each of them.
const CANARY: &str = "CANARY-OF-A-STRANGER";

/// Returns a line of a shell script that reports whether it sees a variable of the attacker's. The
/// line does not contain the reported text.
fn report_line(name: &str) -> String {
    format!("echo {name}-is-$(if env | grep -q {CANARY}; then echo deceived; else echo safe; fi)")
}

/// Adds all those variables to the `.env` of `project`.
fn with_harmful_env(project: Project) -> Project {
    let line = |name: &&str| format!("{name}='/{CANARY}/{name}'\n");
    let lines: String = HARMFUL_VARIABLES.iter().map(line).collect();
    project.file(".env", format!("{lines}DOCKER_HOST=tcp://127.0.0.1:9\n"))
}

/// Returns all texts that were recorded below a directory of the project's.
fn recorded_reports(finished: &FinishedCommand) -> String {
    let logs = finished.project().path(".massgen/massgen_logs");
    let mut grep = Command::new("grep");
    let grep = grep.args(["-rahs", "-e", "-is-safe", "-e", "-is-deceived"]);
    String::from_utf8_lossy(&grep.arg(logs).output().unwrap().stdout).into_owned()
}

/// A server whose tool reports what its own shell sees.
const SERVER: &str = r#"
import json, subprocess, sys
for line in sys.stdin:
    r = json.loads(line); m = r.get("method"); o = {}
    if m == "initialize":
        o = {"protocolVersion": r["params"]["protocolVersion"], "capabilities": {"tools": {}},
             "serverInfo": {"name": "x", "version": "1"}}
    elif m == "tools/list":
        o = {"tools": [{"name": "t", "description": "t", "inputSchema": {"type": "object"}}]}
    elif m == "tools/call":
        told = subprocess.run(["sh", "-c", sys.argv[1]], capture_output=True, text=True).stdout
        o = {"content": [{"type": "text", "text": told}]}
    if r.get("id") is not None:
        print(json.dumps({"jsonrpc": "2.0", "id": r["id"], "result": o}), flush=True)
"#;

/// Runs a command, a server, a hook and a check; `env` is the variables of commands, in YAML.
fn run(project: Project, env: &str) -> FinishedCommand {
    let calls = calls_of(&[
        (
            "execute_command",
            json!({"command": report_line("command")}),
        ),
        ("mcp__x__t", json!({})),
        ("write_file", json!({"path": "a.txt", "content": "x"})),
    ]);
    let replies = format!(
        "{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]\n\
         - when: {{system: \"{FINAL}\"}}\n  text: presented\n- text: done\n  repeat: true\n"
    );
    let keys = format!(
        "cwd: w\nenable_mcp_command_line: true\nenv: {env}\n\
         mcp_servers: [{{name: x, command: python3, args: ['{}', '{}']}}]",
        project.path("given/server.py").display(),
        report_line("server")
    );
    let rest = "orchestrator: {context_paths: [{path: ., permission: write, protected_paths: [given]}]}\n\
                checks: [{name: look, command: 'sh given/check.sh'}]\n\
                hooks: {PreToolUse: [{matcher: write_file, hooks: ['sh given/hook.sh']}]}";
    let hook = format!(
        "cat > /dev/null\nexec >&2\n{}\nexit 2\n",
        report_line("hook")
    );
    project
        .file("given/server.py", SERVER)
        .file("given/hook.sh", hook)
        .file(
            "given/check.sh",
            format!("{}\nexit 1\n", report_line("check")),
        )
        .file("team.yaml", team(&[agent("a", &keys, &replies)], rest))
        .args(["--config", "team.yaml", "task"])
        .run()
}

#[test]
fn harmful_variables_of_a_project_reach_no_process_of_an_agent() {
    let finished = run(with_harmful_env(Project::new()), "{}");
    let marks = recorded_reports(&finished);
    for name in ["command", "server", "hook", "check"] {
        assert!(
            marks.contains(&format!("{name}-is-safe")),
            "{name}: {marks}\n{}",
            finished.stderr()
        );
    }
    assert!(!marks.contains("-is-deceived"), "{marks}");
    // Control: the variables of a named config are visible.
    let named = run(Project::new(), &format!("{{LD_AUDIT: '/{CANARY}'}}"));
    assert!(
        recorded_reports(&named).contains("command-is-deceived"),
        "{}",
        named.stderr()
    );
}

#[test]
fn an_external_agent_sees_nothing_of_a_strangers_variables() {
    for (kind, _) in PROTOCOLS {
        // massgen itself sets some of them.
        let own = |name: &str| {
            name.ends_with("PAGER")
                || name.starts_with("SSL_")
                || name.to_lowercase().ends_with("proxy")
        };
        let (own, others): (Vec<&str>, Vec<&str>) =
            HARMFUL_VARIABLES.iter().partition(|name| own(name));
        let steps = |names: Vec<&str>, expected| -> Vec<_> {
            names
                .into_iter()
                .map(|name| (json!(["env", name]), expected))
                .collect()
        };
        check_with(
            with_harmful_env(external_agent_project()),
            (kind, ""),
            &steps(others, "none"),
        );
        let own = steps(own, "");
        let finished = check_with(with_harmful_env(external_agent_project()), (kind, ""), &own);
        assert!(!finished.stdout().contains(CANARY));
        let mut grep = Command::new("grep");
        let grep = grep
            .args(["-rqs", CANARY])
            .arg(finished.project().path(".massgen"));
        assert!(!grep.status().unwrap().success(), "{kind}");
    }
}

/// Returns the script of a program that writes its environment to the file `seen` in the home, and
/// then acts as a pager.
fn reporting_script(project: &Project) -> String {
    let seen = project.home("seen");
    format!(
        "#!/bin/sh\nenv > {0}.new\nmv {0}.new {0}\ncat\n",
        seen.display()
    )
}

/// Checks that the program of [`reporting_script`] was started with the user's home and none of the
/// attacker's variables.
#[track_caller]
fn check_reported_environment(project: &Project) {
    let seen = project.home("seen");
    wait_until("a program leaves what it sees", REPORT_TIME_MAX, || {
        seen.exists()
    });
    let seen = fs::read_to_string(seen).unwrap();
    let home = format!("HOME={}", project.home("").display());
    assert!(seen.contains(home.trim_end_matches('/')), "{seen}");
    assert!(!seen.contains(CANARY), "{seen}");
}

fn make_executable(project: &Project, path: &str) {
    make_program(&project.path(path));
}

#[test]
fn the_pager_sees_nothing_of_a_strangers_variables() {
    let writes = r#"
- when: {last: Write}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/new.txt", content: x}}]
- calls: [{name: new_answer, arguments: {content: done}}]
  repeat: true
"#;
    let project = Project::new().config(&team(&[agent("a", "cwd: w", writes)], ""));
    let script = reporting_script(&project);
    let project = with_harmful_env(project).file("pager", script);
    make_executable(&project, "pager");
    let pager = project.path("pager");
    let project = project
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("PAGER", pager)
        .args(["--cwd-context", "rw"]);
    let mut terminal = Terminal::open(project, 80);
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("Write it\r");
    terminal.wait_for_output("1 file delivered");
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("/diff\r");
    check_reported_environment(terminal.project());
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys(CTRL_D);
    let _ended = terminal.wait_for_end(0);
}

#[test]
fn the_browser_sees_nothing_of_a_strangers_variables() {
    let server = OauthServer::start(OauthBehaviour::default());
    let project = with_harmful_env(login_project(&server.url(), ""));
    let script = reporting_script(&project);
    let project = project.file("bin/xdg-open", script);
    make_executable(&project, "bin/xdg-open");
    let project = project.args(LOGIN);
    let mut login = project.command();
    let login = login.stdin(Stdio::null()).stdout(Stdio::null());
    let mut login = login.stderr(Stdio::null()).spawn().unwrap();
    check_reported_environment(&project);
    login.kill().unwrap();
    login.wait().unwrap();
}

/// Returns whether `massgen doctor` asks for Docker at the socket whose name `project` is given.
fn is_asked(name: impl FnOnce(Project, &str) -> Project) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("docker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("unix://{}", socket.display());
    let _finished = name(Project::new(), &address).args(["doctor"]).run();
    listener.accept().is_ok()
}

#[test]
fn docker_ignores_an_engine_that_the_project_names() {
    assert!(!is_asked(|project, address| {
        project.file(".env", format!("DOCKER_HOST={address}\n"))
    }));
    assert!(!is_asked(|project, address| {
        project.home_file(".massgen/.env", format!("DOCKER_HOST={address}\n"))
    }));
    // Control: the user's own environment counts.
    assert!(is_asked(
        |project, address| project.env("DOCKER_HOST", address)
    ));
}

#[test]
fn a_found_config_gives_no_program_a_variable() {
    let with = |keys: &str| {
        let keys = format!("cwd: w\n{keys}");
        let replies = "- {text: done, repeat: true}";
        Project::new().config(&team(&[agent("a", &keys, replies)], ""))
    };
    let finished =
        with("mcp_servers: [{name: x, command: python3, args: [a.py], env: {LD_PRELOAD: /x}}]")
            .args(["task"])
            .run();
    let stderr = finished.stderr();
    assert!(
        stderr.contains("found in the project rather than named"),
        "{stderr}"
    );
    // Control: the same config may be named.
    let check = ["config", "check", ".massgen/config.yaml"];
    let named = finished.then(check).success();
    assert!(named.stdout().contains("ok"), "{}", named.stdout());
}

/// A run whose agent runs a program in this language, by an interpreter that says what it sees.
fn run_program(project: Project, language: &str) -> FinishedCommand {
    let (interpreter, code, version, rest) = match language {
        "python" => (
            "python3",
            "print('ran')",
            "",
            "exec /usr/bin/python3 \"$@\"",
        ),
        _ => panic!("{language}"),
    };
    let calls = calls_of(&[("execute_code", json!({"code": code}))]);
    let replies = format!(
        "{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]\n\
         - when: {{system: \"{FINAL}\"}}\n  text: presented\n- text: done\n  repeat: true\n"
    );
    let keys = format!(
        "cwd: w\nenable_mcp_command_line: true\nenable_code_based_tools: true\n\
         code_language: {language}"
    );
    let script = format!("#!/bin/sh\n{version}\n{}\n{rest}\n", report_line("program"));
    let project = project
        .file(&format!("bin/{interpreter}"), script)
        .file("team.yaml", team(&[agent("a", &keys, &replies)], ""));
    make_executable(&project, &format!("bin/{interpreter}"));
    let path = format!("{}:/usr/bin:/bin", project.path("bin").display());
    project
        .env("PATH", path)
        .args(["--config", "team.yaml", "task"])
        .run()
}

#[test]
fn a_program_of_an_agent_sees_nothing_of_a_strangers_variables() {
    let finished = run_program(with_harmful_env(Project::new()), "python");
    let marks = recorded_reports(&finished);
    assert!(
        marks.contains("program-is-safe"),
        "{marks}\n{}",
        finished.stderr()
    );
    assert!(!marks.contains("-is-deceived"), "{marks}");
    // The control: the interpreter tells what it sees.
    let interpreter = finished.project().path("bin").join("python3");
    let mut plain = Command::new(interpreter);
    let plain = plain.arg("-V").env("LD_AUDIT_OF", CANARY).output().unwrap();
    let stdout = String::from_utf8_lossy(&plain.stdout).into_owned();
    assert!(stdout.contains("program-is-deceived"), "{stdout}");
}

#[test]
fn an_approval_program_gets_no_variables_of_the_project() {
    let send_question = |project: Project, content: &str| {
        let calls = calls_of(&[("write_file", json!({"path": "a.txt", "content": content}))]);
        let replies = format!(
            "{calls}- calls: [{{name: new_answer, arguments: {{content: done}}}}]\n- text: done\n  repeat: true\n"
        );
        let rest = "permissions: {ask: [write_file]}";
        let project = project.file("team.yaml", team(&[agent("a", "cwd: w", &replies)], rest));
        let socket = project.home("ask.sock");
        let received = Arc::new(Mutex::new(String::new()));
        let questions = Arc::clone(&received);
        let approvals = start_approval_server_with(&socket, move |question| {
            questions.lock().unwrap().push_str(&question.to_string());
            "no"
        });
        let finished = project
            .args(["--config", "team.yaml", "task", "--approval-socket"])
            .args([&socket])
            .run();
        drop(approvals);
        let received = received.lock().unwrap().clone();
        assert!(
            received.contains("a.txt"),
            "{received}\n{}",
            finished.stderr()
        );
        received
    };
    let content = "${LD_PRELOAD} $PAGER {{PAGER}}";
    let received = send_question(with_harmful_env(Project::new()), content);
    assert!(!received.contains(CANARY), "{received}");
    // The control: the content of the call is shown.
    let received = send_question(Project::new(), CANARY);
    assert!(received.contains(CANARY), "{received}");
}

/// The user's editor is that of the environment: a `.env` file, which may have come with the project,
/// names none.
#[test]
fn an_editor_that_a_project_names_is_not_started() {
    let answers = "- {calls: [{name: new_answer, arguments: {content: done}}], repeat: true}";
    let project = Project::new().config(&team(&[agent("a", "", answers)], ""));
    let script = reporting_script(&project);
    let project = project.file("editor", script);
    make_executable(&project, "editor");
    let editor = project.path("editor").display().to_string();
    let named = format!("EDITOR={editor}\nVISUAL={editor}\n");
    let project = project
        .file(".env", &named)
        .home_file(".massgen/.env", &named)
        .env("TERM", "xterm")
        .env("NO_COLOR", "1")
        .env("EDITOR", "sed -i s/text/edited/");
    let mut terminal = Terminal::open(project, 80);
    terminal.wait_for_prompt(&[">"]);
    terminal.type_keys("text\u{18}\u{5}");
    terminal.wait_for_prompt(&["> edited"]);
    terminal.type_keys("\u{1b}v");
    terminal.type_keys("\u{3}");
    terminal.type_keys(CTRL_D);
    let ended = terminal.wait_for_end(0);
    assert!(!ended.home("seen").exists());
}
