//! Reasoning that vendors of Chat Completions want back: what is sent, and what follows from a
//! refusal that names it.

use massgen::backend::conversation::{ChatMessage, Conversation};
use massgen::backend::remote::RemoteBackend;
use massgen::backend::{BackendErrorKind, ReplyEvent};
use massgen::config::BackendConfig;
use massgen::config::vendors::ReasoningEcho;
use serde_json::{Value, json};

use crate::chat_wire::{delta, finish};
use crate::decoding::connect;
use crate::http_server::{ScriptedResponse, ScriptedServer};
use crate::wire::{collect, config, simple_request};

const MISSING: &str = "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2";

/// Returns a reply that reasons, and calls a tool.
fn reasoning_answer(reasoning: &Value) -> ScriptedResponse {
    let call = json!([{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]);
    ScriptedResponse::stream()
        .piece(delta(reasoning))
        .piece(delta(&json!({"tool_calls": call})))
        .piece(finish("tool_calls"))
        .end()
}

fn refusal_answer(words: &str) -> ScriptedResponse {
    let body = json!({"error": {"message": words}}).to_string();
    ScriptedResponse::whole("400 Bad Request", &["content-type: application/json"], body)
}

fn final_answer() -> ScriptedResponse {
    ScriptedResponse::stream().piece(finish("stop")).end()
}

/// Asks once, and again with the reply; returns the replies in the second and later requests, and
/// how the last one ended.
async fn ask_again(
    change: impl Fn(&mut BackendConfig),
    reasoning: &Value,
    answers: Vec<ScriptedResponse>,
) -> (Vec<Value>, Option<BackendErrorKind>) {
    let answers = [vec![reasoning_answer(reasoning)], answers].concat();
    let server = ScriptedServer::start(answers).await;
    let mut config = config("chatcompletion", &format!("{}/v1", server.url));
    change(&mut config);
    let backend = connect(&config);
    let conversation = continue_conversation(&backend).await;
    let mut request = simple_request();
    request.conversation = &conversation;
    let mut last = None;
    for _ in 0..2 {
        let events = collect(&backend, request.clone()).await;
        last = events
            .last()
            .unwrap()
            .as_ref()
            .err()
            .map(|error| error.kind);
        if last.is_some() {
            break;
        }
    }
    let requests = server.requests();
    let replies = requests
        .iter()
        .skip(1)
        .map(|request| request.json()["messages"][2].clone());
    (replies.collect(), last)
}

/// Asks once; returns the conversation with the reply.
async fn continue_conversation(backend: &RemoteBackend) -> Conversation {
    let (mut calls, mut echo) = (Vec::new(), None);
    for event in collect(backend, simple_request()).await {
        let event = event.unwrap();
        if let ReplyEvent::Call(call) = &event {
            calls.push(call.clone());
        }
        if let ReplyEvent::Echo(value) = event {
            echo = Some(value);
        }
    }
    let mut messages = simple_request().conversation.messages().to_vec();
    messages.push(ChatMessage::Assistant {
        text: String::new(),
        calls,
        echo,
    });
    messages.push(ChatMessage::CallResult {
        call_id: "a".to_owned(),
        content: "done".to_owned(),
    });
    Conversation::from_messages(messages)
}

#[tokio::test]
async fn a_vendor_that_misses_the_reasoning_is_asked_once_more_with_it() {
    let hm = json!({"reasoning_content": "Hm."});
    let unchanged = |_: &mut BackendConfig| {};
    let answers = || vec![refusal_answer(MISSING), final_answer(), final_answer()];
    let (replies, end) = ask_again(unchanged, &hm, answers()).await;
    let sent: Vec<&Value> = replies
        .iter()
        .map(|reply| &reply["reasoning_content"])
        .collect();
    // Later requests have it from the beginning.
    assert_eq!(sent, [&Value::Null, &json!("Hm."), &json!("Hm.")]);
    assert_eq!(end, None);
    // Under another name, and if the model did not reason before this call.
    for (reasoning, expected) in [(json!({"reasoning": "Hm."}), "Hm."), (json!({}), "")] {
        let (replies, end) = ask_again(unchanged, &reasoning, answers()).await;
        assert_eq!(replies[1]["reasoning_content"], expected);
        assert_eq!(end, None);
    }
}

#[tokio::test]
async fn other_refusals_and_a_second_one_are_errors() {
    let hm = json!({"reasoning_content": "Hm."});
    let invalid = Some(BackendErrorKind::InvalidRequest);
    let (replies, end) = ask_again(|_| {}, &hm, vec![refusal_answer("no such field")]).await;
    assert_eq!((replies.len(), end), (1, invalid));
    let twice = vec![refusal_answer(MISSING), refusal_answer(MISSING)];
    let (replies, end) = ask_again(|_| {}, &hm, twice).await;
    assert_eq!((replies.len(), end), (2, invalid));
    let off = |config: &mut BackendConfig| config.reasoning_echo = Some(ReasoningEcho::Refused);
    let (replies, end) = ask_again(off, &hm, vec![refusal_answer(MISSING)]).await;
    assert_eq!((replies.len(), end), (1, invalid));
}

#[tokio::test]
async fn a_model_or_a_key_says_that_the_reasoning_is_sent_unless_the_server_refuses_it() {
    let hm = json!({"reasoning_content": "Hm."});
    let by_name = |config: &mut BackendConfig| config.model = "moonshotai/Kimi-K2.5".to_owned();
    let by_key = |config: &mut BackendConfig| config.reasoning_echo = Some(ReasoningEcho::Wanted);
    let changes: [fn(&mut BackendConfig); 2] = [by_name, by_key];
    for change in changes {
        let (replies, _) = ask_again(change, &hm, vec![final_answer(), final_answer()]).await;
        assert_eq!(replies[0]["reasoning_content"], "Hm.");
    }
    let (replies, _) = ask_again(|_| {}, &hm, vec![final_answer(), final_answer()]).await;
    assert_eq!(replies[0]["reasoning_content"], Value::Null);
    // The field that the server has used.
    let other = json!({"reasoning": "Hm."});
    let (replies, _) = ask_again(by_name, &other, vec![final_answer(), final_answer()]).await;
    assert_eq!(replies[0]["reasoning"], "Hm.");
    assert_eq!(replies[0]["reasoning_content"], Value::Null);
    let unknown = refusal_answer("property 'reasoning_content' is unsupported");
    let (replies, end) =
        ask_again(by_name, &hm, vec![unknown, final_answer(), final_answer()]).await;
    let sent: Vec<&Value> = replies
        .iter()
        .map(|reply| &reply["reasoning_content"])
        .collect();
    assert_eq!(sent, [&json!("Hm."), &Value::Null, &Value::Null]);
    assert_eq!(end, None);
}

#[tokio::test]
async fn openrouter_gets_its_reasoning_details_back() {
    let details = json!([{"type": "reasoning.encrypted", "index": 0, "data": "c2ln", "id": "a"}]);
    let reasoning = json!({"reasoning": "Hm.", "reasoning_details": details});
    let openrouter = |config: &mut BackendConfig| {
        config.vendor = massgen::config::vendors::find_vendor("openrouter").unwrap();
    };
    let (replies, _) =
        ask_again(openrouter, &reasoning, vec![final_answer(), final_answer()]).await;
    assert_eq!(replies[0]["reasoning_details"], details);
    assert_eq!(replies[0]["reasoning"], Value::Null);
    let (replies, _) = ask_again(|_| {}, &reasoning, vec![final_answer(), final_answer()]).await;
    assert_eq!(replies[0]["reasoning_details"], Value::Null);
}
