//! MCP servers whose programs run in containers of a real engine: what they reach, what they see of the
//! agent's work, and what is left of them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Child, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::docker::{Daemon, IMAGE, TIME_MAX, daemon};
use crate::docker_faults::containers;
use crate::mcp::{call_results, calls_of, stands_nowhere};
use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{FINAL, agent, team};
use crate::waiting::wait_until;

/// A server that runs on busybox.
const SERVER: &str = include_str!("../servers/in_container.sh");
/// A secret that only the server gets.
const SECRET: &str = "secret-of-the-server-1";
/// The tool that runs a line of a shell in the container.
const RUN: &str = "mcp__box__run";

/// Returns a project with the server, what its agent may read, and a neighbour directory that is not open.
fn project() -> Project {
    Project::new()
        .file("served/server.sh", SERVER)
        .file("given/notes.txt", "zebra notes\n")
        .file("given/hidden/plan.txt", "hidden plan\n")
        .file("outside/secret.txt", "not for agents\n")
        .dir("ws")
        .env("TOKEN", SECRET)
        .env("OTHER", "given-to-commands")
        .args(["--config", "team.yaml", "task"])
}

/// Returns the team of one agent with these `replies`, whose backend has more `keys`. The server has its
/// own. `{{cwd}}` is replaced by the project.
fn with_team(project: Project, server: &str, keys: &str, rest: &str, replies: &str) -> Project {
    let cwd = project.path("").display().to_string();
    let cwd = cwd.trim_end_matches('/').to_owned();
    let keys = format!(
        "cwd: '{{{{cwd}}}}/ws'\nenable_mcp_command_line: true\ncommand_line_execution_mode: docker\n\
         command_line_docker_image: {IMAGE}\n\
         mcp_servers: [{{name: box, run_in: container, content_arguments: [line], env: [TOKEN], \
         timeout_seconds: 60, {server}}}]\n{keys}"
    );
    let yaml = team(&[agent("one", keys.trim_end(), replies)], rest);
    project.file("team.yaml", yaml.replace("{{cwd}}", &cwd))
}

/// Returns a team whose agent makes these calls before it answers.
fn with_calls(project: Project, server: &str, keys: &str, calls: &[(&str, Value)]) -> Project {
    let rest = "orchestrator: {context_paths: [{path: '{{cwd}}/given', hidden_paths: [hidden]}, \
                {path: '{{cwd}}/served'}]}";
    let replies = format!(
        "{}- calls: [{{name: new_answer, arguments: {{content: done}}}}]\n\
         - text: presented\n  repeat: true\n",
        calls_of(calls)
    );
    with_team(project, server, keys, rest, &replies)
}

/// The keys of a server that the image can run.
const USUAL: &str = "command: sh, args: ['{{cwd}}/served/server.sh']";

/// Checks that each call is answered with its text.
#[track_caller]
fn check(project: Project, keys: &str, calls: &[(&str, Value, &str)]) -> FinishedCommand {
    let call_pairs: Vec<(&str, Value)> = calls
        .iter()
        .map(|(tool, arguments, _)| (*tool, arguments.clone()))
        .collect();
    let finished = with_calls(project, USUAL, keys, &call_pairs).success();
    let read = call_results(&finished);
    assert_eq!(read.len(), calls.len(), "{read:#?}\n{}", finished.stderr());
    for (read, (tool, arguments, expected)) in read.iter().zip(calls) {
        assert!(
            read.contains(expected),
            "{tool} {arguments}\n{read}\n{expected}"
        );
    }
    finished
}

fn with_daemon(project: Project, daemon: &Daemon) -> Project {
    project.env("DOCKER_HOST", daemon.host())
}

/// Checks what a server in a container reaches, with a control for each denial, and that it sees what its
/// agent changes.
#[track_caller]
fn check_reach(project: Project, daemon: &Daemon) {
    let cwd = project.path("").display().to_string();
    let cwd = cwd.trim_end_matches('/').to_owned();
    let line = |text: &str| json!({ "line": text.replace("{{cwd}}", &cwd) });
    let write = |text: &str| json!({"path": format!("{cwd}/ws/new.txt"), "content": text});
    let calls = [
        (RUN, line("cat {{cwd}}/given/notes.txt"), "zebra notes"),
        (
            RUN,
            line("cat {{cwd}}/given/hidden/plan.txt || echo closed"),
            "closed",
        ),
        (
            RUN,
            line("cat {{cwd}}/outside/secret.txt || echo closed"),
            "closed",
        ),
        (RUN, line("echo x >{{cwd}}/ws/x || echo refused"), "refused"),
        (
            RUN,
            line("echo x >{{cwd}}/given/x || echo refused"),
            "refused",
        ),
        (RUN, line("echo own >/tmp/x; cat /tmp/x; pwd"), "own"),
        (
            RUN,
            line("cat {{cwd}}/ws/new.txt || echo missing"),
            "missing",
        ),
        ("write_file", write("first"), ""),
        (RUN, line("cat {{cwd}}/ws/new.txt"), "first"),
        (
            "execute_command",
            json!({"command": "echo second >new.txt; ls /tmp"}),
            "",
        ),
        (RUN, line("cat {{cwd}}/ws/new.txt; cat /tmp/x"), "second"),
        ("execute_command", json!({"command": "rm new.txt"}), ""),
        (
            RUN,
            line("cat {{cwd}}/ws/new.txt || echo missing"),
            "missing",
        ),
        // Variables of the server and of the commands are apart, and nothing that is recorded shows them.
        (
            RUN,
            line("echo size $(printf %s $TOKEN | wc -c); echo $TOKEN"),
            "size 22",
        ),
        (
            "execute_command",
            json!({"command": "echo size $(printf %s $TOKEN | wc -c)"}),
            "size 0",
        ),
        (RUN, line("echo size $(printf %s $OTHER | wc -c)"), "size 0"),
        (
            "execute_command",
            json!({"command": "echo size $(printf %s $OTHER | wc -c)"}),
            "size 17",
        ),
    ];
    let credentials = "command_line_docker_credentials: {env_vars: [OTHER]}";
    let finished = check(project, credentials, &calls);
    let read = call_results(&finished);
    for text in &read {
        let shows = text.contains("hidden plan") || text.contains("not for agents");
        assert!(!shows, "{read:#?}");
    }
    stands_nowhere(SECRET, finished.project().path(".massgen"));
    assert_eq!(containers(daemon, finished.project()), "");
    finished.has_no("ws/x").has_no("given/x");
}

#[test]
fn a_server_in_a_container_reads_what_its_agent_reads() {
    let Some(daemon) = daemon() else { return };
    check_reach(with_daemon(project(), &daemon), &daemon);
}

/// Accepts connections for as long as the process lives, and returns the port.
fn start_listener() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 1024];
            let _length = stream.read(&mut request);
            let _sent = stream.write_all(b"reached");
        }
    });
    port
}

#[test]
fn a_server_in_a_container_has_the_network_of_the_commands() {
    let Some(daemon) = daemon() else { return };
    let port = start_listener();
    let fetch = format!("nc -w 5 127.0.0.1 {port} </dev/null || echo closed");
    let fetches = |keys: &str, expected: &str| {
        let call = (RUN, json!({ "line": fetch }), expected);
        check(with_daemon(project(), &daemon), keys, &[call]);
    };
    fetches("", "closed");
    fetches("command_line_docker_network_mode: host", "reached");
}

/// Checks that what a server in a container changes in the workspace comes back after each call, and that
/// nothing else does.
#[track_caller]
fn check_writes(project: Project) {
    let cwd = project.path("").display().to_string();
    let cwd = cwd.trim_end_matches('/').to_owned();
    let line = |text: &str| json!({ "line": text.replace("{{cwd}}", &cwd) });
    let at = |path: &str| json!({"path": format!("{cwd}/{path}")});
    let calls = [
        (RUN, line("echo made >{{cwd}}/ws/made"), ""),
        ("read_file", at("ws/made"), "made"),
        (
            "execute_command",
            json!({"command": "echo more >>made"}),
            "",
        ),
        (
            RUN,
            line("cd {{cwd}}/ws; cat made; echo last >>made"),
            "more",
        ),
        (
            RUN,
            line("echo x >{{cwd}}/given/x || echo refused"),
            "refused",
        ),
        (
            RUN,
            line("mv {{cwd}}/given {{cwd}}/taken || echo refused"),
            "refused",
        ),
    ];
    let call_pairs: Vec<(&str, Value)> = calls
        .iter()
        .map(|(tool, arguments, _)| (*tool, arguments.clone()))
        .collect();
    let server = format!("{USUAL}, permission: write");
    let finished = with_calls(project, &server, "", &call_pairs).success();
    let read = call_results(&finished);
    assert_eq!(read.len(), calls.len(), "{read:#?}\n{}", finished.stderr());
    for (read, (tool, arguments, expected)) in read.iter().zip(&calls) {
        assert!(
            read.contains(expected),
            "{tool} {arguments}\n{read}\n{expected}"
        );
    }
    finished
        .has_file("ws/made", "made\nmore\nlast\n")
        .has_file("given/notes.txt", "zebra notes\n")
        .has_no("given/x");
}

#[test]
fn a_server_in_a_container_writes_where_it_may() {
    let Some(daemon) = daemon() else { return };
    check_writes(with_daemon(project(), &daemon));
}

/// Checks that a final agent and its server see each other's changes, and that what the rules allow of them
/// is delivered.
#[track_caller]
fn check_final(project: Project) {
    let cwd = project.path("").display().to_string();
    let cwd = cwd.trim_end_matches('/').to_owned();
    let rest = "orchestrator: {coordination: {write_mode: legacy}, \
                context_paths: [{path: '{{cwd}}/given', permission: write}, \
                {path: '{{cwd}}/served'}]}";
    let write = json!({"path": format!("{cwd}/given/made.txt"), "content": "of the final agent"});
    let run = |text: &str| json!({ "line": text.replace("{{cwd}}", &cwd) });
    let serve = run(
        "cat {{cwd}}/given/made.txt; cd {{cwd}}/given; echo served >served.txt; mkdir -p .git/hooks; \
         echo evil >.git/hooks/x",
    );
    let replies = format!(
        "- when: {{system: \"{FINAL}\", last: \"of the final agent\"}}\n  text: presented\n\
         - when: {{system: \"{FINAL}\", last: \"zebra notes\"}}\n  \
         calls: [{{name: write_file, arguments: {write}}}]\n\
         - when: {{system: \"{FINAL}\", last: \"made.txt\"}}\n  \
         calls: [{{name: {RUN}, arguments: {serve}}}]\n\
         - when: {{system: \"{FINAL}\"}}\n  calls: [{{name: {RUN}, arguments: {notes}}}]\n\
         - calls: [{{name: new_answer, arguments: {{content: done}}}}]\n",
        notes = run("cat {{cwd}}/given/notes.txt"),
    );
    let server = format!("{USUAL}, permission: write");
    // A change of a protected name is refused, which the exit status says.
    let finished = with_team(project, &server, "", rest, &replies).failure(4);
    let read = call_results(&finished);
    let shows = |text: &str| read.iter().any(|read| read.contains(text));
    assert!(
        shows("of the final agent"),
        "{read:#?}\n{}",
        finished.stderr()
    );
    finished
        .has_file("given/made.txt", "of the final agent")
        .has_file("given/served.txt", "served\n")
        .has_no("given/.git/hooks/x");
}

#[test]
fn a_final_agent_and_its_server_in_a_container_share_their_changes() {
    let Some(daemon) = daemon() else { return };
    check_final(with_daemon(project(), &daemon));
}

#[test]
fn a_server_that_cannot_start_in_its_container_says_why() {
    let Some(daemon) = daemon() else { return };
    let check = |server: &str, arguments: &[&str]| {
        let project = with_calls(with_daemon(project(), &daemon), server, "", &[]);
        let finished = project.failure(3);
        for word in arguments {
            assert!(
                finished.stderr().contains(word),
                "{word}: {}",
                finished.stderr()
            );
        }
        assert_eq!(containers(&daemon, finished.project()), "");
    };
    check(
        "required: true, command: sh, args: [/nowhere/server.sh]",
        &["the server `box` cannot be used", "/nowhere/server.sh"],
    );
    check(
        "required: true, command: ruby, args: [--version]",
        &["the server `box` cannot be used", "ruby", "not found"],
    );
    let optional = "command: ruby, args: [--version]";
    let finished = with_calls(with_daemon(project(), &daemon), optional, "", &[]).success();
    let warning = "warning: the server `box` cannot be used, so `one` works without its tools";
    assert!(finished.stderr().contains(warning), "{}", finished.stderr());
    check(
        &format!("{USUAL}, image: 'none:1'"),
        &["`none:1` is not on this machine"],
    );
}

/// Starts a run whose agent calls its server, and waits until the server works on the call.
fn start_run(project: &Project, daemon: &Daemon) -> Child {
    let mut command = project.command();
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("server", TIME_MAX, || is_at_work(project, daemon));
    child
}

/// Returns whether a server of a project works on a call that lasts.
fn is_at_work(project: &Project, daemon: &Daemon) -> bool {
    let ids = containers(daemon, project);
    ids.lines()
        .any(|id| daemon.processes(id).contains("sleep 120"))
}

#[test]
fn the_next_run_removes_the_container_of_a_server_of_a_killed_run() {
    let Some(daemon) = daemon() else { return };
    let sleep = [(RUN, json!({"line": "sleep 120"}))];
    let project = with_calls(with_daemon(project(), &daemon), USUAL, "", &sleep);
    let mut run = start_run(&project, &daemon);
    let ids = containers(&daemon, &project);
    let names = || {
        ids.lines()
            .map(|id| daemon.client_output(&["inspect", "-f", "{{.Name}}", id]))
    };
    assert!(names().any(|name| name.contains("-server-box-")), "{ids}");
    // Nothing of a server's variables is stored with the container.
    for id in ids.lines() {
        assert!(!daemon.client_output(&["inspect", id]).contains(SECRET));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    // Control: killing only the run removes nothing.
    assert_eq!(containers(&daemon, &project), ids);
    let calls = [(RUN, json!({"line": "echo again"}))];
    let next = with_calls(project, USUAL, "", &calls).success();
    assert_eq!(containers(&daemon, next.project()), "");
}
