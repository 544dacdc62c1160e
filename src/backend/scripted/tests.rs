//! Tests the replies of scripts, and the errors for malformed ones.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::backend::conversation::Conversation;
use crate::backend::scripted::script::RecordingEnd;
use crate::path::AbsPath;
use crate::tools::spec::ToolOffer;

fn scripted_backend(script: &str) -> ScriptedBackend {
    let cwd = AbsPath::new("/home/ada/project").unwrap();
    ScriptedBackend::new(ScriptedReplies::parse(script, "script.yaml", &cwd).unwrap())
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::User(text.into())
}

fn assistant(calls: &[&str]) -> ChatMessage {
    let call = |id: &&str| CallRequest {
        id: (*id).to_owned(),
        name: "vote".to_owned(),
        arguments: "{}".to_owned(),
    };
    ChatMessage::Assistant {
        text: String::new(),
        calls: calls.iter().map(call).collect(),
        echo: None,
    }
}

fn result(id: &str) -> ChatMessage {
    ChatMessage::CallResult {
        call_id: id.to_owned(),
        content: "done".to_owned(),
    }
}

fn request(conversation: &Conversation) -> ModelRequest<'_> {
    let vote = ToolOffer {
        name: "vote".into(),
        description: String::new(),
        parameters: json!({}),
    };
    ModelRequest {
        system: "You are in the coordination phase.".into(),
        conversation,
        tools: Arc::new([vote]),
    }
}

/// Returns the events of one reply, each as a line.
fn ask(backend: &ScriptedBackend, messages: &[ChatMessage]) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let line = async |event| match event {
        Ok(event) => format!("{event:?}"),
        Err(BackendError { kind, message }) => format!("{kind:?}: {message}"),
    };
    let conversation = Conversation::from_messages(messages.to_vec());
    runtime.block_on(backend.ask(request(&conversation)).then(line).collect())
}

#[test]
fn a_reply_has_its_parts_in_order() {
    let backend = scripted_backend(
        "replies:
           - reasoning: Hm.
             text: I read {{cwd}}/a.md first.
             calls:
               - {name: read_text_file, arguments: {path: '{{cwd}}/a.md', head: 3}}
               - {name: list_directory, arguments: '{broken'}
               - {name: vote}
             usage: {input_tokens: 10, output_tokens: 5}
             stop: length",
    );
    let events = ask(&backend, &[user("Go.")]);
    insta::assert_snapshot!(events.join("\n"), @r#"
    Reasoning("Hm.")
    Text("I read /home/ada/project/a.md first.")
    Call(CallRequest { id: "call_1_0", name: "read_text_file", arguments: "{\"path\":\"/home/ada/project/a.md\",\"head\":3}" })
    Call(CallRequest { id: "call_1_1", name: "list_directory", arguments: "{broken" })
    Call(CallRequest { id: "call_1_2", name: "vote", arguments: "{}" })
    Usage(TokenUsage { input_tokens: 10, cached_tokens: 0, cache_write_tokens: 0, output_tokens: 5, reasoning_tokens: 0 })
    End(Length)
    "#);
}

#[test]
fn errors_and_cuts_end_a_reply_without_its_end() {
    let backend = scripted_backend(
        "replies:
           - error: {message: overloaded, transient: true, retry_after_seconds: 2}
           - {text: Half, error: {message: gone}}
           - {text: Half, calls: [{name: vote}], cut: true}",
    );
    let next = || ask(&backend, &[user("Go.")]);
    assert_eq!(next(), ["Transient { retry_after: Some(2s) }: overloaded"]);
    assert_eq!(next(), ["Text(\"Half\")", "Permanent: gone"]);
    assert_eq!(next(), ["Text(\"Half\")"]);
}

#[test]
fn a_slow_reply_comes_word_by_word() {
    let backend =
        scripted_backend("replies: [{text: one two, delay_ms: 1000, chunk_delay_ms: 2000}]");
    let conversation = Conversation::from_messages(vec![user("Go.")]);
    let events = backend.next_events(&request(&conversation)).unwrap();
    let events: Vec<String> = events
        .iter()
        .map(|timed| format!("{:?} {:?}", timed.pause, timed.event))
        .collect();
    assert_eq!(
        events,
        [
            "1s Ok(Text(\"one \"))",
            "2s Ok(Text(\"two\"))",
            "2s Ok(End(Done))"
        ]
    );
}

#[test]
fn the_first_reply_whose_condition_holds_is_given_once() {
    let backend = scripted_backend(
        "replies:
           - {when: {contains: secret}, text: anywhere}
           - {when: {last: done}, text: after a result, repeat: true}
           - {when: {system: final phase}, text: never}
           - {when: {offers: vote, lacks: submit, last: ballot}, text: voting}
           - {when: {lacks: vote}, text: never}
           - {text: plain}",
    );
    let first_event = |messages: Vec<ChatMessage>| ask(&backend, &messages).swap_remove(0);
    let go = || vec![user("Go.")];
    let after_result = || vec![user("Go."), assistant(&["a"]), result("a")];
    let secret = vec![user("The secret."), assistant(&[]), user("Go on.")];

    assert_eq!(first_event(secret), "Text(\"anywhere\")");
    assert_eq!(first_event(after_result()), "Text(\"after a result\")");
    assert_eq!(first_event(after_result()), "Text(\"after a result\")");
    assert_eq!(first_event(vec![user("The ballot.")]), "Text(\"voting\")");
    assert_eq!(first_event(go()), "Text(\"plain\")");
    insta::assert_snapshot!(first_event(go()), @"Permanent: the script has no reply for this request, which follows 0 replies and ends in `Go.`: `replies[1]` waits for `last: done`; `replies[2]` waits for `system: final phase`; `replies[4]` waits for `lacks: vote`");
}

#[test]
fn an_exhausted_script_says_so() {
    let backend = scripted_backend("replies: [{text: once}]");
    ask(&backend, &[user("Go.")]);
    let events = ask(&backend, &[user("Go."), assistant(&[]), user("Again.")]);
    insta::assert_snapshot!(events.join("\n"), @"Permanent: the script has no reply for this request, which follows 1 replies and ends in `Again.`: all of its replies are used");
}

#[test]
fn a_request_must_hold_one_result_for_each_call() {
    #[track_caller]
    fn check(messages: &[ChatMessage], expected: Option<&str>) {
        let backend = scripted_backend("replies: [{text: fine}]");
        let events = ask(&backend, messages);
        let expected = match expected {
            Some(violation) => vec![format!("Permanent: the request is malformed: {violation}")],
            None => vec!["Text(\"fine\")".to_owned(), "End(Done)".to_owned()],
        };
        assert_eq!(events, expected);
    }

    let both = || assistant(&["a", "b"]);
    check(&[user("Go."), both(), result("b"), result("a")], None);
    check(
        &[user("Go."), both(), result("a"), result("b"), user("On.")],
        None,
    );
    check(
        &[user("Go."), both(), result("a")],
        Some("the call `b` has no result"),
    );
    check(
        &[user("Go."), both(), result("a"), user("On."), result("b")],
        Some("the call `b` has no result"),
    );
    let twice = "there is a result for the call `a`, which has one already or was never made";
    check(
        &[user("Go."), both(), result("a"), result("a"), result("b")],
        Some(twice),
    );
    check(&[user("Go."), result("a")], Some(twice));
    check(
        &[
            user("Go."),
            assistant(&["a"]),
            result("a"),
            assistant(&["a"]),
        ],
        Some("two calls have the id `a`"),
    );
}

#[test]
fn a_malformed_script_is_named_with_the_place() {
    #[track_caller]
    fn message(script: &str) -> String {
        let cwd = AbsPath::new("/").unwrap();
        let error = ScriptedReplies::parse(script, "s.yaml", &cwd).unwrap_err();
        error.to_string()
    }

    let lines = [
        message("replies: []"),
        message("reply: []"),
        message("replies:\n  - txt: hello\n"),
        message("replies:\n  - when: {containing: x}\n"),
        message("replies:\n  - calls: [{arguments: {}}]\n"),
        message("replies:\n  - stop: soon\n"),
        message("replies: [\n"),
    ];
    insta::assert_snapshot!(lines.join("\n"), @"
    the script has no replies
    the script `s.yaml` is malformed: unknown field `reply`, expected `replies` at line 1, column 1
    the script `s.yaml` is malformed: unknown field `txt`, expected one of `when`, `reasoning`, `text`, `calls`, `usage`, `stop`, `error`, `cut`, `delay_ms`, `chunk_delay_ms`, `repeat` at line 2, column 5
    the script `s.yaml` is malformed: unknown field `containing`, expected one of `contains`, `system`, `last`, `offers`, `lacks` at line 2, column 12
    the script `s.yaml` is malformed: missing field `name` at line 2, column 13
    the script `s.yaml` is malformed: unknown variant `soon`, expected one of `done`, `length`, `filtered`, `paused` at line 2, column 11
    the script `s.yaml` is malformed: not valid YAML: unclosed bracket '[' at line 1, column 10
    ");

    let inline = json!([{"text": "fine"}, {"calls": [{"name": 3}]}]);
    let cwd = AbsPath::new("/").unwrap();
    let error = ScriptedReplies::from_list(&inline, &[5, 7], &cwd).unwrap_err();
    insta::assert_snapshot!(error, @"`replies[1]` is malformed: invalid type: integer `3`, expected a string at line 7");
}

#[test]
fn a_recording_that_is_cut_at_any_byte_costs_its_last_reply_at_most() {
    let head = "# massgen recording of agent a\nreplies:\n";
    let lines = [
        "- {\"text\":\"one: {{cwd}}\\n- two\",\"usage\":{\"input_tokens\":3}}\n",
        "- {\"calls\":[{\"name\":\"vote\",\"arguments\":{\"agent_id\":\"agent1\"}}]}\n",
        "- {\"error\":{\"message\":\"no\"}}\n",
    ];
    let text = format!("{head}{}", lines.concat());
    let mut whole = 0;
    let mut ends: Vec<usize> = vec![head.len()];
    ends.extend(lines.iter().scan(head.len(), |end, line| {
        *end += line.len();
        Some(*end)
    }));
    let beginning = |cut| text.get(..cut).unwrap();
    for cut in 0..=text.len() {
        let (list, wholeness) = ScriptedReplies::parse_recording(beginning(cut), "a.yaml").unwrap();
        let complete = ends.iter().skip(1).filter(|end| cut + 1 >= **end).count();
        assert_eq!(list.len(), complete, "{:?}", beginning(cut));
        whole += usize::from(wholeness == RecordingEnd::Complete);
    }
    assert_eq!(whole, 6, "with and without the last line break");
    let (list, _) = ScriptedReplies::parse_recording(&text, "a.yaml").unwrap();
    assert_eq!(list.replies[0].text, "one: {{cwd}}\n- two", "to the letter");
    let long = format!("{head}{}", lines[1].repeat(60_000));
    let (list, _) = ScriptedReplies::parse_recording(&long, "a.yaml").unwrap();
    assert_eq!(
        list.len(),
        60_000,
        "more values than one YAML text may have"
    );
}

#[test]
fn a_recording_that_was_corrupted_is_an_error() {
    let text = "# massgen recording\nreplies:\n- {\"txt\": 1}\n- {}\n";
    let error = ScriptedReplies::parse_recording(text, "a.yaml").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("reply 1 of the recording `a.yaml` cannot be read"),
        "{error}"
    );
}
