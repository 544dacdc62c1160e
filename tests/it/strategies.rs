//! The strategies in which agents answer alone: the checks and one review decide, and what was
//! checked is delivered.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::pipeline::git_in;
use crate::project::{FinishedCommand, Project, events, logged_events};
use crate::resume::{
    FinishedRecord, describe_output, event_log, massgen_command, read_events as logged,
};
use crate::scripted_team::{agent, team};
use crate::waiting::{WAIT_TIME_MAX, wait_until};

/// Returns replies that write `number` to `src/app.sh`, look at what other agents left, and answer
/// with what they see; `review` is the reply to a comparison.
fn replies(number: u32, review: &str) -> String {
    format!(
        r#"
- when: {{system: "You review answers"}}
  usage: {{input_tokens: 500, output_tokens: 5}}
  text: "{review}"
  repeat: true
- when: {{last: "<task>"}}
  calls: [{{name: execute_command, arguments: {{command: "echo exit {number} > src/app.sh; cat '{{{{cwd}}}}'/.massgen/temp_workspaces/*/*/*/src/app.sh; echo exit status"}}}}]
- when: {{last: "exit status"}}
  calls: [{{name: new_answer, arguments: {{content: "the same for all"}}}}]
"#
    )
}

/// Returns a git project with a team of agents that have these replies.
fn project(all_replies: &[String], rest: &str, arguments: &[&str]) -> Project {
    let numbered_replies = all_replies.iter().enumerate();
    let agents: Vec<String> = numbered_replies
        .map(|(number, replies)| {
            let keys = format!("cwd: w{number}\nenable_mcp_command_line: true");
            agent(&format!("a{number}"), &keys, replies)
        })
        .collect();
    let project = Project::new()
        .file("team.yaml", team(&agents, rest))
        .file(".gitignore", "*.out\n")
        .file("src/app.sh", "exit 9\n")
        .args([&["--config", "team.yaml"], arguments, &["fix it"]].concat());
    let root = project.path(".");
    git_in(&root, &["init", "-q"]);
    git_in(&root, &["add", "."]);
    project
}

/// The rules of a team with this strategy, whose check passes if `src/app.sh` exits with at most 1.
fn rules(strategy: &str) -> String {
    format!(
        "orchestrator:
  context_paths: [{{path: ., permission: write}}]
  strategy: {strategy}
checks: [{{name: app, command: 'sh src/app.sh || test $? = 1'}}]
"
    )
}

#[test]
fn the_review_selects_among_the_answers_that_pass() {
    let review = "agent1.1 fails less often, but:\\nagent3.1";
    let all_replies = [replies(1, review), replies(2, ""), replies(0, "agent1")];
    let finished = project(&all_replies, &rules("best-of"), &[])
        .success()
        .has_file("src/app.sh", "exit 0\n");
    // Nobody saw another's answer, was asked to vote, or was asked again.
    assert!(events(&finished, "answers_shown").is_empty());
    assert!(events(&finished, "voted").is_empty());
    assert!(events(&finished, "final_started").is_empty());
    let results = events(&finished, "tool_call_finished");
    assert!(
        results
            .iter()
            .all(|event| !event.to_string().contains("exit 0\\nexit")),
        "{results:#?}"
    );
    let winner = &events(&finished, "winner_selected")[0];
    assert_eq!(winner["label"], "agent3.1");
    assert_eq!(winner["reason"], "review");
    let requests = events(&finished, "subagent_started");
    assert_eq!(requests.len(), 1, "{requests:#?}");
    let shown = finished.stderr().to_owned();
    assert!(
        shown.contains(
            "a2 with agent3.1; the review found it the best; a required check failed: a1"
        ),
        "{shown}"
    );
    finished.then(["replay", "last"]).success();
}

#[test]
fn a_review_without_a_result_leaves_the_first_answer_that_passes() {
    let all_replies = [replies(2, "agent2"), replies(1, "both"), replies(0, "")];
    let rest = rules("best-of").replace("  strategy", "  reviewer: a1\n  strategy");
    let finished = project(&all_replies, &rest, &[])
        .success()
        .has_file("src/app.sh", "exit 1\n");
    assert!(
        finished
            .stderr()
            .contains("the review of the answers has no result")
    );
    assert_eq!(
        events(&finished, "winner_selected")[0]["reason"],
        "first_passing"
    );
}

#[test]
fn answers_that_agents_give_alone_are_checked_at_the_same_time() {
    for (seconds, parallel, expected) in [
        (2, 2, ["checking", "checking", "checked", "checked"]),
        (0, 1, ["checking", "checked", "checking", "checked"]),
    ] {
        let keys = format!(
            "parallel_checks: {parallel}\nchecks: [{{name: app, command: sleep {seconds}}}]\n"
        );
        let rest = format!("orchestrator: {{strategy: best-of}}\n{keys}");
        let answer = "\n- calls: [{name: new_answer, arguments: {content: done}}]\n";
        let agents = ["a", "b"].map(|id| agent(id, &format!("cwd: {id}"), answer));
        let finished = Project::new()
            .config(&team(&agents, &rest))
            .args(["go"])
            .success();
        let log = logged_events(finished.project());
        let events = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        let kinds = events.map(|event| event["type"].as_str().unwrap().to_owned());
        let kinds: Vec<String> = kinds
            .filter(|kind| expected.contains(&kind.as_str()))
            .collect();
        assert_eq!(kinds, expected);
    }
}

/// Returns replies that write each of `numbers` to `app.sh` in `dir` and answer, each time but the first
/// because a check has failed.
fn repairing_replies(dir: &str, numbers: &[u32]) -> String {
    let write = |(index, number): (usize, &u32)| {
        let told = if index == 0 {
            "</task>".to_owned()
        } else {
            format!(".{index}, but it cannot win yet")
        };
        format!(
            r#"
- when: {{last: "{told}"}}
  calls: [{{name: execute_command, arguments: {{command: "echo exit {number} > {dir}app.sh; echo wrote {number}"}}}}]
- when: {{last: "wrote {number}"}}
  calls: [{{name: new_answer, arguments: {{content: "exit {number}"}}}}]
"#
        )
    };
    numbers.iter().enumerate().map(write).collect()
}

#[test]
fn an_agent_that_answers_alone_repairs_what_fails() {
    let all_replies = [&[4, 5, 1][..], &[6, 7, 8, 0], &[2]];
    let all_replies = all_replies.map(|numbers| repairing_replies("src/", numbers));
    let finished = project(&all_replies[..2], &rules("best-of"), &[])
        .success()
        .has_file("src/app.sh", "exit 1\n");
    let labels = events(&finished, "answered");
    assert_eq!(labels.len(), 6, "{labels:#?}");
    let winner = &events(&finished, "winner_selected")[0];
    assert_eq!(
        (&winner["label"], &winner["reason"]),
        (&json!("agent1.3"), &json!("passed_checks"))
    );
    finished.then(["replay", "last"]).success();
    // An agent answers as often as the config says.
    let once = rules("best-of").replace("  strategy", "  max_new_answers_per_agent: 1\n  strategy");
    let finished = project(&all_replies[..2], &once, &[]).failure(1);
    assert_eq!(events(&finished, "answered").len(), 2);
    // Its last answer stays if it gives none that is better.
    let finished = project(&all_replies[2..], &rules("best-of"), &[]).failure(1);
    assert_eq!(events(&finished, "answered").len(), 1);
    finished
        .then(["apply", "last", "--agent", "agent1", "--yes"])
        .success()
        .has_file("src/app.sh", "exit 2\n");
}

#[test]
fn a_resumed_run_repairs_what_is_not_repaired_yet() {
    let script = repairing_replies("", &[4, 5, 0]);
    let keys = "cwd: a\nenable_mcp_command_line: true";
    let rules =
        "orchestrator: {strategy: best-of}\nchecks: [{name: app, command: 'grep -qs 0 app.sh'}]\n";
    let config = team(&[agent("a", keys, &script)], rules);
    let record = FinishedRecord::of(Project::new().config(&config).dir("out"));
    let text = String::from_utf8(record.bytes.clone()).unwrap();
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        if !line.contains("\"answered\"") {
            continue;
        }
        record.cut(end);
        let output = massgen_command(&record.project, &["--continue"])
            .output()
            .unwrap();
        let note = describe_output(&output);
        assert!(output.status.success(), "{note}");
        let events = logged(&record.log);
        let labels: Vec<&str> = events
            .iter()
            .filter(|event| event["type"] == "answered")
            .filter_map(|event| event["label"].as_str())
            .collect();
        assert_eq!(labels, ["agent1.1", "agent1.2", "agent1.3"], "{note}");
        let replied = events.iter().filter(|event| event["type"] == "replied");
        assert_eq!(replied.count(), 6, "after {line}{note}");
    }
}

#[test]
fn one_answer_that_passes_needs_no_review() {
    let all_replies = [
        replies(2, "agent1"),
        replies(1, "agent1"),
        replies(3, "agent1"),
    ];
    let finished = project(&all_replies, &rules("best-of"), &[])
        .success()
        .has_file("src/app.sh", "exit 1\n");
    assert!(events(&finished, "subagent_started").is_empty());
    assert_eq!(
        events(&finished, "winner_selected")[0]["reason"],
        "passed_checks"
    );
}

#[test]
fn nothing_is_delivered_if_no_answer_passes() {
    let all_replies = [replies(2, "agent1"), replies(3, "agent1")];
    let finished = project(&all_replies, &rules("best-of"), &[])
        .failure(1)
        .has_file("src/app.sh", "exit 9\n");
    assert!(
        finished
            .stderr()
            .contains("none of 2 answers passes the required checks"),
        "{}",
        finished.stderr()
    );
    finished
        .then(["apply", "last", "--agent", "agent2", "--yes"])
        .success()
        .has_file("src/app.sh", "exit 3\n");
}

#[test]
fn many_answers_are_compared_in_pairs_in_both_orders() {
    let prefer = |order: &str, label: &str| {
        let pair = format!("of the best answer: {order}.");
        format!("- when: {{last: \"{pair}\"}}\n  text: \"{label}\"\n")
    };
    // Of the first pair, the reviewer prefers what it reads last, so that the first answer stays.
    let reviews = [
        prefer("agent1.1, agent2.1", "agent2.1"),
        prefer("agent2.1, agent1.1", "agent1.1"),
        prefer("agent1.1, agent3.1", "agent3.1"),
        prefer("agent3.1, agent1.1", "agent3.1"),
    ];
    let reviewer = format!("{}{}", reviews.concat(), replies(0, "agent3.1"));
    let others = (1..5)
        .map(|other| replies(0, "").replace("exit 0", &format!("exit 0{}", "0".repeat(other))));
    let all_replies: Vec<String> = [reviewer].into_iter().chain(others).collect();
    let json = ["--output-format", "json"];
    let finished = project(&all_replies, &rules("best-of"), &json).success();
    let result: Value = serde_json::from_str(finished.stdout()).unwrap();
    let spent = &result["usage"]["by_phase"];
    assert_eq!(spent["selection"]["requests"], 6, "{spent}");
    assert_eq!(spent["coordination"]["requests"], 10, "{spent}");
    // Agents 4 and 5 lose the first comparison.
    assert_eq!(events(&finished, "subagent_started").len(), 6);
    assert_eq!(events(&finished, "winner_selected")[0]["label"], "agent3.1");
}

#[test]
fn the_first_answer_that_passes_ends_the_others() {
    let slow = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "sleep 60"}}]
"#;
    let start = Instant::now();
    let finished = project(
        &[slow.to_owned(), replies(2, ""), replies(0, "")],
        &rules("first-pass"),
        &[],
    )
    .success()
    .has_file("src/app.sh", "exit 0\n");
    assert!(start.elapsed() < Duration::from_secs(30));
    assert_eq!(
        events(&finished, "winner_selected")[0]["reason"],
        "passed_checks"
    );
    let unchecked = rules("first-pass").replace("checks:", "# checks:");
    let refused = project(&[replies(0, "")], &unchecked, &[]).failure(2);
    assert!(
        refused
            .stderr()
            .contains("`first-pass` needs a required check"),
        "{}",
        refused.stderr()
    );
}

#[test]
fn a_cascade_asks_the_next_agent_only_if_those_before_it_failed() {
    let told = repairing_replies("src/", &[1]).replacen("</task>", "Others have tried this", 1);
    let all_replies = [
        repairing_replies("src/", &[4, 5, 6]),
        told,
        repairing_replies("src/", &[0]),
    ];
    let asked = |finished: &FinishedCommand| -> BTreeSet<String> {
        let requests = events(finished, "model_request_started").into_iter();
        requests
            .map(|event| event["agent"].as_str().unwrap().to_owned())
            .collect()
    };
    let finished = project(&all_replies, &rules("cascade"), &[])
        .success()
        .has_file("src/app.sh", "exit 1\n");
    assert_eq!(
        asked(&finished),
        BTreeSet::from(["a0".to_owned(), "a1".to_owned()])
    );
    let labels: Vec<Value> = events(&finished, "answered")
        .iter()
        .map(|answer| answer["label"].clone())
        .collect();
    assert_eq!(labels, ["agent1.1", "agent1.2", "agent1.3", "agent2.1"]);
    finished.then(["replay", "last"]).success();
    // One that gives up makes room for the next, and nothing more starts after the last.
    let gives_up = r#"- {error: {message: "no"}, repeat: true}"#.to_owned();
    let finished = project(&[gives_up.clone(), gives_up], &rules("cascade"), &[]).failure(1);
    assert_eq!(asked(&finished).len(), 2);
    let first = project(
        &[repairing_replies("src/", &[0]), replies(2, "")],
        &rules("cascade"),
        &[],
    );
    assert_eq!(asked(&first.success()), BTreeSet::from(["a0".to_owned()]));
}

#[test]
fn attempts_are_copies_of_an_agent_on_the_command_line_and_in_a_config() {
    let one = [replies(0, "agent1")];
    let check = ["--best-of", "3", "--check", "sh src/app.sh"];
    let rest = "orchestrator: {coordination: {write_mode: auto}}";
    let finished = project(&one, rest, &check)
        .success()
        .has_file("src/app.sh", "exit 0\n");
    assert_eq!(events(&finished, "answered").len(), 3);
    let refused = project(&one, rest, &check[..2]).failure(2);
    assert!(
        refused.stderr().contains("`--best-of` needs a check"),
        "{}",
        refused.stderr()
    );
    assert!(
        refused.stderr().contains("--check \"make test\""),
        "{}",
        refused.stderr()
    );
    let config = fs::read_to_string(finished.project().path("team.yaml")).unwrap();
    let config = config
        .replace("- id: a0", "- id: a0\n    copies: 2")
        .replace(rest, &rules("best-of"));
    let finished = project(&one, "", &[]).file("team.yaml", &config).success();
    let answers = events(&finished, "answered");
    let ids: Vec<&str> = answers
        .iter()
        .filter_map(|event| event["agent"].as_str())
        .collect();
    assert!(ids.contains(&"a0-1") && ids.contains(&"a0-2"), "{ids:?}");
}

#[test]
fn a_resumed_run_repeats_neither_the_review_nor_a_check() {
    let replies = |answer: &str| {
        format!(
            r#"
- when: {{system: "You review answers"}}
  text: "agent2.1"
- calls: [{{name: new_answer, arguments: {{content: "{answer}"}}}}]
"#
        )
    };
    let agents = [("a", "one"), ("b", "two")]
        .map(|(id, answer)| agent(id, &format!("cwd: {id}"), &replies(answer)));
    let rules = "orchestrator: {strategy: best-of}\nchecks: [{name: app, command: 'true'}]\n";
    let record = FinishedRecord::of(Project::new().config(&team(&agents, rules)).dir("out"));
    let text = String::from_utf8(record.bytes.clone()).unwrap();
    let mut end = 0;
    for line in text.split_inclusive('\n') {
        end += line.len();
        let kinds = [
            "baseline_checked",
            "answered",
            "subagent_finished",
            "winner_selected",
        ];
        if !kinds
            .iter()
            .any(|kind| line.contains(&format!("\"{kind}\"")))
        {
            continue;
        }
        record.cut(end);
        let output = massgen_command(&record.project, &["--continue"])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", describe_output(&output));
        let events = logged(&record.log);
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(
            (count("subagent_started"), count("answered")),
            (1, 2),
            "after {line}"
        );
        assert_eq!(count("baseline_checked"), 1);
        let winner = events
            .iter()
            .find(|event| event["type"] == "winner_selected")
            .unwrap();
        assert_eq!(winner["label"], "agent2.1", "after {line}");
    }
}

#[test]
fn the_checks_run_on_the_untouched_files_first() {
    let answer = "[{calls: [{name: new_answer, arguments: {content: done}}]}]";
    let run = |command: &str| {
        let agents = ["a", "b"].map(|id| {
            agent(id, "cwd: w", "").replace("replies:\n", &format!("replies: {answer}\n"))
        });
        let rest = rules("best-of").replace("sh src/app.sh || test $? = 1", command);
        Project::new()
            .file("team.yaml", team(&agents, &rest))
            .file("src/app.sh", "exit 9\n")
            .args(["--config", "team.yaml", "fix it"])
    };
    let finished = run("sh src/app.sh").failure(1);
    let baseline = &events(&finished, "baseline_checked")[0]["finding"];
    assert_eq!(
        (&baseline["check"], &baseline["verdict"]),
        (&"app".into(), &"failed".into())
    );
    assert!(
        finished
            .stderr()
            .contains("before any answer: app failed: it ended with status 9"),
        "{}",
        finished.stderr()
    );
    let finished = run("true").success();
    assert!(
        finished
            .stderr()
            .contains("the required checks pass on your files as they are"),
        "{}",
        finished.stderr()
    );
    // One that cannot run stops the run before a model is asked.
    let finished = run("sudo true").failure(3);
    assert!(
        finished
            .stderr()
            .contains("the required check `app` cannot run"),
        "{}",
        finished.stderr()
    );
    assert!(events(&finished, "model_request_started").is_empty());
}

#[test]
fn a_check_takes_its_fixed_files_from_the_user() {
    let answer = |command: &str| {
        format!(
            r#"
- when: {{last: "<task>"}}
  calls: [{{name: execute_command, arguments: {{command: "{command}; echo exit status"}}}}]
- calls: [{{name: new_answer, arguments: {{content: "done"}}}}]
"#
        )
    };
    let cheats = [
        "echo exit 0 > tests/app.sh",
        "rm -r tests && mkdir tests && echo exit 0 > tests/app.sh",
        "rm -r tests && mkdir other && echo exit 0 > other/app.sh && ln -s other tests",
        "mkdir tests/new; echo exit 0 > tests/new/app.sh; mv tests/new/app.sh tests/app.sh",
    ];
    let honest = "echo fixed > src/app.sh";
    let mut all_replies: Vec<String> = cheats.iter().map(|command| answer(command)).collect();
    let run_with = |strategy: &str, all_replies: &[String], fixed: &str| {
        let check = format!("checks: [{{name: app, command: 'sh tests/app.sh'{fixed}}}]");
        let rest = rules(strategy);
        let (rest, _) = rest.split_once("checks:").unwrap();
        project(all_replies, &format!("{rest}{check}\n"), &[])
            .file("tests/app.sh", "grep fixed src/app.sh\n")
    };
    let run = |all_replies: &[String], fixed: &str| run_with("best-of", all_replies, fixed);
    let fixed = ", fixed: ['tests/**']";
    // Agents may agree on such an answer: its delivery fails the check as the answer did.
    run_with("consensus", &all_replies[..1], fixed)
        .failure(1)
        .has_file("tests/app.sh", "grep fixed src/app.sh\n");
    let refused = run(&all_replies, fixed)
        .failure(1)
        .has_file("tests/app.sh", "grep fixed src/app.sh\n");
    let warnings = refused
        .stderr()
        .matches("it changes files that the check `app` takes");
    assert_eq!(warnings.count(), cheats.len(), "{}", refused.stderr());
    all_replies.push(answer(honest));
    run(&all_replies, fixed)
        .success()
        .has_file("src/app.sh", "fixed\n");
    // A symlink of the user's names them, too.
    let linked = run(&all_replies[..1], ", fixed: ['checks/**']");
    linked.link("checks", "tests").failure(1);
    // Otherwise each of them passes.
    let finished = run(&all_replies[..cheats.len()], "").run();
    let answers = events(&finished, "answered");
    let passed = answers
        .iter()
        .filter(|event| event["evidence"]["checks"][0]["verdict"] == "passed");
    assert_eq!(passed.count(), cheats.len(), "{answers:#?}");
}

#[test]
fn a_check_that_fails_by_chance_is_run_again() {
    // It fails more often than not, and nothing that it writes is kept.
    let run = |retries: u32| {
        let check = format!(
            "checks: [{{name: app, command: 'test $(($(date +%N | tail -c 2) % 5)) = 0', retries: {retries}}}]"
        );
        let rest = format!("orchestrator: {{strategy: best-of}}\n{check}\n");
        let finished = project(&[replies(0, "")], &rest, &[]).run();
        let answers = events(&finished, "answered");
        answers[0]["evidence"]["checks"][0]["verdict"] == "passed"
    };
    assert!((0..8).any(|_| run(10)));
}

#[test]
fn what_was_checked_is_not_checked_again_unless_something_changed() {
    let checked_deliveries = |rest: &str, all_replies: &[String]| {
        let finished = project(all_replies, rest, &[]).success();
        let checks = events(&finished, "checked");
        let of_delivery = checks.iter().filter(|event| event["subject"] == "delivery");
        of_delivery.count()
    };
    let rest = rules("best-of");
    assert_eq!(checked_deliveries(&rest, &[replies(0, "")]), 0);
    // Before the second agent answers, the user changes a file that no agent touched.
    let late = r#"
- when: {last: "<task>"}
  calls: [{name: execute_command, arguments: {command: "until grep -q tmp .gitignore; do sleep 0.05; done; echo exit status"}}]
- calls: [{name: new_answer, arguments: {content: "late"}}]
"#;
    let project = project(&[replies(0, ""), late.to_owned()], &rest, &[]);
    let mut massgen = project.command().spawn().unwrap();
    wait_until("the first answer is checked", WAIT_TIME_MAX, || {
        let log = event_log(&project).and_then(|log| fs::read_to_string(log).ok());
        log.is_some_and(|log| log.contains("\"checked\""))
    });
    fs::write(project.path(".gitignore"), "*.out\n*.tmp\n").unwrap();
    assert!(massgen.wait().unwrap().success());
    let events = logged(&event_log(&project).unwrap());
    let of_delivery = events.iter().filter(|event| event["subject"] == "delivery");
    assert_eq!(of_delivery.count(), 1);
}
