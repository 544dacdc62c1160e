//! Runs that are interrupted at any moment are resumed by the real binary: the same winner, the
//! same delivery, and no recorded reply is requested again.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant, UNIX_EPOCH};

use massgen::path::AbsPath;
use massgen::world::store::event_log::{self, EventLog};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::project::{Project, copy_tree};
use crate::repetition::{all_or_one, is_long, repetitions};
use crate::scripted_team::{agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_for_file_clock, wait_until};

/// Number of parallel runs.
pub(crate) const AT_ONCE: usize = 4;
/// Number of moments at which a run is killed.
const KILLS: usize = 200;
/// The same in the short suite.
const KILLS_SHORT: usize = 40;
/// Number of moments at which a run is stopped.
const STOPS: usize = 40;
/// The same in the short suite.
const STOPS_SHORT: usize = 16;

/// Works in its workspace, answers, votes, and delivers a file.
const WORKS: &str = r#"
- when: {system: "the final agent", last: "shown.txt"}
  text: "final: alpha"
- when: {system: "the final agent"}
  text: "I deliver."
  calls:
    - {name: write_file, arguments: {path: "{{cwd}}/out/alpha.txt", content: "alpha\n"}}
    - {name: write_file, arguments: {path: "shown.txt", content: "x"}}
- when: {last: "</task>"}
  delay_ms: 6
  text: "I begin."
  usage: {input_tokens: 100, output_tokens: 7}
  calls: [{name: write_file, arguments: {path: "notes-a.txt", content: "alpha notes\n"}}]
- when: {last: "notes-a.txt"}
  delay_ms: 6
  calls: [{name: read_text_file, arguments: {path: "notes-a.txt"}}]
- when: {last: "alpha notes"}
  delay_ms: 6
  text: "I think of alpha."
  calls: [{name: new_answer, arguments: {content: "alpha"}}]
- delay_ms: 6
  calls: [{name: vote, arguments: {agent_id: agent1, reason: "mine"}}]
  repeat: true
"#;

const HELPS: &str = r#"
- when: {last: "</task>"}
  delay_ms: 4
  calls: [{name: write_file, arguments: {path: "notes-b.txt", content: "beta notes\n"}}]
- when: {last: "notes-b.txt"}
  delay_ms: 4
  text: "I think of beta."
  calls: [{name: new_answer, arguments: {content: "beta"}}]
- delay_ms: 9
  calls: [{name: vote, arguments: {agent_id: agent1, reason: "a is good"}}]
  repeat: true
"#;

const DELIVERS: &str = "orchestrator:\n  coordination: {write_mode: legacy}\n  context_paths: [{path: out, permission: write}]\n";

pub(crate) fn project() -> Project {
    let agents = [agent("a", "cwd: wa", WORKS), agent("b", "cwd: wb", HELPS)];
    Project::new().config(&team(&agents, DELIVERS)).dir("out")
}

/// Returns a command with these arguments in the directory of `project`.
pub(crate) fn massgen_command(project: &Project, arguments: &[&str]) -> Command {
    let mut command = project.command();
    command.args(arguments);
    command
}

pub(crate) fn describe_output(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(out), text(err))
}

/// Returns the log of the only run.
pub(crate) fn event_log(project: &Project) -> Option<PathBuf> {
    let mut runs: Vec<PathBuf> = fs::read_dir(project.path(".massgen/massgen_logs"))
        .ok()?
        .map(|run| run.unwrap().path())
        .collect();
    assert!(runs.len() <= 1, "{runs:?}");
    Some(runs.pop()?.join("turn_1/events.jsonl"))
}

pub(crate) fn read_events(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines = text.lines();
    lines
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// Counts the events of each type by agent.
fn count_events(events: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        let kind = event["type"].as_str().unwrap();
        let repeats = [
            "model_request_started",
            "model_request_finished",
            "text",
            "warning",
            "sandbox_selected",
        ];
        if !repeats.contains(&kind) {
            let agent = event["agent"].as_str().unwrap_or("-");
            *counts.entry(format!("{agent} {kind}")).or_default() += 1;
        }
    }
    counts
}

/// Returns the counts of an uninterrupted run.
pub(crate) fn uninterrupted_counts() -> BTreeMap<String, usize> {
    let finished = project().args(["go"]).success();
    count_events(&read_events(&event_log(finished.project()).unwrap()))
}

/// Checks that the only run has the same result as an uninterrupted one: nothing missing, nothing
/// twice.
#[track_caller]
pub(crate) fn check_ended(project: &Project, expected: &BTreeMap<String, usize>, note: &str) {
    let log = event_log(project).unwrap();
    let mut lines = event_log::open(&AbsPath::new(&log).unwrap()).unwrap();
    assert!(lines.all(|line| line.is_ok()), "{note}: the log is damaged");
    let events = read_events(&log);
    assert_eq!(count_events(&events), *expected, "{note}");
    let winner = events
        .iter()
        .find(|event| event["type"] == "winner_selected");
    assert_eq!(winner.unwrap()["agent"], "a", "{note}");
    let delivered = fs::read_to_string(project.path("out/alpha.txt"));
    assert_eq!(delivered.unwrap(), "alpha\n", "{note}");
    let files = fs::read_dir(project.path("out")).unwrap();
    assert_eq!(files.count(), 1, "{note}: nothing else is delivered");
    let sessions = fs::read_dir(project.path(".massgen/sessions")).unwrap();
    let answers: Vec<String> = sessions
        .map(|dir| dir.unwrap().path().join("turn_1/answer.txt"))
        .flat_map(fs::read_to_string)
        .collect();
    assert_eq!(answers, ["final: alpha"], "{note}");
}

/// A run that has ended, whose records can be truncated.
pub(crate) struct FinishedRecord {
    pub(crate) project: Project,
    pub(crate) log: PathBuf,
    pub(crate) bytes: Vec<u8>,
    store: PathBuf,
}

impl FinishedRecord {
    fn new() -> Self {
        Self::of(project())
    }

    pub(crate) fn of(project: Project) -> Self {
        let finished = project.args(["go"]).success();
        let log = event_log(finished.project()).unwrap();
        let store = finished.project().path("../kept");
        copy_tree(&finished.project().path(".massgen"), &store);
        Self {
            bytes: fs::read(&log).unwrap(),
            project: finished.then::<&str>([]),
            log,
            store,
        }
    }

    /// Truncates the log after `len` bytes, and adapts the rest of the state on disk.
    pub(crate) fn cut(&self, len: usize) {
        let state = self.project.path(".massgen");
        fs::remove_dir_all(&state).unwrap();
        copy_tree(&self.store, &state);
        fs::write(&self.log, &self.bytes[..len]).unwrap();
        fs::remove_file(self.log.with_file_name("status.json")).unwrap();
        let is_delivered = read_events(&self.log)
            .iter()
            .any(|event| event["type"] == "delivered");
        if !is_delivered {
            fs::remove_dir_all(state.join("deliveries")).unwrap();
            fs::remove_dir_all(self.project.path("out")).unwrap();
            fs::create_dir(self.project.path("out")).unwrap();
            for session in fs::read_dir(state.join("sessions")).unwrap() {
                let turn = session.unwrap().path().join("turn_1");
                fs::remove_dir_all(&turn).unwrap();
                fs::create_dir(&turn).unwrap();
            }
        }
        seal_again(&state);
    }
}

/// Renews the seal of each sealed directory below `dir`, because a copy is not trusted.
pub(crate) fn seal_again(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            seal_again(&entry.path());
        } else if entry.file_name() == "seal.json" {
            let metadata = fs::metadata(dir).unwrap();
            let born = metadata
                .created()
                .unwrap()
                .duration_since(UNIX_EPOCH)
                .unwrap();
            let born_ns = i64::try_from(born.as_nanos()).unwrap();
            let seal = json!({"inode": metadata.ino(), "born_ns": born_ns});
            fs::write(entry.path(), seal.to_string()).unwrap();
        }
    }
}

#[test]
fn a_run_can_be_resumed_after_every_record() {
    let expected = &uninterrupted_counts();
    scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                let record = FinishedRecord::new();
                let ends: Vec<usize> = record
                    .bytes
                    .iter()
                    .enumerate()
                    .filter(|(_, byte)| **byte == b'\n')
                    .map(|(at, _)| at + 1)
                    .collect();
                // In the short suite, one of three: an end without its newline, the end, or the
                // beginning of the next line.
                let around =
                    |(line, end): (usize, &usize)| all_or_one(&[end - 1, *end, end + 1], line);
                let cuts = ends[..ends.len() - 2].iter().enumerate().flat_map(around);
                for len in cuts.skip(first).step_by(AT_ONCE) {
                    record.cut(len);
                    let output = massgen_command(&record.project, &["--continue"])
                        .output()
                        .unwrap();
                    let note = format!("cut at {len}: {}", describe_output(&output));
                    assert!(output.status.success(), "{note}");
                    assert_eq!(output.stdout, b"final: alpha\n", "{note}");
                    check_ended(&record.project, expected, &note);
                }
            });
        }
    });
}

/// Restarts from the task after the first presentation, and delivers in the second.
const BEGINS_AGAIN: &str = r#"
- when: {offers: restart_orchestration}
  calls: [{name: restart_orchestration, arguments: {reason: "too short", instructions: "longer"}}]
  repeat: true
- when: {system: "the final agent", last: "alpha.txt"}
  text: "final: alpha"
- when: {system: "the final agent", contains: "the second answer"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/out/alpha.txt", content: "alpha\n"}}]
- when: {system: "the final agent"}
  text: "too short"
  repeat: true
- when: {contains: "longer"}
  calls: [{name: new_answer, arguments: {content: "the second answer"}}]
  repeat: true
- calls: [{name: new_answer, arguments: {content: "the first answer"}}]
  repeat: true
"#;

#[test]
fn a_restarted_run_can_be_resumed_after_every_record() {
    let rest = "orchestrator:\n  coordination: {max_orchestration_restarts: 1}\n  \
        context_paths: [{path: out, permission: write}]\n";
    let agents = [agent("a", "cwd: wa", BEGINS_AGAIN)];
    let record = FinishedRecord::of(Project::new().config(&team(&agents, rest)).dir("out"));
    let expected = &count_events(&read_events(&record.log));
    assert_eq!(expected["- coordination_restarted"], 1, "{expected:?}");
    let ends = record
        .bytes
        .iter()
        .enumerate()
        .filter_map(|(at, byte)| (*byte == b'\n').then_some(at + 1));
    let ends = ends.filter(|end| *end < record.bytes.len());
    for end in ends.step_by(repetitions(2, 1)) {
        record.cut(end);
        let output = massgen_command(&record.project, &["--continue"])
            .output()
            .unwrap();
        let note = format!("{end} bytes: {}", describe_output(&output));
        assert!(output.status.success(), "{note}");
        check_ended(&record.project, expected, &note);
    }
}

#[test]
fn a_resumed_run_delivers_nothing_twice() {
    let replies = r#"
- when: {system: "the final agent", last: "out/log"}
  text: "final: once"
- when: {system: "the final agent"}
  calls: [{name: execute_command, arguments: {command: "echo once >> '{{cwd}}/out/log'; echo out/log"}}]
- calls: [{name: new_answer, arguments: {content: "alpha"}}]
"#;
    let keys = "cwd: wa\nenable_mcp_command_line: true";
    let finished = Project::new()
        .config(&team(&[agent("a", keys, replies)], DELIVERS))
        .file("out/log", "begun\n")
        .args(["go"])
        .success()
        .has_file("out/log", "begun\nonce\n");
    let log = event_log(finished.project()).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    let is_told = |line: &&str| !line.contains("\"type\":\"final_answer\"");
    let lines_kept: Vec<&str> = text.split_inclusive('\n').take_while(is_told).collect();
    fs::write(&log, lines_kept.concat()).unwrap();
    fs::remove_file(log.with_file_name("status.json")).unwrap();
    let sessions = finished.project().path(".massgen/sessions");
    for session in fs::read_dir(sessions).unwrap() {
        let turn = session.unwrap().path().join("turn_1");
        fs::remove_dir_all(&turn).unwrap();
        fs::create_dir(&turn).unwrap();
    }
    let again = finished.then(["--continue"]).success();
    assert_eq!(again.stdout(), "final: once\n");
    let again = again.has_file("out/log", "begun\nonce\n");
    let delivered = read_events(&log)
        .into_iter()
        .find(|event| event["type"] == "delivered");
    let rows = delivered.unwrap()["rows"].clone();
    assert_eq!(rows[0]["outcome"], "changed", "{rows}");
    again
        .then(["undo"])
        .success()
        .has_file("out/log", "begun\n");
}

/// Returns whether a line of `bytes` ends at most two bytes before or after `len`.
fn is_near_line_end(bytes: &[u8], len: usize) -> bool {
    let around = len.saturating_sub(2)..bytes.len().min(len + 2);
    bytes[around].contains(&b'\n')
}

#[test]
fn a_log_cut_at_any_byte_is_written_on_after_its_last_whole_line() {
    let record = FinishedRecord::new();
    let path = AbsPath::new(&record.log).unwrap();
    let is_cut =
        |len: &usize| is_long() || len.is_multiple_of(29) || is_near_line_end(&record.bytes, *len);
    for len in (0..record.bytes.len()).filter(is_cut) {
        fs::write(&record.log, &record.bytes[..len]).unwrap();
        // A process that another test is just starting may hold the log's handle for a moment.
        let mut opened = None;
        wait_until("the log can be opened", WAIT_TIME_MAX, || {
            opened = EventLog::reopen(&path).ok();
            opened.is_some()
        });
        let kept = opened.unwrap();
        drop(kept.log);
        let left = fs::read(&record.log).unwrap();
        let lines = record.bytes[..=len].split(|byte| *byte == b'\n').count() - 1;
        assert_eq!(kept.events.len(), lines, "{len}");
        assert!(record.bytes.starts_with(&left), "{len}");
        assert!(left.last().is_none_or(|last| *last == b'\n'), "{len}");
        let is_torn = left.len() < len;
        assert_eq!(
            kept.truncation_reason.is_some(),
            is_torn,
            "{len}: {:?}",
            kept.truncation_reason
        );
    }
}

/// Starts a run, ends it with `signal` after `time`, and resumes or restarts it until it ends.
fn stop_and_go_on(project: &Project, time: Duration, signal: Signal) -> String {
    let quiet = |arguments: &[&str]| {
        let mut command = massgen_command(project, arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let mut first = quiet(&["go"]);
    sleep(time);
    // A second Ctrl-C of some runs ends what the first one began.
    let signals = if time.as_micros().is_multiple_of(3) {
        2
    } else {
        1
    };
    for _ in 0..signals {
        let pid = Pid::from_child(&first);
        // It may have ended.
        let _sent = kill_process(pid, signal);
    }
    let status = first.wait().unwrap();
    if status.signal().is_none() && status.code() != Some(130) {
        return "it had ended".to_owned();
    }
    let begun = event_log(project).is_some_and(|log| log.with_file_name("replay.yaml").exists());
    if !begun {
        fs::remove_dir_all(project.path(".massgen/massgen_logs")).unwrap_or_default();
        return describe_output(&massgen_command(project, &["go"]).output().unwrap());
    }
    describe_output(&massgen_command(project, &["--continue"]).output().unwrap())
}

#[test]
fn a_run_that_is_killed_at_any_moment_can_be_resumed() {
    check_resumed_after(Signal::KILL, repetitions(KILLS_SHORT, KILLS));
}

#[test]
fn a_run_that_the_user_stops_at_any_moment_can_be_resumed() {
    check_resumed_after(Signal::INT, repetitions(STOPS_SHORT, STOPS));
}

/// Ends `count` runs with `signal`, at moments that are spread evenly over a run, and resumes them.
fn check_resumed_after(signal: Signal, count: usize) {
    let expected = &uninterrupted_counts();
    let began = Instant::now();
    drop(project().args(["go"]).success());
    let whole_run = began.elapsed();
    scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                for kill in (first..count).step_by(AT_ONCE) {
                    // Spread evenly over a run, without a pattern between the threads.
                    let share = u32::try_from((kill * 73) % count).unwrap();
                    let time = whole_run * share / u32::try_from(count).unwrap();
                    let project = project();
                    let output = stop_and_go_on(&project, time, signal);
                    let note = format!("{signal:?} after {time:?}: {output}");
                    check_ended(&project, expected, &note);
                }
            });
        }
    });
}

#[test]
fn a_running_run_cannot_be_resumed() {
    let project = project();
    let mut first = massgen_command(&project, &["go"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_begun = || event_log(&project).is_some_and(|log| !read_events(&log).is_empty());
    wait_until("the run begins", WAIT_TIME_MAX, is_begun);
    let second = massgen_command(&project, &["--continue"]).output().unwrap();
    assert!(first.wait().unwrap().success());
    let expected = match second.status.code() {
        Some(3) => "is running",
        _ => "the last turn has ended",
    };
    assert!(
        describe_output(&second).contains(expected),
        "{}",
        describe_output(&second)
    );
}

/// Resumes a run whose log was truncated in the middle, after `change`, and checks the output.
#[track_caller]
fn check_changed(change: impl FnOnce(&Project), arguments: &[&str], code: i32, expected: &str) {
    let record = FinishedRecord::new();
    record.cut(record.bytes.len() / 2);
    change(&record.project);
    let output = massgen_command(&record.project, arguments)
        .output()
        .unwrap();
    let shown = describe_output(&output);
    assert_eq!(output.status.code(), Some(code), "{shown}");
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn a_resume_names_what_has_changed_since() {
    let append = |path: &'static str, text: &'static str| {
        move |project: &Project| {
            let path = project.path(path);
            let before = fs::read_to_string(&path).unwrap_or_default();
            fs::write(&path, format!("{before}{text}")).unwrap();
        }
    };
    let config = ".massgen/config.yaml";
    let go_on = ["--continue"];
    check_changed(|_| {}, &go_on, 0, "line ");
    let changed = "config `.massgen/config.yaml` has changed since the run started";
    check_changed(append(config, "# more\n"), &go_on, 2, changed);
    let named = ["--continue", "--config", ".massgen/config.yaml"];
    check_changed(append(config, "# more\n"), &named, 0, "final: alpha");
    let other = append(
        "other.yaml",
        "agents: [{id: c, backend: {type: scripted, replies: [{text: x}]}}]\n",
    );
    let named = ["--continue", "--config", "other.yaml"];
    check_changed(other, &named, 2, "the config has other agents than the run");
    let gone = |project: &Project| fs::remove_dir_all(project.path(".massgen/workspaces")).unwrap();
    check_changed(gone, &go_on, 3, "no longer exists");
    let resumed = ["sessions", "resume"];
    check_changed(|_| {}, &resumed, 0, "final: alpha");
    let counted = ["--continue", "--output-format", "json"];
    check_changed(|_| {}, &counted, 0, "\"input_tokens\":100,");
}

#[test]
fn a_session_without_an_interrupted_run_needs_a_task() {
    let none = project().args(["sessions", "resume", "last"]).failure(2);
    assert!(
        none.stderr().contains("no sessions in"),
        "{}",
        none.stderr()
    );
    assert!(none.stderr().contains("start one"), "{}", none.stderr());
    let finished = project().args(["go"]).success();
    let answer = finished.stdout().to_owned();
    let again = finished.then(["--continue"]).success();
    assert_eq!(again.stdout(), answer);
    let report = again
        .then(["--continue", "--output-format", "json"])
        .failure(2);
    let expected = "the session has no interrupted run, and no task was given";
    assert!(report.stdout().contains(expected), "{}", report.stdout());
}

#[test]
fn a_stopped_run_is_resumed_instead_of_keeping_its_best_answer() {
    let slow = "- delay_ms: 60000\n  text: late\n";
    let answers = "- when: {last: \"</task>\"}\n  \
        calls: [{name: new_answer, arguments: {content: so far}}]\n\
        - calls: [{name: vote, arguments: {agent_id: agent1, reason: fine}}]\n  repeat: true\n";
    let agents = |slow: &str| team(&[agent("fast", "", answers), agent("slow", "", slow)], "");
    let project = Project::new().config(&agents(slow));
    let again = agents(
        "- calls: [{name: new_answer, arguments: {content: better}}]\n\
        - calls: [{name: vote, arguments: {agent_id: agent2, reason: fine}}]\n  repeat: true\n",
    );
    let project = project.file("again.yaml", again);
    let mut first = massgen_command(&project, &["go"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let is_answered = || {
        let log = event_log(&project);
        log.is_some_and(|log| {
            read_events(&log)
                .iter()
                .any(|event| event["type"] == "answered")
        })
    };
    wait_until("an agent answers", WAIT_TIME_MAX, is_answered);
    kill_process(Pid::from_child(&first), Signal::INT).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(130));
    let summary = |text: &str| {
        let sessions: Vec<_> = fs::read_dir(project.path(".massgen/sessions"))
            .unwrap()
            .map(|session| session.unwrap().path())
            .collect();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        let answer = fs::read_to_string(sessions[0].join("turn_1/answer.txt")).unwrap();
        assert_eq!(answer, text);
        fs::read_to_string(sessions[0].join("SESSION_SUMMARY.txt")).unwrap()
    };
    summary("so far");
    let arguments = ["--continue", "--config", "again.yaml"];
    let output = massgen_command(&project, &arguments).output().unwrap();
    assert!(output.status.success(), "{}", describe_output(&output));
    let events = read_events(&event_log(&project).unwrap());
    let ends = events.iter().filter(|event| event["type"] == "run_ended");
    assert_eq!(ends.count(), 1);
    let counted = count_events(&events);
    assert_eq!(counted["fast answered"], 1, "{counted:?}");
    assert_eq!(counted["slow answered"], 1, "{counted:?}");
    assert!(
        !counted.contains_key("- coordination_stopped"),
        "{counted:?}"
    );
    assert_eq!(summary("so far").matches("Turn 1").count(), 1);
    let done = massgen_command(&project, &["--continue"]).output().unwrap();
    assert!(describe_output(&done).contains("the last turn has ended"));
}

/// Starts a run of an agent that answers and one that does not, with these words and the same team in
/// `team.yaml`, and interrupts it after the answer. Returns the project, and what it wrote to
/// standard error.
fn interrupted_after_an_answer(arguments: &[&str]) -> (Project, String) {
    let answers = "- calls: [{name: new_answer, arguments: {content: so far}}]\n\
        - calls: [{name: vote, arguments: {agent_id: agent1, reason: fine}}]\n  repeat: true\n";
    let slow = "- delay_ms: 60000\n  text: late\n";
    let config = team(&[agent("fast", "", answers), agent("slow", "", slow)], "");
    let project = Project::new().config(&config).file("team.yaml", &config);
    let child = massgen_command(&project, arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let is_answered = || {
        let log = event_log(&project);
        log.is_some_and(|log| {
            read_events(&log)
                .iter()
                .any(|event| event["type"] == "answered")
        })
    };
    wait_until("an agent answers", WAIT_TIME_MAX, is_answered);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(130),
        "{}",
        describe_output(&output)
    );
    (project, String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_turn_that_was_stopped_after_an_answer_is_listed_as_interrupted() {
    let (project, _) = interrupted_after_an_answer(&["go"]);
    let forked = project.retyped(["sessions", "fork", "last"]).success();
    let fork = forked.stdout().trim().to_owned();
    let listed = forked.then(["sessions", "list"]).success();
    let (copied, stopped): (Vec<&str>, Vec<&str>) = listed
        .stdout()
        .lines()
        .partition(|line| line.starts_with(&fork));
    assert_eq!(stopped.len(), 1, "{stopped:?}");
    assert!(stopped[0].contains("  interrupted  "), "{stopped:?}");
    assert!(stopped[0].ends_with("1 turn  go"), "{stopped:?}");
    let id = stopped[0].split_whitespace().next().unwrap().to_owned();
    // A copy has the answer, but no run that could be resumed.
    assert_eq!(copied.len(), 1, "{copied:?}");
    assert!(copied[0].ends_with("1 turn  go"), "{copied:?}");
    assert!(!copied[0].contains("interrupted"), "{copied:?}");
    let listed = listed.then(["sessions", "list", "--json"]).success();
    for line in listed.stdout().lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["interrupted"], row["id"] != fork.as_str(), "{row}");
        assert_eq!(row["turns"], 1, "{row}");
    }
    let answers = "- calls: [{name: new_answer, arguments: {content: done}}]\n\
        - calls: [{name: vote, arguments: {agent_id: agent1, reason: fine}}]\n";
    let config = team(&[agent("fast", "", answers)], "");
    fs::write(listed.project().path("team.yaml"), config).unwrap();
    let next = ["--config", "team.yaml", "--session-id", &id, "next"];
    let listed = listed
        .then(next)
        .success()
        .then(["sessions", "list"])
        .success();
    assert!(
        !listed.stdout().contains("interrupted"),
        "{}",
        listed.stdout()
    );
    assert!(
        listed.stdout().contains("2 turns  next"),
        "{}",
        listed.stdout()
    );
}

#[test]
fn without_a_terminal_an_interrupted_run_ends_with_the_command_that_resumes_it() {
    for (arguments, command) in [
        (&["go"][..], "massgen --continue"),
        (&["--automation", "go"], "massgen --continue"),
        (
            &["--output-format", "json", "--cwd-context", "ro", "go"],
            "massgen --continue",
        ),
        (
            &[
                "--quiet",
                "--config",
                "team.yaml",
                "--sandbox",
                "auto",
                "go",
            ],
            "massgen --continue --config team.yaml --sandbox auto",
        ),
    ] {
        let (_, stderr) = interrupted_after_an_answer(arguments);
        let last = stderr.lines().last().unwrap_or_default();
        assert_eq!(last, format!("resume it: {command}"), "{stderr}");
    }
    let ended = project().args(["go"]).success();
    assert!(!ended.stderr().contains("--continue"), "{}", ended.stderr());
}

/// The final agent reads and writes a file of the user's, and the log is truncated before the
/// delivery; then `meanwhile` makes the user's changes. Returns the project after the run was
/// resumed.
fn changed_before_going_on(meanwhile: impl FnOnce(&Project)) -> (Project, Output) {
    let replies = r#"
- when: {system: "the final agent", last: "wrote"}
  text: "final: changed"
- when: {system: "the final agent", last: "of the user"}
  calls: [{name: write_file, arguments: {path: "{{cwd}}/out/text", content: "of the agent\n"}}]
- when: {system: "the final agent"}
  calls: [{name: read_text_file, arguments: {path: "{{cwd}}/out/text"}}]
- calls: [{name: new_answer, arguments: {content: "alpha"}}]
"#;
    let finished = Project::new()
        .config(&team(&[agent("a", "cwd: wa", replies)], DELIVERS))
        .file("out/text", "of the user\n")
        .args(["go"])
        .success();
    let finished = finished.has_file("out/text", "of the agent\n");
    let undone = finished.then(["undo"]).success();
    let project = undone
        .has_file("out/text", "of the user\n")
        .then::<&str>([]);
    let log = event_log(&project).unwrap();
    let text = fs::read_to_string(&log).unwrap();
    let is_told = |line: &&str| !line.contains("\"type\":\"final_answer\"");
    let lines_kept: Vec<&str> = text.split_inclusive('\n').take_while(is_told).collect();
    fs::write(&log, lines_kept.concat()).unwrap();
    fs::remove_file(log.with_file_name("status.json")).unwrap();
    fs::remove_dir_all(project.path(".massgen/deliveries")).unwrap();
    for session in fs::read_dir(project.path(".massgen/sessions")).unwrap() {
        let turn = session.unwrap().path().join("turn_1");
        fs::remove_dir_all(&turn).unwrap();
        fs::create_dir_all(turn.join("conflicts")).unwrap();
    }
    wait_for_file_clock();
    meanwhile(&project);
    let again = massgen_command(&project, &["--continue"]).output().unwrap();
    (project, again)
}

#[test]
fn changes_of_the_user_before_a_resume_stay() {
    let (project, again) = changed_before_going_on(|project| {
        fs::write(project.path("out/text"), "edited by the user\n").unwrap();
    });
    assert_eq!(again.status.code(), Some(4), "{}", describe_output(&again));
    assert!(
        describe_output(&again).contains("conflict"),
        "{}",
        describe_output(&again)
    );
    let left = fs::read_to_string(project.path("out/text")).unwrap();
    assert_eq!(left, "edited by the user\n", "{}", describe_output(&again));
    let log = event_log(&project).unwrap();
    let delivered = read_events(&log)
        .into_iter()
        .find(|event| event["type"] == "delivered");
    let kept_path = delivered.unwrap()["rows"][0]["kept"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(fs::read_to_string(kept_path).unwrap(), "of the agent\n");
}
