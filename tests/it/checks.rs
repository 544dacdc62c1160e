//! Checks in the config: they run on every answer in the tree as it would be delivered, decide
//! which agents can win, and leave nothing behind.

use std::fs;
use std::process::{Command, Stdio};

use crate::project::{FinishedCommand, Project, events, logged_events, make_program};
use crate::runs::read_status;
use crate::scripted_team::{FINAL, agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

const WRITE_HERE: &str = "orchestrator:
  coordination: {write_mode: legacy}
  context_paths: [{path: ., permission: write}]
";

/// Returns replies that write `app.sh`, answer, vote for `candidate` whenever they are asked, and
/// present at the end.
fn team_replies(script: &str, candidate: &str) -> String {
    format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "done"
- when: {{last: "<task>"}}
  calls: [{{name: write_file, arguments: {{path: app.sh, content: "{script}"}}}}]
- when: {{last: "app.sh"}}
  calls: [{{name: new_answer, arguments: {{content: "{script}"}}}}]
- calls: [{{name: vote, arguments: {{agent_id: {candidate}, reason: "good"}}}}]
  repeat: true
"#
    )
}

/// Returns a project with a team of two; the answer of the first fails the check, and both vote for
/// it.
fn project(checks: &str, keys: &str) -> Project {
    let keys = format!("cwd: w\n{keys}");
    let agents = [
        agent(
            "one",
            &keys.replace("cwd: w", "cwd: w1"),
            &team_replies("exit 3", "agent1"),
        ),
        agent(
            "two",
            &keys.replace("cwd: w", "cwd: w2"),
            &team_replies("exit 0", "agent1"),
        ),
    ];
    Project::new()
        .file("team.yaml", team(&agents, &format!("{WRITE_HERE}{checks}")))
        .file("lib.txt", "of the user\n")
        .args(["--config", "team.yaml", "build"])
}

fn winner_of(finished: &FinishedCommand) -> String {
    let status = read_status(finished);
    status["results"]["winner"].as_str().unwrap().to_owned()
}

#[test]
fn an_answer_that_fails_a_required_check_does_not_win_while_one_passes() {
    let finished = project("checks: [{name: runs, command: sh app.sh}]\n", "").success();
    assert_eq!(winner_of(&finished), "two");
    let script = fs::read_to_string(finished.project().path("app.sh")).unwrap();
    assert_eq!(script, "exit 0");
}

#[test]
fn the_command_line_can_name_checks() {
    let finished = project("", "").args(["--check", " sh app.sh ", "--check", "sh app.sh"]);
    let finished = finished.success();
    assert_eq!(winner_of(&finished), "two");
    let checked = events(&finished, "checked");
    assert!(
        checked
            .iter()
            .all(|event| event["finding"]["check"] == "sh app.sh")
    );
    assert_eq!(
        checked.len(),
        3,
        "once for each answer, and after the delivery"
    );
    let empty = project("", "").args(["--check", " "]).failure(2);
    assert!(
        empty.stderr().contains("expected a shell command"),
        "{}",
        empty.stderr()
    );
}

#[test]
fn without_checks_the_votes_alone_decide() {
    assert_eq!(winner_of(&project("", "").success()), "one");
    let optional_check = "checks: [{name: runs, command: sh app.sh, required: false}]\n";
    assert_eq!(winner_of(&project(optional_check, "").success()), "one");
}

#[test]
fn where_every_answer_fails_its_checks_the_votes_decide() {
    let finished = project("checks: ['exit 1']\non_check_failure: keep\n", "").run();
    assert_eq!(winner_of(&finished), "one");
}

#[test]
fn a_check_sees_the_tree_as_it_would_be_delivered_and_leaves_nothing() {
    let command = "grep -q user lib.txt && test -f app.sh && echo x > made-by-check && rm lib.txt";
    let checks = format!("checks: [{{name: sees, command: '{command}'}}]\n");
    let finished = project(&checks, "").success();
    let verdicts = events(&finished, "checked");
    assert!(verdicts.len() >= 2, "{verdicts:?}");
    for event in &verdicts {
        assert_eq!(event["finding"]["verdict"], "passed", "{event}");
    }
    assert!(finished.project().path("lib.txt").exists());
    assert!(!finished.project().path("made-by-check").exists());
}

#[test]
fn voters_see_the_results_of_checks() {
    let judge = format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "done"
- when: {{last: "<task>"}}
  calls: [{{name: new_answer, arguments: {{content: "mine"}}}}]
- when: {{last: "- runs: failed: it ended with status 3"}}
  calls: [{{name: vote, arguments: {{agent_id: agent2, reason: "the check of agent1 fails"}}}}]
  repeat: true
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "blind"}}}}]
  repeat: true
"#
    );
    let agents = [
        agent(
            "one",
            "cwd: w1",
            &team_replies("echo why; exit 3", "agent1"),
        ),
        agent("two", "cwd: w2", &judge),
    ];
    let checks =
        "checks: [{name: runs, command: test ! -f app.sh || sh app.sh, required: false}]\n";
    let finished = Project::new()
        .file("team.yaml", team(&agents, &format!("{WRITE_HERE}{checks}")))
        .args(["--config", "team.yaml", "build"])
        .success();
    let votes = events(&finished, "voted");
    let reasons: Vec<&str> = votes
        .iter()
        .filter_map(|vote| vote["reason"].as_str())
        .collect();
    assert!(reasons.contains(&"the check of agent1 fails"), "{votes:?}");
    let answers = events(&finished, "answered");
    let of_one = answers
        .iter()
        .find(|answer| answer["agent"] == "one")
        .unwrap();
    assert_eq!(of_one["evidence"]["checks"][0]["tail"], "why");
    let changes = serde_json::json!({"files": 1, "added": 1, "removed": 0});
    assert_eq!(of_one["evidence"]["changes"], changes);
}

#[test]
fn a_check_that_cannot_be_run_says_why() {
    let keys = "enable_mcp_command_line: true\ncommand_line_sandbox: 'off'";
    let optional_check = "checks: [{command: 'true', required: false}]\non_check_failure: keep\n";
    let finished = project(optional_check, keys).run();
    let warning = "checks on the work of one cannot run: with the sandbox off";
    assert!(finished.stderr().contains(warning), "{}", finished.stderr());
    let verdicts = events(&finished, "checked");
    assert!(!verdicts.is_empty());
    for event in &verdicts {
        assert_eq!(event["finding"]["verdict"], "not_run", "{event}");
    }
    assert_eq!(winner_of(&finished), "one");
}

#[test]
fn a_required_check_that_cannot_be_run_ends_the_run_before_it_begins() {
    let checks = "checks: [{name: holds, command: 'true'}]\n";
    let off = "enable_mcp_command_line: true\ncommand_line_sandbox: 'off'";
    for (keys, flags, reason) in [
        (off, &[][..], "with the sandbox off"),
        ("", &["--sandbox", "off"], "with the sandbox off"),
    ] {
        let refused = project(checks, keys).args(flags).failure(3);
        let message = "required check `holds` cannot run on the work of `one`: ";
        let message = format!("{message}{reason}");
        assert!(refused.stderr().contains(&message), "{}", refused.stderr());
        let sessions = fs::read_dir(refused.project().path(".massgen/sessions"));
        assert_eq!(sessions.unwrap().count(), 0);
        let logs = refused.project().path(".massgen/massgen_logs");
        assert!(!logs.exists(), "nothing is begun");
    }
}

#[test]
fn an_interrupt_during_a_check_reverts_the_delivery_with_its_reason() {
    let project = project_with_failing_delivery("undo");
    let config = project.path("team.yaml");
    let text = fs::read_to_string(&config).unwrap();
    let slow = "{name: clean, command: 'test ! -e bad.txt || sleep 100'}";
    let text = text.replace("{name: clean, command: test ! -e bad.txt}", slow);
    fs::write(config, text).unwrap();
    let mut command = project.command();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = command.spawn().unwrap();
    let checks = || {
        let log = logged_events(&project);
        log.matches(r#""type":"checking""#).count()
    };
    wait_until("the second check runs", WAIT_TIME_MAX, || checks() >= 2);
    assert!(project.path("bad.txt").exists());
    let process = running.id().to_string();
    let sent = Command::new("kill").args(["-INT", &process]).status();
    assert!(sent.unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(!project.path("bad.txt").exists());
    let finished = project.retyped(["apply", "last", "--yes"]).success();
    let rows = read_status(&finished)["results"]["delivered"].clone();
    for row in rows.as_array().unwrap() {
        assert_eq!(row["outcome"], "taken_back", "{row}");
        assert_eq!(row["reason"], "interrupted before all checks had finished");
    }
    finished.has_file("bad.txt", "x");
}

#[test]
fn a_check_that_takes_too_long_fails() {
    let checks = "checks: [{command: sleep 100, timeout: 1}]\non_check_failure: keep\n";
    let finished = project(checks, "").run();
    let verdicts = events(&finished, "checked");
    let failure = verdicts[0]["finding"]["how"].as_str().unwrap();
    assert_eq!(failure, "it took too long and was killed");
}

/// Returns a project whose check passes for every answer but not for the delivery, because the
/// final agent writes more.
fn project_with_failing_delivery(policy: &str) -> Project {
    let replies = format!(
        r#"
- when: {{system: "{FINAL}", last: "<task>"}}
  calls:
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/bad.txt", content: "x"}}}}
    - {{name: write_file, arguments: {{path: "{{{{cwd}}}}/lib.txt", content: "changed"}}}}
- when: {{system: "{FINAL}"}}
  text: "done"
- calls: [{{name: new_answer, arguments: {{content: "mine"}}}}]
"#
    );
    let keys = "cwd: w1\nenforce_read_before_delete: false";
    let checks = format!(
        "checks: [{{name: clean, command: test ! -e bad.txt}}]\non_check_failure: {policy}\n"
    );
    Project::new()
        .file(
            "team.yaml",
            team(
                &[agent("one", keys, &replies)],
                &format!("{WRITE_HERE}{checks}"),
            ),
        )
        .file("lib.txt", "of the user\n")
        .args(["--config", "team.yaml", "build"])
}

#[test]
fn a_delivery_after_which_a_check_fails_is_reverted() {
    for policy in ["undo", "ask"] {
        let finished = project_with_failing_delivery(policy).failure(1);
        let finished = finished
            .has_file("lib.txt", "of the user\n")
            .has_no("bad.txt");
        let rows = read_status(&finished)["results"]["delivered"].clone();
        for row in rows.as_array().unwrap() {
            assert_eq!(row["outcome"], "taken_back", "{row}");
            assert_eq!(row["reason"], "the check `clean` does not pass");
        }
        let again = finished.then(["apply", "last", "--yes"]).success();
        again
            .has_file("lib.txt", "changed")
            .has_file("bad.txt", "x");
    }
}

#[test]
fn a_delivery_with_failed_checks_is_kept_if_the_config_says_so() {
    let finished = project_with_failing_delivery("keep").success();
    let warning = "the check `clean` does not pass; the delivery is kept";
    assert!(finished.stderr().contains(warning), "{}", finished.stderr());
    finished
        .has_file("lib.txt", "changed")
        .has_file("bad.txt", "x");
}

#[test]
fn a_check_does_not_see_files_of_an_earlier_check() {
    let keys = "cwd: w1";
    let replies = r#"
- when: {system: "the final agent"}
  text: "done"
- when: {last: "<task>"}
  calls:
    - {name: write_file, arguments: {path: state, content: "evil"}}
    - {name: write_file, arguments: {path: check.sh, content: "echo good > state"}}
- calls: [{name: new_answer, arguments: {content: "mine"}}]
"#;
    let checks = "checks: [bash check.sh, grep -q good state]\non_check_failure: keep\n";
    let finished = Project::new()
        .file(
            "team.yaml",
            team(
                &[agent("one", keys, replies)],
                &format!("{WRITE_HERE}{checks}"),
            ),
        )
        .args(["--config", "team.yaml", "build"])
        .run();
    let verdicts = events(&finished, "checked");
    let second = verdicts
        .iter()
        .filter(|event| event["finding"]["check"] == "grep -q good state");
    let second: Vec<&str> = second
        .map(|event| event["finding"]["verdict"].as_str().unwrap())
        .collect();
    assert!(
        !second.is_empty() && second.iter().all(|verdict| *verdict == "failed"),
        "{second:?}"
    );
}

/// Returns replies of an agent that runs `command`, answers, votes for agent 1 and presents.
fn command_replies(command: &str) -> String {
    format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "done"
- when: {{last: "</task>"}}
  calls: [{{name: execute_command, arguments: {{command: "{command}"}}}}]
- calls: [{{name: new_answer, arguments: {{content: "mine"}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "good"}}}}]
  repeat: true
"#
    )
}

/// Returns a project in which one agent runs `command` and answers; `rest` goes to the top level of
/// its config.
fn commanded_project(command: &str, rest: &str) -> Project {
    let agent = agent(
        "one",
        "cwd: w1\nenable_mcp_command_line: true",
        &command_replies(command),
    );
    Project::new()
        .file("team.yaml", team(&[agent], rest))
        .args(["--config", "team.yaml", "build"])
}

/// Returns the verdicts on `check`, in the order of the checks.
fn verdicts_on(finished: &FinishedCommand, check: &str) -> Vec<String> {
    let verdict = |event: &serde_json::Value| {
        let finding = &event["finding"];
        (finding["check"] == check).then(|| finding["verdict"].as_str().unwrap().to_owned())
    };
    let checked = events(finished, "checked");
    checked.iter().filter_map(verdict).collect()
}

#[test]
fn nothing_that_a_check_leaves_outside_the_tree_reaches_another() {
    let places = "~/left /tmp/left $TMPDIR/left2 ~/.cache/left /dev/shm/left /var/tmp/left";
    let leave = format!(
        "mkdir -p ~/.cache; for p in {places}; do echo x > $p; done; \
         (setsid sleep 57 > /dev/null 2>&1 &); test -e ~/left && test -e /tmp/left"
    );
    let look = format!(
        "for p in {places}; do if test -e $p; then echo $p; exit 1; fi; done; \
         ! grep -qs sle[e]p /proc/[0-9]*/cmdline"
    );
    let checks = format!(
        "{WRITE_HERE}checks:\n- {{name: leave, command: '{leave}', required: false}}\n- {{name: look, command: '{look}'}}\n"
    );
    let finished = commanded_project("echo x > a.txt", &checks).success();
    assert_eq!(verdicts_on(&finished, "look"), ["passed", "passed"]);
    // Control: they were left.
    assert_eq!(verdicts_on(&finished, "leave"), ["passed", "passed"]);
    finished.has_file("a.txt", "x\n");
}

#[test]
fn programs_of_the_checked_work_are_not_found_before_others() {
    let plant = "mkdir -p .venv/bin bin tools && for d in .venv/bin bin tools; do cp /bin/true $d/judge; done";
    let checks = "checks: [{name: judge, command: judge}]\non_check_failure: keep\n";
    let with_path = |project: Project, directories: &[&str]| {
        let own: Vec<String> = directories
            .iter()
            .map(|dir| project.path(dir).display().to_string())
            .collect();
        let path = format!("{}:/usr/bin:/bin", own.join(":"));
        project.env("PATH", path)
    };
    // Without a write path, the checks run in a copy of the answer.
    let finished = commanded_project(plant, checks).run();
    assert_eq!(verdicts_on(&finished, "judge"), ["failed"]);
    let workspace = commanded_project(plant, checks);
    let finished = with_path(workspace, &["w1/bin"]).run();
    assert_eq!(verdicts_on(&finished, "judge"), ["failed"]);
    // In a write path, only what agents may not write is the user's.
    let writable = format!("{WRITE_HERE}{checks}");
    let judge = |status: u8| format!("#!/bin/sh\nexit {status}\n");
    let install = |project: Project, dir: &str| {
        let path = project.path(dir).join("judge");
        let project = project.file(&format!("{dir}/judge"), judge(0));
        make_program(&path);
        project
    };
    let planted = commanded_project(plant, &writable)
        .link("current", "tools")
        .dir("outside");
    let finished = with_path(planted, &["bin", "current"]).run();
    assert_eq!(verdicts_on(&finished, "judge"), ["failed", "failed"]);
    // Controls: the user's own programs, where no agent may write.
    let own_venv = install(commanded_project("echo x > a.txt", &writable), ".venv/bin");
    let finished = own_venv.success();
    assert_eq!(verdicts_on(&finished, "judge"), ["passed", "passed"]);
    let modules = install(
        commanded_project("echo x > a.txt", &writable),
        "node_modules/.bin",
    );
    let finished = with_path(modules, &["node_modules/.bin"]).success();
    assert_eq!(verdicts_on(&finished, "judge"), ["passed", "passed"]);
}

#[test]
fn an_answer_without_a_complete_copy_passes_no_check() {
    let deep = format!("mkdir -p {}", ["d"; 70].join("/"));
    // Control: a pipe is never delivered, so it is not missing.
    for (obstacle, is_complete) in [("mkfifo odd", true), (deep.as_str(), false)] {
        for rest in ["; echo x > a.txt", ""] {
            let keys = "cwd: w1\nenable_mcp_command_line: true";
            let one = agent("one", keys, &command_replies(&format!("{obstacle}{rest}")));
            let two = agent("two", "cwd: w2", &team_replies("exit 0", "agent1"));
            let checks = format!("{WRITE_HERE}checks: [{{name: holds, command: 'true'}}]\n");
            let finished = Project::new()
                .file("team.yaml", team(&[one, two], &checks))
                .args(["--config", "team.yaml", "build"])
                .success();
            let checked = events(&finished, "checked");
            let of = |agent: &str| {
                let event = checked.iter().find(|event| event["agent"] == agent);
                event.unwrap()["finding"].clone()
            };
            assert_eq!(of("two")["verdict"], "passed");
            if is_complete {
                assert_eq!(of("one")["verdict"], "passed", "{obstacle}{rest}");
                continue;
            }
            assert_eq!(of("one")["verdict"], "not_run", "{obstacle}{rest}");
            let given = of("one")["why"].to_string();
            let reasons = [
                "no complete copy of the answer's files",
                "more than 64 directories",
            ];
            assert!(
                reasons.iter().all(|reason| given.contains(reason)),
                "{given}"
            );
            assert_eq!(winner_of(&finished), "two");
        }
    }
}

/// One agent scores too low for a vote, tries to raise its scores, and improves its answer; then both
/// vote for that one.
#[test]
fn a_vote_with_low_scores_leads_to_a_better_answer() {
    let vote = |agent: &str, scores: &str| {
        format!(
            r#"calls: [{{name: vote, arguments: {{agent_id: {agent}, reason: "judged", scores: {scores}}}}}]"#
        )
    };
    let critic = format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "done"
- when: {{last: "<task>"}}
  calls: [{{name: new_answer, arguments: {{content: "a sketch"}}}}]
- when: {{last: "your own scores"}}
  {}
- when: {{last: "you have scored these answers"}}
  calls: [{{name: new_answer, arguments: {{content: "the whole thing"}}}}]
- {}
- {}
  repeat: true
"#,
        vote("agent1", "[10, 10]"),
        vote("agent1", "[9]"),
        vote("agent1", "[9, 2]"),
    );
    let follower = format!(
        r#"
- when: {{last: "<task>"}}
  calls: [{{name: new_answer, arguments: {{content: "another sketch"}}}}]
- {}
  repeat: true
"#,
        vote("agent1", "[10, 10]")
    );
    let rules = "orchestrator:\n  voting_sensitivity: checklist_gated\n  voting_threshold: 0\n  max_new_answers_per_agent: 2\n  \
                 coordination:\n    checklist_criteria_inline:\n      - Complete\n      - {text: Correct, \
                 category: must}\n";
    let agents = [agent("one", "", &critic), agent("two", "", &follower)];
    let finished = Project::new()
        .file("team.yaml", team(&agents, rules))
        .args(["--config", "team.yaml", "build"])
        .success();
    let rejected = events(&finished, "submission_rejected");
    let reasons: Vec<&str> = rejected
        .iter()
        .filter_map(|rejected| rejected["reason"].as_str())
        .collect();
    let expected = [
        "pass `scores` with 2",
        "what criterion 2 asks for",
        "you have scored",
    ];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for (reason, expected) in reasons.iter().zip(expected) {
        assert!(reason.contains(expected), "{reason}");
    }
    let votes = events(&finished, "voted");
    let last = votes.last().unwrap();
    assert_eq!(last["label"], "agent1.2", "{votes:?}");
    assert!(
        last["reason"]
            .as_str()
            .unwrap()
            .starts_with("judged (scores: ")
    );
    // A replay judges scores by the same criteria.
    let replayed = finished.then(["replay", "last"]).success();
    assert!(
        replayed.stdout().starts_with("same: "),
        "{}",
        replayed.stdout()
    );
}
