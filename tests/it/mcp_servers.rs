//! Third-party servers, each at its ordinary work and in attempts to get outside the grants:
//! stopped by the gate if an argument names the path, and by the sandbox otherwise. `tests/all.sh`
//! installs them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::spawn;

use serde_json::{Value, json};

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};
use crate::mcp::{call_results, calls_of};
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::{agent, team};
use crate::slurm_cluster::free_ports;

/// Environment variable with the directory in which the servers are installed.
const INSTALLED: &str = "MASSGEN_TEST_SERVERS";

/// Returns the directory of the servers.
pub(crate) fn installed_servers() -> String {
    std::env::var(INSTALLED).unwrap_or_else(|_| {
        panic!("`{INSTALLED}` names no directory with servers: `tests/all.sh` makes one")
    })
}

/// Returns a project with some files, and a neighbour directory that is not open.
fn project() -> Project {
    Project::new()
        .file("given/notes.txt", "of the project\n")
        .file("given/hidden/plan.txt", "hidden plan\n")
        .file("outside/secret.txt", "not for agents\n")
        .dir("ws")
}

/// Runs one agent with one server, which makes one call per step, and returns what it read for
/// each. `{{cwd}}` is replaced by the project and `{{servers}}` by the directory of the servers.
fn run(project: Project, server: &str, calls: &[(&str, Value)]) -> (FinishedCommand, Vec<String>) {
    run_with(project, (server, ""), calls)
}

/// The same for an agent whose backend has more `keys`.
fn run_with(
    project: Project,
    (server, keys): (&str, &str),
    calls: &[(&str, Value)],
) -> (FinishedCommand, Vec<String>) {
    let cwd = project.path("").display().to_string();
    let cwd = cwd.trim_end_matches('/').to_owned();
    let filled = |text: &str| {
        text.replace("{{cwd}}", &cwd)
            .replace("{{servers}}", &installed_servers())
    };
    let mut replies = calls_of(calls);
    replies.push_str("- calls: [{name: new_answer, arguments: {content: done}}]\n");
    let keys = format!("cwd: '{{{{cwd}}}}/ws'\nmcp_servers: [{server}]\n{keys}");
    let keys = filled(keys.trim_end());
    let rest = filled(
        "orchestrator: {context_paths: [{path: '{{cwd}}/given', hidden_paths: [hidden]}, \
         {path: '{{servers}}'}]}",
    );
    let finished = project
        .file("team.yaml", team(&[agent("one", &keys, &replies)], &rest))
        .args(["--config", "team.yaml", "task"])
        .success();
    let read = call_results(&finished);
    (finished, read)
}

/// Checks that each answer contains its text.
#[track_caller]
fn check(project: Project, server: &str, calls: &[(&str, Value, &str)]) -> FinishedCommand {
    let call_pairs: Vec<(&str, Value)> = calls
        .iter()
        .map(|(tool, arguments, _)| (*tool, arguments.clone()))
        .collect();
    let (finished, read) = run(project, server, &call_pairs);
    assert_eq!(read.len(), calls.len(), "{read:#?}");
    for (read, (tool, arguments, expected)) in read.iter().zip(calls) {
        assert!(
            read.contains(expected),
            "{tool} {arguments}\n{read}\n{expected}"
        );
    }
    finished
}

const FILESYSTEM: &str = "{name: files, command: node, \
    args: ['{{servers}}/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js', '{{cwd}}/given', '{{cwd}}/ws'], ";

#[test]
fn the_filesystem_server_reaches_what_its_agent_reaches() {
    let project = project();
    let cwd = project.path("").display().to_string();
    let at = |path: &str| json!({"path": format!("{cwd}{path}")});
    let read = "mcp__files__read_text_file";
    check(
        project,
        &format!("{FILESYSTEM} permission: read}}"),
        &[
            (read, at("given/notes.txt"), "of the project"),
            (read, at("outside/secret.txt"), "denied: read of"),
            (read, at("given/hidden/plan.txt"), "denied: read of"),
            (
                read,
                json!({"path": "/etc/passwd"}),
                "denied: read of /etc/passwd",
            ),
            (
                "mcp__files__write_file",
                json!({"path": "/etc/x", "content": "x"}),
                "denied: read of",
            ),
            ("mcp__files__list_allowed_directories", json!({}), "given"),
        ],
    );
}

#[test]
fn the_filesystem_server_is_held_where_the_gate_looks_away() {
    let project = project();
    let cwd = project.path("").display().to_string();
    let at = |path: &str| json!({"path": format!("{cwd}{path}")});
    let (read, write) = ("mcp__files__read_text_file", "mcp__files__write_file");
    let file = json!({"path": format!("{cwd}given/new.txt"), "content": "x"});
    let (finished, answers) = run(
        project,
        &format!("{FILESYSTEM} content_arguments: [path]}}"),
        &[
            (read, at("given/notes.txt")),
            (read, at("given/hidden/plan.txt")),
            (read, at("outside/secret.txt")),
            (write, file),
        ],
    );
    assert!(answers[0].contains("of the project"), "{answers:#?}");
    for answer in &answers[1..3] {
        let shows = answer.contains("hidden plan") || answer.contains("not for agents");
        assert!(!shows, "{answers:#?}");
    }
    assert!(!answers[3].contains("Successfully"), "{answers:#?}");
    finished.has_no("given/new.txt");
}

#[test]
fn the_filesystem_server_writes_where_it_may() {
    let project = project();
    let cwd = project.path("").display().to_string();
    let at = |path: &str| json!({"path": format!("{cwd}{path}"), "content": "served\n"});
    let finished = check(
        project,
        &format!("{FILESYSTEM} permission: write}}"),
        &[
            ("mcp__files__write_file", at("ws/new.txt"), "Successfully"),
            (
                "mcp__files__write_file",
                at("given/new.txt"),
                "denied: write to",
            ),
            (
                "mcp__files__write_file",
                at("outside/new.txt"),
                "denied: write to",
            ),
        ],
    );
    finished
        .has_file("ws/new.txt", "served\n")
        .has_no("given/new.txt")
        .has_no("outside/new.txt");
}

const EVERYTHING: &str = "{name: all, command: node, \
    args: ['{{servers}}/node_modules/@modelcontextprotocol/server-everything/dist/index.js', stdio], ";

#[test]
fn the_server_of_everything_does_what_it_has() {
    let finished = check(
        project().env("TOKEN", "secret-of-the-user-2"),
        &format!("{EVERYTHING} timeout_seconds: 30}}"),
        &[
            ("mcp__all__echo", json!({"message": "hello"}), "hello"),
            ("mcp__all__get-sum", json!({"a": 2, "b": 40}), "42"),
            (
                "mcp__all__get-tiny-image",
                json!({}),
                "[massgen: image 1: image/png, 20 x 20 pixels]",
            ),
            (
                "mcp__all__get-structured-content",
                json!({"location": "Chicago"}),
                "emperature",
            ),
            ("mcp__all__list_resources", json!({}), "demo://"),
            ("mcp__all__list_prompts", json!({}), "simple-prompt"),
            (
                "mcp__all__get_prompt",
                json!({"name": "simple-prompt"}),
                "prompt",
            ),
            ("mcp__all__get-roots-list", json!({}), "given"),
            (
                "mcp__all__trigger-elicitation-request",
                json!({}),
                "declined",
            ),
            (
                "mcp__all__gzip-file-as-resource",
                json!({"name": "x.gz", "data": "file:///etc/passwd"}),
                "denied: read of /etc/passwd",
            ),
            (
                "mcp__all__gzip-file-as-resource",
                json!({"name": "x.gz", "data": "https://example.org/"}),
                "",
            ),
        ],
    );
    let read = call_results(&finished);
    assert!(
        !read.last().unwrap().contains("resource"),
        "there is no network: {read:#?}"
    );
    let (_, env) = run(
        project(),
        &format!("{EVERYTHING} env: [TOKEN]}}"),
        &[("mcp__all__get-env", json!({}))],
    );
    assert!(
        env[0].contains("HOME") && !env[0].contains("secret-of-the-user-2"),
        "{env:?}"
    );
}

const GIT: &str = "{name: git, command: /usr/bin/python3, args: [-m, mcp_server_git], \
    env: {PYTHONPATH: '{{servers}}/python'}";

/// Creates a repository with one commit in `given`, and another in `outside`.
fn with_repositories(project: Project) -> Project {
    for dir in ["given", "outside"] {
        let git = |arguments: &[&str]| {
            let done = Command::new("git")
                .args(["-c", "user.name=a", "-c", "user.email=a@example.org"])
                .args(arguments)
                .current_dir(project.path(dir))
                .stdout(Stdio::null())
                .status();
            assert!(done.unwrap().success(), "{arguments:?}");
        };
        git(&["init", "--quiet"]);
        git(&["add", "."]);
        git(&["commit", "--quiet", "-m", &format!("the commit of {dir}")]);
    }
    project
}

#[test]
fn the_git_server_reaches_what_its_agent_reaches() {
    let project = with_repositories(project());
    let cwd = project.path("").display().to_string();
    let given = format!("{cwd}given");
    let at = |path: &str| json!({"repo_path": format!("{cwd}{path}")});
    check(
        project,
        &format!("{GIT}}}"),
        &[
            ("mcp__git__git_log", at("given"), "the commit of given"),
            ("mcp__git__git_status", at("given"), "Repository status"),
            ("mcp__git__git_log", at("outside"), "denied: read of"),
            (
                "mcp__git__git_log",
                at("given/../outside"),
                "denied: read of",
            ),
            (
                "mcp__git__git_add",
                json!({"repo_path": given, "files": ["/etc/passwd"]}),
                "denied: read of /etc/passwd",
            ),
        ],
    );
}

#[test]
fn the_git_server_is_held_where_the_gate_looks_away() {
    let project = with_repositories(project());
    let cwd = project.path("").display().to_string();
    // These paths are not in a call but in the repository's own config.
    let spy = format!(
        "[core]\n\tfsmonitor = \"cat {cwd}outside/secret.txt {cwd}given/notes.txt > {cwd}ws/stolen.txt; \
         cat {cwd}given/notes.txt > {cwd}given/new.txt; false\"\n"
    );
    let path = project.path("given/.git/config");
    let config = fs::read_to_string(&path).unwrap();
    fs::write(path, config + &spy).unwrap();
    let (finished, _) = run(
        project,
        &format!("{GIT}, permission: write, content_arguments: [repo_path]}}"),
        &[(
            "mcp__git__git_status",
            json!({"repo_path": format!("{cwd}given")}),
        )],
    );
    finished
        .has_file("ws/stolen.txt", "of the project\n")
        .has_no("given/new.txt");
}

/// A remote server, which stops with the test.
struct Remote(Child, u16);

impl Remote {
    /// Starts a server with this protocol.
    fn start(protocol: &str) -> Self {
        let port = free_ports(1)[0];
        let index = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let mut child = Command::new("node")
            .arg(format!("{}/{index}", installed_servers()))
            .arg(protocol)
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let listens = lines.any(|line| line.unwrap().contains(" on port "));
        assert!(listens, "the server ended");
        // A server whose output cannot be written would exit.
        spawn(move || lines.for_each(drop));
        Self(child, port)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_server_on_the_network_is_used() {
    let remote = Remote::start("streamableHttp");
    for (host, keys) in [("127.0.0.1", ""), ("localhost", "type: streamable-http, ")] {
        let url = format!("http://{host}:{}/mcp", remote.1);
        let server =
            format!("{{name: all, {keys}url: '{url}', security: {{allow_localhost: true}}}}");
        check(
            project(),
            &server,
            &[
                ("mcp__all__echo", json!({"message": "hello"}), "hello"),
                ("mcp__all__get-sum", json!({"a": 2, "b": 40}), "42"),
                (
                    "mcp__all__echo",
                    json!({"message": "/etc/passwd"}),
                    "denied: read of /etc/passwd",
                ),
                ("mcp__all__get-roots-list", json!({}), ""),
            ],
        );
    }
}

#[test]
fn a_server_without_the_streamable_transport_is_reported() {
    let refused = |status| ScriptedResponse::whole(status, &[], "what: is this?");
    let message =
        json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32600, "message": "not now"}});
    let json = ["content-type: application/json"];
    let unsupported = "it does not support streamable HTTP, the only transport that massgen has for \
                       servers on the network: HTTP 405 Method Not Allowed";
    for (answer, expected) in [
        (refused("405 Method Not Allowed"), unsupported),
        (refused("403 Forbidden"), "HTTP 403"),
        (refused("500 Oh No"), "HTTP 500"),
        (
            ScriptedResponse::whole("302 Found", &["location: /new"], ""),
            "HTTP 302",
        ),
        (
            ScriptedResponse::whole("400 Bad Request", &json, message.to_string()),
            "not now",
        ),
    ] {
        let endpoint = Endpoint::start_with(move |_| answer.clone());
        let server = format!(
            "{{name: t, url: '{}/old', required: true, security: {{allow_localhost: true}}}}",
            endpoint.server.url
        );
        let keys = format!("cwd: w1\nmcp_servers: [{server}]");
        let finished = Project::new()
            .file("team.yaml", team(&[agent("one", &keys, "- text: x")], ""))
            .args(["--config", "team.yaml", "task"])
            .failure(3);
        let stderr = finished.stderr();
        for expected in ["the server `t` cannot be used: ", expected] {
            assert!(stderr.contains(expected), "{stderr}\n{expected}");
        }
        assert_eq!(events(&finished, "replied").len(), 0);
        // Some answers may mean only that the newest protocol is not known.
        let requests = endpoint.server.requests();
        let is_post = |request: &ReceivedRequest| request.line == "POST /old";
        assert!(requests.len() <= 3 && requests.iter().all(is_post));
    }
}

#[test]
fn an_agent_without_a_workspace_asks_servers_on_the_network_and_nothing_else() {
    let remote = Remote::start("streamableHttp");
    let url = format!("http://127.0.0.1:{}/mcp", remote.1);
    let server = format!("{{name: all, url: '{url}', security: {{allow_localhost: true}}}}");
    let echo = |message: &str| ("mcp__all__echo", json!({"message": message}));
    let calls = [
        echo("hello"),
        echo("/etc/passwd"),
        echo("../given/notes.txt"),
        ("read_text_file", json!({"path": "given/notes.txt"})),
    ];
    let mut replies = calls_of(&calls);
    replies.push_str("- calls: [{name: new_answer, arguments: {content: done}}]\n");
    let agents = [agent("one", &format!("mcp_servers: [{server}]"), &replies)];
    let project = project().file("team.yaml", team(&agents, ""));
    let read = call_results(&project.args(["--config", "team.yaml", "task"]).success());
    assert!(read[0].contains("hello"), "{read:#?}");
    assert!(read[1].contains("denied: read of /etc/passwd"), "{read:#?}");
    assert!(read[2].contains("denied: read of ../given"), "{read:#?}");
    assert!(read[3].contains("do not have the tool"), "{read:#?}");
}

#[test]
fn a_name_that_stands_for_this_machine_is_not_connected_to() {
    let remote = Remote::start("streamableHttp");
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let url = format!("http://{}:{}/mcp", name.trim(), remote.1);
    let server = format!("{{name: all, url: '{url}'}}");
    let keys = format!("cwd: w1\nmcp_servers: [{server}]");
    let finished = Project::new()
        .file("team.yaml", team(&[agent("one", &keys, "- text: x")], ""))
        .args(["--config", "team.yaml", "task"])
        .failure(3);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("the server `all` cannot be used"),
        "{stderr}"
    );
    assert_eq!(events(&finished, "replied").len(), 0);
}

#[test]
fn a_program_calls_the_tools_of_a_server_through_the_same_gate() {
    let check = |keys: &str, expected: &[&str]| {
        let program = "import workspace_tools\n\
            print(workspace_tools.mcp__all__echo(message='from a program'))\n";
        let keys = format!("enable_code_based_tools: true\n{keys}");
        let calls = [("execute_code", json!({"code": program}))];
        let (_, read) = run_with(project(), (&format!("{EVERYTHING}}}"), &keys), &calls);
        for expected in expected {
            assert!(read[0].contains(expected), "{read:#?}\n{expected}");
        }
    };
    check("", &["Echo: from a program", "mcp__all__echo"]);
    let denied = "permissions: {deny: ['mcp(all/echo)']}";
    check(denied, &["`permissions` denies it", "mcp__all__echo"]);
}

#[test]
fn rules_close_the_tools_of_a_server_by_their_names() {
    let check = |keys: &str, expected: &str| {
        let calls = [("mcp__all__echo", json!({"message": "hi"}))];
        let (_, read) = run_with(project(), (&format!("{EVERYTHING}}}"), keys), &calls);
        assert!(read[0].contains(expected), "{keys}: {read:#?}");
    };
    check("", "Echo: hi");
    check("permissions: {deny: ['mcp(other/*)']}", "Echo: hi");
    check("permissions: {deny: ['mcp(all/echo)']}", "denies it");
    check("permissions: {deny: ['mcp(all/*)']}", "denies it");
    check("permissions: {ask: ['mcp(all/echo)']}", "denied");
}

#[test]
fn a_server_says_what_of_its_tools_is_closed() {
    let check = |keys: &str, expected: &str| {
        let calls = [("mcp__all__echo", json!({"message": "hi"}))];
        let (_, read) = run(project(), &format!("{EVERYTHING}{keys}}}"), &calls);
        assert!(read[0].contains(expected), "{keys}: {read:#?}");
    };
    check("tools: {echo: allow}", "Echo: hi");
    check("tools: {get-sum: deny}", "Echo: hi");
    check("tools: {echo: ask}", "denied");
    check("tools: {echo: deny}", "there is no tool `mcp__all__echo`");
}
