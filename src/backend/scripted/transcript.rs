//! The scripted backend's view of a request: the texts that conditions refer to, and the invariant
//! that every tool call has exactly one result.

use std::collections::BTreeSet;

use crate::backend::ModelRequest;
use crate::backend::conversation::ChatMessage;

/// Returns whether any text of the request, including the system message and call arguments,
/// satisfies `holds`.
pub(super) fn any_text(request: &ModelRequest<'_>, holds: impl Fn(&str) -> bool) -> bool {
    holds(&request.system)
        || request
            .conversation
            .messages()
            .iter()
            .any(|message| match message {
                ChatMessage::User(text) => holds(text),
                ChatMessage::Assistant { text, calls, .. } => {
                    holds(text) || calls.iter().any(|call| holds(&call.arguments))
                }
                ChatMessage::CallResult { content, .. } => holds(content),
                ChatMessage::Images { text, .. } | ChatMessage::Files { text, .. } => holds(text),
            })
}

/// Returns the texts after the model's last reply, newest first.
pub(super) fn latest_texts<'a>(request: &ModelRequest<'a>) -> impl Iterator<Item = &'a str> {
    let messages = request.conversation.messages().iter();
    messages.rev().map_while(|message| match message {
        ChatMessage::User(text) => Some(&**text),
        ChatMessage::CallResult { content, .. } => Some(content.as_str()),
        ChatMessage::Images { text, .. } | ChatMessage::Files { text, .. } => Some(text.as_str()),
        ChatMessage::Assistant { .. } => None,
    })
}

/// Returns the violation in a conversation's calls and results; `None` if each call has exactly one
/// result, before any other message.
pub(super) fn call_result_violation(messages: &[ChatMessage]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let mut open_calls = BTreeSet::new();
    for message in messages {
        match message {
            ChatMessage::CallResult { call_id, .. } => {
                if !open_calls.remove(call_id.as_str()) {
                    return Some(format!(
                        "there is a result for the call `{call_id}`, which has one already or was never made"
                    ));
                }
            }
            ChatMessage::User(_)
            | ChatMessage::Assistant { .. }
            | ChatMessage::Images { .. }
            | ChatMessage::Files { .. } => {
                if let Some(id) = open_calls.first() {
                    return Some(format!("the call `{id}` has no result"));
                }
            }
        }
        if let ChatMessage::Assistant { calls, .. } = message {
            for call in calls {
                if !seen.insert(call.id.as_str()) {
                    return Some(format!("two calls have the id `{}`", call.id));
                }
                open_calls.insert(call.id.as_str());
            }
        }
    }
    open_calls
        .first()
        .map(|id| format!("the call `{id}` has no result"))
}
