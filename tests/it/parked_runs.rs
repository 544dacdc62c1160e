//! Runs with `--park` that get a signal at any record have no end and are resumed by the real
//! binary, with the same result as without the signal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::pipeline::pipeline_config;
use crate::project::Project;
use crate::resume::{
    AT_ONCE, check_ended, describe_output, event_log, massgen_command, project, read_events,
    uninterrupted_counts,
};
use crate::scripted_team::{agent, team};
use crate::waiting::wait_until;

/// The exit status of a parked run: `EX_TEMPFAIL` of `sysexits.h`.
const PARKED: i32 = 75;
/// Timeout of waiting for a record.
const RECORD_WAIT_MAX: Duration = Duration::from_mins(2);
/// How often a run gets a signal at each record until more than half of the runs were parked: on a
/// busy machine, many end before the signal.
const TRIES_MAX: usize = 5;

/// The signals that park a run.
const SIGNALS: [Signal; 3] = [Signal::TERM, Signal::USR1, Signal::HUP];

/// Starts a run that can be parked.
fn start(project: &Project, arguments: &[&str]) -> Child {
    let mut command = massgen_command(project, arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until the log of the only run has `count` records, or the run has ended.
fn wait_for_records(project: &Project, running: &mut Child, count: usize) {
    let began = Instant::now();
    let are_there = || event_log(project).is_some_and(|log| read_events(&log).len() >= count);
    while !are_there() && running.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < RECORD_WAIT_MAX, "record {count}");
        sleep(Duration::from_millis(1));
    }
}

/// Returns whether the run has recorded an end.
fn has_ended(log: &Path) -> bool {
    let mut events = read_events(log).into_iter();
    events.any(|event| event["type"] == "run_ended")
}

#[test]
fn a_run_that_is_parked_at_any_record_is_resumed() {
    let expected = &uninterrupted_counts();
    let finished = project().args(["go"]).success();
    let records = read_events(&event_log(finished.project()).unwrap()).len();
    let parked = &Mutex::new(BTreeSet::new());
    for _ in 0..TRIES_MAX {
        park_at_each_record(records, expected, parked);
        if parked.lock().unwrap().len() > records / 2 {
            return;
        }
    }
    panic!("of {records}, only {parked:?} were parked");
}

/// Parks and resumes a run at each record at which none was `parked` yet.
fn park_at_each_record(
    records: usize,
    expected: &BTreeMap<String, usize>,
    parked: &Mutex<BTreeSet<usize>>,
) {
    scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                for record in (1..records).skip(first).step_by(AT_ONCE) {
                    if parked.lock().unwrap().contains(&record) {
                        continue;
                    }
                    let project = project();
                    let mut running = start(&project, &["--park", "go"]);
                    wait_for_records(&project, &mut running, record);
                    // A run that has just ended gets no signal.
                    let _sent =
                        kill_process(Pid::from_child(&running), SIGNALS[record % SIGNALS.len()]);
                    let output = running.wait_with_output().unwrap();
                    let note = format!("record {record}: {}", describe_output(&output));
                    match output.status.code() {
                        Some(PARKED) => {
                            assert!(!has_ended(&event_log(&project).unwrap()), "{note}");
                            let again =
                                massgen_command(&project, &["--continue"]).output().unwrap();
                            let note = format!("{note}{}", describe_output(&again));
                            assert!(again.status.success(), "{note}");
                            check_ended(&project, expected, &note);
                            parked.lock().unwrap().insert(record);
                        }
                        // The signal came after the end of the turn.
                        _ => check_ended(&project, expected, &note),
                    }
                }
            });
        }
    });
}

#[test]
fn a_parked_run_ends_its_commands_and_can_be_parked_again() {
    // No other process on the machine sleeps for this time.
    let time = format!("3456.{}", std::process::id());
    let replies = r#"
- calls: [{name: execute_command, arguments: {command: "echo $RANDOM >> begun; sleep TIME"}}]
- calls: [{name: new_answer, arguments: {content: "never"}}]
"#;
    let replies = replies.replace("TIME", &time);
    let keys = "cwd: wa\nenable_mcp_command_line: true";
    let project = Project::new().config(&team(&[agent("a", keys, &replies)], ""));
    for arguments in [
        &["--park", "--output-format", "json", "go"][..],
        &["--park", "--output-format", "json", "--continue"],
    ] {
        let mut running = start(&project, arguments);
        let is_running = || commands_with(&time) > 0;
        let began = Instant::now();
        while !is_running() && running.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < RECORD_WAIT_MAX);
            sleep(Duration::from_millis(1));
        }
        kill_process(Pid::from_child(&running), Signal::TERM).unwrap();
        let output = running.wait_with_output().unwrap();
        let note = describe_output(&output);
        assert_eq!(output.status.code(), Some(PARKED), "{note}");
        let result: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(result["outcome"], "parked", "{note}");
        assert_eq!(result["status"], "parked", "{note}");
        assert!(!has_ended(&event_log(&project).unwrap()), "{note}");
        // A process that was killed ends when it runs next.
        wait_until("its command ends", RECORD_WAIT_MAX, || {
            commands_with(&time) == 0
        });
    }
    let mut running = start(&project, &["--park", "--continue"]);
    wait_for_records(&project, &mut running, 3);
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_ne!(output.status.code(), Some(PARKED), "Ctrl-C ends the run");
}

/// Counts the processes with `word` on their command line.
fn commands_with(word: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let is_meant = |line: &Vec<u8>| String::from_utf8_lossy(line).contains(word);
    lines.filter(is_meant).count()
}

#[test]
fn a_pipeline_is_not_parked() {
    let agents = [agent("implementer", "", "- text: x\n  repeat: true")];
    let project = Project::new().config(&pipeline_config("stages: [implementer]", &agents, ""));
    let finished = project.args(["--park", "go"]).failure(2);
    let expected = "`--park` is not available for a pipeline";
    assert!(
        finished.stderr().contains(expected),
        "{}",
        finished.stderr()
    );
}
