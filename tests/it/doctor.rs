//! `massgen doctor` on machines that lack one thing at a time: the real binary with a prepared
//! `PATH`, home and environment, real sockets and a real server.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread;

use rustix::process::geteuid;
use serde_json::Value;

use crate::http_server::{Endpoint, ScriptedResponse};
use crate::project::{FinishedCommand, Project, make_program};
use crate::scripted_team::{agent, team};
use crate::slurm_cluster::free_ports;

const KEY: &str = "sk-or-v1-0123456789abcdef";
const SCRIPTED: &str = "agents:\n  - id: a\n    backend: {type: scripted, replies: [{text: hi}]}\n";

/// Returns a project whose team needs nothing, with the doctor command.
fn doctor_project() -> Project {
    Project::new()
        .file("team.yaml", SCRIPTED)
        .args(["doctor", "--json"])
}

fn of_team(project: Project) -> Project {
    project.args(["--config", "team.yaml"])
}

/// The finding about one subject.
#[derive(Debug)]
struct SubjectFinding {
    verdict: String,
    message: String,
    remedy: String,
}

/// Returns the finding about `subject`.
#[track_caller]
fn finding_about(finished: &FinishedCommand, area: &str, subject: &str) -> SubjectFinding {
    let report: Value = serde_json::from_str(finished.stdout()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let is_it = |finding: &&Value| finding["area"] == area && finding["subject"] == subject;
    let Some(finding) = findings.iter().find(is_it) else {
        panic!("nothing about {subject} in {report:#}");
    };
    let remedies: Vec<&str> = finding["remedy"]
        .as_array()
        .unwrap()
        .iter()
        .map(|remedy| remedy.as_str().unwrap())
        .collect();
    SubjectFinding {
        verdict: finding["verdict"].as_str().unwrap().to_owned(),
        message: finding["message"].as_str().unwrap().to_owned(),
        remedy: remedies.join("\n"),
    }
}

/// Checks the verdict about one subject, and that a problem has a remedy.
#[track_caller]
fn check(finished: &FinishedCommand, (area, subject): (&str, &str), verdict: &str, message: &str) {
    let found = finding_about(finished, area, subject);
    assert_eq!(found.verdict, verdict, "{found:?}");
    assert!(found.message.contains(message), "{found:?}");
    let is_bad = matches!(verdict, "warning" | "missing");
    assert!(!is_bad || !found.remedy.is_empty(), "{found:?}");
}

fn is_root() -> bool {
    geteuid().is_root()
}

#[test]
fn the_programs_of_servers_have_to_be_there() {
    let servers = "mcp_servers: [{name: here, command: bash}, {name: gone, command: fastmcp}, \
                   {name: web, url: 'https://e.org/mcp'}]";
    let agents = [agent("a", &format!("cwd: w\n{servers}"), "- text: hi")];
    let project = of_team(doctor_project()).file("team.yaml", team(&agents, ""));
    let finished = project.failure(3);
    let here = finding_about(&finished, "servers", "here");
    assert_eq!(here.verdict, "ok");
    assert!(here.message.contains("/bash`"), "{}", here.message);
    let gone = finding_about(&finished, "servers", "gone");
    assert_eq!(gone.verdict, "missing");
    assert_eq!(gone.message, "program `fastmcp` not found");
    assert!(gone.remedy.contains("install it"), "{}", gone.remedy);
    let web = finding_about(&finished, "servers", "web");
    assert_eq!(web.verdict, "skipped");
    assert_eq!(
        web.message,
        "not tested: `https://e.org/mcp` is a remote server"
    );
    // A sandbox finds the system's programs whatever is in `PATH`.
    let again = finished.then(["doctor", "--json", "--config", "team.yaml"]);
    let finished = again.env("PATH", "/nowhere").failure(3);
    assert_eq!(finding_about(&finished, "servers", "here").verdict, "ok");
    assert_eq!(
        finding_about(&finished, "servers", "gone").verdict,
        "missing"
    );
}

/// Versions of Python 3 that a machine may have.
const PYTHON_MINORS: std::ops::Range<u32> = 8..30;

#[test]
fn massgens_python_package_has_to_be_there_for_its_tools() {
    let subject = ("servers", "Python package massgen");
    let with_tools = |keys: &str| {
        let keys = format!("cwd: w\n{keys}");
        let agents = [agent("a", &keys, "- text: hi")];
        // A directory of the project is no package that is installed.
        of_team(doctor_project())
            .file("team.yaml", team(&agents, ""))
            .file("own.py", "")
            .file("massgen/__init__.py", "")
    };
    let discovering = "enable_code_based_tools: true\nauto_discover_custom_tools: true";
    for keys in [
        "custom_tools: [{path: massgen/tool/_basic/_two_num_tool.py, function: two_num_tool}]",
        "custom_tools: [{path: massgen.tool._basic, function: two_num_tool}]",
        "custom_tools: [{function: two_num_tool}]",
        discovering,
    ] {
        let finished = with_tools(keys).run();
        check(&finished, subject, "warning", "not installed for `python3`");
        let mut project = with_tools(keys);
        for minor in PYTHON_MINORS {
            let init_file = format!(".local/lib/python3.{minor}/site-packages/massgen/__init__.py");
            project = project.home_file(&init_file, "raise SystemExit(9)\n");
        }
        // The sandbox of a run opens the user's packages only with the programs beside them.
        let closed = project.run();
        let message = "site-packages/massgen`, which the sandbox of a run does not open";
        check(&closed, subject, "warning", message);
        let project = closed.then(["doctor", "--json", "--config", "team.yaml"]);
        let path = format!("{}:/usr/bin:/bin", project.home(".local/bin").display());
        check(
            &project.env("PATH", path).run(),
            subject,
            "ok",
            "site-packages/massgen`",
        );
    }
    let own = "custom_tools: [{path: own.py, function: f}]";
    let finished = with_tools(own).run();
    let stdout = finished.stdout();
    assert!(!stdout.contains(subject.1), "{stdout}");
    check(&finished, ("servers", "custom_tool__f"), "ok", "/python3");
}

#[test]
fn files_of_custom_tools_have_to_be_there() {
    let keys = "cwd: w\ncustom_tools: [{path: gone.py, function: f}]\n\
                tools: [{name: t, command: ./gone.sh, description: d}]";
    let agents = [agent("a", keys, "- text: hi")];
    let finished = of_team(doctor_project())
        .file("team.yaml", team(&agents, ""))
        .failure(3);
    for (tool, file) in [
        ("custom_tool__f", "gone.py"),
        ("custom_tool__t", "./gone.sh"),
    ] {
        let message = format!("file `{file}` not found");
        check(&finished, ("servers", tool), "missing", &message);
    }
}

#[test]
fn a_team_that_needs_nothing_lacks_nothing() {
    let finished = of_team(doctor_project()).success();
    check(&finished, ("config", "team.yaml"), "ok", "1 agent");
    check(&finished, ("keys", "agent a"), "ok", "scripted");
    check(&finished, ("endpoints", "none"), "ok", "uses no endpoint");
    check(&finished, ("disk", "state directory"), "ok", "fsync");
    check(&finished, ("sandbox", "gate"), "ok", "openat2");
    check(&finished, ("terminal", "standard output"), "ok", "pipe");
    let report: Value = serde_json::from_str(finished.stdout()).unwrap();
    assert_eq!(report["schema_version"], 1);
    assert_ne!(report["verdict"], "missing");
    let _clean = finished.has_no(".massgen");
}

#[test]
fn text_has_columns_remedies_and_a_last_line() {
    let project = Project::new().file("team.yaml", SCRIPTED);
    let arguments = ["doctor", "--config", "team.yaml"];
    let finished = project.env("PATH", "/nowhere").args(arguments).success();
    let shown = finished.stdout();
    assert!(!shown.contains('\u{1b}'), "{shown}");
    assert!(
        shown.contains("ok      config    team.yaml: 1 agent\n"),
        "{shown}"
    );
    assert!(
        shown.contains("\nwarning git       git: not found"),
        "{shown}"
    );
    assert!(
        shown.contains("\n                  remedy: sudo apt-get"),
        "{shown}"
    );
    let mut last = shown.lines().rev();
    // The remedy of the first warning.
    let next = last.next().unwrap();
    assert!(next.starts_with("next: ") && next.len() > 6, "{next}");
    let summary = last.next().unwrap();
    assert!(
        summary.starts_with("nothing required is missing; "),
        "{summary}"
    );
}

#[test]
fn a_terminal_is_distinguished_from_a_pipe() {
    let project = Project::new().file("team.yaml", SCRIPTED);
    let project = project.env("TERM", "xterm").env("LANG", "C.UTF-8");
    let finished = project
        .args(["doctor", "--config", "team.yaml"])
        .on_terminal();
    let shown = finished.stdout();
    assert!(
        shown.contains("a terminal of 80 by 24 characters, colours"),
        "{shown}"
    );
    assert!(shown.contains("UTF-8 (`LANG=C.UTF-8`)"), "{shown}");
    assert!(shown.contains("\u{1b}[32mok"), "{shown}");
    let finished = of_team(doctor_project()).env("LC_ALL", "POSIX").success();
    check(
        &finished,
        ("terminal", "letters"),
        "warning",
        "`LC_ALL=POSIX`",
    );
}

#[test]
fn keys_are_named_with_their_place_and_never_shown() {
    let finished = doctor_project()
        .env("OPENROUTER_API_KEY", KEY)
        .home_file(".massgen/.env", "GROQ_API_KEY=gsk-0123456789abcdef\n")
        .success();
    let openrouter = ("keys", "OPENROUTER_API_KEY");
    check(
        &finished,
        openrouter,
        "ok",
        "set in the environment, for `openrouter`",
    );
    let expected = "set in `[HOME]/.massgen/.env:1`, for `groq`";
    check(&finished, ("keys", "GROQ_API_KEY"), "ok", expected);
    check(&finished, ("config", "team"), "ok", "groq (llama");
    for part in ["0123", "sk-or", "gsk-"] {
        assert!(!finished.stdout().contains(part), "{}", finished.stdout());
    }
}

#[test]
fn without_a_config_one_way_to_a_model_is_enough() {
    let finished = doctor_project().env("OPENROUTER_API_KEY", KEY).success();
    check(&finished, ("config", "team"), "warning", "no default model");
    let finished = doctor_project().run();
    // A local model server on the test machine counts too.
    if finished.code() != Some(0) {
        assert_eq!(finished.code(), Some(3));
        check(
            &finished,
            ("config", "team"),
            "missing",
            "no API key is set",
        );
    }
}

#[test]
fn with_a_config_each_agents_key_is_needed() {
    let team = "agents:\n  \
        - {id: a, backend: {type: openrouter, model: m}}\n  \
        - {id: b, backend: {type: grok, model: n}}\n";
    let with_team = || of_team(doctor_project().file("team.yaml", team));
    let finished = with_team().env("OPENROUTER_API_KEY", KEY).failure(3);
    check(&finished, ("keys", "agent a"), "ok", "`OPENROUTER_API_KEY`");
    check(
        &finished,
        ("keys", "agent b"),
        "missing",
        "`XAI_API_KEY` is not set",
    );
    let control = with_team()
        .env("OPENROUTER_API_KEY", KEY)
        .env("XAI_API_KEY", KEY);
    let _all_there = control.success();
}

#[test]
fn a_problem_of_several_agents_is_one_finding() {
    let team = "agents:\n  \
        - {id: a, backend: {type: claude_code, cwd: w1}}\n  \
        - {id: b, backend: {type: scripted, replies: [{text: hi}]}}\n  \
        - {id: c, backend: {type: claude_code, cwd: w2}}\n  \
        - {id: d, backend: {type: scripted, replies: [{text: hi}]}}\n  \
        - {id: e, backend: {type: claude_code, cwd: w3, command: [/nowhere/claude]}}\n";
    let project = of_team(doctor_project().file("team.yaml", team));
    let finished = project.failure(3);
    let report: Value = serde_json::from_str(finished.stdout()).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let of_agents = |finding: &&Value| finding["subject"].as_str().unwrap().starts_with("agent");
    let shown: Vec<String> = findings
        .iter()
        .filter(of_agents)
        .map(|finding| {
            let text = |name: &str| finding[name].as_str().unwrap().to_owned();
            format!(
                "{} {}: {}",
                text("verdict"),
                text("subject"),
                text("message")
            )
        })
        .collect();
    let expected = [
        "missing agents a, c: program `claude` not found",
        "ok agent b: scripted with scripted replies",
        "ok agent d: scripted with scripted replies",
        "missing agent e: program `/nowhere/claude` not found",
        "warning agents a, c: `claude_code` has no API key and no token",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_config_that_cannot_be_run_is_missing() {
    let broken = of_team(doctor_project().file("team.yaml", "agents: []\nmodle: x\n")).failure(3);
    let found = finding_about(&broken, "config", "team.yaml");
    assert_eq!(found.remedy, "massgen config check team.yaml");
    let elsewhere = "agents: [{id: a, backend: {type: chatcompletion, model: m, \
        base_url: 'https://evil.example/v1'}}]\n";
    let found_one = doctor_project()
        .env("OPENAI_API_KEY", KEY)
        .config(elsewhere)
        .failure(3);
    let name = ".massgen/config.yaml";
    check(
        &found_one,
        ("config", name),
        "missing",
        "would send your key",
    );
    let nowhere = doctor_project()
        .args(["--config", "nowhere.yaml"])
        .failure(2);
    assert!(
        nowhere
            .stderr()
            .contains("config `nowhere.yaml` does not exist"),
        "{}",
        nowhere.stderr()
    );
}

#[test]
fn a_limit_that_cannot_be_enforced_is_reported() {
    let team = |limit: &str| {
        let agent = "agents: [{id: a, backend: {type: openrouter, model: no/such-model}}]\n";
        let project = doctor_project().file("team.yaml", format!("{agent}{limit}"));
        of_team(project).env("OPENROUTER_API_KEY", KEY)
    };
    let unpriced = team("limits: {max_cost_usd: 1}\n").failure(3);
    check(&unpriced, ("config", "prices"), "missing", "is unknown");
    let _control = team("limits: {max_tokens_total: 1000}\n").success();
}

/// Returns a team of one agent at this endpoint, with a key.
fn at(base_url: &str) -> Project {
    let team = format!(
        "agents:\n  - {{id: a, backend: {{type: chatcompletion, model: m1, base_url: '{base_url}'}}}}\n"
    );
    of_team(doctor_project().file("team.yaml", team)).env("OPENAI_API_KEY", KEY)
}

#[test]
fn doctor_sends_no_request_without_online() {
    let endpoint =
        Endpoint::start_with(|_| ScriptedResponse::whole("200 OK", &[], r#"{"data":[]}"#));
    let finished = at(&endpoint.base_url()).success();
    let models_url = format!("{}/models", endpoint.base_url());
    check(
        &finished,
        ("endpoints", &models_url),
        "skipped",
        "not tested without `--online`",
    );
    assert_eq!(
        finding_about(&finished, "endpoints", &models_url).remedy,
        "massgen doctor --online"
    );
    assert_eq!(endpoint.server.requests().len(), 0);
}

#[track_caller]
fn check_online(endpoint: &Endpoint, code: i32, verdict: &str, message: &str) {
    let finished = at(&endpoint.base_url()).args(["--online"]).failure(code);
    check(&finished, ("endpoints", "agent a"), verdict, message);
    let requests = endpoint.server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].line, "GET /v1/models");
    assert_eq!(
        requests[0].headers["authorization"],
        format!("Bearer {KEY}")
    );
    assert!(!finished.stdout().contains(KEY));
}

#[test]
fn an_endpoint_is_asked_for_its_models() {
    let endpoint = |status: &'static str, body: &'static str| {
        Endpoint::start_with(move |_| ScriptedResponse::whole(status, &[], body))
    };
    let models = r#"{"data":[{"id":"m0"},{"id":"m1"}]}"#;
    check_online(&endpoint("200 OK", models), 0, "ok", "lists `m1`");
    let others = r#"{"data":[{"id":"m11"}]}"#;
    check_online(
        &endpoint("200 OK", others),
        0,
        "warning",
        "does not list `m1`",
    );
    check_online(
        &endpoint("404 Not SubjectFinding", ""),
        0,
        "warning",
        "without a model list",
    );
    check_online(
        &endpoint("429 Too Many Requests", ""),
        0,
        "warning",
        "rate limited",
    );
    let refused = endpoint("401 Unauthorized", "{}");
    check_online(
        &refused,
        3,
        "missing",
        "rejects the API key `OPENAI_API_KEY`",
    );
    check_online(&endpoint("500 Oops", ""), 3, "missing", "HTTP 500");
}

#[test]
fn agents_with_keys_of_their_own_are_judged_by_them() {
    let endpoint = Endpoint::start_with(|request| {
        if request.headers["authorization"] == "Bearer good-key" {
            ScriptedResponse::whole("200 OK", &[], r#"{"data":[{"id":"m1"}]}"#)
        } else {
            ScriptedResponse::whole("401 Unauthorized", &[], "{}")
        }
    });
    let agent = |id: &str, key: &str| {
        let url = endpoint.base_url();
        format!(
            "{{id: {id}, backend: {{type: chatcompletion, model: m1, base_url: '{url}', api_key: {key}}}}}"
        )
    };
    let agents = [
        agent("a", "bad-key"),
        agent("b", "good-key"),
        agent("c", "good-key"),
    ];
    let team = format!("agents: [{}]", agents.join(", "));
    let finished = of_team(doctor_project().file("team.yaml", team))
        .args(["--online"])
        .failure(3);
    let refused = "rejects the API key of the config";
    check(&finished, ("endpoints", "agent a"), "missing", refused);
    for agent in ["agent b", "agent c"] {
        check(&finished, ("endpoints", agent), "ok", "lists `m1`");
    }
    assert_eq!(endpoint.server.requests().len(), 2);
}

#[track_caller]
fn check_way(kind: &str, variable: &str, line: &str, (header, value): (&str, &str)) {
    let models = r#"{"data":[{"id":"m1"}],"models":[{"name":"models/m1"}]}"#;
    let endpoint = Endpoint::start_with(move |_| ScriptedResponse::whole("200 OK", &[], models));
    let url = &endpoint.server.url;
    let team =
        format!("agents: [{{id: a, backend: {{type: {kind}, model: m1, base_url: '{url}'}}}}]");
    let project = of_team(doctor_project().file("team.yaml", team)).env(variable, KEY);
    let finished = project.args(["--online"]).success();
    check(&finished, ("endpoints", "agent a"), "ok", "lists `m1`");
    let [request] = &endpoint.server.requests()[..] else {
        panic!("{kind}")
    };
    assert_eq!(request.line, line, "{kind}");
    assert_eq!(request.headers[header], value, "{kind}");
}

#[test]
fn every_vendor_is_asked_in_its_own_way() {
    let line = "GET /v1/models?limit=1000";
    check_way("claude", "ANTHROPIC_API_KEY", line, ("x-api-key", KEY));
    let bearer = format!("Bearer {KEY}");
    let authorization = ("authorization", bearer.as_str());
    check_way("openai", "OPENAI_API_KEY", "GET /models", authorization);
    let line = "GET /openai/models?api-version=2024-12-01-preview";
    check_way(
        "azure_openai",
        "AZURE_OPENAI_API_KEY",
        line,
        ("api-key", KEY),
    );
    let line = "GET /models?pageSize=1000";
    check_way("gemini", "GEMINI_API_KEY", line, ("x-goog-api-key", KEY));
}

#[test]
fn an_endpoint_that_refuses_or_hangs_is_reported() {
    let hangs = Endpoint::start_with(|_| ScriptedResponse::default().await_close());
    check_online(&hangs, 3, "missing", "no response within 10 s");
    let closed_port = free_ports(1)[0];
    let finished = at(&format!("http://127.0.0.1:{closed_port}/v1"))
        .args(["--online"])
        .failure(3);
    check(&finished, ("endpoints", "agent a"), "missing", "refused");
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", plain.local_addr().unwrap());
    thread::spawn(move || {
        for connection in plain.incoming() {
            connection.unwrap().write_all(b"this is no TLS").unwrap();
        }
    });
    let finished = at(&url).args(["--online"]).failure(3);
    check(
        &finished,
        ("endpoints", "agent a"),
        "missing",
        "not reachable",
    );
}

fn make_fake_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    make_program(path);
}

#[test]
fn versions_of_programs_are_found_by_starting_them() {
    let with_path = |project: Project| {
        let bin = project.home("bin");
        project.env("PATH", bin)
    };
    let bare = with_path(of_team(doctor_project())).success();
    check(&bare, ("git", "git"), "warning", "not found in `PATH`");
    let project = with_path(of_team(doctor_project())).home_file("bin/readme", "");
    make_fake_program(&project.home("bin/git"), "echo broken >&2; exit 1");
    let finished = project.success();
    check(
        &finished,
        ("git", "git"),
        "warning",
        "does not work: broken",
    );

    // A program in the project itself is never started.
    let project = of_team(doctor_project()).env("PATH", ".:bin").dir("bin");
    make_fake_program(&project.path("git"), "echo ran > started");
    make_fake_program(&project.path("bin/git"), "echo ran > started");
    let finished = project.success();
    check(&finished, ("git", "git"), "warning", "not found in `PATH`");
    let _unstarted = finished.has_no("started");
}

#[test]
fn a_repository_is_distinguished_from_a_directory() {
    let outside = of_team(doctor_project()).success();
    check(&outside, ("git", "git"), "warning", "not a git repository");
    let remedy = finding_about(&outside, "git", "git").remedy;
    assert!(remedy.starts_with("git init && "), "{remedy}");
    // Nobody is told to commit the home directory.
    let project = of_team(doctor_project());
    let home = project.path("");
    let at_home = project.env("HOME", home).run();
    let finding = finding_about(&at_home, "git", "git");
    assert!(
        finding
            .message
            .ends_with("this directory is your home directory"),
        "{finding:?}"
    );
    assert_eq!(
        finding.remedy,
        "start massgen in the directory of a project"
    );
    let project = of_team(doctor_project());
    let status = std::process::Command::new("git")
        .args(["init", "-q"])
        .current_dir(project.path(""))
        .status();
    assert!(status.unwrap().success());
    check(
        &project.success(),
        ("git", "git"),
        "ok",
        "repository `[PROJECT]`",
    );
}

#[test]
fn a_directory_that_cannot_be_written_is_missing() {
    let linked = of_team(
        doctor_project()
            .dir("elsewhere")
            .link(".massgen", "elsewhere"),
    )
    .failure(3);
    check(
        &linked,
        ("disk", "state directory"),
        "missing",
        "it is a symlink",
    );
    let in_the_way = of_team(doctor_project().file(".massgen", "")).failure(3);
    check(
        &in_the_way,
        ("disk", "state directory"),
        "missing",
        "cannot create",
    );
    if is_root() {
        println!("skipped: nothing is closed to root");
        return;
    }
    let project = of_team(doctor_project());
    fs::set_permissions(project.path(""), Permissions::from_mode(0o555)).unwrap();
    let closed = project.failure(3);
    check(
        &closed,
        ("disk", "state directory"),
        "missing",
        "Permission denied",
    );
    let open = Permissions::from_mode(0o755);
    fs::set_permissions(closed.project().path(""), open).unwrap();

    let project = of_team(doctor_project()).home_file(".config/massgen/config.yaml", SCRIPTED);
    fs::set_permissions(
        project.home(".config/massgen"),
        Permissions::from_mode(0o000),
    )
    .unwrap();
    let finished = project.success();
    check(&finished, ("disk", "configs"), "warning", "cannot be read");
    let dir = finished.project().home(".config/massgen");
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
}

/// Starts a daemon at `docker.sock` of the project that gives this answer to each request, or none.
fn daemon(project: Project, answer: Option<fn(&str) -> String>) -> Project {
    let path = project.path("docker.sock");
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        let mut silent = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut question = [0; 512];
            let read = connection.read(&mut question).unwrap();
            let question = String::from_utf8_lossy(&question[..read]).into_owned();
            match answer {
                Some(answer) => connection.write_all(answer(&question).as_bytes()).unwrap(),
                None => silent.push(connection),
            }
        }
    });
    let host = format!("unix://{}", path.display());
    project.env("DOCKER_HOST", host)
}

#[test]
fn a_daemon_is_asked_itself() {
    let daemons = ("docker", "daemon");
    let answers = |_: &str| "HTTP/1.0 200 OK\r\nServer: Docker/27.1.1 (linux)\r\n\r\nOK".to_owned();
    let finished = daemon(of_team(doctor_project()), Some(answers)).success();
    check(&finished, daemons, "ok", "Docker 27.1.1");
    let hangs = daemon(of_team(doctor_project()), None).success();
    check(&hangs, daemons, "skipped", "does not answer");
    let fails = |_: &str| "HTTP/1.0 500 Oops\r\n\r\n".to_owned();
    let finished = daemon(of_team(doctor_project()), Some(fails)).success();
    check(&finished, daemons, "skipped", "500");
    let strange = |_: &str| "hello".to_owned();
    let finished = daemon(of_team(doctor_project()), Some(strange)).success();
    check(&finished, daemons, "skipped", "not HTTP");
}

#[test]
fn a_daemon_that_is_not_there_is_found() {
    let daemons = ("docker", "daemon");
    let socket = |project: &Project| format!("unix://{}", project.path("docker.sock").display());
    let project = of_team(doctor_project());
    let host = socket(&project);
    let nothing = project.env("DOCKER_HOST", host).success();
    check(
        &nothing,
        daemons,
        "skipped",
        "no Docker or Podman daemon found at",
    );
    let project = of_team(doctor_project());
    drop(UnixListener::bind(project.path("docker.sock")).unwrap());
    let host = socket(&project);
    let left_over = project.env("DOCKER_HOST", host).success();
    check(&left_over, daemons, "skipped", "no listener");
    let remote = of_team(doctor_project())
        .env("DOCKER_HOST", "tcp://10.0.0.1:2375")
        .success();
    check(
        &remote,
        daemons,
        "skipped",
        "expected a Unix socket of this machine",
    );
    // A file of the project does not decide where a daemon is asked.
    let planted =
        of_team(doctor_project().file(".env", "DOCKER_HOST=tcp://10.0.0.1:2375\n")).success();
    assert!(
        !finding_about(&planted, "docker", "daemon")
            .message
            .contains("expected a Unix socket of this machine")
    );
    if !is_root() {
        let project = daemon(of_team(doctor_project()), None);
        fs::set_permissions(project.path("docker.sock"), Permissions::from_mode(0o000)).unwrap();
        check(
            &project.success(),
            daemons,
            "skipped",
            "not accessible to you",
        );
    }
}

/// The test cannot know what this machine can enforce, only that the verdict rests on a probe.
#[test]
fn commands_are_sandboxed_or_the_reason_is_reported() {
    let finished = of_team(doctor_project()).success();
    let commands = finding_about(&finished, "sandbox", "commands");
    match commands.verdict.as_str() {
        "ok" => assert!(
            commands.message.contains("cannot access anything outside"),
            "{commands:?}"
        ),
        "warning" => {
            let finding = finding_about(&finished, "sandbox", "stronger levels");
            assert!(finding.message.contains("level `overlay`: "), "{finding:?}");
            assert!(
                !finding.remedy.is_empty() && !commands.remedy.is_empty(),
                "{finding:?}"
            );
        }
        other => panic!("{other}: {commands:?}"),
    }
    let _clean = finished.has_no(".massgen");
}

#[test]
fn a_sandbox_that_was_chosen_is_tried_by_itself() {
    let keys = "{cwd: ws, enable_mcp_command_line: true, command_line_sandbox: 'off', type:";
    let config = SCRIPTED.replace("{type:", keys);
    let project = doctor_project().file("team.yaml", config);
    let finished = of_team(project).success();
    let subject = "commands with `command_line_sandbox: off`";
    check(
        &finished,
        ("sandbox", subject),
        "warning",
        "the sandbox is off",
    );
}

#[test]
fn unreadable_files_of_the_home_are_reported_and_skipped() {
    let replies = "- calls: [{name: new_answer, arguments: {content: done}}]";
    let project = || {
        let project = Project::new().config(&team(&[agent("a", "", replies)], ""));
        fs::create_dir_all(project.home(".massgen/configs")).unwrap();
        for name in [".massgen/models.yaml", ".massgen/configs/own.yaml"] {
            symlink(project.home(name), project.home(name)).unwrap();
        }
        project
    };
    let finished = project().args(["go"]).success();
    let message = "ignoring your list of models: cannot read `[HOME]/.massgen/models.yaml`";
    assert!(finished.stderr().contains(message), "{}", finished.stderr());
    let doctor = project().args(["doctor"]).run();
    assert!(doctor.stderr().contains(message), "{}", doctor.stderr());
    let refused = project().args(["--config", "own", "go"]).run();
    assert_ne!(refused.code(), Some(0));
    let named = "cannot read `[HOME]/.massgen/configs/own.yaml`";
    assert!(refused.stderr().contains(named), "{}", refused.stderr());
    let unnamed = Project::new().args(["--dry-run", "go"]);
    fs::create_dir_all(unnamed.home(".config/massgen")).unwrap();
    let config = unnamed.home(".config/massgen/config.yaml");
    symlink(&config, &config).unwrap();
    let message = "not used as a config: cannot read `[HOME]/.config/massgen/config.yaml`";
    let ended = unnamed.run();
    assert!(ended.stderr().contains(message), "{}", ended.stderr());
}

/// Returns a team whose agent writes programs in `language`.
fn programmers(language: &str) -> String {
    let keys = format!("cwd: ws\nenable_code_based_tools: true\ncode_language: {language}");
    team(&[agent("a", &keys, "- {text: hi}")], "")
}

#[test]
fn the_language_of_programs_is_tested_if_a_team_writes_programs() {
    for (language, version) in [("python", "Python 3"), ("go", "go version")] {
        let project = doctor_project().file("team.yaml", programmers(language));
        let finished = of_team(project).success();
        check(&finished, ("programs", language), "ok", version);
        check(
            &finished,
            ("programs", language),
            "ok",
            "runs in the sandbox",
        );
        let other = if language == "go" { "python" } else { "go" };
        let stdout = finished.stdout();
        assert!(!stdout.contains(&format!("\"{other}\"")), "{stdout}");
        let _clean = finished.has_no(".massgen");
        let project = doctor_project().file("team.yaml", programmers(language));
        let finished = of_team(project).env("PATH", "/nowhere").failure(3);
        check(
            &finished,
            ("programs", language),
            "missing",
            "is not in `PATH`",
        );
        assert!(
            finding_about(&finished, "programs", language)
                .remedy
                .contains("code_language")
        );
    }
}

#[test]
fn without_a_team_languages_are_looked_at_and_nothing_needs_them() {
    let here = Project::new().args(["doctor", "--json"]).run();
    check(&here, ("programs", "python"), "ok", "Python 3");
    let nowhere = Project::new()
        .args(["doctor", "--json"])
        .env("PATH", "/nowhere");
    check(
        &nowhere.run(),
        ("programs", "python"),
        "skipped",
        "is not in `PATH`",
    );
    let of_others = of_team(doctor_project()).success();
    assert!(
        !of_others.stdout().contains("\"programs\""),
        "{}",
        of_others.stdout()
    );
}
