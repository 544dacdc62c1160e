//! OpenAI's Responses API over real HTTP: how the replies of OpenAI and compatible servers are
//! decoded.

use massgen::backend::{BackendError, ReplyEvent};
use massgen::event::StopReason;
use massgen::spending::TokenUsage;
use serde_json::{Value, json};

use crate::http_server::ScriptedResponse;
use crate::openai_wire::{
    call_item, completed_event, event, item, message_item, piece, published_echo, published_output,
    published_stream, start_openai_server, stream_answer,
};
use crate::wire::{call, collect, error_line, simple_request, text};

fn reasoning_event(text: &str) -> ReplyEvent {
    ReplyEvent::Reasoning(text.to_owned())
}

fn usage_event() -> ReplyEvent {
    ReplyEvent::Usage(TokenUsage {
        input_tokens: 120,
        cached_tokens: 100,
        cache_write_tokens: 8,
        output_tokens: 34,
        reasoning_tokens: 20,
    })
}

/// Returns the events of the published stream.
pub(crate) fn published_events() -> Vec<Result<ReplyEvent, BackendError>> {
    let events = [
        reasoning_event("**Read"),
        reasoning_event("ing**"),
        reasoning_event("\n\nTwo files."),
        text("I read b\u{e9}d\u{1f600}."),
        call("call_a", "read_text_file", "{\"path\": \"a.md\"}"),
        call("call_b", "list_directory", "{\"path\": \".\"}"),
        ReplyEvent::Echo(published_echo()),
        usage_event(),
        ReplyEvent::End(StopReason::Done),
    ];
    events.map(Ok).to_vec()
}

/// Returns the events of a simple request to a server that gives this answer.
async fn events_of(answer: ScriptedResponse) -> Vec<Result<ReplyEvent, BackendError>> {
    let (_server, backend) = start_openai_server(answer).await;
    collect(&backend, simple_request()).await
}

/// Checks that a stream of these events has these texts and calls; data to send back is left out.
async fn check_stream(stream: &[String], expected: &[ReplyEvent]) {
    let mut events = events_of(stream_answer(stream)).await;
    events.retain(|event| !matches!(event, Ok(ReplyEvent::Echo(_) | ReplyEvent::Usage(_))));
    let expected: Vec<_> = expected.iter().cloned().map(Ok).collect();
    assert_eq!(events, expected, "{stream:#?}");
}

fn end_event() -> ReplyEvent {
    ReplyEvent::End(StopReason::Done)
}

#[tokio::test]
async fn a_published_stream_becomes_events() {
    let events = events_of(stream_answer(&published_stream())).await;
    assert_eq!(events, published_events());
}

#[tokio::test]
async fn unknown_and_missing_stream_events_are_tolerated() {
    let stream = published_stream().concat();
    let with_strangers = stream.replace(
        "event: response.completed",
        "event: response.novelty.delta\ndata: {\"type\":\"response.novelty.delta\",\
         \"delta\":\"?\",\"output_index\":1}\n\ndata: {\"type\":\"keepalive\"}\n\ndata: 7\n\n\
         event: response.completed",
    );
    let nameless: String = stream
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("event: "))
        .collect();
    let answers = [
        ScriptedResponse::stream().piece(&with_strangers).end(),
        ScriptedResponse::stream().piece(&nameless).end(),
        // How other servers end their streams.
        ScriptedResponse::stream()
            .piece(format!("{stream}data: [DONE]\n\n"))
            .end(),
        // Without a content type or length: the end of the connection is the end of the body.
        ScriptedResponse::raw(format!("HTTP/1.1 200 OK\r\n\r\n{stream}")),
    ];
    for (row, answer) in answers.into_iter().enumerate() {
        assert_eq!(events_of(answer).await, published_events(), "row {row}");
    }
}

#[tokio::test]
async fn a_body_that_is_not_streamed_is_read_too() {
    let body = |status: &str, error: Value, output: Value| {
        let body = json!({"object": "response", "status": status, "error": error,
            "output": output, "usage": {"input_tokens": 5, "output_tokens": 7}});
        let headers = ["content-type: application/json; charset=utf-8"];
        ScriptedResponse::whole("200 OK", &headers, body.to_string())
    };
    let events = events_of(body("completed", Value::Null, published_output())).await;
    assert_eq!(
        events,
        [
            Ok(reasoning_event("**Reading**")),
            Ok(reasoning_event("\n\nTwo files.")),
            Ok(text("I read b\u{e9}d\u{1f600}.")),
            Ok(call("call_a", "read_text_file", "{\"path\": \"a.md\"}")),
            Ok(call("call_b", "list_directory", "{\"path\": \".\"}")),
            Ok(ReplyEvent::Echo(published_echo())),
            Ok(ReplyEvent::Usage(TokenUsage {
                input_tokens: 5,
                output_tokens: 7,
                ..TokenUsage::default()
            })),
            Ok(end_event()),
        ]
    );

    let message = async |answer| events_of(answer).await.pop().unwrap().unwrap_err().message;
    let error = json!({"code": "server_error", "message": "Out of luck."});
    assert_eq!(
        message(body("failed", error, json!([]))).await,
        "`openai` reported an error: Out of luck."
    );
    assert_eq!(
        message(body("in_progress", Value::Null, json!([]))).await,
        "`openai` ended its reply with `in_progress`"
    );
    let empty = ScriptedResponse::whole("200 OK", &["content-type: application/json"], "{}");
    assert_eq!(
        message(empty).await,
        "`openai` sent a malformed reply: the body holds no reply"
    );
}

#[tokio::test]
async fn a_call_counts_once_wherever_it_stands() {
    let announced = |index, id: &str| item("added", index, &call_item(id, id, "f", ""));
    let whole = |index, id: &str| item("done", index, &call_item(id, id, "f", "{\"x\":1}"));
    let output = json!([
        call_item("a", "a", "f", "{\"x\":1}"),
        call_item("b", "b", "f", "{\"x\":1}"),
    ]);
    let arguments = json!({"arguments": "{\"x\":1}"});
    let only_done =
        |index, id: &str| piece("function_call_arguments.done", id, index, arguments.clone());
    let nothing = completed_event(&json!([]));
    let expected = [
        call("a", "f", "{\"x\":1}"),
        call("b", "f", "{\"x\":1}"),
        end_event(),
    ];
    for stream in [
        vec![completed_event(&output)],
        vec![whole(0, "a"), whole(1, "b"), nothing.clone()],
        vec![whole(0, "a"), whole(1, "b"), completed_event(&output)],
        vec![whole(0, "a"), completed_event(&output)],
        vec![
            announced(0, "a"),
            announced(1, "b"),
            completed_event(&output),
        ],
        vec![
            announced(0, "a"),
            announced(1, "b"),
            only_done(1, "b"),
            only_done(0, "a"),
            nothing,
        ],
    ] {
        check_stream(&stream, &expected).await;
    }
}

#[tokio::test]
async fn a_text_that_is_sent_twice_is_emitted_once() {
    let delta = |id: &str, index, delta: &str| {
        piece(
            "output_text.delta",
            id,
            index,
            json!({"content_index": 0, "delta": delta}),
        )
    };
    let done_text = json!({"content_index": 0, "text": "Hello."});
    let text_done = piece("output_text.done", "m", 0, done_text);
    let message = message_item("m", "Hello.");
    let (whole, nothing) = (item("done", 0, &message), completed_event(&json!([])));
    let hello = [text("Hello."), end_event()];
    for stream in [
        vec![completed_event(&json!([message]))],
        vec![whole.clone(), nothing.clone()],
        vec![text_done.clone(), nothing.clone()],
        vec![text_done, whole.clone(), completed_event(&json!([message]))],
        vec![delta("m", 0, "Hel"), delta("m", 0, "lo."), nothing.clone()],
        vec![
            delta("x", 0, "Hel"),
            delta("y", 0, "lo."),
            whole,
            completed_event(&json!([message])),
        ],
    ] {
        check_stream(&stream, &hello).await;
    }
    // Nothing was announced, and a call came before the complete reply.
    let called = item("done", 1, &call_item("fc_a", "a", "f", "{}"));
    let stream = [
        delta("m", 0, "Hello."),
        called,
        completed_event(&json!([message, call_item("fc_a", "a", "f", "{}")])),
    ];
    check_stream(
        &stream,
        &[text("Hello."), call("a", "f", "{}"), end_event()],
    )
    .await;
    // A second message is separated from the first.
    let stream = [
        item(
            "added",
            0,
            &json!({"id": "m", "type": "message", "content": []}),
        ),
        delta("m", 0, "I look."),
        item(
            "added",
            1,
            &json!({"id": "n", "type": "message", "content": []}),
        ),
        delta("n", 1, "It is 42."),
        nothing,
    ];
    check_stream(&stream, &[text("I look.\n\nIt is 42."), end_event()]).await;
}

#[tokio::test]
async fn refusals_are_emitted_like_text() {
    let refusal = json!({"type": "refusal", "refusal": "I may not."});
    let message = json!({"id": "m", "type": "message", "role": "assistant", "content": [refusal]});
    let delta = |delta: &str| {
        let fields = json!({"content_index": 0, "delta": delta});
        piece("refusal.delta", "m", 0, fields)
    };
    let refused = json!({"content_index": 0, "refusal": "I may not."});
    let refused = piece("refusal.done", "m", 0, refused);
    let nothing = completed_event(&json!([]));
    let expected = [text("I may not."), end_event()];
    for stream in [
        vec![
            delta("I may"),
            delta(" not."),
            refused.clone(),
            nothing.clone(),
        ],
        vec![refused, nothing],
        vec![completed_event(&json!([message]))],
    ] {
        check_stream(&stream, &expected).await;
    }
}

#[tokio::test]
async fn plain_reasoning_is_emitted_too() {
    let delta = |kind: &str, part: &str| {
        let fields = json!({"content_index": 0, "delta": part});
        piece(kind, "rs_1", 0, fields)
    };
    let open = json!({"id": "rs_1", "type": "reasoning", "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm. So."}]});
    let stream = [
        item(
            "added",
            0,
            &json!({"id": "rs_1", "type": "reasoning", "summary": []}),
        ),
        delta("reasoning_text.delta", "Hm. "),
        delta("reasoning_text.delta", "So."),
        item("done", 0, &open),
        completed_event(&json!([open])),
    ];
    check_stream(
        &stream,
        &[reasoning_event("Hm. "), reasoning_event("So."), end_event()],
    )
    .await;
    check_stream(
        &[completed_event(&json!([open]))],
        &[reasoning_event("Hm. So."), end_event()],
    )
    .await;
}

#[tokio::test]
async fn the_vendors_own_tools_run_without_us_and_go_back() {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "news"}});
    let code = json!({"id": "ci_1", "type": "code_interpreter_call", "status": "completed",
        "code": "print(1)", "container_id": "cntr_1", "outputs": [{"type": "logs", "logs": "1"}]});
    let message = message_item("msg_1", "News.");
    let annotation = json!({"content_index": 0, "annotation_index": 0,
        "annotation": {"type": "url_citation", "url": "https://example.org"}});
    let stream = [
        item(
            "added",
            0,
            &json!({"id": "ws_1", "type": "web_search_call"}),
        ),
        piece("web_search_call.in_progress", "ws_1", 0, json!({})),
        piece("web_search_call.searching", "ws_1", 0, json!({})),
        piece("web_search_call.completed", "ws_1", 0, json!({})),
        item("done", 0, &search),
        item(
            "added",
            1,
            &json!({"id": "ci_1", "type": "code_interpreter_call"}),
        ),
        piece("code_interpreter_call.in_progress", "ci_1", 1, json!({})),
        piece(
            "code_interpreter_call_code.delta",
            "ci_1",
            1,
            json!({"delta": "print"}),
        ),
        piece(
            "code_interpreter_call_code.done",
            "ci_1",
            1,
            json!({"code": "print(1)"}),
        ),
        piece("code_interpreter_call.interpreting", "ci_1", 1, json!({})),
        piece("code_interpreter_call.completed", "ci_1", 1, json!({})),
        item("done", 1, &code),
        item("done", 2, &message),
        piece("output_text.annotation.added", "msg_1", 2, annotation),
        completed_event(&json!([search, code, message])),
    ];
    let mut echoed_message = message;
    echoed_message.as_object_mut().unwrap().shift_remove("id");
    assert_eq!(
        events_of(stream_answer(&stream)).await,
        [
            Ok(text("News.")),
            Ok(ReplyEvent::Echo(json!([search, code, echoed_message]))),
            Ok(usage_event()),
            Ok(end_event()),
        ]
    );
}

#[tokio::test]
async fn a_reply_may_end_before_it_is_whole() {
    let item = message_item("m", "Half");
    for (reason, expected) in [
        ("max_output_tokens", StopReason::Length),
        ("content_filter", StopReason::Filtered),
        ("a reason of tomorrow", StopReason::Length),
    ] {
        let response = json!({"status": "incomplete", "error": null,
            "incomplete_details": {"reason": reason}, "output": [item]});
        let last = event("response.incomplete", &json!({"response": response}));
        check_stream(&[last], &[text("Half"), ReplyEvent::End(expected)]).await;
    }
}

/// Some servers never update the status.
#[tokio::test]
async fn a_whole_reply_counts_whatever_its_status_says() {
    let item = message_item("m", "Whole");
    for status in ["in_progress", "queued", "failed", "a status of tomorrow"] {
        let response = json!({"status": status, "error": null, "output": [item]});
        let last = event("response.completed", &json!({"response": response}));
        let done = ReplyEvent::End(StopReason::Done);
        check_stream(&[last], &[text("Whole"), done]).await;
    }
    for (name, output) in [("completed", json!([])), ("failed", json!([item]))] {
        let response = json!({"status": "failed", "error": null, "output": output});
        let last = event(&format!("response.{name}"), &json!({"response": response}));
        let line = line_of(stream_answer(&[last])).await;
        assert_eq!(line, "transient: `openai` ended its reply with `failed`");
    }
}

/// Returns the error for an answer, as one line.
async fn line_of(answer: ScriptedResponse) -> String {
    let mut events = events_of(answer).await;
    let error = events.pop().unwrap().unwrap_err();
    assert_eq!(events, [], "{error}");
    error_line(&error)
}

#[tokio::test]
async fn a_failed_reply_is_reported_in_the_vendors_words() {
    let mut lines = Vec::new();
    for (code, message) in [
        ("server_error", "Out of luck."),
        (
            "rate_limit_exceeded",
            "Rate limit reached. Please try again in 11.054s.",
        ),
        (
            "rate_limit_exceeded",
            "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35364.",
        ),
        (
            "context_length_exceeded",
            "Your input is too large. Please adjust your input and try again.",
        ),
        ("insufficient_quota", "You exceeded your current quota."),
        ("invalid_prompt", "Flagged as violating our usage policy."),
        ("content_filter", "The reply was filtered."),
    ] {
        let response = json!({"status": "failed", "output": [], "usage": null,
            "error": {"code": code, "message": message}});
        let failed = event("response.failed", &json!({"response": response}));
        lines.push(line_of(stream_answer(&[failed])).await);
    }
    let nameless = json!({"response": {"status": "failed", "error": null, "output": []}});
    lines.push(line_of(stream_answer(&[event("response.failed", &nameless)])).await);
    insta::assert_snapshot!(lines.join("\n"), @"
    transient: `openai` reported an error: Out of luck.
    transient after 11.054s: `openai` reported an error: Rate limit reached. Please try again in 11.054s.
    too long: `openai` reported an error: Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 35364.
    too long: `openai` reported an error: Your input is too large. Please adjust your input and try again.
    ExhaustedAccount: `openai` reported an error: You exceeded your current quota.
    permanent: `openai` reported an error: Flagged as violating our usage policy.
    permanent: `openai` reported an error: The reply was filtered.
    transient: `openai` ended its reply with `failed`
    ");
}

#[tokio::test]
async fn an_error_in_the_stream_is_reported_in_the_vendors_words() {
    let quota = json!({"error": {"type": "insufficient_quota", "code": "insufficient_quota",
        "message": "You exceeded your current quota.", "param": null}});
    let old = json!({"code": "server_error", "message": "Sorry.", "param": null});
    let stream = |last: String| stream_answer(&[event("response.created", &json!({})), last]);
    let mut lines = Vec::new();
    for last in [
        event("error", &quota),
        event("error", &old),
        "event: error\ndata: overloaded\n\n".to_owned(),
        format!(
            "data: {}\n\n",
            json!({"error": {"message": "Bad gateway.", "code": 502}})
        ),
        "data: {\"type\": \n\n".to_owned(),
        item("done", 0, &json!({"type": "function_call", "call_id": "a"}))
            + &completed_event(&json!([])),
        String::new(),
    ] {
        lines.push(line_of(stream(last)).await);
    }
    insta::assert_snapshot!(lines.join("\n"), @r#"
    ExhaustedAccount: `openai` reported an error: You exceeded your current quota.
    transient: `openai` reported an error: Sorry.
    transient: `openai` reported an error: overloaded
    transient: `openai` reported an error: Bad gateway.
    transient: `openai` sent a malformed reply: EOF while parsing a value at line 1 column 8: {"type":
    transient: `openai` sent a malformed reply: the reply makes a tool call without a name
    transient: `openai` sent an incomplete reply
    "#);
}

#[tokio::test]
async fn a_refused_request_says_what_to_change() {
    let refused = |status: &str, message: &str, code: Value| {
        let body = json!({"error": {"message": message, "type": "invalid_request_error",
            "param": null, "code": code}});
        ScriptedResponse::whole(status, &[], body.to_string())
    };
    let mut lines = Vec::new();
    for answer in [
        refused(
            "400 Bad Request",
            "Encrypted content is not supported with this model.",
            Value::Null,
        ),
        refused(
            "400 Bad Request",
            "Unsupported parameter: 'temperature' is not supported with this model.",
            Value::Null,
        ),
        refused(
            "400 Bad Request",
            "Your input exceeds the context window of this model.",
            json!("context_length_exceeded"),
        ),
    ] {
        lines.push(line_of(answer).await);
    }
    let limited = json!({"error": {"message": "Please try again in 20ms.", "type": "tokens",
        "code": "rate_limit_exceeded"}});
    let limited = |headers: &[&str]| {
        ScriptedResponse::whole("429 Too Many Requests", headers, limited.to_string())
    };
    lines.push(line_of(limited(&[])).await);
    lines.push(line_of(limited(&["retry-after: 2"])).await);
    insta::assert_snapshot!(lines.join("\n"), @"
    invalid request: `openai` answered 400 Bad Request: Encrypted content is not supported with this model. (set `include: null` next to `model` to not request it)
    invalid request: `openai` answered 400 Bad Request: Unsupported parameter: 'temperature' is not supported with this model.
    too long: `openai` answered 400 Bad Request: Your input exceeds the context window of this model.
    transient after 20ms: `openai` answered 429 Too Many Requests: Please try again in 20ms.
    transient after 2s: `openai` answered 429 Too Many Requests: Please try again in 20ms.
    ");
}
