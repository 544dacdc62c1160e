//! Helpers for tests of all wire formats: backends of a server on loopback, requests, and the
//! events of replies.

use std::sync::{Arc, LazyLock};

use futures_util::StreamExt;
use massgen::backend::conversation::{ChatMessage, Conversation};
use massgen::backend::remote::RemoteBackend;
use massgen::backend::{Backend, BackendError, BackendErrorKind, ModelRequest, ReplyEvent};
use massgen::config::BackendConfig;
use massgen::tools::CallRequest;
use massgen::tools::spec::ToolOffer;
use serde_json::{Value, json};

use crate::decoding::{backend_config, connect};
use crate::http_server::{ScriptedResponse, ScriptedServer};

/// The key of every backend here; no error may show it.
pub(crate) const KEY: &str = "sk-the-secret-key-of-the-tests";

/// Returns a config for the server at `base_url`.
pub(crate) fn config(vendor: &str, base_url: &str) -> BackendConfig {
    BackendConfig {
        base_url: Some(base_url.to_owned()),
        api_key: Some(KEY.into()),
        ..backend_config(vendor)
    }
}

/// Starts a server that gives this one response, and returns its backend.
pub(crate) async fn start_chat_server(
    response: ScriptedResponse,
) -> (ScriptedServer, RemoteBackend) {
    let server = ScriptedServer::start(vec![response]).await;
    let backend = connect(&config("groq", &format!("{}/v1", server.url)));
    (server, backend)
}

/// Returns a request with one message and no tools.
pub(crate) fn simple_request() -> ModelRequest<'static> {
    static GO: LazyLock<Conversation> =
        LazyLock::new(|| Conversation::from_messages(vec![ChatMessage::User("Go.".into())]));
    ModelRequest {
        system: "Be brief.".into(),
        conversation: &GO,
        tools: Arc::new([]),
    }
}

/// Returns all events of a reply; consecutive pieces of text are joined.
pub(crate) async fn collect(
    backend: &RemoteBackend,
    request: ModelRequest<'_>,
) -> Vec<Result<ReplyEvent, BackendError>> {
    join_texts(backend.ask(request).collect().await)
}

/// Joins consecutive pieces of text in the events of a reply.
pub(crate) fn join_texts(
    pieces: Vec<Result<ReplyEvent, BackendError>>,
) -> Vec<Result<ReplyEvent, BackendError>> {
    let mut events: Vec<Result<ReplyEvent, BackendError>> = Vec::new();
    for event in pieces {
        match (events.last_mut(), event) {
            (Some(Ok(ReplyEvent::Text(text))), Ok(ReplyEvent::Text(more))) => text.push_str(&more),
            (_, event) => events.push(event),
        }
    }
    events
}

/// Returns the reply with these events as the conversation stores it.
pub(crate) fn assistant_message(events: &[ReplyEvent]) -> ChatMessage {
    let (mut text, mut calls, mut echo) = (String::new(), Vec::new(), None);
    for event in events {
        match event {
            ReplyEvent::Text(more) => text.push_str(more),
            ReplyEvent::Call(call) => calls.push(call.clone()),
            ReplyEvent::Echo(value) => echo = Some(value.clone()),
            ReplyEvent::Reasoning(_)
            | ReplyEvent::Usage(_)
            | ReplyEvent::UnknownFinish(_)
            | ReplyEvent::Cost(_)
            | ReplyEvent::Uncounted
            | ReplyEvent::NativeToolCall(_)
            | ReplyEvent::Plan(_)
            | ReplyEvent::End(_) => {}
        }
    }
    ChatMessage::Assistant { text, calls, echo }
}

/// Formats an error as one line: whether a retry can help, and what happened.
pub(crate) fn error_line(error: &BackendError) -> String {
    let kind = match error.kind {
        BackendErrorKind::Permanent => "permanent".to_owned(),
        BackendErrorKind::NeedsUser(problem) => format!("{problem:?}"),
        BackendErrorKind::InvalidRequest => "invalid request".to_owned(),
        BackendErrorKind::ContextTooLong => "too long".to_owned(),
        BackendErrorKind::Unreachable => "unreachable".to_owned(),
        BackendErrorKind::Transient { retry_after: None } => "transient".to_owned(),
        BackendErrorKind::Transient {
            retry_after: Some(wait),
        } => format!("transient after {wait:?}"),
    };
    format!("{kind}: {}", error.message)
}

/// Formats the data of one event of a stream.
pub(crate) fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// Returns a piece of text.
pub(crate) fn text(text: &str) -> ReplyEvent {
    ReplyEvent::Text(text.to_owned())
}

/// Returns a complete call.
pub(crate) fn call(id: &str, name: &str, arguments: &str) -> ReplyEvent {
    ReplyEvent::Call(CallRequest {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    })
}

/// Returns a tool with one argument.
pub(crate) fn read_tool() -> ToolOffer {
    ToolOffer {
        name: "read_text_file".into(),
        description: "Reads a file.".to_owned(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }
}
