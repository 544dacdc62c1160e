//! Records of runs: listed, shown, followed and exported by the real binary.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flate2::read::GzDecoder;
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::pipeline::pipeline_dir;
use crate::pipeline_repository::finished_pipeline;
use crate::project::{FinishedCommand, Project};
use crate::scripted_team::{agent, answer_replies, team};
use crate::terminal::Terminal;
use crate::waiting::{WAIT_TIME_MAX, wait_until};

fn two_agents(delay_ms: u32) -> String {
    let agents = [
        agent("a", "", &answer_replies("red", "agent1", 0)),
        agent("b", "", &answer_replies("blue", "agent1", delay_ms)),
    ];
    team(&agents, "")
}

fn finished_run(task: &str) -> FinishedCommand {
    Project::new()
        .config(&two_agents(10))
        .args([task])
        .success()
}

/// Returns the directories of all runs, oldest first.
fn run_dirs(project: &Project) -> Vec<PathBuf> {
    let logs = fs::read_dir(project.path(".massgen/massgen_logs"));
    let mut runs: Vec<PathBuf> = logs
        .into_iter()
        .flatten()
        .map(|run| run.unwrap().path())
        .collect();
    runs.sort();
    runs
}

fn name(run: &Path) -> String {
    run.file_name().unwrap().to_str().unwrap().to_owned()
}

fn listed_rows(listed: &str) -> Vec<Value> {
    let rows = listed.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().unwrap()
}

/// Returns a command of another process in the project.
fn command(project: &Project, arguments: &[&str]) -> Command {
    let mut command = project.command();
    let plain = Command::new(command.get_program());
    let mut other = plain;
    other
        .args(arguments)
        .current_dir(project.path(""))
        .env_clear();
    let set = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    other.envs(set.collect::<Vec<_>>());
    other
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.stdin(Stdio::null());
    other
}

/// Starts the run of `project` and waits until its log contains `text`.
#[track_caller]
fn start_until(project: &Project, text: &str) -> Child {
    let mut command = project.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let holds = |run: &PathBuf| {
        fs::read_to_string(run.join("turn_1/events.jsonl")).is_ok_and(|log| log.contains(text))
    };
    wait_until(&format!("{text} in the log"), WAIT_TIME_MAX, || {
        run_dirs(project).last().is_some_and(holds)
    });
    child
}

#[test]
fn runs_are_listed_newest_first_with_what_they_came_to() {
    let finished = finished_run("first task").then(["second\ntask"]).success();
    let listed = finished.then(["logs", "list", "--json"]).success();
    let rows = listed_rows(listed.stdout());
    let names: Vec<String> = run_dirs(listed.project())
        .iter()
        .rev()
        .map(|run| name(run))
        .collect();
    let shown_names: Vec<&str> = rows
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(shown_names, names);
    let newest = &rows[0];
    assert_eq!(newest["task"], "second\ntask");
    assert_eq!(newest["agents"], serde_json::json!(["a", "b"]));
    assert_eq!(newest["state"], "ended");
    assert_eq!(newest["finish_reason"], "delivered");
    assert_eq!(newest["winner"], "a");
    assert_eq!(newest["input_tokens"], 200);
    assert_eq!(newest["output_tokens"], 14);
    let table = listed.then(["logs", "list"]).success();
    let lines: Vec<&str> = table.stdout().lines().collect();
    assert_eq!(lines.len(), 2);
    let line = lines[0];
    for part in [
        names[0].as_str(),
        "  delivered  ",
        "  2 agents  ",
        "214 tokens  second task",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn a_state_that_cannot_be_read_is_an_error_and_not_an_interrupted_run() {
    let finished = finished_run("first");
    let run = run_dirs(finished.project()).remove(0);
    let finished = finished.then(["logs", "list"]).success();
    let status = run.join("turn_1/status.json");
    // Root may read it all the same.
    fs::set_permissions(&status, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(&status).is_ok() {
        return;
    }
    let refused = finished.then(["logs", "list"]).failure(3);
    assert!(
        refused.stderr().contains("status.json"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn without_runs_the_list_is_empty() {
    let listed = Project::new().args(["logs", "list"]).success();
    assert_eq!(listed.stdout(), "");
    let expected = "no runs in `[PROJECT]/.massgen/massgen_logs`\n";
    assert_eq!(listed.stderr(), expected);
}

#[test]
fn a_run_in_progress_and_one_that_was_killed_are_marked() {
    let project = Project::new().config(&two_agents(60_000)).args(["go"]);
    let mut child = start_until(&project, "answered");
    let state = || {
        let listed = command(&project, &["logs", "list", "--json"])
            .output()
            .unwrap();
        listed_rows(&String::from_utf8(listed.stdout).unwrap())[0]["state"].clone()
    };
    assert_eq!(state(), "running");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(state(), "broken_off");
    let shown = project.retyped(["logs", "list"]).success();
    assert!(shown.stdout().contains("  crashed  "), "{}", shown.stdout());
    let status = run_dirs(shown.project())[0].join("turn_1/status.json");
    fs::remove_file(status).unwrap();
    let shown = shown.then(["logs", "list"]).success();
    assert!(shown.stdout().contains("  crashed  "), "{}", shown.stdout());
    assert!(shown.stdout().ends_with("  go\n"), "{}", shown.stdout());
}

#[test]
fn a_run_is_shown_as_the_terminal_showed_it() {
    let finished = finished_run("go");
    let (answer, progress) = (finished.stdout().to_owned(), finished.stderr().to_owned());
    let summary: Vec<String> = progress
        .lines()
        .filter(|line| !line.starts_with("config: ") && !line.starts_with("done: "))
        .map(str::to_owned)
        .collect();
    let shown = finished.then(["logs", "show", "last"]).success();
    assert_eq!(shown.stderr(), "");
    for line in summary.iter().chain([&answer.trim_end().to_owned()]) {
        assert!(
            shown.stdout().lines().any(|shown| shown == line),
            "{line}\n{}",
            shown.stdout()
        );
    }
    assert!(
        shown.stdout().contains("done: a answered ("),
        "{}",
        shown.stdout()
    );
}

#[test]
fn the_events_of_a_run_are_shown_as_they_stand_in_its_log() {
    let shown = finished_run("go")
        .then(["logs", "show", "last", "--json"])
        .success();
    let log = fs::read_to_string(run_dirs(shown.project())[0].join("turn_1/events.jsonl")).unwrap();
    let mut expected = listed_rows(&log);
    for row in &mut expected {
        row.as_object_mut().unwrap().remove("checksum").unwrap();
        if let Some(cwd) = row.get_mut("cwd") {
            *cwd = "[PROJECT]".into();
        }
    }
    assert_eq!(listed_rows(shown.stdout()), expected);
}

#[test]
fn a_damaged_log_is_shown_with_its_damage() {
    let finished = finished_run("go");
    let log = run_dirs(finished.project())[0].join("turn_1/events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let spoilt = text.replacen("I think of red", "I think of tea", 1);
    let cut = spoilt.get(..spoilt.len() - 20).unwrap();
    fs::write(&log, cut).unwrap();
    let shown = finished.then(["logs", "show", "last"]).success();
    let stdout = shown.stdout();
    let damage: Vec<&str> = stdout
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    assert_eq!(damage.len(), 2, "{stdout}");
    assert!(damage[0].ends_with(" is damaged"), "{stdout}");
    assert!(damage[1].contains(" is truncated after "), "{stdout}");
    assert!(stdout.contains("final: red"), "{stdout}");
}

#[test]
fn a_run_is_followed_until_it_ends() {
    let project = Project::new().config(&two_agents(700)).args(["go"]);
    let mut child = start_until(&project, "answered");
    let followed = command(&project, &["logs", "follow"]).output().unwrap();
    assert!(child.wait().unwrap().success());
    let stdout = String::from_utf8(followed.stdout).unwrap();
    assert!(stdout.contains("final: red\n"), "{stdout}");
    assert!(
        stdout
            .trim_end()
            .lines()
            .last()
            .unwrap()
            .starts_with("done: "),
        "{stdout}"
    );
    assert_eq!(followed.status.code(), Some(0));
    let again = command(&project, &["logs", "follow", "last", "--json"])
        .output()
        .unwrap();
    let last = String::from_utf8(again.stdout).unwrap();
    assert!(last.lines().last().unwrap().contains("run_ended"), "{last}");
}

#[test]
fn a_run_that_is_killed_is_followed_to_there() {
    let project = Project::new().config(&two_agents(60_000)).args(["go"]);
    let mut child = start_until(&project, "answered");
    let mut following = command(&project, &["logs", "follow"]).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("agent1.1")));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut stderr = String::new();
    following
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(following.wait().unwrap().code(), Some(0));
    assert!(
        stderr.starts_with("warning: the run was interrupted"),
        "{stderr}"
    );
}

#[test]
fn a_pipeline_whose_log_has_no_end_is_called_interrupted() {
    let finished = finished_pipeline();
    let pipeline = pipeline_dir(finished.project());
    let log = pipeline.join("events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let (complete, last) = text.trim_end().rsplit_once('\n').unwrap();
    assert!(last.contains("run_ended"), "{last}");
    fs::write(&log, format!("{complete}\n")).unwrap();
    let followed = finished
        .then(["logs", "follow", &name(&pipeline)])
        .success();
    let stderr = followed.stderr();
    assert!(
        stderr.starts_with("warning: the pipeline was interrupted"),
        "{stderr}"
    );
}

#[test]
fn following_ends_when_its_output_is_closed() {
    let project = Project::new().config(&two_agents(60_000)).args(["go"]);
    let mut child = start_until(&project, "answered");
    let mut following = command(&project, &["logs", "follow"]).spawn().unwrap();
    drop(following.stdout.take());
    assert_eq!(following.wait().unwrap().code(), Some(0));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Returns the paths of an archive with their content, in order.
fn unpack(path: &Path) -> Vec<(String, Vec<u8>)> {
    let file = fs::read(path).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(file.as_slice()));
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), content)
    });
    entries.collect()
}

#[test]
fn all_records_of_a_run_are_packed_as_they_are_on_disk() {
    let exported = finished_run("go")
        .then(["logs", "export", "last"])
        .success();
    let project = exported.project();
    let run = run_dirs(project)[0].clone();
    let archive = project.path(format!("{}.tar.gz", name(&run)));
    assert_eq!(
        exported.stdout(),
        format!("[PROJECT]/{}.tar.gz\n", name(&run))
    );
    let entries = unpack(&archive);
    let mut paths: Vec<&str> = entries.iter().map(|(path, _)| path.as_str()).collect();
    assert!(paths.is_sorted(), "{paths:?}");
    paths.retain(|path| path.ends_with("events.jsonl") || path.ends_with("replies/a.yaml"));
    assert_eq!(paths.len(), 2, "{entries:?}");
    for (path, content) in &entries {
        let below = path.strip_prefix(&format!("{}/", name(&run))).unwrap();
        let on_disk = run.join(below);
        if on_disk.is_file() {
            assert_eq!(&fs::read(on_disk).unwrap(), content, "{path}");
        }
    }
    let first = fs::read(&archive).unwrap();
    let refused = exported.then(["logs", "export", "last"]).failure(2);
    assert!(
        refused.stderr().contains("already exists"),
        "{}",
        refused.stderr()
    );
    let again = refused
        .then(["logs", "export", "last", "-o", "again.tar.gz"])
        .success();
    let again = fs::read(again.project().path("again.tar.gz")).unwrap();
    assert_eq!(again, first, "the same run gives the same archive");
}

#[test]
fn links_of_a_run_are_packed_as_links() {
    let rest = "orchestrator:\n  coordination: {max_orchestration_restarts: 1}\n";
    let agents = [agent("a", "", &answer_replies("red", "agent1", 0))];
    let finished = Project::new()
        .config(&team(&agents, rest))
        .args(["go"])
        .run();
    let exported = finished
        .then(["logs", "export", "last", "-o", "run.tar.gz"])
        .success();
    let file = fs::read(exported.project().path("run.tar.gz")).unwrap();
    let mut archive = tar::Archive::new(GzDecoder::new(file.as_slice()));
    let links = archive.entries().unwrap().filter_map(|entry| {
        let entry = entry.unwrap();
        let target = entry.link_name().unwrap()?.display().to_string();
        Some(target)
    });
    let links: Vec<String> = links.collect();
    assert_eq!(links, ["restart_0/final", "restart_0/status.json"]);
}

/// Checks that `argument` leads to exit status 2 and `expected`.
#[track_caller]
fn check_not_found(finished: FinishedCommand, argument: &str, expected: &str) -> FinishedCommand {
    let refused = finished.then(["logs", "show", argument]).failure(2);
    let stderr = refused.stderr();
    assert!(stderr.contains(expected), "{stderr}");
    refused
}

#[test]
fn a_run_is_named_by_its_directory_its_name_or_the_beginning_of_it() {
    let finished = finished_run("first").then(["second"]).success();
    let all = run_dirs(finished.project());
    let newest = name(&all[1]);
    let common: String = newest
        .chars()
        .zip(name(&all[0]).chars())
        .take_while(|(a, b)| a == b)
        .map(|(a, _)| a)
        .collect();
    let only = newest.get(..=common.len()).unwrap().to_owned();
    let without_prefix = only.strip_prefix("log_").unwrap().to_owned();
    let directory = format!(".massgen/massgen_logs/{newest}");
    let mut finished = finished;
    for argument in [newest.as_str(), &only, &without_prefix, &directory, "last"] {
        finished = finished
            .then(["logs", "show", argument, "--json"])
            .success();
        let first = listed_rows(finished.stdout())[0].clone();
        assert_eq!(first["question"], "second", "{argument}");
    }
    let finished = check_not_found(finished, &common, "is ambiguous: 2 runs start with it");
    let finished = check_not_found(finished, "nothing", "no run `nothing`");
    check_not_found(finished, "..", "no run `..`");
}

#[test]
fn a_run_in_the_list_fits_on_a_line_of_the_terminal() {
    let task = "compare all colours that a person can tell apart ".repeat(3);
    let mut project = finished_run(&task).then(["logs", "list"]);
    for (columns, has_start) in [
        (65, false),
        (80, false),
        (98, false),
        (99, true),
        (100, true),
    ] {
        let terminal = Terminal::open(project, columns);
        terminal.wait_for_text("…");
        let lines = terminal.lines();
        assert_eq!(lines[0].chars().count(), usize::from(columns), "{lines:?}");
        assert!(lines[0].ends_with('…'), "{lines:?}");
        assert_eq!(lines[0].contains(':'), has_start, "{lines:?}");
        project = terminal.wait_for_end(0);
    }
}

#[test]
fn the_terminal_of_standard_output_decides_how_wide_the_list_is() {
    let task = "compare all colours that a person can tell apart ".repeat(3);
    let finished = finished_run(&task);
    let mut terminal = Terminal::shell(finished.then::<&str>([]), 65);
    terminal.type_keys("\"$massgen\" logs list 2> err; echo $?-$((1+1))\r");
    terminal.wait_for_text("0-2");
    let lines = terminal.lines();
    let listed = lines.iter().find(|line| line.ends_with('…'));
    assert_eq!(listed.unwrap().chars().count(), 65, "{lines:?}");
    terminal.type_keys("exit\r");
    let _project = terminal.wait_for_end(0);
}

#[test]
fn a_pipe_instead_of_a_log_does_not_block() {
    let finished = finished_run("colour?");
    let whole = run_dirs(finished.project()).remove(0);
    let pipes = finished
        .project()
        .path(".massgen/massgen_logs/log_20990101_000000_000001/turn_1");
    fs::create_dir_all(&pipes).unwrap();
    for name in ["events.jsonl", "status.json"] {
        mkfifoat(CWD, pipes.join(name), Mode::RWXU).unwrap();
    }
    let mut finished = finished.then(["logs", "list"]).success();
    assert!(finished.stdout().contains(&name(&whole)));
    for command in ["show", "follow"] {
        finished = finished.then(["logs", command, "log_2099"]).failure(3);
        assert!(finished.stderr().contains("not a file"), "{command}");
    }
}
