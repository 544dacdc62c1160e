//! Subagents, through the real binary: an agent uses their results and wins; each may do less than
//! its agent; they end with their limits; and a run with them is resumed and replayed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests look at the disk themselves"
)]

use std::collections::BTreeMap;
use std::thread::scope;
use std::time::{Duration, Instant};

use massgen::agent::subagents::SUBAGENTS_MAX;
use massgen::tools::arguments::SUBAGENT_TASKS_MAX;
use serde_json::Value;

use crate::project::{Finished, Project, events};
use crate::resume::{Whole, describe_output, events as logged, massgen};
use crate::scripted_team::{agent, answers, team};

const ENABLED: &str = "orchestrator:\n  coordination: {enable_subagents: true}\n";
const ENABLED_WITH_OUT: &str = "orchestrator:\n  coordination: {enable_subagents: true}\n  \
                                context_paths: [{path: out, permission: write, \
                                hidden_paths: [secret]}]\n";

/// Has two subagents count, and answers with what they found.
const COUNTS: &str = r#"
- when: {system: "the final agent"}
  text: "final: 3 apples and 5 pears"
- when: {system: "You are a subagent", last: "count apples"}
  usage: {input_tokens: 10, output_tokens: 1}
  calls: [{name: write_file, arguments: {path: "apples.txt", content: "3\n"}}]
- when: {system: "You are a subagent", last: "apples.txt"}
  usage: {input_tokens: 20, output_tokens: 2}
  text: "three apples"
- when: {system: "You are a subagent", last: "count pears"}
  calls: [{name: read_text_file, arguments: {path: "../../basket.txt"}}]
- when: {system: "You are a subagent", last: "pears: 5"}
  text: "five pears"
- when: {last: "</task>"}
  usage: {input_tokens: 100, output_tokens: 7}
  calls: [{name: write_file, arguments: {path: "basket.txt", content: "pears: 5\n"}}]
- when: {last: "basket.txt"}
  calls:
    - name: spawn_subagents
      arguments: {tasks: [{id: apples, task: "count apples"}, {id: pears, task: "count pears"}]}
- when: {last: "five pears"}
  calls: [{name: new_answer, arguments: {content: "3 apples and 5 pears"}}]
- calls: [{name: vote, arguments: {agent_id: agent1, reason: "counted"}}]
  repeat: true
"#;

fn counting_team() -> String {
    let agents = [
        agent("a", "cwd: wa", COUNTS),
        agent("b", "cwd: wb", &answers("b", "agent1", 0)),
    ];
    team(&agents, ENABLED_WITH_OUT)
}

/// Returns the recorded events of the only run.
fn log(finished: &Finished) -> Vec<Value> {
    let log = crate::resume::log(finished.project()).unwrap();
    logged(&log)
}

/// Returns the results that the agent read of its only call of `spawn_subagents`.
fn results(finished: &Finished) -> Value {
    let events = log(finished);
    let is_result =
        |event: &&Value| event["type"] == "tool_finished" && event["tool"] == "spawn_subagents";
    let finished = events.iter().rfind(is_result).unwrap();
    let content = finished["content"]
        .as_str()
        .or(finished["summary"].as_str());
    serde_json::from_str(content.unwrap()).unwrap()
}

/// Returns why the calls of subagents were denied, by tool and arguments; empty if one was not.
fn calls(finished: &Finished) -> BTreeMap<String, String> {
    let events = log(finished);
    let calls = events.iter().filter(|event| {
        event["type"] == "subagent_tool" && event["event"]["type"] == "tool_called"
    });
    let calls = calls.map(|event| {
        let field = |name: &str| event["event"][name].as_str().unwrap_or_default().to_owned();
        (
            format!("{} {}", field("tool"), field("arguments")),
            field("denied"),
        )
    });
    calls.collect()
}

#[test]
fn an_agent_wins_with_the_results_of_its_subagents() {
    let project = Project::new().config(&counting_team()).dir("out");
    let finished = project.args(["--output-format", "json", "go"]).success();
    let result: Value = serde_json::from_str(finished.stdout()).unwrap();
    assert_eq!(result["answer"], "final: 3 apples and 5 pears", "{result}");
    // What they used is their agent's, in every sum.
    let used = &result["usage"]["by_agent"]["a"];
    assert_eq!(used["input_tokens"], 130, "{result}");
    let read = results(&finished);
    assert_eq!(read["success"], true, "{read}");
    let [apples, pears] = [&read["results"][0], &read["results"][1]];
    assert_eq!(apples["answer"], "three apples", "{read}");
    assert_eq!(apples["files"][0], "apples.txt", "{read}");
    assert_eq!(apples["workspace"], ".subagents/apples", "{read}");
    assert_eq!(pears["answer"], "five pears", "{read}");
    let started = events(&finished, "subagent_started");
    assert_eq!(started.len(), 2, "{started:?}");
    let ended = events(&finished, "subagent_finished");
    assert!(
        ended.iter().all(|event| event["status"] == "completed"),
        "{ended:?}"
    );
    let status = crate::resume::log(finished.project()).unwrap();
    let status = std::fs::read_to_string(status.with_file_name("status.json")).unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        status["token_usage"]["agents"]["a"]["input_tokens"], 130,
        "{status}"
    );
    // Their directories are no part of the result.
    finished
        .has_file("out/basket.txt", "pears: 5\n")
        .has_no("out/.subagents")
        .then(["replay", "last"])
        .success();
}

#[test]
fn every_view_shows_subagents() {
    let project = Project::new().config(&counting_team()).dir("out");
    let finished = project.args(["go"]).success();
    let lines = finished.stderr();
    for line in [
        "starts subagent apples: count apples",
        "subagent pears calls read_text_file",
        "subagent apples completed",
        "a 130 tokens read",
    ] {
        assert!(lines.contains(line), "{line}: {lines}");
    }
}

/// Answers at once; in the final phase it has a subagent try what itself may do, and then does it.
const TRIES: &str = r#"
- when: {system: "You are a subagent", last: "</task>"}
  calls:
    - {name: write_file, arguments: {path: "own.txt", content: "x"}}
    - {name: write_file, arguments: {path: "../sibling/x.txt", content: "x"}}
    - {name: write_file, arguments: {path: "../../parent.txt", content: "x"}}
    - {name: write_file, arguments: {path: "{{cwd}}/out/x.txt", content: "x"}}
    - {name: read_text_file, arguments: {path: "{{cwd}}/out/given.txt"}}
    - {name: read_text_file, arguments: {path: "{{cwd}}/out/secret/key"}}
    - {name: read_text_file, arguments: {path: "{{cwd}}/elsewhere.txt"}}
    - {name: spawn_subagents, arguments: {tasks: [{id: deeper, task: "more"}]}}
    - {name: new_answer, arguments: {content: "mine"}}
    - {name: vote, arguments: {agent_id: agent1, reason: "mine"}}
    - {name: execute_code, arguments: {code: "1"}}
    - {name: execute_command, arguments: {command: "echo y > by-command.txt; echo y > ../../parent.txt; echo y > '{{cwd}}/out/x.txt'; echo home > ~/.profile"}}
- when: {system: "You are a subagent"}
  text: "tried"
- when: {system: "the final agent", last: "tried"}
  calls:
    - {name: write_file, arguments: {path: "{{cwd}}/out/x.txt", content: "from the agent"}}
    - {name: write_file, arguments: {path: "parent.txt", content: "from the agent"}}
    - {name: execute_command, arguments: {command: "cat ~/.profile; echo z > '{{cwd}}/out/z.txt'"}}
- when: {system: "the final agent", last: "x.txt"}
  text: "final"
- when: {system: "the final agent"}
  calls: [{name: spawn_subagents, arguments: {tasks: [{id: tester, task: "try"}]}}]
- calls: [{name: new_answer, arguments: {content: "an answer"}}]
"#;

#[test]
fn a_subagent_may_do_less_than_its_agent() {
    let keys = "cwd: wa\nenable_mcp_command_line: true";
    let finished = Project::new()
        .config(&team(&[agent("a", keys, TRIES)], ENABLED_WITH_OUT))
        .file("out/given.txt", "given\n")
        .file("out/secret/key", "k\n")
        .file("elsewhere.txt", "e\n")
        .args(["go"])
        .success();
    let calls = calls(&finished);
    let denied = |part: &str| {
        let (_, denied) = calls.iter().find(|(call, _)| call.contains(part)).unwrap();
        denied.as_str()
    };
    for (part, expected) in [
        ("\"own.txt\"", ""),
        ("sibling/x.txt", "denied: write"),
        ("../../parent.txt\"", "denied: write"),
        ("write_file {\"path\":\"/", "denied: write"),
        ("given.txt", ""),
        ("secret/key", "denied: read"),
        ("elsewhere.txt", "denied: read"),
        ("spawn_subagents", "you do not have the tool"),
        ("new_answer", "only your agent answers and votes"),
        ("vote", "only your agent answers and votes"),
        ("execute_code", "you do not have the tool"),
        ("execute_command", ""),
    ] {
        let said = denied(part);
        let is_expected = said.contains(expected) && said.is_empty() == expected.is_empty();
        assert!(is_expected, "{part}: {calls:#?}");
    }
    let own = finished.project().path(".massgen/workspaces/wa");
    let text = |path: &str| std::fs::read_to_string(own.join(path)).unwrap_or_default();
    assert_eq!(text(".subagents/tester/by-command.txt"), "y\n");
    // What its command wrote to its home is not in the home of its agent's commands.
    let events = log(&finished)
        .into_iter()
        .filter(|event| event["type"] == "tool_finished" && event["tool"] == "execute_command");
    let of_agent: Vec<String> = events.map(|event| event.to_string()).collect();
    assert!(!of_agent.concat().contains("home"), "{of_agent:?}");
    // The control: its agent may do all this.
    assert_eq!(text("parent.txt"), "from the agent");
    finished
        .has_file("out/x.txt", "from the agent")
        .has_file("out/z.txt", "z\n");
}

#[test]
fn without_the_key_there_are_no_subagents() {
    let project = Project::new().config(&counting_team().replace("enable_subagents: true", ""));
    let finished = project.dir("out").args(["go"]).run();
    assert!(events(&finished, "subagent_started").is_empty());
    let refused = events(&finished, "tool_called");
    let refused = refused
        .iter()
        .find(|event| event["tool"] == "spawn_subagents");
    assert_eq!(refused.unwrap()["rule"], "not-offered");
}

/// Starts as many subagents as it may, and one more.
fn starts_many() -> String {
    let mut calls = String::new();
    for call in 0..=SUBAGENTS_MAX / SUBAGENT_TASKS_MAX {
        let task = |number: usize| format!("{{id: s{call}-{number}, task: work}}");
        let tasks: Vec<String> = (0..SUBAGENT_TASKS_MAX).map(task).collect();
        calls.push_str(&format!(
            "    - {{name: spawn_subagents, arguments: {{tasks: [{}]}}}}\n",
            tasks.join(", ")
        ));
    }
    format!(
        "- when: {{system: \"You are a subagent\"}}\n  text: \"done\"\n  repeat: true\n\
         - when: {{last: \"</task>\"}}\n  calls:\n{calls}\
         - calls: [{{name: new_answer, arguments: {{content: \"enough\"}}}}]\n"
    )
}

#[test]
fn the_number_of_subagents_is_limited() {
    let config = team(&[agent("a", "cwd: wa", &starts_many())], ENABLED);
    let finished = Project::new().config(&config).args(["go"]).success();
    assert_eq!(finished.stdout(), "enough\n");
    assert_eq!(events(&finished, "subagent_started").len(), SUBAGENTS_MAX);
    let refused = results(&finished);
    assert_eq!(refused["success"], false);
    let error = refused["error"].as_str().unwrap();
    assert!(error.starts_with("you may start 32 subagents"), "{error}");
}

/// A subagent takes longer than it may, and its agent answers all the same.
const SLOW: &str = r#"
- when: {system: "You are a subagent"}
  usage: {input_tokens: 900, output_tokens: 100}
  calls: [{name: list_directory}]
- when: {last: "</task>"}
  calls: [{name: spawn_subagents, arguments: {tasks: [{id: slow, task: "wait"}]}}]
- calls: [{name: new_answer, arguments: {content: "without it"}}]
"#;

#[track_caller]
fn check_end(rest: &str, replies: &str, expected: (&str, &str)) {
    let config = team(&[agent("a", "cwd: wa", replies)], rest);
    let began = Instant::now();
    let finished = Project::new().config(&config).args(["go"]).run();
    let ended = events(&finished, "subagent_finished");
    assert_eq!(ended.len(), 1, "{}", finished.stderr());
    let (status, reason) = expected;
    assert_eq!(ended[0]["status"], status, "{ended:?}");
    let said = ended[0]["reason"].as_str().unwrap();
    assert!(said.contains(reason), "{said}");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn time_tokens_and_requests_of_subagents_are_limited() {
    let waits = SLOW.replace("  usage:", "  delay_ms: 60000\n  usage:");
    let a_second = "orchestrator:\n  coordination: {enable_subagents: true, \
                    subagent_default_timeout: 1}\n";
    check_end(a_second, &waits, ("timeout", "no result after 1 s"));
    let few_tokens = format!("{ENABLED}limits: {{max_tokens_total: 500}}\n");
    check_end(&few_tokens, SLOW, ("failed", "tokens of at most 500"));
    let lists = SLOW.replace(
        "calls: [{name: list_directory}]",
        "calls: [{name: list_directory}]\n  repeat: true",
    );
    let few_steps = format!("{ENABLED}limits: {{max_steps_per_round: 3}}\n");
    check_end(&few_steps, &lists, ("failed", "no result after 3 requests"));
    let fails = SLOW.replace(
        "  usage:",
        "  error: {message: \"no such model\"}\n  usage:",
    );
    check_end(ENABLED, &fails, ("failed", "no such model"));
    // The end of the turn ends them.
    let stops = format!("{ENABLED}timeout_settings: {{orchestrator_timeout_seconds: 1}}\n");
    check_end(&stops, &waits, ("cancelled", "the call was cancelled"));
}

/// Counts the events of each type by agent, and those of subagents by what they are about.
fn counts(events: &[Value]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for event in events {
        let inner = event["event"]["type"].as_str().unwrap_or_default();
        let kind = format!("{} {inner}", event["type"].as_str().unwrap());
        let repeats = ["model_request", "text", "warning", "sandbox_selected"];
        if !repeats.iter().any(|part| kind.contains(part)) {
            let subagent = event["subagent"].as_str().unwrap_or_default();
            *counts
                .entry(format!("{kind} {} {subagent}", event["agent"]))
                .or_default() += 1;
        }
    }
    counts
}

/// Number of runs at the same time.
const AT_ONCE: usize = 4;

#[test]
fn a_run_with_subagents_can_be_resumed_after_every_record() {
    scope(|scope| {
        for first in 0..AT_ONCE {
            scope.spawn(move || {
                let config = counting_team();
                let whole = Whole::of(Project::new().config(&config).dir("out"));
                let expected = counts(&logged(&whole.log));
                let ends = whole.bytes.iter().enumerate();
                // Before the run has started, nothing is resumed.
                let text = String::from_utf8_lossy(&whole.bytes);
                let started = text.find("\"run_started\"").unwrap();
                let ends = ends.filter(|(at, byte)| **byte == b'\n' && *at > started);
                let ends: Vec<usize> = ends.map(|(at, _)| at + 1).collect();
                for len in ends[..ends.len() - 2].iter().skip(first).step_by(AT_ONCE) {
                    whole.cut(*len);
                    let output = massgen(&whole.project, &["--continue"]).output().unwrap();
                    let note = format!("cut at {len}: {}", describe_output(&output));
                    assert!(output.status.success(), "{note}");
                    assert_eq!(output.stdout, b"final: 3 apples and 5 pears\n", "{note}");
                    assert_eq!(counts(&logged(&whole.log)), expected, "{note}");
                }
            });
        }
    });
}
