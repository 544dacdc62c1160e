//! External agents in different kinds of runs: one that is killed and resumed, one with restricted
//! network access, and a pipeline.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;
use std::thread;

use serde_json::{Value, json};

use crate::external_agent_ends::ENDS_WITHIN;
use crate::external_agents::{
    OPENED, PROTOCOLS, check_with, external_agent, external_agent_project,
};
use crate::pipeline::{bare_repository_git, pipeline_config, stage_events};
use crate::project::{Project, events};
use crate::proxy::{PUBLIC, in_network_of};
use crate::runs::files_below;
use crate::scripted_team::{FINAL, team};
use crate::waiting::wait_until;

/// Returns a project with one external agent that stops in its first turn, and in the final phase,
/// until it is restarted.
fn stopping_project(kind: &str) -> Project {
    let table = json!([
        {"when": FINAL, "do": [
            ["append", "prompts.txt", "final"],
            ["goes_on_the_second_time", "second"],
            ["write", "$/out/new.txt", "delivered"],
            ["say", "presented"],
        ]},
        {"when": "", "do": [
            ["append", "prompts.txt", "begun"],
            ["goes_on_the_second_time", "first"],
            ["call", "new_answer", {"content": "done"}],
        ]},
    ]);
    let (project, one) =
        external_agent(external_agent_project(), ("one", kind), "cwd: $/w1", &table);
    project.file("team.yaml", team(&[one], OPENED))
}

/// Returns whether any process was started with a path of the project.
fn has_processes(project: &Project) -> bool {
    let project_dir = project.path("").display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|one| fs::read(one.path().join("cmdline")).ok());
    lines.any(|line| String::from_utf8_lossy(&line).contains(&project_dir))
}

/// Kills a run with an external agent when `mark` exists, resumes it, and checks how often the
/// agent was prompted.
#[track_caller]
fn check_killed(project: &Project, mark: &str, prompts: &str) {
    let mut command = project.command();
    command.args(["--config", "team.yaml", "task"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mark = project.path("w1").join(mark);
    wait_until("the external agent stops", ENDS_WITHIN, || mark.exists());
    assert!(has_processes(project));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the external agent ends with the run", ENDS_WITHIN, || {
        !has_processes(project)
    });
    let gone_on = |arguments: &[&str]| project.command().args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let unnamed = gone_on(&["--continue"]);
    let stderr = text(&unnamed.stderr);
    assert!(!unnamed.status.success(), "{stderr}");
    assert!(
        stderr.contains("would start the program `python3`"),
        "{stderr}"
    );
    let named = gone_on(&["--continue", "--config", "team.yaml"]);
    let stderr = text(&named.stderr);
    assert!(named.status.success(), "{stderr}");
    assert!(text(&named.stdout).contains("presented"), "{stderr}");
    let read = |path: &str| fs::read_to_string(project.path(path)).unwrap();
    assert_eq!(read("out/new.txt"), "delivered");
    assert_eq!(read("w1/prompts.txt").trim(), prompts);
}

#[test]
fn a_killed_run_of_an_external_agent_is_resumed() {
    for (kind, _) in PROTOCOLS {
        let presents = stopping_project(kind).file("w1/second", "");
        check_killed(&presents, "first", "begun begun final");
        // A recorded answer is not requested again.
        let answers = stopping_project(kind).file("w1/first", "");
        check_killed(&answers, "second", "begun final final");
    }
}

/// Tries to reach a host through the proxy in its environment, or an address directly.
const REACH: &str = r#"
import socket, sys, urllib.request
try:
    if sys.argv[1] == "directly":
        socket.create_connection((sys.argv[2], int(sys.argv[3])), 5)
        print("reached")
    else:
        address = "http://%s:%s/" % (sys.argv[2], sys.argv[3])
        print(urllib.request.urlopen(address, timeout=20).read().decode())
except Exception as error:
    print("not reached", error)
"#;

/// Starts a server that answers every request with `reached`, and returns its port.
fn start_server() -> u16 {
    let listener = TcpListener::bind((PUBLIC, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _read = stream.read(&mut request);
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached";
            let _told = stream.write_all(answer.as_bytes());
        }
    });
    port
}

/// Returns whether this machine can sandbox an external agent in the test's network.
fn is_held_here() -> bool {
    let (project, one) = external_agent(
        external_agent_project(),
        ("one", "acp"),
        "cwd: $/w1",
        &json!([]),
    );
    let project = project.file("team.yaml", team(&[one], OPENED));
    let arguments = [
        "--config",
        "team.yaml",
        "--orchestrator-timeout",
        "3",
        "task",
    ];
    let finished = project.args(arguments).run();
    !finished
        .stderr()
        .contains("cannot run at sandbox level `landlock`")
}

#[test]
fn an_external_agent_reaches_the_hosts_that_are_listed_and_no_other() {
    let name =
        "external_agent_runs::an_external_agent_reaches_the_hosts_that_are_listed_and_no_other";
    in_network_of(name, || {
        if !is_held_here() {
            return println!(
                "skipped: nothing holds an external agent in a network of its own here"
            );
        }
        let port = start_server();
        let step = |method: &str, host: &str| {
            json!([
                "shell",
                format!("python3 $/given/reach.py {method} {host} {port}")
            ])
        };
        let (reached, not) = ("status 0 reached", "status 0 not reached");
        for (network, listed, other, directly) in [
            ("[public.example]", reached, not, not),
            ("on", reached, reached, reached),
            ("off", not, not, not),
        ] {
            let project = external_agent_project().file("given/reach.py", REACH);
            let keys = format!("network: {network}");
            check_with(
                project,
                ("acp", &keys),
                &[
                    (step("named", "public.example"), listed),
                    (step("named", "other.example"), other),
                    (step("directly", &PUBLIC.to_string()), directly),
                ],
            );
        }
    });
}

#[test]
fn the_usage_of_an_external_agent_is_priced_by_its_model_or_unknown() {
    let table = json!([
        {"when": FINAL, "do": [["say", "presented"]]},
        {"when": "", "do": [["call", "new_answer", {"content": "done"}]]},
    ]);
    let run = |kind: &str, keys: &str, word: &str, rest: &str| {
        let keys = format!("cwd: $/w1\n      {keys}");
        let (project, one) = external_agent(external_agent_project(), ("one", kind), &keys, &table);
        let one = one.replace("one.json]", &format!("one.json, {word}]"));
        let project = project.file("team.yaml", team(&[one], &format!("{OPENED}\n{rest}")));
        project.args(["--config", "team.yaml", "task"]).run()
    };
    let warned = "reports no usage, so `max_cost_usd` cannot be enforced for one";
    let limit = "limits: {max_cost_usd: 1}";
    for kind in ["acp", "codex"] {
        let finished = run(kind, "model: gpt-5", "counts", limit);
        assert_eq!(finished.code(), Some(0), "{}", finished.stderr());
        let model_request = &events(&finished, "model_request_finished")[0];
        assert!(
            model_request["cost_usd"].as_f64().unwrap() > 0.0,
            "{model_request}"
        );
        assert!(!finished.stderr().contains(warned), "{}", finished.stderr());
        // Without a model, there is no price to apply the limit to.
        let refused = run(kind, "", "counts", limit);
        assert_eq!(refused.code(), Some(2), "{}", refused.stderr());
        let reason = "the program of `one` chooses its model";
        assert!(refused.stderr().contains(reason), "{}", refused.stderr());
        let unlimited = run(kind, "", "counts", "");
        assert_eq!(unlimited.code(), Some(0), "{}", unlimited.stderr());
        assert_eq!(
            events(&unlimited, "model_request_finished")[0]["cost_usd"],
            Value::Null
        );
    }
    let silent = run("acp", "model: gpt-5", "silent", limit);
    assert_eq!(silent.code(), Some(0), "{}", silent.stderr());
    assert_eq!(
        events(&silent, "model_request_finished")[0]["cost_usd"],
        Value::Null
    );
    assert_eq!(
        silent.stderr().matches(warned).count(),
        1,
        "{}",
        silent.stderr()
    );
    let unlimited = run("acp", "model: gpt-5", "silent", "");
    assert!(!unlimited.stderr().contains("reports no usage"));
}

/// What a pipeline opens to all agents: the stand-in program.
const GIVEN: &str = "orchestrator: {context_paths: [{path: given}]}";

/// Returns what the agent of a stage reported for each step.
fn step_reports(events: &[Value]) -> Vec<String> {
    let texts = events.iter().filter(|event| event["type"] == "text");
    let all: String = texts.map(|event| event["text"].as_str().unwrap()).collect();
    all.lines().map(str::to_owned).collect()
}

#[test]
fn external_agents_are_restricted_to_the_rights_of_their_role() {
    let answers = json!(["call", "new_answer", {"content": "done"}]);
    let planner = [
        (json!(["write", "planner/PLAN.md", "a plan"]), "ok"),
        (json!(["write", "TASK.md", "x"]), "failed"),
        (json!(["write", "tester/USAGE.md", "x"]), "failed"),
        (
            json!(["hook", "Write", {"file_path": "planner/PLAN.md", "content": "x"}]),
            "allow",
        ),
        (
            json!(["hook", "Write", {"file_path": "TASK.md", "content": "x"}]),
            "deny",
        ),
        (json!(["hook", "Bash", {"command": "ls"}]), "deny"),
    ];
    let tester = [
        (json!(["read", "planner/PLAN.md"]), "ok a plan"),
        (json!(["write", "planner/PLAN.md", "x"]), "failed"),
        (json!(["write", "tester/USAGE.md", "so"]), "ok"),
        (json!(["permission", "execute", "ls"]), "yes"),
        (json!(["shell", "git log -1 --format=%s"]), "status 0"),
    ];
    let table = |steps: &[(Value, &str)]| {
        let steps = steps.iter().map(|(step, _)| step.clone());
        let all: Vec<Value> = steps.chain([answers.clone()]).collect();
        json!([{"when": "", "do": all}])
    };
    let (project, first) = external_agent(
        external_agent_project(),
        ("planner", "claude_code"),
        "",
        &table(&planner),
    );
    let (project, second) = external_agent(project, ("tester", "acp"), "", &table(&tester));
    let keys = "stages: [planner, tester]\nuntil: none\nproject: none";
    let config = pipeline_config(keys, &[first, second], GIVEN);
    let arguments = ["--config", "team.yaml", "go"];
    let finished = project.file("team.yaml", config).args(arguments).success();
    for (events, steps) in stage_events(&finished).iter().zip([&planner[..], &tester]) {
        let reports = step_reports(events);
        assert!(reports.len() > steps.len(), "{reports:#?}");
        for (line, (step, expected)) in reports.iter().zip(steps) {
            assert!(line.contains(expected), "{step}\n{line}\n{reports:#?}");
        }
    }
    let file =
        |path: &str| bare_repository_git(finished.project(), &["show", &format!("main:{path}")]);
    assert_eq!(file("planner/PLAN.md"), "a plan");
    assert_eq!(file("tester/USAGE.md"), "so");
}

#[test]
fn a_killed_pipeline_of_an_external_agent_is_resumed() {
    let table = json!([{"when": "", "do": [
        ["append", "planner/prompts.txt", "begun"],
        ["goes_on_the_second_time", "planner/mark"],
        ["write", "planner/PLAN.md", "a plan"],
        ["call", "new_answer", {"content": "done"}],
    ]}]);
    let (project, one) = external_agent(
        external_agent_project(),
        ("planner", "claude_code"),
        "",
        &table,
    );
    let keys = "stages: [planner]\nuntil: none\nproject: none";
    let project = project.file("team.yaml", pipeline_config(keys, &[one], GIVEN));
    let mut command = project.command();
    command.args(["--config", "team.yaml", "go"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let has_stopped = || {
        let files = files_below(&project.path(".massgen/pipelines"));
        files.iter().any(|file| file.ends_with("planner/mark"))
    };
    wait_until("the external agent stops", ENDS_WITHIN, has_stopped);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the external agent ends with the run", ENDS_WITHIN, || {
        !has_processes(&project)
    });
    let arguments = ["--continue", "--config", "team.yaml"];
    let output = project.command().args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let file = |path: &str| bare_repository_git(&project, &["show", &format!("main:{path}")]);
    assert_eq!(file("planner/PLAN.md"), "a plan");
    assert_eq!(file("planner/prompts.txt").trim(), "begun begun");
}

#[test]
fn an_external_agent_that_does_not_ask_has_no_role_without_commands() {
    for (kind, code) in [("codex", 2), ("acp", 2), ("claude_code", 0)] {
        let table = json!([{"when": "", "do": [
            ["write", "planner/PLAN.md", "a plan"],
            ["call", "new_answer", {"content": "done"}],
        ]}]);
        let (project, one) =
            external_agent(external_agent_project(), ("planner", kind), "", &table);
        let keys = "stages: [planner]\nuntil: none\nproject: none";
        let config = pipeline_config(keys, &[one], GIVEN);
        let arguments = ["--config", "team.yaml", "go"];
        let finished = project.file("team.yaml", config).args(arguments).run();
        assert_eq!(finished.code(), Some(code), "{kind}: {}", finished.stderr());
        let reason = "external agent `planner` runs commands by itself";
        assert_eq!(finished.stderr().contains(reason), code != 0, "{kind}");
    }
}
