//! Commands on answers of others: they see what a delivery would leave, and nothing that they write
//! stays.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::attempts::{change, need_copies, project, replies};
use crate::final_overlay::is_root;
use crate::project::{FinishedCommand, Project, events};
use crate::scripted_team::team_with_command;
use crate::waiting::{WAIT_TIME_MAX, wait_until};

/// Returns the replies of an agent that changes its own attempt and answers after the first agent.
/// `judging` says what it does when it is asked to judge.
fn second_replies(judging: &str) -> String {
    format!(
        r#"
- when: {{last: "<task>"}}
  calls: [{{name: execute_command, arguments: {{command: "echo own > own.txt; echo exit status"}}}}]
- when: {{last: "exit status"}}
  delay_ms: 1500
  calls: [{{name: new_answer, arguments: {{content: "second"}}}}]
{judging}
"#
    )
}

/// Tries the answer of the other agent, writes everywhere, and then looks at its own attempt.
const TRIAL: &str = r#"
- when: {last: "with `answer: \"agent1.1\"` runs a command on the project"}
  calls:
    - name: execute_command
      arguments:
        answer: agent1.1
        command: >-
          echo saw $(sh src/app.sh) $(cat new.txt) $(test -e old.txt || echo gone)
          $(test -e own.txt || echo hidden) $(test -e app.out || echo private);
          echo bad > src/app.sh; rm kept.txt; touch made ~/made /tmp/made;
          touch {{workspace}}/made || true; echo tried
- when: {last: "saw one to be renamed gone hidden private"}
  calls:
    - name: execute_command
      arguments:
        command: >-
          echo kept $(cat src/app.sh) $(cat kept.txt) $(cat own.txt)
          $(ls made ~/made /tmp/made {{workspace}}/made 2>/dev/null | wc -l)
- when: {last: "kept echo old of the user own 0"}
  calls: [{name: vote, arguments: {agent_id: agent1, reason: "I ran it"}}]
"#;

/// Returns the project of a run in which the second agent tries the answer of the first.
fn trial_project() -> Project {
    let first = replies(&change("one"), "first", "agent1");
    let project = project(&[first, String::new()], "");
    let workspace = project.path("w1");
    let judging = TRIAL.replace("{{workspace}}", workspace.to_str().unwrap());
    with_second(project, &judging)
}

/// Gives the second agent of `project` these replies when it judges.
fn with_second(project: Project, judging: &str) -> Project {
    let indented = second_replies(judging).replace('\n', "\n        ");
    let yaml = fs::read_to_string(project.path("team.yaml")).unwrap();
    let empty = yaml.rfind("      replies:\n").unwrap() + "      replies:".len();
    let (before, rest) = yaml.split_at(empty);
    project.file("team.yaml", format!("{before}{indented}{rest}"))
}

#[track_caller]
fn expect_trial(finished: &FinishedCommand) {
    let votes = events(finished, "voted");
    let reason = |vote: &serde_json::Value| vote["reason"] == "I ran it";
    assert!(votes.iter().any(reason), "{}", finished.stderr());
}

#[test]
fn at_level_landlock_an_answer_is_tried_on_a_copy() {
    let finished = trial_project().args(["--sandbox", "landlock"]).success();
    expect_trial(&finished);
    let on_winner = ["sandbox", "--sandbox", "landlock", "--answer", "last"];
    let finished = finished
        .then(["undo"])
        .success()
        .then(on_winner)
        .args(["--", "sh", "-c", "cat src/app.sh; touch made"])
        .success()
        .has_no("made");
    assert_eq!(finished.stdout(), "echo one\n");
}

#[test]
fn an_agent_runs_a_command_on_the_answer_of_another() {
    let finished = trial_project().success();
    expect_trial(&finished);
    finished
        .has_file("src/app.sh", "echo one\n")
        .has_file("kept.txt", "of the user\n")
        .has_no("made")
        .has_no("own.txt")
        .then(["replay", "last"])
        .success();
}

#[test]
fn where_no_layer_can_be_mounted_the_answer_is_tried_on_a_copy() {
    if !is_root() {
        return;
    }
    let project = trial_project();
    need_copies(&project);
    expect_trial(&project.success());
}

#[test]
fn a_mounted_tree_is_not_copied_for_an_answer() {
    let mounts = "grep -c ' overlay ' /proc/self/mountinfo > /dev/null && echo mounted";
    let judging = format!(
        r#"
- when: {{last: "with `answer:"}}
  calls: [{{name: execute_command, arguments: {{answer: agent1.1, command: "{mounts}"}}}}]
- when: {{last: "mounted"}}
  calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "I ran it"}}}}]
"#
    );
    let first = replies(&change("one"), "first", "agent1");
    let rest = format!("checks: [{{name: mounted, command: \"{mounts}\"}}]\n");
    let finished = with_second(project(&[first, String::new()], &rest), &judging).success();
    expect_trial(&finished);
    for checked in events(&finished, "checked") {
        assert_eq!(checked["finding"]["verdict"], "passed", "{checked}");
    }
}

#[test]
fn only_answers_that_the_agent_has_been_shown_can_be_tried() {
    let judging = r#"
- when: {last: "with `answer:"}
  calls: [{name: execute_command, arguments: {answer: agent2.1, command: "true"}}]
- when: {last: "name one of these: agent1.1"}
  calls: [{name: execute_command, arguments: {answer: first, command: "true"}}]
- when: {last: "the label of an answer, such as agent2.1"}
  calls: [{name: start_background_command, arguments: {answer: agent1.1, command: "true"}}]
- when: {last: "answer"}
  calls: [{name: vote, arguments: {agent_id: agent1, reason: "I ran it"}}]
"#;
    let first = replies(&change("one"), "first", "agent1");
    let finished = with_second(project(&[first, String::new()], ""), judging).success();
    expect_trial(&finished);
    let started = events(&finished, "tool_called");
    let background = |call: &&serde_json::Value| call["tool"] == "start_background_command";
    let call = started.iter().find(background).unwrap();
    assert!(call["denied"].to_string().contains("answer"), "{call}");
}

#[test]
fn an_agent_that_sees_no_other_answer_cannot_name_one() {
    let alone = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {answer: agent1.1, command: "true"}}]
- when: {last: "you may not run commands on answers here"}
  calls: [{name: new_answer, arguments: {content: "refused"}}]
"#;
    let finished = project(&[alone.to_owned()], "").success();
    assert_eq!(finished.stdout(), "refused\n");
}

#[test]
fn a_run_that_is_killed_during_a_trial_leaves_nothing_of_it() {
    let slow = r#"
- when: {last: "with `answer:"}
  calls: [{name: execute_command, arguments: {answer: agent1.1, command: "touch made; sleep 600"}}]
"#;
    let first = replies(&change("one"), "first", "agent1");
    let project = with_second(project(&[first, String::new()], ""), slow);
    let mut run = project.command().stderr(Stdio::null()).spawn().unwrap();
    let sandboxes = project.path(".massgen/sandboxes");
    let is_trying = || {
        let found = Command::new("find")
            .args([&sandboxes])
            .args(["-path", "*/check*/overlays/*/upper/made"])
            .output();
        !found.unwrap().stdout.is_empty()
    };
    wait_until("the command has begun", WAIT_TIME_MAX, is_trying);
    run.kill().unwrap();
    run.wait().unwrap();
    let next = team_with_command("", "echo exit status", &[("exit status", "done")]);
    let finished = project
        .file("next.yaml", next)
        .retyped(["--config", "next.yaml", "go on"])
        .success();
    let _ended = finished.has_no("made");
    let left = fs::read_dir(&sandboxes).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

#[test]
fn the_diff_of_an_answer_can_be_applied_by_a_command() {
    let judging = r#"
- when: {last: "and `CHANGES.diff` with all changes"}
  calls:
    - name: execute_command
      arguments: {command: "patch -sp1 < {{snapshot}}/CHANGES.diff && echo own $(cat src/app.sh own.txt) $(ls old.txt)"}
- when: {last: "own echo one own"}
  calls: [{name: new_answer, arguments: {content: "both"}}]
- calls: [{name: vote, arguments: {agent_id: agent2, reason: "both"}}]
  repeat: true
"#;
    let command = "sed -i s/old/one/ src/app.sh; rm old.txt; echo exit status";
    let first = replies(command, "first", "agent2");
    let project = project(&[first, String::new()], "");
    let snapshots = project.path(".massgen/temp_workspaces");
    let judging = judging.replace(
        "{{snapshot}}",
        &format!("{}/*/agent1.1", snapshots.display()),
    );
    with_second(project, &judging)
        .success()
        .has_file("src/app.sh", "echo one\n")
        .has_file("own.txt", "own\n")
        .has_no("old.txt");
}

#[test]
fn a_user_runs_commands_on_the_answers_of_a_run() {
    let finished = project(
        &[
            replies(&change("one"), "first", "agent2"),
            replies(&change("two"), "second", "agent2"),
        ],
        "",
    )
    .success()
    .then(["undo"])
    .success();
    let script = "sh src/app.sh; test -e old.txt || echo gone; echo x > kept.txt; touch made; \
                  touch w0/made 2>/dev/null; exit 3";
    let on = |finished: FinishedCommand, answer: &str| {
        let words = ["sandbox", "--config", "team.yaml", "--answer", answer];
        finished.then(words).args(["--", "sh", "-c", script]).run()
    };
    let finished = finished
        .then(["sandbox", "--answer", "last", "--", "sh", "src/app.sh"])
        .success();
    assert_eq!(finished.stdout(), "two\n", "without a config");
    let winner = on(finished, "last");
    assert_eq!((winner.stdout(), winner.code()), ("two\ngone\n", Some(3)));
    let other = on(winner, "last/agent1.1");
    assert_eq!((other.stdout(), other.code()), ("one\ngone\n", Some(3)));
    let other = other
        .has_file("src/app.sh", "echo old\n")
        .has_file("kept.txt", "of the user\n")
        .has_no("made");
    assert!(!Path::new(&other.project().path("w0/made")).exists());
    let unknown = on(other, "last/agent1.7");
    assert_eq!(unknown.code(), Some(2));
    let hint = "the answers: agent1.1, agent2.1";
    assert!(unknown.stderr().contains(hint), "{}", unknown.stderr());
    let help = unknown.then(["sandbox", "--help"]).success();
    assert!(help.stdout().contains("--answer <RUN[/ANSWER]>"));
}
