//! Runs of the real binary, with scripted teams in their own directories.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::project::{FinishedCommand, Project, events};

/// Text that only the final phase's system message contains.
pub(crate) const FINAL: &str = "the final agent";

/// Returns a scripted agent; `replies` is YAML, indented as in the list under `replies:`.
pub(crate) fn agent(id: &str, workspace: &str, replies: &str) -> String {
    let cwd = if workspace.is_empty() {
        String::new()
    } else {
        format!("      cwd: {workspace}\n")
    };
    let mut out =
        format!("  - id: {id}\n    backend:\n      type: scripted\n{cwd}      replies:\n");
    let lines = replies.trim_matches('\n').lines();
    out.extend(lines.map(|line| format!("        {line}\n")));
    out
}

pub(crate) fn team(agents: &[String], rest: &str) -> String {
    format!("agents:\n{}{rest}\n", agents.concat())
}

/// Returns replies that give an answer, vote for `candidate`, and present.
pub(crate) fn answer_replies(answer: &str, candidate: &str) -> String {
    format!(
        r#"
- when: {{system: "{FINAL}"}}
  text: "final: {answer}"
- when: {{last: "<task>"}}
  calls: [{{name: new_answer, arguments: {{content: "{answer}"}}}}]
- calls: [{{name: vote, arguments: {{agent_id: {candidate}, reason: "it is good"}}}}]
"#
    )
}

/// Returns replies that write a file to the workspace and answer; in the final phase, they do what
/// `last` says.
pub(crate) fn build_replies(file: &str, content: &str, last: &str) -> String {
    format!(
        r#"
- when: {{last: "<task>", lacks: new_answer}}
  {last}
- when: {{last: "<task>"}}
  calls:
    - {{name: write_file, arguments: {{path: {file}, content: "{content}"}}}}
    - {{name: new_answer, arguments: {{content: "see {file}"}}}}
- when: {{system: "{FINAL}"}}
  text: "delivered"
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "it is good"}}}}]
"#
    )
}

pub(crate) const WRITE_HERE: &str = "orchestrator:\n  coordination: {write_mode: legacy}\n  context_paths:\n    - {path: ., permission: write}\n";
pub(crate) const FAILS: &str = r#"
- error: {message: "invalid api key"}
  repeat: true
"#;

pub(crate) fn read_status(finished: &FinishedCommand) -> Value {
    let logs = finished.project().path(".massgen/massgen_logs");
    let newest = std::fs::read_dir(logs)
        .unwrap()
        .map(|e| e.unwrap().path())
        .max()
        .unwrap();
    let text = std::fs::read_to_string(newest.join("turn_1/status.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn one_agent_answers_and_the_answer_alone_is_on_stdout() {
    let team = team(
        &[agent("solo", "", &answer_replies("forty-two", "agent1"))],
        "",
    );
    let finished = Project::new().config(&team).args(["what?"]).success();
    assert_eq!(finished.stdout(), "forty-two\n");
}

#[test]
fn two_agents_vote_and_the_winner_presents() {
    let agents = [
        agent("first", "", &answer_replies("red", "agent2")),
        agent("second", "", &answer_replies("blue", "agent2")),
    ];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["colour?"])
        .success();
    assert_eq!(finished.stdout(), "final: blue\n");
    let status = read_status(&finished);
    assert_eq!(status["results"]["winner"], "second");
    assert_eq!(status["is_complete"], true);
}

#[test]
fn the_tally_can_be_computed_again_from_the_log() {
    let late = r#"
- when: {last: "<task>"}
  delay_ms: 300
  calls: [{name: new_answer, arguments: {content: "late but better"}}]
- calls: [{name: vote, arguments: {agent_id: agent3, reason: "mine"}}]
  repeat: true
"#;
    let early = |answer: &str| {
        format!(
            r#"
- when: {{system: "{FINAL}"}}
  text: "final: {answer}"
- when: {{last: "<task>"}}
  text: "{answer}"
  calls: [{{name: new_answer}}]
- when: {{contains: "late but better"}}
  calls: [{{name: vote, arguments: {{agent_id: agent3, reason: "better"}}}}]
- calls: [{{name: vote, arguments: {{agent_id: agent1, reason: "first"}}}}]
"#
        )
    };
    let agents = [
        agent("a", "", &early("one")),
        agent("b", "", &early("two")),
        agent("c", "", late),
    ];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["go"])
        .success();
    let logs = files_below(&finished.project().path(".massgen/massgen_logs"));
    let log = logs
        .iter()
        .find(|path| path.ends_with("events.jsonl"))
        .unwrap();
    let log = std::fs::read_to_string(log).unwrap();
    let mut votes = BTreeMap::new();
    let mut winner = Value::Null;
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        match event["type"].as_str().unwrap() {
            "voted" => {
                votes.insert(event["agent"].to_string(), event["candidate"].clone());
            }
            "votes_voided" => votes.clear(),
            "winner_selected" => winner = event,
            _ => {}
        }
    }
    let count = |agent: &Value| {
        votes
            .values()
            .filter(|candidate| *candidate == agent)
            .count()
    };
    let counted = winner["votes"].as_array().unwrap();
    assert_eq!(counted.len(), 3, "{winner}");
    for pair in counted {
        assert_eq!(pair[1], count(&pair[0]), "{winner} {votes:?}");
    }
    assert_eq!(winner["agent"], "c");
}

#[test]
fn agents_know_each_other_by_sorted_number_and_ties_go_by_order() {
    let agents = [
        agent("zoe", "", &answer_replies("from zoe", "agent1")),
        agent("abe", "", &answer_replies("from abe", "agent2")),
    ];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["who?"])
        .success();
    assert_eq!(
        finished.stdout(),
        "final: from zoe\n",
        "a tie goes to who was registered first"
    );
}

#[test]
fn a_failing_agent_drops_out_and_the_others_continue() {
    let mut agents: Vec<String> = (1..=4)
        .map(|n| {
            agent(
                &format!("a{n}"),
                "",
                &answer_replies(&format!("say {n}"), "agent3"),
            )
        })
        .collect();
    agents.push(agent("broken", "", FAILS));
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["five?"])
        .success();
    assert_eq!(finished.stdout(), "final: say 3\n");
    assert!(
        finished.stderr().contains("invalid api key"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn an_agent_whose_calls_get_nowhere_stops_soon() {
    let unknown = |number| format!("- calls: [{{name: no_such_tool_{number}, arguments: {{}}}}]\n");
    let same = |number| {
        let path = "./".repeat(number);
        format!("- calls: [{{name: list_directory, arguments: {{path: {path}}}}}]\n")
    };
    let missing = "- calls: [{name: read_text_file, arguments: {path: none.txt}}]\n";
    let two_answers = "- calls: [{name: new_answer, arguments: {content: a}}, \
                       {name: new_answer, arguments: {content: b}}]\n";
    for (replies, cause) in [
        (
            (0..10).map(unknown).collect(),
            "its tool calls brought nothing new in 10 replies in a row",
        ),
        (
            (1..=11).map(same).collect(),
            "its tool calls brought nothing new in 10 replies in a row",
        ),
        (
            vec![missing.to_owned(); 4],
            "it made the same calls with the same results 4 times in a row",
        ),
        (
            vec![two_answers.to_owned(); 6],
            "its decisions were rejected too often",
        ),
    ] {
        let run = |replies: String| {
            let agents = [agent("one", "w", &replies)];
            Project::new().config(&team(&agents, "")).args(["hello"])
        };
        let stopped = run(format!("{}  repeat: true\n", replies.concat())).failure(1);
        let err = stopped.stderr();
        assert!(err.contains(cause), "{err}");
        let answer = format!(
            "- when: {{system: \"{FINAL}\"}}\n  text: final\n{}\
             - calls: [{{name: new_answer, arguments: {{content: red}}}}]\n",
            replies[1..].concat()
        );
        run(answer).success();
    }
}

#[test]
fn calls_of_a_reply_that_the_output_limit_cut_are_not_carried_out() {
    let cut =
        "- stop: length\n  calls: [{name: write_file, arguments: {path: f.txt, content: half}}]\n";
    let whole = "- when: {last: the output limit cut this reply}\n  \
                 calls: [{name: write_file, arguments: {path: f.txt, content: whole}}]\n\
                 - calls: [{name: new_answer, arguments: {content: done}}]\n";
    let run = |replies: &str| {
        let agents = [agent("one", "w", replies)];
        Project::new().config(&team(&agents, "")).args(["write"])
    };
    let finished = run(&format!("{cut}{whole}")).success();
    assert_eq!(events(&finished, "tool_called").len(), 1);
    let stopped = run(&format!("{cut}  repeat: true\n")).failure(1);
    let cause = "the output limit cut 3 replies with calls in a row; raise `max_tokens`";
    assert!(stopped.stderr().contains(cause), "{}", stopped.stderr());
}

#[test]
fn of_a_vote_and_an_answer_in_one_reply_the_one_that_can_count_does() {
    let both = "- calls: [{name: vote, arguments: {agent_id: agent2, reason: fine}}, \
                {name: new_answer, arguments: {content: red}}]\n  repeat: true\n";
    let other = "- calls: [{name: new_answer, arguments: {content: blue}}]\n\
                 - calls: [{name: vote, arguments: {agent_id: agent1, reason: fine}}]\n";
    let agents = [agent("one", "", both), agent("two", "", other)];
    let finished = Project::new()
        .config(&team(
            &agents,
            "orchestrator: {skip_final_presentation: true}",
        ))
        .args(["which?"])
        .success();
    assert_eq!(events(&finished, "answered").len(), 2);
    assert_eq!(events(&finished, "voted").len(), 2);
}

#[test]
fn when_all_fail_the_run_says_so_and_exits_with_1() {
    let agents = [agent("one", "", FAILS), agent("two", "", FAILS)];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["hello"])
        .failure(1);
    assert_eq!(finished.stdout(), "");
    assert!(
        finished.stderr().contains("invalid api key"),
        "{}",
        finished.stderr()
    );
}

#[test]
fn the_winner_writes_where_a_path_is_open() {
    let last =
        r#"calls: [{name: write_file, arguments: {path: "{{cwd}}/out.txt", content: "done\n"}}]"#;
    let agents = [agent(
        "one",
        "w1",
        &build_replies("draft.txt", "draft", last),
    )];
    let project = Project::new()
        .config(&team(&agents, WRITE_HERE))
        .args(["build"]);
    let _ended = project
        .success()
        .has_file("out.txt", "done\n")
        .has_no("draft.txt");
}

#[test]
fn an_undelivered_workspace_is_copied_to_the_write_path() {
    let agents = [
        agent(
            "one",
            "w1",
            &build_replies("src/a.txt", "made by one", "text: \"all done\""),
        ),
        agent("two", "w2", &answer_replies("nothing", "agent1")),
    ];
    let project = Project::new()
        .config(&team(&agents, WRITE_HERE))
        .args(["build"]);
    let _ended = project.success().has_file("src/a.txt", "made by one");
}

#[test]
fn a_workspace_inside_the_write_path_is_not_the_users_directory() {
    let last = r#"calls: [{name: write_file, arguments: {path: late.txt, content: "late"}}]"#;
    let agents = [agent(
        "one",
        "w1",
        &build_replies("early.txt", "early", last),
    )];
    let finished = Project::new()
        .config(&team(&agents, WRITE_HERE))
        .args(["build"])
        .success()
        .has_file("early.txt", "early")
        .has_file("late.txt", "late");
    let delivered = &read_status(&finished)["results"]["delivered"];
    assert_eq!(delivered.as_array().map(Vec::len), Some(2), "{delivered}");
}

#[test]
fn undelivered_files_are_reported() {
    let agents = [agent(
        "one",
        "w1",
        &build_replies("out.txt", "made by one", "text: \"all done\""),
    )];
    let finished = Project::new()
        .config(&team(&agents, WRITE_HERE))
        .dir("out.txt")
        .args(["build"])
        .failure(3);
    let stderr = finished.stderr();
    let rows = "\nnot delivered:\n  failed   [PROJECT]/out.txt: ";
    assert!(stderr.contains(rows), "{stderr}");
    assert!(
        stderr.contains("one answered; 0 files delivered, 1 not written"),
        "{stderr}"
    );
    let workspace = "undelivered files are still in `[PROJECT]/.massgen/workspaces/w1_";
    assert!(stderr.contains(workspace), "{stderr}");
}

#[test]
fn without_a_delivery_the_path_of_the_files_is_printed() {
    let last = "text: \"all done\"";
    let agents = [agent(
        "one",
        "w1",
        &build_replies("out.txt", "made by one", last),
    )];
    let finished = Project::new()
        .config(&team(&agents, ""))
        .args(["build"])
        .success();
    let path = finished
        .stderr()
        .split_once("done: one answered; its files are in `[PROJECT]/")
        .and_then(|(_, rest)| rest.split('`').next().map(str::to_owned));
    let path = path.unwrap_or_else(|| panic!("{}", finished.stderr()));
    let _kept = finished.has_file(&format!("{path}/out.txt"), "made by one");
}

#[test]
fn files_left_out_of_a_copied_workspace_are_reported() {
    let builds = r#"
- when: {lacks: new_answer}
  text: "all done"
- calls:
    - {name: write_file, arguments: {path: a.txt, content: "a"}}
    - {name: write_file, arguments: {path: .env, content: "KEY=1"}}
    - {name: write_file, arguments: {path: __pycache__/a.pyc, content: "generated"}}
    - {name: new_answer, arguments: {content: "see a.txt"}}
"#;
    let config = team(&[agent("one", "w1", builds)], WRITE_HERE);
    let finished = Project::new().config(&config).args(["build"]).failure(4);
    let finished = finished
        .has_file("a.txt", "a")
        .has_no(".env")
        .has_no("__pycache__");
    let stderr = finished.stderr();
    assert!(
        stderr.contains("[PROJECT]/.env: the name is protected"),
        "{stderr}"
    );
    assert!(!stderr.contains("__pycache__: "), "{stderr}");
}

#[test]
fn without_a_write_path_nothing_outside_the_state_changes() {
    let last = r#"calls: [{name: write_file, arguments: {path: "{{cwd}}/out.txt", content: "x"}}]"#;
    let read_only = "orchestrator:\n  context_paths:\n    - {path: ., permission: read}\n";
    let agents = [
        agent("one", "w1", &build_replies("a.txt", "draft", last)),
        agent("two", "", &answer_replies("nothing", "agent1")),
    ];
    let project = Project::new()
        .config(&team(&agents, read_only))
        .args(["build"]);
    let _ended = project.failure(4).has_no("out.txt").has_no("a.txt");
}

#[test]
fn user_paths_are_read_only_during_coordination() {
    let early = r#"
- when: {last: "<task>"}
  calls:
    - {name: write_file, arguments: {path: "{{cwd}}/early.txt", content: "x"}}
- when: {last: "denied", offers: new_answer}
  calls: [{name: new_answer, arguments: {content: "tried"}}]
- text: "done"
"#;
    let agents = [agent("one", "w1", early)];
    let project = Project::new()
        .config(&team(&agents, WRITE_HERE))
        .args(["build"]);
    let _ended = project.success().has_no("early.txt");
}

#[test]
fn denials_outside_the_users_paths_are_listed_and_are_no_failure() {
    let last = r#"calls:
    - {name: write_file, arguments: {path: "/nowhere/out.txt", content: "x"}}
    - {name: read_text_file, arguments: {path: "{{cwd}}/.massgen/x"}}
    - {name: write_file, arguments: {path: "{{cwd}}/a.txt", content: "x"}}"#;
    let agents = [agent("one", "w1", &build_replies("a.txt", "x", last))];
    let project = Project::new().config(&team(&agents, WRITE_HERE));
    let finished = project
        .args(["--output-format", "json", "build"])
        .success()
        .has_file("a.txt", "x");
    let result: Value = serde_json::from_str(finished.stdout()).unwrap();
    let denials = result["permission_denials"].to_string();
    assert!(denials.contains("/nowhere/out.txt"), "{result}");
}

#[test]
fn protected_names_stay_unchanged_and_the_status_is_4() {
    let last = r#"calls:
    - {name: read_text_file, arguments: {path: "{{cwd}}/.env"}}
    - {name: write_file, arguments: {path: "{{cwd}}/.env", content: "KEY=evil"}}"#;
    let agents = [agent("one", "w1", &build_replies("a.txt", "x", last))];
    let project = Project::new()
        .file(".env", "KEY=mine")
        .config(&team(&agents, WRITE_HERE));
    let _ended = project
        .args(["build"])
        .failure(4)
        .has_file(".env", "KEY=mine");
}

/// Checks the output at the start of a run in a project that contains `file`, with `entry` as
/// context path.
#[track_caller]
fn check_notice(file: &str, entry: &str, expected: &str) {
    let rest = format!("orchestrator:\n  context_paths:\n    - {entry}\n");
    let config = team(
        &[agent("one", "", &answer_replies("done", "agent1"))],
        &rest,
    );
    let finished = Project::new()
        .file(file, "x")
        .config(&config)
        .args(["--config", ".massgen/config.yaml", "go"])
        .success();
    let warning = finished
        .stderr()
        .lines()
        .find(|line| line.starts_with("warning"));
    match expected {
        "" => assert_eq!(warning, None),
        expected => assert!(
            warning.unwrap_or_default().contains(expected),
            "{warning:?}"
        ),
    }
}

#[test]
fn files_that_look_like_secrets_are_named_when_a_run_opens_them() {
    check_notice("sub/.env.local", "{path: .}", "");
    check_notice("keys/id_rsa", "{path: .}", "looks like a secret");
    check_notice("keys/id_rsa", "{path: ., hidden_paths: [keys]}", "");
    check_notice(".env.example", "{path: .}", "");
    check_notice(
        "a.txt",
        "{path: ., unprotected: [.git]}",
        "unprotected in `[PROJECT]`: .git",
    );
}

#[test]
fn secrets_that_only_one_agent_may_read_are_named_too() {
    let one = agent("one", "", &answer_replies("one", "agent2"));
    let own_path = "w2\n      context_paths: [keys]";
    let two = agent("two", own_path, &answer_replies("two", "agent2"));
    let finished = Project::new()
        .file("keys/id_rsa", "x")
        .config(&team(&[one, two], ""))
        .args(["go"])
        .success();
    let stderr = finished.stderr();
    assert!(stderr.contains("`[PROJECT]/keys/id_rsa`"), "{stderr}");
}

#[test]
fn two_write_paths_both_take_files() {
    let last = r#"calls:
    - {name: write_file, arguments: {path: "{{cwd}}/one/a.txt", content: "1"}}
    - {name: write_file, arguments: {path: "{{cwd}}/two/b.txt", content: "2"}}"#;
    let paths = "orchestrator:\n  coordination: {write_mode: legacy}\n  context_paths:\n    - {path: one, permission: write}\n    - {path: two, permission: write}\n";
    let agents = [agent("one", "w1", &build_replies("draft", "x", last))];
    let project = Project::new()
        .dir("one")
        .dir("two")
        .config(&team(&agents, paths));
    let _ended = project
        .args(["build"])
        .success()
        .has_file("one/a.txt", "1")
        .has_file("two/b.txt", "2");
}

#[test]
fn an_answer_that_came_in_time_survives_the_timeout() {
    let slow = "- delay_ms: 60000\n  text: late\n";
    let agents = [
        agent("fast", "", &answer_replies("quick answer", "agent1")),
        agent("slow", "", slow),
    ];
    let limit = "timeout_settings:\n  orchestrator_timeout_seconds: 6\n";
    let finished = Project::new()
        .config(&team(&agents, limit))
        .args(["hurry"])
        .failure(5);
    assert_eq!(finished.stdout(), "quick answer\n");
}

#[test]
fn an_agent_is_asked_to_finish_near_the_end_of_its_round() {
    let slow = r#"
- when: {last: "Time is nearly over"}
  calls: [{name: new_answer, arguments: {content: "what I have"}}]
- when: {last: "<task>"}
  delay_ms: 1200
  text: "still thinking"
"#;
    let limits = "timeout_settings:\n  initial_round_timeout_seconds: 1\n";
    let config = team(&[agent("one", "w1", slow)], limits);
    let finished = Project::new().config(&config).args(["think"]).success();
    assert_eq!(finished.stdout(), "what I have\n");
}

#[test]
fn after_the_grace_only_decisions_count() {
    let late = r#"
- when: {last: "the time for this round is over"}
  calls: [{name: new_answer, arguments: {content: "done at last"}}]
- delay_ms: 1100
  calls: [{name: list_directory, arguments: {path: "."}}]
"#;
    let limits =
        "timeout_settings:\n  initial_round_timeout_seconds: 1\n  round_timeout_grace_seconds: 0\n";
    let config = team(&[agent("one", "w1", late)], limits);
    let finished = Project::new().config(&config).args(["think"]).success();
    assert_eq!(finished.stdout(), "done at last\n");
}

#[test]
fn a_restart_begins_again_with_the_reason() {
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
- calls: [{name: new_answer, arguments: {content: "first try"}}]
"#;
    let rest = "orchestrator:\n  coordination: {max_orchestration_restarts: 1}\n";
    let project = Project::new().config(&team(&[agent("one", "", judge)], rest));
    let finished = project.args(["write"]).success();
    assert!(
        finished.stdout().ends_with("second result\n"),
        "{}",
        finished.stdout()
    );
}

#[test]
fn the_first_agent_presents_at_once_where_rounds_are_skipped() {
    let agents = [
        agent("one", "", "- text: \"at once\"\n"),
        agent("two", "", FAILS),
    ];
    let rest = "orchestrator:\n  skip_coordination_rounds: true\n";
    let finished = Project::new()
        .config(&team(&agents, rest))
        .args(["now"])
        .success();
    assert_eq!(finished.stdout(), "at once\n");
}

#[test]
fn the_winners_answer_is_the_result_where_its_presentation_is_skipped() {
    let agents = [
        agent("first", "", &answer_replies("red", "agent2")),
        agent("second", "", &answer_replies("blue", "agent2")),
    ];
    let rest = "orchestrator:\n  skip_final_presentation: true\n";
    let finished = Project::new()
        .config(&team(&agents, rest))
        .args(["colour?"])
        .success();
    assert_eq!(finished.stdout(), "blue\n");
}

#[test]
fn a_single_agent_that_only_planned_does_the_work_in_a_final_phase() {
    let agents = [agent("one", "", &answer_replies("the plan", "agent1"))];
    let rest = "orchestrator:\n  coordination: {enable_planning_mode: true}\n";
    let finished = Project::new()
        .config(&team(&agents, rest))
        .args(["do it"])
        .success();
    assert_eq!(finished.stdout(), "final: the plan\n");
    let replayed = finished.then(["replay", "last"]).success();
    assert!(
        replayed.stdout().starts_with("same: "),
        "{}",
        replayed.stdout()
    );
}

#[test]
fn a_users_own_workspace_is_never_emptied() {
    let last = "text: \"ok\"";
    let project = Project::new().file("mine/keep.txt", "precious");
    let cwd = project.path("mine").display().to_string();
    let agents = [agent("one", &cwd, &build_replies("new.txt", "n", last))];
    let project =
        project
            .config(&team(&agents, ""))
            .args(["--config", ".massgen/config.yaml", "build"]);
    let _ended = project
        .success()
        .has_file("mine/keep.txt", "precious")
        .has_file("mine/new.txt", "n");
}

/// Starts a run, waits until its standard error contains `text`, and returns the process.
fn start_until(project: &Project, text: &str) -> Child {
    let mut command = project.command();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let seen = lines.any(|line| line.unwrap_or_default().contains(text));
    assert!(seen, "the run never showed {text:?}");
    // Drain the rest, so that the run never blocks.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn wait_for_end(mut child: Child) -> (Option<i32>, String) {
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(
            begun.elapsed() < Duration::from_mins(2),
            "the run did not end"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

#[test]
fn an_interrupt_ends_the_run_with_130_and_keeps_the_best_answer() {
    let slow = "- delay_ms: 60000\n  text: late\n";
    let agents = [
        agent("fast", "", &answer_replies("so far", "agent1")),
        agent("slow", "", slow),
    ];
    let project = Project::new().config(&team(&agents, "")).args(["wait"]);
    let child = start_until(&project, "agent1.1");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(wait_for_end(child), (Some(130), "so far\n".to_owned()));
}

#[test]
fn files_that_the_user_changes_during_a_run_are_not_overwritten() {
    let last = r#"delay_ms: 6000
  calls:
    - {name: read_text_file, arguments: {path: "{{cwd}}/notes.txt"}}
    - {name: write_file, arguments: {path: "{{cwd}}/notes.txt", content: "ours"}}"#;
    let agents = [agent("one", "w1", &build_replies("draft", "x", last))];
    let project = Project::new()
        .file("notes.txt", "old")
        .config(&team(&agents, WRITE_HERE));
    let project = project.args(["edit"]);
    let child = start_until(&project, "agent1.1");
    std::fs::write(project.path("notes.txt"), "the user's").unwrap();
    let (code, _) = wait_for_end(child);
    assert_eq!(code, Some(4));
    assert_eq!(
        std::fs::read_to_string(project.path("notes.txt")).unwrap(),
        "the user's"
    );
    let kept_files: Vec<_> = files_below(&project.path(".massgen/sessions"))
        .into_iter()
        .filter(|path| path.ends_with("notes.txt"))
        .collect();
    assert!(!kept_files.is_empty(), "our version is kept");
    assert_eq!(std::fs::read_to_string(&kept_files[0]).unwrap(), "ours");
}

/// Returns all files below a directory.
pub(crate) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let below = |path: PathBuf| {
        if path.is_dir() {
            files_below(&path)
        } else {
            vec![path]
        }
    };
    entries.flat_map(|entry| below(entry.path())).collect()
}
