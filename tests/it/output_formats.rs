//! Output for scripts: runs of the real binary in both JSON formats, however they end. Every line
//! is validated against the schema that the binary prints.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::mcp_servers::installed_servers;
use crate::project::Project;
use crate::runs::{
    FAILS, FINAL, WRITE_HERE, agent, answer_replies, build_replies, files_below, team,
};

/// A reply that does not arrive during a test.
const NEVER: &str = "- delay_ms: 600000\n  text: late\n";
/// Maximum time until a process ends after a signal.
const EXIT_TIME_MAX: Duration = Duration::from_mins(2);
/// The bit of `SIGTERM` in the masks of signals in `/proc/PID/status`.
const SIGTERM_BIT: u64 = 1 << 14;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let printed = Project::new().args(["schema", "events"]).success();
    serde_json::from_str(printed.stdout()).unwrap()
});

static VALIDATOR: LazyLock<Mutex<SchemaValidator>> =
    LazyLock::new(|| Mutex::new(SchemaValidator::start(&SCHEMA)));

/// A process that checks values with the library Ajv.
struct SchemaValidator {
    /// It ends with its input, when the tests end.
    _process: Child,
    values: ChildStdin,
    verdicts: BufReader<ChildStdout>,
}

impl SchemaValidator {
    /// Starts it for values of this schema, which must be one.
    fn start(schema: &Value) -> Self {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/servers/schema_validator.mjs"
        );
        let mut process = Command::new("node")
            .args([script, &installed_servers()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut validator = Self {
            values: process.stdin.take().unwrap(),
            verdicts: BufReader::new(process.stdout.take().unwrap()),
            _process: process,
        };
        assert_eq!(validator.errors(schema), [""; 0]);
        validator
    }

    /// Returns what is wrong with a value.
    fn errors(&mut self, value: &Value) -> Vec<String> {
        writeln!(self.values, "{value}").unwrap();
        let mut verdict = String::new();
        self.verdicts.read_line(&mut verdict).unwrap();
        serde_json::from_str(&verdict).unwrap()
    }
}

/// Returns what is wrong with a line by the schema.
fn schema_errors(line: &Value) -> Vec<String> {
    let mut validator = VALIDATOR.lock().unwrap_or_else(PoisonError::into_inner);
    validator.errors(line)
}

/// Returns all lines of a process that has ended with the status `code`: each is valid, they are
/// numbered from 1, and only the last one is the result.
#[track_caller]
fn parse_lines(stdout: &str, code: Option<i32>) -> Vec<Value> {
    let lines: Vec<Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    for (index, line) in lines.iter().enumerate() {
        check_line(line);
        assert_eq!(line["seq"], index + 1, "{line}");
        let is_last = index + 1 == lines.len();
        assert_eq!(line["type"] == "result", is_last, "{line}");
    }
    let last = lines.last().expect("nothing was printed");
    assert_eq!(last["exit_code"].as_i64(), code.map(i64::from), "{last}");
    lines
}

#[track_caller]
fn check_line(line: &Value) {
    let errors = schema_errors(line);
    assert!(errors.is_empty(), "{errors:?}: {line}");
}

/// Returns the events of the log, all valid.
#[track_caller]
fn read_log(project: &Project) -> Vec<Value> {
    let logs = files_below(&project.path(".massgen/massgen_logs"));
    let log = logs.iter().find(|path| path.ends_with("events.jsonl"));
    let log = fs::read_to_string(log.expect("there is a log")).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.iter().for_each(check_line);
    lines
}

#[track_caller]
fn status_json(project: &Project) -> Value {
    let logs = files_below(&project.path(".massgen/massgen_logs"));
    let status = logs.iter().find(|path| path.ends_with("status.json"));
    let status = fs::read_to_string(status.expect("there is a status")).unwrap();
    serde_json::from_str(&status).unwrap()
}

/// Runs in both formats; both must end with `code` and print the same result, which is returned.
#[track_caller]
fn run_in_both_formats(project: impl Fn() -> Project, code: i32) -> Value {
    let run_in = |format: &str| {
        let finished = project().args(["--output-format", format]).failure(code);
        let lines = parse_lines(finished.stdout(), finished.code());
        if finished.project().path(".massgen/massgen_logs").exists() {
            read_log(finished.project());
        }
        lines
    };
    let (object, stream) = (run_in("json"), run_in("stream-json"));
    assert_eq!(object.len(), 1);
    let compared_fields = |lines: &[Value]| {
        let last = lines.last().unwrap();
        let fields = ["outcome", "status", "answer", "winner", "tally", "task"];
        fields.map(|field| last[field].clone())
    };
    assert_eq!(compared_fields(&object), compared_fields(&stream));
    object[0].clone()
}

fn event_types(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .map(|line| line["type"].as_str().unwrap())
        .collect()
}

fn two_agents() -> Vec<String> {
    vec![
        agent("first", "", &answer_replies("red", "agent2")),
        agent("second", "", &answer_replies("blue", "agent2")),
    ]
}

#[test]
fn the_schema_is_valid_and_rejects_wrong_lines() {
    assert_eq!(
        SCHEMA["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
    let line = json!({
        "schema_version": 2, "seq": 7, "time": "2026-11-02T13:03:22.123456Z",
        "type": "delivered",
        "rows": [{"path": "/p/a", "outcome": "denied", "reason": "r", "sha256": null, "bytes": null}],
    });
    check_line(&line);
    let check_rejected = |pointer: &str, field: &str, value: Value| {
        let mut line = line.clone();
        line.pointer_mut(pointer).unwrap()[field] = value;
        assert!(!schema_errors(&line).is_empty(), "{line}");
    };
    check_rejected("", "type", json!("delivery"));
    check_rejected("", "schema_version", json!(1));
    check_rejected("", "seq", json!(0));
    check_rejected("", "time", json!("yesterday"));
    check_rejected("", "note", json!("more"));
    check_rejected("/rows/0", "note", json!("more"));
    check_rejected("/rows/0", "outcome", json!("created"));
    check_rejected("/rows/0", "bytes", json!("many"));
    let mut without = line.clone();
    without.as_object_mut().unwrap().remove("rows");
    assert!(!schema_errors(&without).is_empty());
}

#[test]
fn every_field_of_the_result_is_documented() {
    let forms = SCHEMA["oneOf"].as_array().unwrap();
    let result = forms.last().unwrap()["properties"].as_object().unwrap();
    let text = include_str!("../../docs/scripts.md");
    let log_only = ["lost"];
    let missing: Vec<&String> = result
        .keys()
        .filter(|name| !log_only.contains(&name.as_str()))
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(result.len() > 20 && missing.is_empty(), "{missing:?}");
}

#[test]
fn a_run_that_went_well_is_completed() {
    let project = || {
        Project::new()
            .config(&team(&two_agents(), ""))
            .args(["colour?"])
    };
    let result = run_in_both_formats(project, 0);
    assert_eq!(result["outcome"], "completed");
    assert_eq!(result["answer"], "final: blue");
    assert_eq!(result["task"], "colour?");
    assert_eq!(result["error"], Value::Null);
    assert_eq!(
        result["winner"],
        json!({"agent": "second", "label": "agent2.1", "reason": "most_votes"})
    );
    let vote = |voter: &str| json!({"agent": voter, "candidate": "second", "label": "agent2.1", "reason": "it is good"});
    assert_eq!(result["votes"], json!([vote("first"), vote("second")]));
    let tally = json!([{"agent": "first", "votes": 0}, {"agent": "second", "votes": 2}]);
    assert_eq!(result["tally"], tally);
    let answers = result["answers"].as_array().unwrap();
    assert_eq!(answers.len(), 2);
    assert_eq!(result["usage"]["total"]["requests"], 5);
    assert_eq!(result["usage"]["by_agent"]["first"]["requests"], 2);
    assert_eq!(result["usage"]["by_model"]["scripted"]["requests"], 5);
    assert_eq!(result["usage"]["by_phase"]["final"]["requests"], 1);
}

#[test]
fn the_stream_tells_what_the_log_tells() {
    let finished = Project::new()
        .config(&team(&two_agents(), ""))
        .args(["colour?", "--output-format", "stream-json"])
        .success();
    let lines = parse_lines(finished.stdout(), finished.code());
    let (_, events) = lines.split_last().unwrap();
    let log = read_log(finished.project());
    assert_eq!(event_types(events), event_types(&log));
    for (event, logged) in events.iter().zip(&log) {
        let mut logged = logged.clone();
        logged.as_object_mut().unwrap().remove("checksum").unwrap();
        logged["time"] = event["time"].clone();
        if event.get("cwd").is_some() {
            logged["cwd"] = "[PROJECT]".into();
        }
        if let Some(text) = event.get("text").filter(|_| event["type"] == "replied") {
            logged["text"] = text.clone();
        }
        assert_eq!(*event, logged);
    }
    assert_eq!(finished.stderr(), "config: .massgen/config.yaml\n");
}

#[test]
fn delivered_files_are_reported_with_their_hashes() {
    let last = r#"calls:
    - {name: write_file, arguments: {path: "{{cwd}}/sub/new.txt", content: "first\n"}}
    - {name: write_file, arguments: {path: "{{cwd}}/sub/new.txt", content: "second\n"}}
    - {name: read_text_file, arguments: {path: "{{cwd}}/old.txt"}}
    - {name: delete_file, arguments: {path: "{{cwd}}/old.txt"}}"#;
    let project = || {
        Project::new()
            .config(&team(
                &[agent("one", "w1", &build_replies("draft", "x", last))],
                WRITE_HERE,
            ))
            .file("old.txt", "old")
            .args(["build"])
    };
    let result = run_in_both_formats(project, 0);
    // Output of `sha256sum` for `second
    // `.
    let digest = "480c2336b410f1ad5f8bf1b28944490255804b65350c527787e74ebdd511e3a4";
    let files = result["delivered_files"].as_array().unwrap();
    let file = |name: &str| {
        let is_named = |file: &&Value| file["path"].as_str().unwrap().ends_with(name);
        files.iter().find(is_named).unwrap()
    };
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(file("/sub/new.txt")["outcome"], "created");
    assert_eq!(file("/sub/new.txt")["sha256"], digest);
    assert_eq!(file("/sub/new.txt")["bytes"], 7);
    assert_eq!(file("/old.txt")["outcome"], "deleted");
    assert_eq!(file("/old.txt")["sha256"], Value::Null);
}

#[test]
fn an_answer_that_is_not_whole_is_partial() {
    let slow = || {
        let agents = [
            agent("fast", "", &answer_replies("quick answer", "agent1")),
            agent("slow", "", NEVER),
        ];
        let project = Project::new().config(&team(&agents, ""));
        project.args(["hurry", "--orchestrator-timeout", "5"])
    };
    let result = run_in_both_formats(slow, 5);
    assert_eq!(result["outcome"], "partial");
    assert_eq!(result["status"], "limit");
    assert_eq!(result["answer"], "quick answer");
}

#[test]
fn a_denied_write_makes_a_result_partial_and_is_listed() {
    let last = r#"calls:
    - {name: read_text_file, arguments: {path: "{{cwd}}/.DS_Store"}}
    - {name: write_file, arguments: {path: "{{cwd}}/.DS_Store", content: "KEY=evil"}}
    - {name: write_file, arguments: {path: "{{cwd}}/unread.txt", content: "new"}}
    - {name: no_such_tool, arguments: {}}"#;
    let project = || {
        let agents = [agent("one", "w1", &build_replies("a.txt", "x", last))];
        Project::new()
            .file(".DS_Store", "KEY=mine")
            .file("unread.txt", "old")
            .config(&team(&agents, WRITE_HERE))
            .args(["build"])
    };
    let result = run_in_both_formats(project, 4);
    assert_eq!(result["outcome"], "partial");
    assert_eq!(result["status"], "denied");
    let denials = result["permission_denials"].as_array().unwrap();
    assert_eq!(denials.len(), 2, "{denials:?}");
    let protected = &denials[0];
    assert_eq!(protected["agent"], "one");
    assert_eq!(protected["tool"], "write_file");
    assert_eq!(protected["rule"], "protected-name");
    let arguments = protected["arguments"].as_str().unwrap();
    assert!(arguments.contains("KEY=evil"), "{arguments}");
    let unread = denials[1]["reason"].as_str().unwrap();
    assert!(unread.contains("it must be read before"), "{unread}");
    assert!(denials[1]["arguments"].as_str().unwrap().contains("unread"));
}

#[test]
fn a_file_that_cannot_be_delivered_makes_a_result_partial() {
    let project = || {
        let builds = build_replies("out.txt", "made by one", "text: \"all done\"");
        Project::new()
            .config(&team(&[agent("one", "w1", &builds)], WRITE_HERE))
            .dir("out.txt")
            .args(["build"])
    };
    let result = run_in_both_formats(project, 3);
    assert_eq!(result["outcome"], "partial");
    assert_eq!(result["delivered_files"][0]["outcome"], "failed");
    assert!(!result["warnings"].as_array().unwrap().is_empty());
}

#[test]
fn a_run_without_an_answer_has_failed() {
    let fails = || {
        let agents = [agent("one", "", FAILS), agent("two", "", FAILS)];
        Project::new().config(&team(&agents, "")).args(["hello"])
    };
    let result = run_in_both_formats(fails, 1);
    assert_eq!(result["outcome"], "failed");
    assert_eq!(result["answer"], Value::Null);
    assert_eq!(result["winner"], Value::Null);
    let warnings = result["warnings"].to_string();
    assert!(
        warnings.contains("one drops out: invalid api key"),
        "{warnings}"
    );
    let late = || {
        let project = Project::new().config(&team(&[agent("one", "", NEVER)], ""));
        project.args(["hello", "--orchestrator-timeout", "1"])
    };
    assert_eq!(run_in_both_formats(late, 5)["outcome"], "failed");
}

/// Checks that an error before a run can begin is reported like any other; `expected` is the
/// beginning of the error.
#[track_caller]
fn check_refused(project: impl Fn() -> Project, code: i32, expected: &str) {
    let result = run_in_both_formats(project, code);
    assert_eq!(result["outcome"], "failed", "{result}");
    let message = result["error"]["message"].as_str().unwrap();
    assert!(message.starts_with(expected), "{message}");
    assert_eq!(result["summary"], message);
    assert!(!result["error"]["hints"].as_array().unwrap().is_empty());
    assert_eq!(result["session_id"], Value::Null);
    assert_eq!(result["usage"]["total"]["requests"], 0);
}

#[test]
fn an_error_before_the_run_is_reported() {
    let with_arguments = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
        move || Project::new().args(&arguments)
    };
    check_refused(with_arguments(&[]), 2, "no task given");
    check_refused(
        with_arguments(&["t", "--nonsense"]),
        2,
        "unknown flag `--nonsense`",
    );
    check_refused(
        with_arguments(&["a", "task"]),
        2,
        "the task is more than one",
    );
    check_refused(
        with_arguments(&["config", "examples"]),
        2,
        "unknown flag `--output-format`",
    );
    check_refused(
        with_arguments(&["t", "--dry-run"]),
        2,
        "`--dry-run` and `--output-format`",
    );
    check_refused(
        with_arguments(&["t", "--automation"]),
        2,
        "`--automation` and `--output-format`",
    );
    check_refused(
        with_arguments(&["t", "-c", "gone.yaml"]),
        2,
        "config `gone.yaml` does not exist",
    );
    check_refused(
        with_arguments(&["-"]),
        2,
        "`-` reads the task from standard input, which is empty",
    );
    let keyless = ["-c", "@examples/basic/single_agent", "why?"];
    check_refused(
        with_arguments(&keyless),
        3,
        "no API key for `chatcompletion`",
    );
    let broken = || {
        let project = Project::new().config("agents: [{id: a, backend: {type: nothing}}]");
        project.args(["t"])
    };
    check_refused(broken, 2, "`.massgen/config.yaml` cannot be run");
    let not_text = || {
        use std::os::unix::ffi::OsStrExt as _;
        Project::new().args([std::ffi::OsStr::from_bytes(b"caf\xe9")])
    };
    check_refused(not_text, 2, "the argument `caf\u{fffd}` is not UTF-8");
}

#[test]
fn warnings_before_the_run_are_events_and_in_the_result() {
    let finished = Project::new()
        .file(".env", "nonsense\n")
        .config(&team(
            &[agent("solo", "", &answer_replies("yes", "agent1"))],
            "",
        ))
        .args(["what?", "--output-format", "stream-json"])
        .success();
    let lines = parse_lines(finished.stdout(), finished.code());
    let warning = "`[PROJECT]/.env:1` is not `NAME=value`: the line is skipped";
    assert_eq!(lines[0]["message"], warning);
    assert_eq!(lines.last().unwrap()["warnings"], json!([warning]));
    assert!(finished.stderr().contains(warning));
}

#[test]
fn no_secret_is_printed() {
    let secret = "sk-0123456789abcdef";
    let replies = format!(
        "- chunk_delay_ms: 1\n  text: \"the key is {secret} and {secret}\"\n  \
         calls: [{{name: new_answer}}]\n"
    );
    for (format, variable) in [
        ("json", "OPENAI_API_KEY"),
        ("stream-json", "OPENAI_API_KEY"),
        // No type is named after its vendor.
        ("json", "DEEPSEEK_API_KEY"),
    ] {
        let finished = Project::new()
            .env(variable, secret)
            .config(&team(&[agent("solo", "", &replies)], ""))
            .args(["what?", "--output-format", format])
            .success();
        let lines = parse_lines(finished.stdout(), finished.code());
        assert!(!finished.stdout().contains("sk-0123456789"), "{format}");
        assert_eq!(
            lines.last().unwrap()["answer"],
            "the key is [redacted] and [redacted]"
        );
    }
}

/// Starts a run in the format `stream-json` and waits for a line of the type `event_type`.
fn start_until(project: &Project, event_type: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut command = project.command();
    command
        .args(["--output-format", "stream-json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut stdout = String::new();
    let expected = format!("\"type\":\"{event_type}\"");
    while !stdout.contains(&expected) {
        let read = reader.read_line(&mut stdout).unwrap();
        assert_ne!(read, 0, "there was no {event_type}: {stdout}");
    }
    (child, reader, stdout)
}

fn exit_code(mut child: Child) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(begun.elapsed() < EXIT_TIME_MAX, "the process did not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that a run of `team` that is stopped at `event_type` by `signals` has its result, its
/// records and its exit status.
#[track_caller]
fn check_cancelled(team: &str, event_type: &str, signals: &[Signal]) -> Value {
    let project = Project::new().config(team).args(["wait"]);
    let (child, mut reader, mut stdout) = start_until(&project, event_type);
    for signal in signals {
        // A run may have ended before the second signal.
        let _gone = kill_process(Pid::from_child(&child), *signal);
        std::thread::sleep(Duration::from_millis(20));
    }
    reader.read_to_string(&mut stdout).unwrap();
    let code = exit_code(child);
    assert_eq!(code, Some(130), "{event_type} {signals:?}");
    let lines = parse_lines(&stdout, code);
    let result = lines.last().unwrap().clone();
    assert_eq!(result["outcome"], "cancelled", "{event_type} {signals:?}");
    assert_eq!(read_log(&project).last().unwrap()["type"], "run_ended");
    let status = status_json(&project);
    assert_eq!(status["is_complete"], true, "{event_type} {signals:?}");
    assert_eq!(status["finish_reason"], "interrupted");
    result
}

#[test]
fn a_terminated_run_is_cancelled_at_any_moment() {
    let silent = team(&[agent("slow", "", NEVER)], "");
    let fast = agent("fast", "", &answer_replies("so far", "agent1"));
    let answers_first = team(&[fast, agent("slow", "", NEVER)], "");
    let presents_slowly = format!(
        r#"
- when: {{system: "{FINAL}"}}
  delay_ms: 60000
  text: "late"
- calls: [{{name: new_answer, arguments: {{content: "so far"}}}}]
"#
    );
    let presents = team(&[agent("solo", "w1", &presents_slowly)], WRITE_HERE);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        check_cancelled(&silent, "run_started", &[signal]);
        let result = check_cancelled(&answers_first, "answered", &[signal]);
        assert_eq!(result["answer"], "so far");
        check_cancelled(&presents, "final_started", &[signal]);
    }
    check_cancelled(&answers_first, "model_request_started", &[Signal::TERM]);
    check_cancelled(&answers_first, "answered", &[Signal::USR1]);
    for signals in [
        [Signal::INT, Signal::INT],
        [Signal::TERM, Signal::HUP],
        [Signal::HUP, Signal::HUP],
    ] {
        check_cancelled(&answers_first, "answered", &signals);
    }
}

/// Executes a run of a few short steps; `signals` may hit any of them.
fn short_run(delay: Duration, signals: &[Signal]) {
    let step = |calls: &str| format!("- delay_ms: 10\n  text: \"a b c\"\n  calls: [{calls}]\n");
    let write = "{name: write_file, arguments: {path: a.txt, content: x}}";
    let vote = "{name: vote, arguments: {agent_id: agent1, reason: r}}";
    let steps = [step(write), step("{name: new_answer}"), step(vote)].concat();
    let replies = format!("- when: {{system: \"{FINAL}\"}}\n  delay_ms: 10\n  text: d\n{steps}");
    let agents = [agent("one", "w1", &replies), agent("two", "w2", &replies)];
    let project = Project::new().config(&team(&agents, WRITE_HERE)).args([
        "go",
        "--output-format",
        "stream-json",
    ]);
    let mut command = project.command();
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.stdin(Stdio::null()).spawn().unwrap();
    wait_until_signals_are_taken(&child);
    std::thread::sleep(delay);
    for signal in signals {
        // The run may have ended already.
        let _gone = kill_process(Pid::from_child(&child), *signal);
    }
    let mut stdout = String::new();
    let mut out = child.stdout.take().unwrap();
    out.read_to_string(&mut stdout).unwrap();
    let lines = parse_lines(&stdout, exit_code(child));
    let last = lines.last().unwrap();
    let outcome = last["outcome"].as_str().unwrap();
    assert!(matches!(outcome, "cancelled" | "completed"), "{last}");
    if !last["log_dir"].is_null() {
        assert_eq!(status_json(&project)["is_complete"], true, "{last}");
    }
}

#[test]
fn the_last_line_is_the_result_whenever_a_signal_arrives() {
    std::thread::scope(|scope| {
        for lane in 0..4 {
            scope.spawn(move || {
                for step in 0..10 {
                    let delay = Duration::from_millis(step * 16 + lane * 4);
                    short_run(delay, &[Signal::TERM]);
                    short_run(delay / 4, &[Signal::INT, Signal::TERM]);
                }
            });
        }
    });
}

/// Waits until the process has installed its signal handlers, or has ended.
fn wait_until_signals_are_taken(child: &Child) {
    let begun = Instant::now();
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
        if mask & SIGTERM_BIT != 0 || status.contains("\nState:\tZ") {
            return;
        }
        assert!(begun.elapsed() < EXIT_TIME_MAX, "no signal is taken");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn waiting_for_a_task_on_standard_input_can_be_interrupted() {
    for format in ["json", "stream-json"] {
        let project = Project::new().args(["-", "--output-format", format]);
        let mut command = project.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take();
        wait_until_signals_are_taken(&child);
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let mut stdout = String::new();
        let mut out = child.stdout.take().unwrap();
        out.read_to_string(&mut stdout).unwrap();
        let lines = parse_lines(&stdout, exit_code(child));
        drop(stdin);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["outcome"], "cancelled");
        assert_eq!(lines[0]["exit_code"], 130);
    }
}

/// Returns a shell that runs `preparation` and then becomes the process of `project`.
fn shell(project: &Project, preparation: &str) -> Command {
    let command = project.command();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("{preparation}; exec \"$0\" \"$@\"")])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(project.path(""))
        .env_clear();
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    shell
}

/// Checks the error of a run in a process whose limits are set by `preparation`.
#[track_caller]
fn check_process_limit(preparation: &str, expected: &str) {
    let project = Project::new()
        .config(&team(
            &[agent("solo", "w", &answer_replies("yes", "agent1"))],
            "",
        ))
        .args(["what?", "--output-format", "json"]);
    let output = shell(&project, preparation).output().unwrap();
    let lines = parse_lines(
        &String::from_utf8(output.stdout).unwrap(),
        output.status.code(),
    );
    let first = lines[0].to_string();
    assert_eq!(lines[0]["exit_code"], 3, "{first}");
    assert!(first.contains(expected), "{first}");
}

#[test]
fn process_limits_are_reported_as_such() {
    check_process_limit("ulimit -n 12", "ulimit -n");
    check_process_limit("ulimit -f 0", "File too large");
}

#[test]
fn a_hangup_that_was_ignored_from_the_start_stays_ignored() {
    let slow = "- delay_ms: 700\n  text: done\n";
    let project = Project::new()
        .config(&team(&[agent("solo", "", slow)], ""))
        .args(["wait", "--output-format", "json"]);
    let mut command = shell(&project, "trap '' HUP; exec < /dev/null");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_until_signals_are_taken(&child);
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let mut stdout = String::new();
    let mut out = child.stdout.take().unwrap();
    out.read_to_string(&mut stdout).unwrap();
    let lines = parse_lines(&stdout, exit_code(child));
    assert_eq!(lines[0]["outcome"], "completed");
}

#[test]
fn a_run_needs_no_input_and_no_open_streams() {
    for redirections in ["< /dev/null", "<&-", "2>&-", "<&- 2>&-", "2> /dev/full"] {
        let project = Project::new()
            .config(&team(
                &[agent("solo", "", &answer_replies("yes", "agent1"))],
                "",
            ))
            .args(["what?", "--output-format", "stream-json"]);
        let output = shell(&project, &format!("exec {redirections}"))
            .output()
            .unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let lines = parse_lines(&stdout, output.status.code());
        let outcome = &lines.last().unwrap()["outcome"];
        assert_eq!(outcome, "completed", "{redirections}");
    }
}

#[test]
fn an_idle_terminal_is_not_waited_for() {
    let finished = Project::new()
        .config(&team(
            &[agent("solo", "", &answer_replies("yes", "agent1"))],
            "",
        ))
        .args(["what?", "--output-format", "json"])
        .on_terminal();
    let object = finished.stdout().lines().find(|line| line.starts_with('{'));
    let lines = parse_lines(object.unwrap(), finished.code());
    assert_eq!(lines[0]["answer"], "yes");
}

#[test]
fn a_run_continues_after_its_reader_closes_the_stream() {
    let project = Project::new()
        .config(&team(&two_agents(), ""))
        .args(["colour?"]);
    let (child, reader, _) = start_until(&project, "run_started");
    drop(reader);
    assert_eq!(exit_code(child), Some(0));
    assert_eq!(status_json(&project)["finish_reason"], "delivered");
}

#[test]
fn an_unwritable_stream_sets_the_exit_status() {
    for format in ["json", "stream-json"] {
        let project = Project::new()
            .config(&team(
                &[agent("solo", "", &answer_replies("yes", "agent1"))],
                "",
            ))
            .args(["what?", "--output-format", format]);
        let output = shell(&project, "exec > /dev/full").output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        let expected = "error: cannot write the result to standard output";
        assert!(stderr.contains(expected), "{stderr}");
    }
}

#[test]
fn a_team_of_256_is_streamed_line_by_line() {
    let agents: Vec<String> = (1..=256)
        .map(|number| {
            let answer = format!("answer {number}");
            agent(
                &format!("a{number}"),
                "",
                &answer_replies(&answer, "agent7"),
            )
        })
        .collect();
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["many?", "--output-format", "stream-json"])
        .success();
    let lines = parse_lines(finished.stdout(), finished.code());
    let result = lines.last().unwrap();
    assert_eq!(result["tally"].as_array().unwrap().len(), 256);
    assert_eq!(result["votes"].as_array().unwrap().len(), 256);
    assert_eq!(result["usage"]["by_agent"].as_object().unwrap().len(), 256);
}
