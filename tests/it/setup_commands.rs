//! The setup command of a config: it prepares the user's files for agents and checks, once a run,
//! and what it writes is not delivered.

use std::fs;
use std::process::Stdio;

use crate::attempts::{need_copies, project, replies};
use crate::final_overlay::is_root;
use crate::project::{FinishedCommand, Project, events, logged_events};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

const SETUP: &str = r#"setup: >-
  mkdir gen node_modules && echo made > gen/base.txt && echo lib > node_modules/lib.js &&
  echo once >> "$HOME/runs" && echo tool > "$HOME/tool" && rm old.txt && date +%N > gen/stamp.txt
"#;

/// Returns a project with the setup command, whose agents run `command`.
fn set_up_project(command: &str, agents: usize, rest: &str) -> Project {
    let all_replies: Vec<String> = (0..agents)
        .map(|number| replies(command, &format!("answer {number}"), "agent1"))
        .collect();
    project(&all_replies, &format!("{SETUP}{rest}")).file(".gitignore", "*.out\nnode_modules\n")
}

/// Runs agents that see what the setup command has left, and change some of it.
fn run_and_change(level: &str, prepare: fn(&Project)) -> FinishedCommand {
    let command = "cat $HOME/tool $HOME/runs gen/base.txt node_modules/lib.js; \
                   test -e old.txt || echo changed >> gen/base.txt; echo more > gen/more.txt; \
                   echo private >> node_modules/lib.js; echo mine >> $HOME/tool; \
                   rm gen/stamp.txt; echo exit status";
    let check = "checks: [{name: sees, command: 'grep -q changed gen/base.txt && test -e gen/more.txt && \
                 grep -qx lib node_modules/lib.js && \
                 test \"$(cat $HOME/tool)\" = tool && test ! -e old.txt'}]\n";
    let project = set_up_project(command, 2, check).args(["--sandbox", level]);
    prepare(&project);
    let finished = project
        .success()
        .has_file("gen/base.txt", "made\nchanged\n")
        .has_file("gen/more.txt", "more\n")
        .has_file("old.txt", "to be removed\n")
        .has_no("gen/stamp.txt")
        .has_no("node_modules");
    for answer in events(&finished, "answered") {
        let verdict = &answer["evidence"]["checks"][0]["verdict"];
        assert_eq!(verdict, "passed", "{answer}");
        let diff = answer["changes"]["diff"].as_str().unwrap();
        assert!(
            !diff.contains("stamp") && !diff.contains("lib.js"),
            "{diff}"
        );
    }
    finished
}

#[test]
fn agents_and_checks_see_what_it_has_left_and_nothing_of_it_is_delivered() {
    let finished = run_and_change("auto", |_| {});
    assert_eq!(events(&finished, "setup_started").len(), 1);
    for call in events(&finished, "tool_finished") {
        let content = call["content"].as_str().unwrap();
        let shown = content.contains("tool\\nonce\\nmade\\nlib\\n");
        assert!(shown, "{content}");
    }
}

#[test]
fn where_nothing_can_be_mounted_it_runs_in_each_copy() {
    run_and_change("landlock", |_| {});
    if is_root() {
        run_and_change("auto", need_copies);
    }
}

#[test]
fn a_setup_that_fails_ends_the_run_before_any_model_is_asked() {
    let replies = replies("true; echo exit status", "x", "agent1");
    let finished = project(&[replies], "setup: 'echo broken; echo twice >&2; exit 3'\n").failure(3);
    let stderr = finished.stderr();
    assert!(
        stderr.contains("the setup command failed: it ended with status 3"),
        "{stderr}"
    );
    assert!(
        stderr.contains("its output ends: broken | twice"),
        "{stderr}"
    );
    assert!(events(&finished, "model_request_started").is_empty());
}

#[test]
fn a_setup_without_a_sandbox_is_refused() {
    let replies = replies("true; echo exit status", "x", "agent1");
    let finished = project(&[replies], "setup: 'touch made'\n")
        .args(["--sandbox", "off"])
        .failure(3)
        .has_no("made");
    let expected = "it would change your own files";
    assert!(
        finished.stderr().contains(expected),
        "{}",
        finished.stderr()
    );
    assert!(events(&finished, "model_request_started").is_empty());
}

#[test]
fn a_setup_without_a_write_path_is_refused() {
    let project = project(&[replies("true", "x", "agent1")], "setup: 'true'\n");
    let config = fs::read_to_string(project.path("team.yaml")).unwrap();
    let finished = project
        .file(
            "team.yaml",
            config.replace("permission: write", "permission: read"),
        )
        .failure(2);
    let expected = "`setup` needs a directory that is open for writing";
    assert!(
        finished.stderr().contains(expected),
        "{}",
        finished.stderr()
    );
}

#[test]
fn a_killed_run_is_resumed_with_what_it_has_left() {
    let slow = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "cp gen/stamp.txt first.txt; echo step $((0+1))"}}]
- when: {last: "step 1"}
  delay_ms: 60000
  calls: [{name: execute_command, arguments: {command: "test -s first.txt -a -s gen/stamp.txt && cat $HOME/tool > second.txt; echo step two"}}]
- when: {last: "step two"}
  calls: [{name: new_answer, arguments: {content: "done"}}]
"#;
    let project = project(&[slow.to_owned()], SETUP);
    let mut run = project.command().stderr(Stdio::null()).spawn().unwrap();
    let logged = || logged_events(&project).contains("step 1");
    wait_until("the first step is recorded", WAIT_TIME_MAX, logged);
    run.kill().unwrap();
    run.wait().unwrap();
    let yaml = fs::read_to_string(project.path("team.yaml")).unwrap();
    project
        .file("fast.yaml", yaml.replace("delay_ms: 60000", "delay_ms: 1"))
        .retyped(["--config", "fast.yaml", "--continue"])
        .success()
        .has_file("second.txt", "tool\n")
        .has_no("gen");
}
