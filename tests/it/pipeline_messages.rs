//! Messages of the user to the roles of a pipeline, through the real binary: who reads them and when.

use serde_json::json;

use crate::pipeline::pipeline_config;
use crate::project::Project;
use crate::scripted_team::agent;
use crate::steering::{message_to, message_to_all, run_with_messages, send_on, stop_on};

const KEYS: &str = "stages: [understand, implementer]\nproject: none";

/// Answers `heard` this long after it has a message with `text`; before that, it answers `otherwise` after
/// a while.
fn listens(text: &str, heard: &str, delay_ms: u32, otherwise: &str) -> String {
    format!(
        r#"
- when: {{contains: "{text}"}}
  delay_ms: {delay_ms}
  calls: [{{name: new_answer, arguments: {{content: "{heard}"}}}}]
  repeat: true
- delay_ms: 5000
  calls: [{{name: new_answer, arguments: {{content: "{otherwise}"}}}}]
  repeat: true
"#
    )
}

fn project() -> Project {
    project_with_delay(0)
}

/// Returns the project with an implementer that works this long on an answer to a message.
fn project_with_delay(delay_ms: u32) -> Project {
    let understand = listens("be quick", "short", 0, "long");
    let implementer = listens("use Zig", "Zig", delay_ms, "another");
    let agents = [
        agent("understand", "", &understand),
        agent("implementer", "", &implementer),
    ];
    Project::new().config(&pipeline_config(KEYS, &agents, ""))
}

#[test]
fn a_message_is_read_by_the_role_that_works_or_waits_for_its_agent() {
    let messages = [
        send_on(
            "model_request_started",
            "understand",
            message_to_all("be quick"),
        ),
        send_on(
            "user_message",
            "understand",
            message_to("implementer", "use Zig"),
        ),
    ];
    let steered = run_with_messages(project(), &["go"], &messages);
    assert!(steered.answer().starts_with("Zig"), "{}", steered.answer());
    assert_eq!(
        steered.event_fields("user_message", &["number", "agent", "text", "by"]),
        [
            json!([1, "understand", "be quick", "inbox_dir"]),
            json!([2, "implementer", "use Zig", "inbox_dir"])
        ]
    );
    let shown = steered.event_fields("user_messages_shown", &["agent", "numbers"]);
    for expected in [json!(["understand", [1]]), json!(["implementer", [2]])] {
        assert!(shown.contains(&expected), "{shown:?}");
    }
    let answers = steered.event_fields("answered", &["agent", "content"]);
    assert_eq!(
        answers,
        [
            json!(["understand", "short"]),
            json!(["implementer", "Zig"])
        ]
    );
    // A message that waited is read before the first request, so that no reply is in vain.
    let rejected = steered.event_fields("submission_rejected", &["agent"]);
    assert_eq!(rejected, [json!(["understand"])]);
    assert_eq!(
        steered.warnings(),
        [
            "implementer does not work now: your message is read when stage 2 of 2 (implementer) \
             begins: use Zig"
        ]
    );
}

#[test]
fn a_role_that_was_stopped_is_given_its_messages_again() {
    // It is stopped while it works on its answer.
    let project = project_with_delay(4000);
    let messages = [
        send_on(
            "model_request_started",
            "implementer",
            message_to("implementer", "use Zig"),
        ),
        stop_on("user_message", "implementer"),
    ];
    let stopped = run_with_messages(project, &["go"], &messages).into_project();
    // It is stopped once more, after it has been given the message again.
    let stop = [stop_on("user_message", "implementer")];
    let stopped = run_with_messages(stopped, &["--continue"], &stop).into_project();
    let resumed = run_with_messages(stopped, &["--continue"], &[]);
    assert!(resumed.answer().starts_with("Zig"), "{}", resumed.answer());
    let sent = resumed.event_fields("user_message", &["agent", "text", "by"]);
    assert_eq!(sent, [json!(["implementer", "use Zig", "inbox_dir"])]);
    // It is read before the first request.
    let rejected = resumed.event_fields("submission_rejected", &["agent"]);
    assert!(rejected.is_empty(), "{rejected:?}");
}

#[test]
fn a_message_that_no_role_was_given_is_reported() {
    let message = send_on(
        "model_request_started",
        "implementer",
        message_to("understand", "be quick"),
    );
    let steered = run_with_messages(project(), &["go"], &[message]);
    let answer = steered.answer();
    assert!(answer.starts_with("another"), "{answer}");
    assert_eq!(
        steered.warnings(),
        [
            "understand does not work now: no further stage reads your message: be quick",
            "no agent has read your message: be quick"
        ]
    );
    assert!(steered.event_fields("user_message", &["text"]).is_empty());
}
