//! Forms of a server (elicitation) that a person fills in on a real terminal, or a program at a
//! socket.

use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use crate::approvals::start_approval_server_with;
use crate::mcp::{call_results, with_server};
use crate::terminal::Terminal;

/// Starts a run on a terminal whose agent calls the tool `form` of a server that has four seconds for
/// its answers. The config ends with `rest`.
fn start_asking_with(rest: &str) -> Terminal {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py'], timeout_seconds: 4}";
    let project = with_server(server, &[("mcp__h__form", json!({}))], rest);
    let project = project.env("TERM", "xterm").env("NO_COLOR", "1");
    let terminal = Terminal::open(project, 240);
    terminal.wait_for_output(
        "the server `h` asks: How? `color`: of the\\u{1b}[2J door (`red` or `blue`)",
    );
    terminal.wait_for_output("Enter alone: decline");
    terminal
}

fn start_asking() -> Terminal {
    start_asking_with("orchestrator: {}")
}

#[test]
fn a_person_fills_in_a_form_and_takes_their_time() {
    let mut terminal = start_asking();
    // Longer than the server's own timeout for an answer.
    sleep(Duration::from_millis(4500));
    terminal.type_keys("green\r");
    terminal.wait_for_output("write `red` or `blue`");
    terminal.type_keys("red\r");
    terminal.wait_for_output("`count` (a whole number)");
    terminal.wait_for_output("Enter alone: 3; no answer: decline");
    terminal.type_keys("\r");
    terminal.wait_for_output("\"action\": \"accept\"");
    terminal.wait_for_output("\"color\": \"red\"");
    terminal.wait_for_output("\"count\": 3");
}

#[test]
fn an_empty_answer_declines_the_elicitation() {
    let mut terminal = start_asking();
    terminal.type_keys("\r");
    terminal.wait_for_output("\"action\": \"decline\"");
}

/// Control-D, which ends the input.
const CTRL_D: &str = "\u{4}";

#[test]
fn a_field_with_a_default_that_is_not_answered_declines_the_elicitation() {
    let mut terminal = start_asking();
    terminal.type_keys("red\r");
    terminal.wait_for_output("Enter alone: 3; no answer: decline");
    terminal.type_keys(CTRL_D);
    terminal.wait_for_output("\"action\": \"decline\"");
    drop(terminal.wait_for_end(0));
}

#[test]
fn a_form_that_nobody_fills_in_is_declined_in_time() {
    let mut terminal = start_asking_with("permissions: {ask_timeout_seconds: 2}\norchestrator: {}");
    terminal.type_keys("red\r");
    terminal.wait_for_output("Enter alone: 3; no answer: decline");
    terminal.wait_for_output("the question was not answered");
    terminal.wait_for_output("\"action\": \"decline\"");
    drop(terminal.wait_for_end(0));
}

#[test]
fn a_form_that_nobody_fills_in_does_not_outlast_the_run() {
    let limit = "timeout_settings: {orchestrator_timeout_seconds: 3}\norchestrator: {}";
    let terminal = start_asking_with(limit);
    terminal.wait_for_output("no agent answered within 3 seconds");
    drop(terminal.wait_for_end(5));
}

/// Checks the answers of a program for the two fields, how often it is asked, and what the server
/// receives.
#[track_caller]
fn check(color: &'static str, count: &'static str, asked: usize, expected: &[&str]) {
    let server = "{name: h, command: python3, args: ['{{cwd}}/hostile.py']}";
    let project = with_server(server, &[("mcp__h__form", json!({}))], "orchestrator: {}");
    let socket = project.home("ask.sock");
    let approvals = start_approval_server_with(&socket, move |question| {
        let field = question["server_asks"].as_str().unwrap();
        if field.contains("`color`") {
            color
        } else {
            count
        }
    });
    let arguments = ["--config", "team.yaml", "task", "--approval-socket"];
    let finished = project
        .retyped(arguments)
        .args([socket.to_str().unwrap()])
        .success();
    let received = &call_results(&finished)[0];
    for expected in expected {
        assert!(received.contains(expected), "{received}");
    }
    let questions = approvals.requests.lock().unwrap();
    assert_eq!(questions.len(), asked, "{questions:?}");
    let first = "the server `h` asks: How? `color`: of the\\u{1b}[2J door (`red` or `blue`)";
    assert_eq!(questions[0]["server_asks"], first);
    assert_eq!(questions[0]["otherwise"], "Enter alone: decline");
}

#[test]
fn a_program_fills_in_a_form() {
    let blue = "{\"text\": \"blue\"}\n";
    let accepted = ["\"action\": \"accept\"", "\"color\": \"blue\""];
    check(
        blue,
        "{\"text\": \"7\"}\n",
        2,
        &[accepted[0], accepted[1], "\"count\": 7"],
    );
    let default = [accepted[0], accepted[1], "\"count\": 3"];
    check(blue, "{\"text\": \"\"}\n", 2, &default);
    let declined = ["\"action\": \"decline\""];
    check("{}\n", blue, 1, &declined);
    // A default is sent only if it was chosen.
    check(blue, "{}\n", 2, &declined);
    check(blue, "\n", 2, &declined);
    // An invalid color is asked for again; approving everything is not an answer.
    check("{\"text\": \"green\"}\n", blue, 3, &declined);
    check("{\"answer\": \"once\"}\n", blue, 1, &declined);
    check("\n", blue, 1, &declined);
}
