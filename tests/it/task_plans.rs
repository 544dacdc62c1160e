//! Plans that agents keep with `update_plan`, through the real binary: where they are shown and
//! recorded, what is refused, and that a resumed run has the same plans.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::project::{FinishedCommand, Project, copy_tree, events};
use crate::resume::seal_again;
use crate::scripted_team::{FINAL, agent, team};

/// What turns plans on, with a short limit.
const PLANNING: &str =
    "orchestrator: {coordination: {enable_agent_task_planning: true, max_tasks_per_plan: 3}}";

/// Returns a step as a model sends it.
fn plan_step(content: &str, status: &str) -> Value {
    json!({"content": content, "status": status})
}

/// Returns the replies of an agent that sends `plans`, one with each reply, then answers and
/// presents.
fn plan_replies(plans: &[Value]) -> String {
    let mut replies = format!("- when: {{system: \"{FINAL}\"}}\n  text: final\n");
    for entries in plans {
        let arguments = json!({"entries": entries});
        let _ = writeln!(
            replies,
            "- calls: [{{name: update_plan, arguments: {arguments}}}]"
        );
    }
    replies.push_str("- calls: [{name: new_answer, arguments: {content: done}}]\n");
    replies.push_str("- calls: [{name: vote, arguments: {agent_id: agent1, reason: good}}]\n");
    replies
}

fn project(sent: &[Value], rest: &str) -> Project {
    let agents = [agent("ann", "", &plan_replies(sent))];
    Project::new().config(&team(&agents, rest))
}

/// Returns the results of the calls of `update_plan`, or why they were denied.
fn tool_results(finished: &FinishedCommand) -> Vec<String> {
    let called = events(finished, "tool_called").into_iter();
    let denied = called.filter_map(|event| Some(event["denied"].as_str()?.to_owned()));
    let ended = events(finished, "tool_finished")
        .into_iter()
        .map(|event| event["summary"].as_str().unwrap().to_owned());
    denied.chain(ended).collect()
}

#[test]
fn a_plan_is_shown_and_recorded_with_the_answer() {
    let first = json!([
        plan_step("read the\nfiles", "in_progress"),
        plan_step("write", "pending")
    ]);
    let second = json!([
        plan_step("read the files", "completed"),
        plan_step("write", "in_progress")
    ]);
    let finished = project(&[first, second.clone()], PLANNING)
        .args(["--output-format", "stream-json", "go"])
        .success();
    let last = finished.stdout().lines().last().unwrap();
    let result: Value = serde_json::from_str(last).unwrap();
    assert_eq!(result["answers"][0]["plan"], second, "{result:#}");
    let updates = events(&finished, "plan_updated");
    assert_eq!(updates.len(), 2, "{updates:#?}");
    assert_eq!(updates[0]["entries"][0]["content"], "read the files");
    assert_eq!(events(&finished, "answered")[0]["plan"], second);
    assert_eq!(
        tool_results(&finished),
        ["updated: 0 of 2 done", "updated: 1 of 2 done"]
    );

    let shown = finished.then(["logs", "show", "last"]).success();
    let line = "[ann] updates its plan: 1 of 2 done: write";
    assert!(shown.stdout().contains(line), "{}", shown.stdout());
    let records = shown.project().path(".massgen/massgen_logs");
    let mut entries = fs::read_dir(records).unwrap().map(|entry| entry.unwrap());
    let is_run = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("log_");
    let run = entries.find(is_run).unwrap().path();
    let read = |name: &str| fs::read_to_string(run.join("turn_1").join(name)).unwrap();
    let output = read("agent_outputs/ann.txt");
    assert!(output.contains("- in_progress: write"), "{output}");
}

#[test]
fn a_plan_is_written_to_the_workspace_if_the_config_says_so() {
    let plan = |status: &str| json!([plan_step("read the files", status)]);
    let keys = PLANNING.replace(
        "max_tasks",
        "task_planning_filesystem_mode: true, max_tasks",
    );
    let file = "w/tasks/plan.json";
    let project = |rules: &str| {
        let project = Project::new().dir("w");
        let own = format!("cwd: {}\n{rules}", project.path("w").display());
        let agents = [agent(
            "ann",
            &own,
            &plan_replies(&[plan("pending"), plan("completed")]),
        )];
        let project = project.file("team.yaml", team(&agents, &keys));
        project.args(["--config", "team.yaml", "go"])
    };
    let finished = project("").success();
    let written = fs::read_to_string(finished.project().path(file)).unwrap();
    let written: Value = serde_json::from_str(&written).unwrap();
    let task = json!({"id": "1", "description": "read the files", "status": "completed"});
    assert_eq!(written, json!({ "tasks": [task] }));
    // A plan counts although a rule closes its file.
    let finished = project("permissions: {deny: ['write_file(tasks/**)']}").success();
    let finished = finished.has_no(file);
    let results = tool_results(&finished);
    let is_said = |result: &String| result.contains("1 done; its file was not written: ");
    assert!(results.iter().all(is_said), "{results:#?}");
}

#[test]
fn plans_are_off_unless_the_config_turns_them_on_and_are_bounded() {
    #[track_caller]
    fn check(entries: Value, rest: &str, expected: &str) {
        let finished = project(&[entries], rest).args(["go"]).success();
        let results = tool_results(&finished);
        assert!(results[0].contains(expected), "{results:#?}");
        let is_kept = expected.starts_with("updated");
        let updates = events(&finished, "plan_updated");
        assert_eq!(updates.len(), usize::from(is_kept), "{updates:#?}");
    }
    let steps = |count: usize| Value::from(vec![plan_step("x", "pending"); count]);
    check(steps(3), PLANNING, "updated: 0 of 3 done");
    check(steps(0), PLANNING, "updated: 0 of 0 done");
    check(steps(3), "", "do not have the tool `update_plan`");
    check(
        steps(4),
        PLANNING,
        "the plan has 4 entries, and at most 3 are kept",
    );
    check(steps(101), PLANNING, "at most 100 entries");
    check(
        json!([plan_step("x", "begun")]),
        PLANNING,
        "in_progress or completed",
    );
    check(
        json!([plan_step(" \n", "pending")]),
        PLANNING,
        "1 to 500 characters",
    );
    let long = "x".repeat(501);
    check(
        json!([plan_step(&long, "pending")]),
        PLANNING,
        "1 to 500 characters",
    );
    let denied = format!("{PLANNING}\npermissions: {{deny: [tool(update_plan)]}}");
    check(steps(1), &denied, "permissions");
}

#[test]
fn control_sequences_in_a_plan_do_not_reach_the_terminal() {
    let hostile = "\u{1b}[2J\u{202e}evil\u{7}";
    let entries = json!([plan_step(hostile, "in_progress")]);
    let finished = project(std::slice::from_ref(&entries), PLANNING)
        .args(["go"])
        .success();
    assert_eq!(events(&finished, "plan_updated")[0]["entries"], entries);
    let shown = finished.stderr();
    assert!(shown.contains("updates its plan: 0 of 1 done:"), "{shown}");
    assert!(
        !shown.contains(['\u{1b}', '\u{202e}', '\u{7}']),
        "{shown:?}"
    );
}

#[test]
fn a_run_that_is_resumed_after_any_record_has_the_same_plan() {
    let sent = [
        json!([plan_step("a", "in_progress")]),
        json!([plan_step("a", "completed"), plan_step("b", "in_progress")]),
    ];
    // A resumed run's script begins again, so each reply says when it is used.
    let [first, second] = &sent;
    let replies = format!(
        "- when: {{system: \"{FINAL}\"}}\n  text: final\n\
         - when: {{last: \"<task>\"}}\n  calls: [{{name: update_plan, arguments: {{entries: {first}}}}}]\n\
         - when: {{last: \"0 of 1\"}}\n  calls: [{{name: update_plan, arguments: {{entries: {second}}}}}]\n\
         - calls: [{{name: new_answer, arguments: {{content: done}}}}]\n"
    );
    let config = team(&[agent("ann", "", &replies)], PLANNING);
    let finished = Project::new().config(&config).args(["go"]).success();
    let project = finished.then::<&str>([]);
    let (store, state) = (project.path("../kept"), project.path(".massgen"));
    copy_tree(&state, &store);
    let logs = fs::read_dir(state.join("massgen_logs")).unwrap();
    let log: PathBuf = logs
        .flatten()
        .next()
        .unwrap()
        .path()
        .join("turn_1/events.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = |kind: &str| {
        let kind = format!("\"type\":\"{kind}\"");
        lines.iter().position(|line| line.contains(&kind)).unwrap()
    };
    for count in first("replied")..=first("answered") {
        fs::remove_dir_all(&state).unwrap();
        copy_tree(&store, &state);
        fs::write(&log, lines[..count].concat()).unwrap();
        fs::remove_file(log.with_file_name("status.json")).unwrap();
        for session in fs::read_dir(state.join("sessions")).unwrap() {
            let turn = session.unwrap().path().join("turn_1");
            drop(fs::remove_dir_all(&turn));
            fs::create_dir(&turn).unwrap();
        }
        seal_again(&state);
        let output = project.command().arg("--continue").output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cut after {count}: {stderr}");
        let logged = fs::read_to_string(&log).unwrap();
        let logged: Vec<Value> = logged
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of_type = |kind: &str, field: &str| -> Vec<Value> {
            let events = logged.iter().filter(|event| event["type"] == kind);
            events.map(|event| event[field].clone()).collect()
        };
        let plans = of_type("plan_updated", "entries");
        assert_eq!(plans, sent, "cut after {count}: {stderr}");
        assert_eq!(
            of_type("answered", "plan")[0],
            sent[1],
            "cut after {count}: {stderr}"
        );
    }
}
