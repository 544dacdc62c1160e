//! Replay of recorded runs by the real binary: the same decisions in the same order, whatever
//! happened in the run, and a modified record is detected.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use massgen::config::machine_policy::MachinePolicy;
use massgen::event::Event;
use massgen::orchestrator::execution::ShutdownSignal;
use massgen::path::AbsPath;
use massgen::replay::play;
use massgen::replay::record::RecordedRun;
use massgen::world::io::clock;
use massgen::world::store::event_log::EventLog;
use massgen::world::store::redact::Redactor;
use massgen::world::store::runs;
use serde_json::Value;

use crate::project::{FinishedCommand, Project, machine};
use crate::repetition::repetitions;
use crate::scripted_team::{FINAL, agent, answer_replies, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

const WRITE_HERE: &str = "orchestrator:\n  coordination: {write_mode: legacy}\n  context_paths:\n    - {path: ., permission: write}\n";
const FAILS: &str = "- error: {message: \"invalid api key\"}\n  repeat: true\n";

/// Returns the directory of the newest run's records.
fn turn_dir(project: &Project) -> PathBuf {
    let logs = project.path(".massgen/massgen_logs");
    let runs = fs::read_dir(logs).unwrap().map(|run| run.unwrap().path());
    runs.max().unwrap().join("turn_1")
}

/// Returns the types of the recorded events about agents' decisions, in order.
fn logged_decisions(project: &Project) -> Vec<String> {
    let log = fs::read_to_string(turn_dir(project).join("events.jsonl")).unwrap();
    let kinds = log.lines().map(|line| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["type"].as_str().unwrap().to_owned()
    });
    let counts = [
        "answered",
        "voted",
        "votes_voided",
        "submission_rejected",
        "dropped_out",
        "winner_selected",
        "final_answer",
        "coordination_restarted",
        "coordination_stopped",
    ];
    kinds
        .filter(|kind| counts.contains(&kind.as_str()))
        .collect()
}

/// Replays the newest run and checks that it is the same.
#[track_caller]
fn check_same(finished: FinishedCommand) -> FinishedCommand {
    let replayed = finished.then(["replay", "last"]).success();
    let stdout = replayed.stdout();
    assert!(stdout.starts_with("same: "), "{stdout}");
    assert_eq!(replayed.stderr(), "");
    replayed
}

/// How often a run is made until it has the decisions that a test is about: on a busy machine, the
/// agents may decide in another order.
const TRIES_MAX: u32 = 5;

/// Runs `config`, checks the exit status and the `kinds` of decisions, and replays the run.
#[track_caller]
fn check(config: &str, code: i32, kinds: &[&str]) {
    for tries in 1.. {
        let finished = Project::new().config(config).args(["go"]).failure(code);
        let decided = logged_decisions(finished.project());
        let is_decided = |kind: &&str| decided.iter().any(|decided| decided == kind);
        if kinds.iter().all(is_decided) {
            check_same(finished);
            return;
        }
        assert!(tries < TRIES_MAX, "{kinds:?}: {decided:?}");
    }
}

#[test]
fn agents_that_race_are_replayed_in_the_order_of_the_record() {
    let racers = [("a", 40), ("b", 0), ("c", 20), ("d", 0), ("e", 60)];
    let racers =
        racers.map(|(id, delay_ms)| agent(id, "", &answer_replies(id, "agent2", delay_ms)));
    check(&team(&racers, ""), 0, &["answered", "voted"]);
}

#[test]
fn votes_that_come_too_late_are_refused_again() {
    let second_thoughts = r#"
- when: {system: "the final agent"}
  text: "final: b"
- when: {last: "<task>"}
  calls: [{name: new_answer, arguments: {content: "b"}}]
- delay_ms: 200
  calls: [{name: new_answer, arguments: {content: "b, thought over"}}]
- delay_ms: 500
  calls: [{name: vote, arguments: {agent_id: agent2, reason: "mine"}}]
  repeat: true
"#;
    // Their votes are pending when the new answer arrives.
    let agents = [
        agent("a", "", &answer_replies("a", "agent1", 2000)),
        agent("b", "", second_thoughts),
        agent("c", "", &answer_replies("c", "agent2", 1500)),
    ];
    check(
        &team(&agents, ""),
        0,
        &["submission_rejected", "answered", "voted"],
    );
}

#[test]
fn votes_that_a_new_answer_voids_are_voided_again() {
    let voter = |id: &str, delay_ms: u32| answer_replies(id, "agent1", delay_ms);
    let second_thoughts = r#"
- when: {last: "<task>"}
  calls: [{name: new_answer, arguments: {content: "c"}}]
- delay_ms: 2000
  calls: [{name: new_answer, arguments: {content: "c, thought over"}}]
- calls: [{name: vote, arguments: {agent_id: agent3, reason: "mine"}}]
  repeat: true
"#;
    let agents = [
        agent("a", "", &voter("a", 0)),
        agent("b", "", &voter("b", 30)),
        agent("c", "", second_thoughts),
    ];
    check(&team(&agents, ""), 0, &["votes_voided"]);
}

#[test]
fn refusals_of_all_kinds_are_repeated() {
    let stubborn = r#"
- when: {last: "<task>"}
  delay_ms: 100
  calls: [{name: vote, arguments: {agent_id: agent9, reason: "who?"}}]
- calls: [{name: new_answer, arguments: {content: "red"}}]
- calls: [{name: new_answer, arguments: {content: "  "}}]
- calls: [{name: new_answer, arguments: {content: "a"}}, {name: vote, arguments: {agent_id: agent1}}]
- text: "I cannot decide"
- calls: [{name: new_answer, arguments: {content: "blue"}}]
- calls: [{name: vote, arguments: {agent_id: agent1, reason: "fine"}}]
  repeat: true
"#;
    let agents = [
        agent("a", "", &answer_replies("red", "agent1", 0)),
        agent("b", "", stubborn),
    ];
    check(
        &team(&agents, ""),
        0,
        &["submission_rejected", "winner_selected"],
    );
}

#[test]
fn agents_that_drop_out_do_so_again() {
    let silent = "- text: \"hm\"\n  repeat: true\n";
    let wordless = "- calls: [{name: list_directory, arguments: {path: .}}]\n  repeat: true\n";
    let agents = [
        agent("a", "", &answer_replies("a", "agent1", 30)),
        agent("b", "", FAILS),
        agent("c", "cwd: w", wordless),
        agent("d", "cwd: w2", silent),
    ];
    let few_steps = "limits: {max_steps_per_round: 6}\n";
    check(&team(&agents, few_steps), 0, &["dropped_out"]);
    let all = [agent("a", "", FAILS), agent("b", "", FAILS)];
    check(&team(&all, ""), 1, &["dropped_out"]);
}

#[test]
fn waits_of_retries_are_not_repeated() {
    let patient = r#"
- when: {last: "<task>"}
  error: {message: "overloaded", transient: true, retry_after_seconds: 2}
- when: {last: "<task>"}
  text: "half of a"
  cut: true
- when: {last: "<task>"}
  calls: [{name: new_answer, arguments: {content: "at last"}}]
- text: "final"
"#;
    let config = team(&[agent("a", "cwd: w", patient)], WRITE_HERE);
    let finished = Project::new().config(&config).args(["go"]).success();
    let replayed = check_same(finished);
    let replies = turn_dir(replayed.project()).join("replies/a.yaml");
    let replies = fs::read_to_string(replies).unwrap();
    assert_eq!(replies.matches("\n- ").count(), 2, "{replies}");
    assert!(!replies.contains("overloaded"), "{replies}");
}

#[test]
fn restarts_of_the_whole_coordination_are_replayed() {
    let judge = r#"
- when: {offers: restart_orchestration, contains: "take two"}
  calls: [{name: submit, arguments: {confirmed: true}}]
- when: {offers: restart_orchestration}
  calls: [{name: restart_orchestration, arguments: {reason: "too short", instructions: "take two"}}]
- when: {system: "the final agent", contains: "second try"}
  text: "second result"
- when: {system: "the final agent"}
  text: "first result"
- when: {last: "take two"}
  calls: [{name: new_answer, arguments: {content: "second try"}}]
- when: {last: "<task>"}
  calls: [{name: new_answer, arguments: {content: "first try"}}]
- calls: [{name: vote, arguments: {agent_id: agent1, reason: "it is mine"}}]
  repeat: true
"#;
    let agents = [
        agent("a", "", judge),
        agent(
            "b",
            "",
            &answer_replies("b", "agent1", 20).replace("<task>", "task"),
        ),
    ];
    let rest = "orchestrator:\n  coordination: {max_orchestration_restarts: 2}\n";
    check(
        &team(&agents, rest),
        0,
        &["coordination_restarted", "final_answer"],
    );
}

#[test]
fn runs_that_the_time_ended_end_there_again() {
    let slow = "- delay_ms: 60000\n  text: late\n";
    let limit = "timeout_settings:\n  orchestrator_timeout_seconds: 6\n";
    let in_time = [
        agent("a", "", &answer_replies("a", "agent1", 10)),
        agent("b", "", slow),
    ];
    check(
        &team(&in_time, limit),
        5,
        &["coordination_stopped", "winner_selected"],
    );
    let nobody = [agent("a", "", slow), agent("b", "", slow)];
    check(&team(&nobody, limit), 5, &["coordination_stopped"]);
    let slow_end = answer_replies("a", "agent1", 10).replacen(
        "text: \"final: a\"",
        "text: \"working\"\n  calls: [{name: list_directory, arguments: {path: .}}]\n- when: {system: \"the final agent\"}\n  delay_ms: 60000\n  text: never",
        1,
    );
    let presenting = [
        agent("a", "cwd: w", &slow_end),
        agent("b", "", &answer_replies("b", "agent1", 0)),
    ];
    let config = team(&presenting, &format!("{limit}{WRITE_HERE}"));
    check(&config, 5, &["coordination_stopped", "final_answer"]);
}

#[test]
fn runs_that_a_limit_ended_end_there_again() {
    let agents = [
        agent("a", "", &answer_replies("a", "agent1", 0)),
        agent("b", "", &answer_replies("b", "agent1", 30)),
    ];
    let limit = "limits: {max_tokens_total: 50}\n";
    let spent = answer_replies("b", "agent1", 30).replace(
        "delay_ms: 30\n  text",
        "delay_ms: 30\n  usage: {input_tokens: 90}\n  text",
    );
    let early = [agents[0].clone(), agent("b", "", &spent)];
    check(&team(&early, limit), 5, &["coordination_stopped"]);
    let late = [agents[0].clone(), agents[1].clone()];
    check(
        &team(&late, "limits: {max_tokens_total: 200}\n"),
        5,
        &["coordination_stopped"],
    );
}

#[test]
fn a_final_agent_that_fails_fails_again() {
    let fails = answer_replies("a", "agent1", 0).replacen(
        "text: \"final: a\"",
        "error: {message: \"gone\"}",
        1,
    );
    let agents = [
        agent("a", "", &fails),
        agent("b", "", &answer_replies("b", "agent1", 0)),
    ];
    check(&team(&agents, ""), 0, &["final_answer"]);
}

#[test]
fn single_agents_and_skipped_rounds_are_replayed() {
    let alone = agent("a", "", &answer_replies("a", "agent1", 0));
    check(&team(&[alone], ""), 0, &["final_answer"]);
    let agents = [
        agent("a", "", "- text: \"at once\"\n"),
        agent("b", "", FAILS),
    ];
    let skip = "orchestrator:\n  skip_coordination_rounds: true\n";
    check(&team(&agents, skip), 0, &["final_answer"]);
}

/// Returns a team that works with files: its paths are those of one run.
fn building_team(own: &Path) -> String {
    let builder = |own: &str| {
        format!(
            r#"
- when: {{system: "{FINAL}"}}
  calls:
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/out.txt", content: "delivered"}}}}
    - {{name: delete_file, arguments: {{path: "{{{{cwd}}}}/old.txt"}}}}
- when: {{system: "{FINAL}"}}
  text: "see {own}/draft.txt"
- when: {{last: "<task>"}}
  calls:
    - {{name: write_file, arguments: {{path: "{own}/draft.txt", content: "x"}}}}
    - {{name: read_text_file, arguments: {{path: "{{{{cwd}}}}/old.txt"}}}}
- when: {{lacks: nothing_of_that_name}}
  calls: [{{name: new_answer, arguments: {{content: "it is in {own}/draft.txt"}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "in {own}"}}}}]
  repeat: true
"#
        )
    };
    let own = own.display().to_string();
    let agents = [
        agent("a", &format!("cwd: {own}"), &builder(&own)),
        agent("b", "cwd: w", &answer_replies("b", "agent1", 50)),
    ];
    team(&agents, WRITE_HERE)
}

#[test]
fn a_replay_writes_nothing_of_the_users() {
    let project = Project::new()
        .file("old.txt", "old")
        .file("own/keep.txt", "k");
    let config = building_team(&project.path("own"));
    let finished = project
        .config(&config)
        .args(["--config", ".massgen/config.yaml", "build"])
        .success();
    let finished = finished.has_file("out.txt", "delivered").has_no("old.txt");
    let project = finished.then::<&str>([]);
    fs::write(project.path("old.txt"), "back again").unwrap();
    fs::remove_file(project.path("out.txt")).unwrap();
    fs::remove_file(project.path("own/draft.txt")).unwrap();
    let before = tree(&project.path(""));
    let replayed = project.args(["replay", "last"]).success();
    assert!(
        replayed.stdout().starts_with("same: "),
        "{}",
        replayed.stdout()
    );
    assert_eq!(tree(&replayed.project().path("")), before);
}

#[test]
fn a_replay_runs_no_command() {
    let replies = r#"
- calls:
    - {name: execute_command, arguments: {command: "echo ran > ran; echo ran > '{{cwd}}/ran'"}}
- text: "done"
"#;
    let keys = "cwd: w1\nenable_mcp_command_line: true\ncommand_line_sandbox: 'off'";
    let rest = format!("{WRITE_HERE}  skip_coordination_rounds: true\n");
    let config = team(&[agent("one", keys, replies)], &rest);
    let project = Project::new().file("team.yaml", config);
    let finished = project.args(["--config", "team.yaml", "build"]).success();
    let project = finished.has_file("ran", "ran\n").then::<&str>([]);
    fs::remove_file(project.path("ran")).unwrap();
    let replayed = project.args(["replay", "last", "--keep"]).success();
    assert!(
        replayed.stdout().starts_with("same: "),
        "{}",
        replayed.stdout()
    );
    let left = tree(&replayed.project().path(""));
    let ran: Vec<_> = left.keys().filter(|path| path.ends_with("ran")).collect();
    // The run's own workspace is gone or unchanged; the replay leaves nothing in its own.
    let of_the_replay = |path: &&&PathBuf| path.to_string_lossy().contains("replay_");
    assert_eq!(ran.iter().find(of_the_replay), None);
    let _not_again = replayed.has_no("ran");
}

/// Returns everything below a directory: files with their content, symlinks with their targets.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            found.insert(path, target.into_os_string().into_encoded_bytes());
        } else if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, Vec::new());
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

#[test]
fn replay_keep_keeps_the_directories_of_the_replay() {
    let project = Project::new().file("old.txt", "old").dir("own");
    let config = building_team(&project.path("own"));
    let finished = project
        .config(&config)
        .args(["--config", ".massgen/config.yaml", "build"])
        .success();
    let replayed = finished
        .then(["replay", "last", "--keep", "--json"])
        .success();
    let report: Value = serde_json::from_str(replayed.stdout()).unwrap();
    assert_eq!(report["same"], true);
    let kept = report["kept"].as_str().unwrap().replace("[PROJECT]/", "");
    let _kept = replayed.has_file(&format!("{kept}/workspaces/a/draft.txt"), "x");
}

#[test]
fn a_changed_record_is_found_out_with_both_sides() {
    let agents = [
        agent("a", "", &answer_replies("red", "agent1", 150)),
        agent("b", "", &answer_replies("blue", "agent1", 2500)),
    ];
    let change = |_| {
        let project = Project::new().config(&team(&agents, ""));
        let finished = project.args(["go"]).success();
        let replies = turn_dir(finished.project()).join("replies/b.yaml");
        let text = fs::read_to_string(&replies).unwrap();
        let changed = text.replace("\"agent_id\":\"agent1\"", "\"agent_id\":\"agent2\"");
        assert_ne!(changed, text);
        fs::write(&replies, changed).unwrap();
        let replayed = finished.then(["replay", "last"]).failure(1);
        (replayed, replies, text)
    };
    // On a busy machine, the second agent may be as fast as the first.
    let in_order = |(replayed, ..): &(FinishedCommand, PathBuf, String)| {
        replayed.stdout().contains("different at event 5 of 8")
    };
    let found = (0..TRIES_MAX).map(change).find(in_order);
    let (replayed, replies, text) = found.expect("a run in which the second agent is slower");
    insta::assert_snapshot!(replayed.stdout(), @"
    different at event 5 of 8
      recorded: b votes for a (agent1.1): agent1 is good (after it saw agent1.1)
      replayed: b votes for b (agent2.1): agent1 is good (after it saw agent1.1)
    ");
    let replayed = replayed.then(["replay", "last", "--json"]).failure(1);
    let report: Value = serde_json::from_str(replayed.stdout()).unwrap();
    assert_eq!(report["difference"]["recorded"]["label"], "agent1.1");
    assert_eq!(report["difference"]["replayed"]["label"], "agent2.1");
    fs::write(&replies, text).unwrap();
    check_same(replayed);
}

#[test]
fn a_record_without_its_replies_is_different_and_never_hangs() {
    let agents = [
        agent("a", "", &answer_replies("red", "agent1", 0)),
        agent("b", "", &answer_replies("blue", "agent1", 20)),
    ];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["go"])
        .success();
    let replies = turn_dir(finished.project()).join("replies");
    fs::remove_file(replies.join("a.yaml")).unwrap();
    let replayed = finished.then(["replay", "last"]).failure(1);
    let stdout = replayed.stdout();
    assert!(
        stdout.contains("the record has no reply to this request"),
        "{stdout}"
    );
    fs::remove_file(replies.join("b.yaml")).unwrap();
    let _replayed = replayed.then(["replay", "last"]).failure(1);
}

#[test]
fn a_run_that_was_killed_is_replayed_as_far_as_it_came() {
    let slow = answer_replies("b", "agent1", 60_000);
    let agents = [
        agent("a", "", &answer_replies("a", "agent1", 0)),
        agent("b", "", &slow),
    ];
    let project = Project::new().config(&team(&agents, "")).args(["go"]);
    let mut command = project.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let answered = || {
        let logs = project.path(".massgen/massgen_logs");
        fs::read_dir(logs).is_ok_and(|mut runs| runs.next().is_some())
            && fs::read_to_string(turn_dir(&project).join("events.jsonl"))
                .is_ok_and(|log| log.contains("\"answered\""))
    };
    wait_until("an agent answers", WAIT_TIME_MAX, answered);
    child.kill().unwrap();
    child.wait().unwrap();
    let replayed = project.retyped(["replay", "last"]).success();
    assert!(
        replayed.stdout().starts_with("same: "),
        "{}",
        replayed.stdout()
    );
    let message = "warning: the record is incomplete; later events are not compared\n";
    assert_eq!(replayed.stderr(), message);
}

#[test]
fn replays_of_racing_agents_are_all_the_same() {
    let racers =
        ["a", "b", "c", "d", "e", "f"].map(|id| agent(id, "", &answer_replies(id, "agent3", 0)));
    let mut finished = Project::new()
        .config(&team(&racers, ""))
        .args(["go"])
        .success();
    for _ in 0..repetitions(20, 100) {
        finished = check_same(finished);
    }
}

/// Runs two agents that read files, and returns the finished run with its `turn_1` directory.
fn small_run() -> (FinishedCommand, PathBuf) {
    let looks = answer_replies("a", "agent1", 0).replacen(
        "text: \"I think of a.\"",
        "calls: [{name: list_directory, arguments: {path: .}}]\n- when: {lacks: nothing, last: \"empty\"}",
        1,
    );
    let agents = [
        agent("a", "cwd: w", &looks),
        agent("b", "", &answer_replies("b", "agent1", 30)),
    ];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["go"])
        .success();
    let turn = turn_dir(finished.project());
    (finished, turn)
}

/// Replays the run with its records in `turn`, in this process; `None` if it is the same.
fn replay_in_process(project: &Project, turn: &Path) -> Option<String> {
    let path = |path: &Path| AbsPath::new(path).unwrap();
    let (logs, base) = (
        path(turn.parent().unwrap().parent().unwrap()),
        path(&project.path("")),
    );
    let run = runs::find("last", &logs, &base).unwrap();
    let record = RecordedRun::read(&run, None, &base, &MachinePolicy::default()).unwrap();
    let state = base.join(".massgen");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let playing = play(record, &state, machine(), ShutdownSignal::default());
    let replayed = runtime.block_on(playing).unwrap();
    replayed
        .difference
        .map(|difference| format!("{difference:?}"))
}

#[test]
fn every_beginning_of_a_record_is_replayed_the_same() {
    let (finished, turn) = small_run();
    let log = turn.join("events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    assert!(lines.len() > 25, "{}", lines.len());
    for count in 1..=lines.len() {
        let mut cut = lines[..count].concat();
        if count % 3 == 0 {
            cut.truncate(cut.len() - 7);
        }
        fs::write(&log, &cut).unwrap();
        assert_eq!(
            replay_in_process(finished.project(), &turn),
            None,
            "after line {count}"
        );
    }
}

#[test]
fn a_record_that_ends_before_the_winner_is_interrupted_and_reaches_no_limit() {
    let (finished, turn) = small_run();
    let log = turn.join("events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let lines = text.split_inclusive('\n');
    let beginning = lines.take_while(|line| !line.contains("winner_selected"));
    fs::write(&log, beginning.collect::<String>()).unwrap();
    let replayed = finished
        .then(["replay", "last", "--keep", "--json"])
        .success();
    let report: Value = serde_json::from_str(replayed.stdout()).unwrap();
    let kept = report["kept"].as_str().unwrap().replace("[PROJECT]/", "");
    let files = tree(&replayed.project().path(&kept));
    let is_log = |path: &&PathBuf| path.ends_with("events.jsonl");
    let log = fs::read_to_string(files.keys().find(is_log).unwrap()).unwrap();
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(last["type"], "run_ended", "{last}");
    let summary = last["summary"].as_str().unwrap();
    assert!(summary.starts_with("interrupted; "), "{last}");
}

#[test]
fn a_recording_that_is_cut_at_any_byte_is_read() {
    let (finished, turn) = small_run();
    let replies = turn.join("replies/a.yaml");
    let whole = fs::read(&replies).unwrap();
    let project = finished.project();
    let logs = AbsPath::new(turn.parent().unwrap().parent().unwrap()).unwrap();
    let run = runs::find("last", &logs, &logs).unwrap();
    let base = logs.clone();
    for cut in 0..whole.len() {
        fs::write(&replies, &whole[..cut]).unwrap();
        let record = RecordedRun::read(&run, None, &base, &MachinePolicy::default()).unwrap();
        let is_told = record
            .notes
            .iter()
            .any(|note| note.contains("of a is incomplete"));
        let ends_whole = cut + 1 == whole.len()
            || whole[..cut].ends_with(b"}\n")
            || whole[cut] == b'\n' && cut > 60;
        assert_eq!(is_told, !ends_whole, "{cut}: {:?}", record.notes);
        if cut % 97 == 0 {
            assert!(replay_in_process(project, &turn).is_some(), "{cut}");
        }
    }
    fs::write(&replies, &whole).unwrap();
    assert_eq!(replay_in_process(project, &turn), None);
}

#[test]
fn a_recording_is_a_script() {
    let agents = [
        agent(
            "a",
            "cwd: w\nrecord: ../a.yaml",
            &answer_replies("red", "agent1", 0),
        ),
        agent(
            "b",
            "record: ../b.yaml",
            &answer_replies("blue", "agent1", 20),
        ),
    ];
    let config = team(&agents, "");
    let first = Project::new().file("c/team.yaml", &config);
    let first = first.args(["--config", "c/team.yaml", "go"]).success();
    let again = "agents:\n  - {id: a, backend: {type: scripted, cwd: w, script: ../a.yaml}}\n  \
                 - {id: b, backend: {type: scripted, script: ../b.yaml}}\n";
    fs::write(first.project().path("c/again.yaml"), again).unwrap();
    let expected = first.stdout().to_owned();
    let second = first.then(["--config", "c/again.yaml", "go"]).success();
    assert_eq!(second.stdout(), expected);
    let recording = fs::read_to_string(second.project().path("b.yaml")).unwrap();
    assert!(
        recording.contains("\"usage\":{\"input_tokens\":100"),
        "{recording}"
    );
    let replaced = second.then(["--config", "c/team.yaml", "go"]).success();
    assert_eq!(
        fs::read_to_string(replaced.project().path("b.yaml")).unwrap(),
        recording
    );
}

/// Runs a team whose agent records to `file` and checks for exit status 2 with `expected`.
#[track_caller]
fn check_refused(project: Project, file: &str, expected: &str) {
    let agents = [agent(
        "a",
        &format!("record: {file}"),
        &answer_replies("a", "agent1", 0),
    )];
    let project = project.file("team.yaml", team(&agents, ""));
    let finished = project.args(["--config", "team.yaml", "go"]).failure(2);
    assert!(
        finished.stderr().contains(expected),
        "{}",
        finished.stderr()
    );
    assert_eq!(finished.stdout(), "");
}

#[test]
fn recordings_replace_only_existing_recordings() {
    let expected = "`[PROJECT]/notes.yaml` exists and is not a recording of massgen";
    let notes = Project::new().file("notes.yaml", "precious: true\n");
    check_refused(notes, "notes.yaml", expected);
    check_refused(
        Project::new().file("notes.yaml", ""),
        "notes.yaml",
        expected,
    );
    let own = "# massgen recording of agent x\nreplies:\n- {}\n";
    let agents = [agent(
        "a",
        "record: own.yaml",
        &answer_replies("a", "agent1", 0),
    )];
    let project = Project::new()
        .file("own.yaml", own)
        .file("team.yaml", team(&agents, ""));
    let finished = project.args(["--config", "team.yaml", "go"]).success();
    let text = fs::read_to_string(finished.project().path("own.yaml")).unwrap();
    assert!(
        text.starts_with("# massgen recording of agent a\n"),
        "{text}"
    );
}

#[test]
fn two_agents_do_not_share_a_recording() {
    let agents = ["a", "b"].map(|id| agent(id, "record: r.yaml", &answer_replies(id, "agent1", 0)));
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["go"])
        .failure(2);
    let expected = "the replies of `a` are recorded in this file too";
    assert!(
        finished.stderr().contains(expected),
        "{}",
        finished.stderr()
    );
}

#[test]
fn a_config_that_was_found_records_inside_the_project_only() {
    let config = |file: &str| {
        team(
            &[agent(
                "a",
                &format!("record: {file}"),
                &answer_replies("a", "agent1", 0),
            )],
            "",
        )
    };
    for (file, reason) in [
        ("/tmp/massgen-recording.yaml", "outside this directory"),
        ("../../recording.yaml", "outside this directory"),
        ("../link/recording.yaml", "outside this directory"),
        ("../.git/hooks/pre-commit", "`.git` is protected"),
        ("../.envrc", "`.envrc` is protected"),
    ] {
        let project = Project::new().link("link", "/tmp").dir(".git/hooks");
        let finished = project.config(&config(file)).args(["go"]).failure(2);
        assert!(
            finished.stderr().contains(reason),
            "{file}: {}",
            finished.stderr()
        );
    }
    let finished = Project::new()
        .config(&config("r.yaml"))
        .args(["go"])
        .success();
    assert!(finished.project().path(".massgen/r.yaml").exists());
    let named = config("../../home/r.yaml");
    let project = Project::new().file(".massgen/config.yaml", named);
    let finished = project
        .args(["--config", ".massgen/config.yaml", "go"])
        .success();
    assert!(
        finished.project().home("r.yaml").exists(),
        "the user named the config"
    );
}

#[test]
fn no_secret_gets_into_a_recording() {
    let secret = "sk-proj-0123\\\"quoted\u{e9}";
    let replies = r#"
- text: "the key is sk-proj-0123\"quotedé"
  calls: [{name: new_answer, arguments: {content: "sk-proj-0123\"quotedé"}}]
"#;
    let key = secret.replace("\\\"", "\"");
    let finished = Project::new()
        .config(&team(&[agent("a", "record: r.yaml", replies)], ""))
        .env("OPENAI_API_KEY", &key)
        .args(["go"])
        .success();
    let project = finished.project();
    let own = fs::read_to_string(turn_dir(project).join("replies/a.yaml")).unwrap();
    let named = fs::read_to_string(project.path(".massgen/r.yaml")).unwrap();
    assert_eq!(own, named);
    assert!(!own.contains("sk-proj-0123"), "{own}");
    assert!(own.contains("[redacted]"), "{own}");
    check_same(finished);
}

#[test]
fn an_unreplayable_run_is_refused_with_a_reason() {
    let finished = Project::new().args(["replay", "last"]).failure(2);
    let stderr = finished.stderr();
    assert!(stderr.contains("no runs in"), "{stderr}");
    let (finished, turn) = small_run();
    fs::remove_file(turn.join("replay.yaml")).unwrap();
    let finished = finished.then(["replay", "last"]).failure(3);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("it does not record how it started"),
        "{stderr}"
    );
}

#[test]
fn damage_in_the_middle_of_a_record_is_reported() {
    let (finished, turn) = small_run();
    let log = turn.join("events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let spoilt = text.replacen("\"reason\":\"agent1", "\"reason\":\"agent7", 1);
    assert_ne!(spoilt, text);
    fs::write(&log, spoilt).unwrap();
    let replayed = finished.then(["replay", "last"]).failure(1);
    let stderr = replayed.stderr();
    assert!(stderr.contains("is damaged in the event log"), "{stderr}");
}

#[test]
fn an_agent_that_was_out_of_time_is_so_again() {
    let (finished, turn) = small_run();
    let events = r#"
{"type":"run_started","question":"go","agents":["a","b"],"restart":0}
{"type":"model_request_started","agent":"a","model":"m"}
{"type":"model_request_started","agent":"b","model":"m"}
{"type":"replied","agent":"a","calls":[],"stop":"done"}
{"type":"answered","agent":"a","label":"agent1.1","content":"red","snapshot":null}
{"type":"replied","agent":"b","calls":[],"stop":"done"}
{"type":"answers_shown","agent":"b","labels":["agent1.1"]}
{"type":"model_request_started","agent":"b","model":"m"}
{"type":"dropped_out","agent":"b","reason":"its round timed out","timed_out":true}
{"type":"winner_selected","agent":"a","label":"agent1.1","reason":"only_answer","votes":[["a",0]]}
{"type":"final_started","agent":"a"}
{"type":"model_request_started","agent":"a","model":"m"}
{"type":"replied","agent":"a","calls":[],"stop":"done"}
{"type":"final_answer","agent":"a","content":"final: red"}
{"type":"run_ended","status":"delivered","summary":""}
"#;
    let log = turn.join("events.jsonl");
    fs::remove_file(&log).unwrap();
    let mut log = EventLog::create(AbsPath::new(log).unwrap()).unwrap();
    for event in events.trim().lines() {
        let event: Event = serde_json::from_str(event).unwrap();
        log.append(&event, &clock::now(), &Redactor::default())
            .unwrap();
    }
    drop(log);
    let replies = |agent: &str, replies: &str| {
        let text = format!("# massgen recording\nreplies:\n{}\n", replies.trim());
        fs::write(turn.join(format!("replies/{agent}.yaml")), text).unwrap();
    };
    replies(
        "a",
        "- {calls: [{name: new_answer, arguments: {content: red}}]}\n- {text: 'final: red'}",
    );
    replies(
        "b",
        "- {calls: [{name: list_directory, arguments: {path: .}}]}",
    );
    check_same(finished);
}
