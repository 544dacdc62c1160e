//! `massgen mcp orchestrate`: an independent client runs a team, asks for its status, and is
//! restricted to what the user has allowed.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::project::{Project, binary};
use crate::scripted_team::{agent, answer_replies, team};
use crate::waiting::wait_until;

const CLIENT: &str = include_str!("../servers/runs.cjs");
/// Timeout of every step.
const TIME_MAX: Duration = Duration::from_mins(2);

/// Returns a team of two, whose first agent wins and writes a file; each of its replies takes
/// `delay_ms`.
fn config(delay_ms: u32, rest: &str) -> String {
    let winner = format!(
        r#"
- when: {{last: "<task>"}}
  delay_ms: {delay_ms}
  calls:
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/out/made.txt", content: "made\n"}}}}
    - {{name: new_answer, arguments: {{content: "yes"}}}}
{}"#,
        answer_replies("yes", "agent1", delay_ms).trim_start()
    );
    let agents = [
        agent("ann", "cwd: wa", &winner),
        agent("ben", "cwd: wb", &answer_replies("no", "agent1", delay_ms)),
    ];
    let opened = r"
orchestrator:
  context_paths:
    - {path: out, permission: write}
    - {path: open, permission: read}
";
    team(&agents, &format!("{opened}{rest}"))
}

fn project(delay_ms: u32, rest: &str) -> Project {
    Project::new()
        .dir("out")
        .file("open/a.txt", "one\n")
        .file("closed/secret.txt", "CANARY\n")
        .file("team.yaml", config(delay_ms, rest))
        .file("runs.cjs", CLIENT)
}

fn orchestrate_arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let arguments = ["mcp", "orchestrate", "--config", "team.yaml"];
    arguments.iter().chain(more).copied().collect()
}

/// Returns where `tests/all.sh` installs third-party programs.
fn node_modules() -> PathBuf {
    let dir = std::env::var_os("MASSGEN_TEST_SERVERS")
        .map_or_else(|| "/var/tmp/massgen-test-servers".into(), PathBuf::from);
    dir.join("node_modules")
}

/// Returns a client that will execute `steps` with a server.
fn client_command(project: &Project, server: &Value, steps: &Value) -> Command {
    let mut asked = server.clone();
    asked["steps"] = steps.clone();
    std::fs::write(project.path("asked.json"), asked.to_string()).unwrap();
    let mut command = Command::new("node");
    command
        .args(["runs.cjs", "asked.json"])
        .current_dir(project.path(""))
        .env("NODE_PATH", node_modules())
        .env("HOME", project.home(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Executes `steps` with a server, and returns their results.
#[track_caller]
fn run_steps(project: &Project, server: &Value, steps: &Value) -> Vec<Value> {
    let output = client_command(project, server, steps).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(
        report["tools"],
        json!(["run_task", "status", "answers", "apply", "cancel"])
    );
    report["taken"].as_array().unwrap().clone()
}

/// Executes `steps` with its own server, which is started with the arguments `more`.
#[track_caller]
fn run_server_steps(project: &Project, more: &[&str], steps: &Value) -> Vec<Value> {
    let server = json!({"command": binary(), "args": orchestrate_arguments(more)});
    run_steps(project, &server, steps)
}

/// Returns the result of a step.
#[track_caller]
fn result_of(step: &Value) -> &Value {
    assert_eq!(step["result"]["isError"], false, "{step}");
    &step["result"]["structuredContent"]
}

/// Checks that a step was refused with these words.
#[track_caller]
fn assert_refused(step: &Value, reasons: &[&str]) {
    assert_eq!(step["result"]["isError"], true, "{step}");
    let text = step["result"]["content"][0]["text"].as_str().unwrap();
    for reason in reasons {
        assert!(text.contains(reason), "{reason}\n{text}");
    }
}

fn read(project: &Project, path: &str) -> Option<String> {
    std::fs::read_to_string(project.path(path)).ok()
}

#[test]
fn a_run_is_started_followed_and_reported() {
    let project = project(3000, "");
    let steps = json!([
        {"tool": "run_task", "with": {"task": "look at @open/a.txt and write to @out:w"}},
        {"tool": "status", "with": {"run": "$run"}},
        {"tool": "status", "with": {"run": "$run", "wait": true}},
        {"tool": "answers", "with": {"run": "$run"}},
        {"tool": "status", "with": {"run": "log_1"}},
    ]);
    let taken = run_server_steps(&project, &[], &steps);
    let begun = result_of(&taken[0]);
    assert_eq!(begun["state"], "coordinating", "{begun}");
    assert!(begun["run"].as_str().unwrap().starts_with("log_"));
    assert_ne!(result_of(&taken[1])["state"], "ended");
    let ended = result_of(&taken[2]);
    assert_eq!(ended["run"], begun["run"]);
    for (key, expected) in [
        ("state", json!("ended")),
        ("outcome", json!("completed")),
        ("status", json!("delivered")),
        ("exit_code", json!(0)),
        ("winner", json!("agent1.1")),
        ("answer", json!("yes")),
        ("answers", json!(2)),
        ("undelivered_files", json!([])),
    ] {
        assert_eq!(ended[key], expected, "{key}: {ended}");
    }
    let file = &ended["delivered_files"][0];
    assert_eq!(
        (&file["outcome"], &file["bytes"]),
        (&json!("created"), &json!(5))
    );
    assert_eq!(read(&project, "out/made.txt").as_deref(), Some("made\n"));
    let all = result_of(&taken[3]);
    assert_eq!(
        all["answers"][0]["votes"].as_u64().unwrap() + all["answers"][1]["votes"].as_u64().unwrap(),
        2
    );
    assert!(
        all["votes"][0]["reason"]
            .as_str()
            .unwrap()
            .contains("is good"),
        "{all}"
    );
    let texts = all["answers"].to_string();
    assert!(
        texts.contains("agent1.1") && texts.contains("agent2.1"),
        "{texts}"
    );
    assert!(!texts.contains("ann") && !texts.contains("ben"), "{texts}");
    assert_refused(&taken[4], &["knows no run `log_1`", "massgen logs list"]);
}

#[test]
fn a_task_opens_nothing_and_changes_nothing_of_the_team() {
    let project = project(1, "");
    let check = |input: Value, reasons: &[&str]| {
        let steps = json!([{"tool": "run_task", "with": input}]);
        assert_refused(&run_server_steps(&project, &[], &steps)[0], reasons);
        assert_eq!(read(&project, "out/made.txt"), None);
    };
    let closed = ["does not open", "for reading", "hint: "];
    check(json!({"task": "read @closed/secret.txt"}), &closed);
    check(json!({"task": "read @/etc/passwd"}), &closed);
    check(json!({"task": "read @closed/none.txt"}), &closed);
    check(
        json!({"task": "change @open:w"}),
        &["does not open", "for writing"],
    );
    check(json!({"task": " "}), &["there is no task"]);
    check(json!({"task": "x".repeat(300_000)}), &["is longer than"]);
    check(
        json!({"task": "x", "config": "other.yaml"}),
        &["unknown field `config`"],
    );
    check(json!({}), &["missing field `task`"]);
}

#[test]
fn files_kept_for_the_user_are_not_applied_by_clients() {
    let steps = json!([
        {"tool": "run_task", "with": {"task": "write", "wait": true}},
        {"tool": "apply", "with": {"run": "$run"}},
    ]);
    let review = project(1, "delivery: review\n");
    let taken = run_server_steps(&review, &[], &steps);
    let sentences = taken[0]["progress"].as_array().unwrap();
    for sentence in ["answer agent1.1 was given", "answer agent1.1 wins"] {
        assert!(sentences.contains(&json!(sentence)), "{sentences:?}");
    }
    let ended = result_of(&taken[0]);
    assert_eq!(ended["delivered_files"], json!([]), "{ended}");
    assert_eq!(
        ended["undelivered_files"][0]["outcome"], "declined",
        "{ended}"
    );
    let run = ended["run"].as_str().unwrap();
    assert_refused(
        &taken[1],
        &["requires a person", &format!("massgen apply {run}")],
    );
    assert_eq!(read(&review, "out/made.txt"), None);

    let allowed = project(1, "delivery: review\n");
    let taken = run_server_steps(&allowed, &["--allow-apply"], &steps);
    assert_eq!(result_of(&taken[0])["delivered_files"], json!([]));
    let applied = result_of(&taken[1]);
    assert_eq!(applied["status"], "delivered", "{applied}");
    assert!(applied["output"].as_str().unwrap().contains("out/made.txt"));
    assert_eq!(read(&allowed, "out/made.txt").as_deref(), Some("made\n"));

    let auto = project(1, "");
    let taken = run_server_steps(&auto, &[], &steps);
    assert_eq!(read(&auto, "out/made.txt").as_deref(), Some("made\n"));
    assert!(
        result_of(&taken[1])["output"]
            .as_str()
            .unwrap()
            .contains("nothing to apply")
    );
}

#[test]
fn cancelling_a_wait_ends_the_run() {
    let slow = project(30_000, "");
    let steps = json!([
        {"tool": "run_task", "with": {"task": "write", "wait": true}, "cancelAfter": 1500},
        {"tool": "run_task", "with": {"task": "write"}},
        {"tool": "status", "with": {"run": "$run", "wait": true}, "cancelAfter": 500},
        {"tool": "status", "with": {"run": "$run"}},
        {"tool": "apply", "with": {"run": "$run"}},
        {"tool": "cancel", "with": {"run": "$run"}},
    ]);
    let taken = run_server_steps(&slow, &["--parallel", "2"], &steps);
    assert!(
        taken[0]["error"].as_str().unwrap().contains("enough"),
        "{}",
        taken[0]
    );
    assert!(
        taken[2]["error"].as_str().unwrap().contains("enough"),
        "{}",
        taken[2]
    );
    assert_eq!(
        result_of(&taken[3])["state"],
        "coordinating",
        "a status that is cancelled ends nothing"
    );
    assert_refused(&taken[4], &["has not ended"]);
    let ended = result_of(&taken[5]);
    assert_eq!(
        (&ended["state"], &ended["outcome"]),
        (&json!("ended"), &json!("cancelled"))
    );
    assert_eq!(ended["exit_code"], 130);
    assert_eq!(read(&slow, "out/made.txt"), None);
    let listed = slow.retyped(["logs", "list", "--json"]).success();
    assert!(!listed.stdout().contains("running"), "{}", listed.stdout());
    assert_eq!(
        listed.stdout().matches("log_").count() % 2,
        0,
        "{}",
        listed.stdout()
    );
}

#[test]
fn the_number_of_concurrent_runs_is_limited() {
    let steps = json!([
        {"tool": "run_task", "with": {"task": "one"}},
        {"tool": "run_task", "with": {"task": "two"}},
    ]);
    let one = project(30_000, "");
    let taken = run_server_steps(&one, &[], &steps);
    let first = result_of(&taken[0])["run"].as_str().unwrap();
    assert_refused(&taken[1], &["no more than 1 run", first]);
    let two = project(30_000, "");
    let taken = run_server_steps(&two, &["--parallel", "2"], &steps);
    assert_ne!(result_of(&taken[0])["run"], result_of(&taken[1])["run"]);
}

/// A server over HTTP, which stops with the test.
struct OrchestrateServer(Child, Value);

impl Drop for OrchestrateServer {
    fn drop(&mut self) {
        self.0.kill().unwrap_or_default();
        drop(self.0.wait());
    }
}

fn start_server(project: Project) -> (Project, OrchestrateServer) {
    let project = project.args(orchestrate_arguments(&["--http"]));
    let mut command = project.command();
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut after = |beginning: &str| {
        let line = lines.next().expect("a line").unwrap();
        let rest = line.split_once(beginning).map(|(_, rest)| rest.to_owned());
        rest.unwrap_or_else(|| panic!("{line}"))
    };
    let url = after("serving runs of 2 agents at ");
    let token = after("token: ");
    (
        project,
        OrchestrateServer(child, json!({"url": url, "token": token})),
    )
}

#[test]
fn on_http_a_run_outlives_its_client() {
    let (project, server) = start_server(project(500, ""));
    let asks = json!([{"tool": "run_task", "with": {"task": "write"}}]);
    let begun = run_steps(&project, &server.1, &asks);
    let run = result_of(&begun[0])["run"].clone();
    let ask = json!([{"tool": "status", "with": {"run": run, "wait": true}}]);
    let asked = run_steps(&project, &server.1, &ask);
    assert_eq!(result_of(&asked[0])["status"], "delivered");
    assert_eq!(read(&project, "out/made.txt").as_deref(), Some("made\n"));
    let mut wrong = server.1.clone();
    wrong["token"] = json!("0123456789abcdef0123456789abcdef");
    let turned_away = client_command(&project, &wrong, &asks).output().unwrap();
    assert!(!turned_away.status.success() && turned_away.stdout.is_empty());
}

#[test]
fn a_client_that_is_killed_takes_its_server_and_the_run_with_it() {
    let project = project(30_000, "");
    let server = json!({"command": binary(), "args": orchestrate_arguments(&[])});
    let steps = json!([
        {"tool": "run_task", "with": {"task": "write", "wait": true}, "stay": 1500},
    ]);
    let mut node = client_command(&project, &server, &steps).spawn().unwrap();
    let mut line = String::new();
    let mut lines = BufReader::new(node.stdout.take().unwrap());
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "staying\n");
    wait_until("the run works", TIME_MAX, || {
        let runs = std::fs::read_dir(project.path(".massgen/massgen_logs"));
        let mut logs = runs.into_iter().flatten().flatten();
        logs.any(|run| {
            let log = std::fs::read_to_string(run.path().join("turn_1/events.jsonl"));
            log.is_ok_and(|log| log.contains("model_request_started"))
        })
    });
    node.kill().unwrap();
    node.wait().unwrap();
    let began = Instant::now();
    loop {
        let listed = Command::new(binary())
            .args(["logs", "list", "--json"])
            .current_dir(project.path(""))
            .output()
            .unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        if listed.contains("interrupted") {
            break;
        }
        assert!(began.elapsed() < TIME_MAX, "{listed}");
        sleep(Duration::from_millis(100));
    }
    assert_eq!(read(&project, "out/made.txt"), None);
}

#[test]
fn invalid_arguments_are_reported_before_a_client_connects() {
    let check = |arguments: &[&str], code: i32, reason: &str| {
        let finished = project(1, "").args(arguments).failure(code);
        assert!(finished.stderr().contains(reason), "{}", finished.stderr());
        assert_eq!(finished.stdout(), "");
    };
    check(&["mcp", "orchestrate"], 2, "--config");
    check(
        &["mcp", "orchestrate", "--config", "none.yaml"],
        2,
        "config `none.yaml` does not exist",
    );
    check(
        &orchestrate_arguments(&["--parallel", "9"]),
        2,
        "--parallel",
    );
    check(
        &orchestrate_arguments(&["--http", "0.0.0.0:0"]),
        2,
        "is reachable from other machines",
    );
    let keyless = "agents: [{id: a, backend: {type: openai, model: gpt-5}}]\n";
    let finished = Project::new()
        .file("team.yaml", keyless)
        .args(orchestrate_arguments(&[]))
        .failure(3);
    assert!(
        finished.stderr().contains("OPENAI_API_KEY"),
        "{}",
        finished.stderr()
    );
}
