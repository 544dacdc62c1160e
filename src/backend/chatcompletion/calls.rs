//! Assembles tool calls from the pieces that vendors stream.
//!
//! A piece says by `index` which call it continues. Vendors deviate: no index, the same index for
//! every call, an index that drifts, an id in the first piece only, in all pieces, or in none.

use serde_json::{Map, Value};

use crate::backend::conversation::Conversation;
use crate::backend::{CALLS_MAX, json_bytes};
use crate::tools::CallRequest;

/// The calls of one reply so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct ToolCallAssembler {
    calls: Vec<PartialCall>,
    /// The bytes of all their pieces.
    bytes: usize,
}

#[derive(Debug, Default)]
struct PartialCall {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// The thought signature that Google's models require back.
    extra_content: Option<Value>,
}

/// Error in the calls of a reply.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ToolCallError {
    #[error("makes more than {CALLS_MAX} tool calls")]
    TooMany,
    #[error("the reply makes a tool call without a name")]
    MissingName,
}

impl ToolCallAssembler {
    /// Returns the bytes of all pieces.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds one piece of a call.
    pub(super) fn add(&mut self, piece: &Value) -> Result<(), ToolCallError> {
        let text = |pointer| piece.pointer(pointer).and_then(Value::as_str);
        let index = piece.get("index").and_then(Value::as_u64);
        let id = text("/id").unwrap_or_default();
        let name = text("/function/name").unwrap_or_default();
        let arguments = match piece.pointer("/function/arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };

        let call = match self.find_continued_call(index, id, name) {
            Some(position) => self.calls.get_mut(position),
            None if self.calls.len() == CALLS_MAX => return Err(ToolCallError::TooMany),
            None => {
                self.calls.push(PartialCall {
                    index,
                    ..PartialCall::default()
                });
                self.calls.last_mut()
            }
        };
        if let Some(call) = call {
            set_if_empty(&mut call.id, id);
            set_if_empty(&mut call.name, name);
            call.arguments.push_str(&arguments);
            if let Some(extra_content) =
                piece.get("extra_content").filter(|extra| extra.is_object())
            {
                self.bytes = self.bytes.saturating_add(json_bytes(extra_content));
                call.extra_content = Some(extra_content.clone());
            }
        }
        let piece_bytes = [id, name, &arguments].map(str::len).iter().sum();
        self.bytes = self.bytes.saturating_add(piece_bytes);
        Ok(())
    }

    /// Returns the position of the call that a piece continues; `None` if the piece begins a new
    /// one.
    fn find_continued_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let newest_where =
            |matches: &dyn Fn(&PartialCall) -> bool| self.calls.iter().rposition(matches);
        let by_id = newest_where(&|call| {
            let has_matching_index = index.is_none() || call.index.is_none() || call.index == index;
            !id.is_empty() && call.id == id && has_matching_index
        });
        // A piece that has a name, under another id or name, is another call.
        let by_index = newest_where(&|call| {
            let is_another = differ(&call.id, id) || differ(&call.name, name);
            index.is_some() && call.index == index && (name.is_empty() || !is_another)
        });
        let last_call = self.calls.last().and_then(|call| {
            let is_bare = id.is_empty() && name.is_empty();
            let is_late_name = id.is_empty() && index.is_none() && call.name.is_empty();
            (is_bare || is_late_name).then(|| self.calls.len() - 1)
        });
        by_id.or(by_index).or(last_call)
    }

    /// Returns the calls for the agent, and the fields that the vendor requires back with them, by
    /// call id. Each id is unique in the conversation.
    pub(super) fn finish(
        &mut self,
        conversation: &Conversation,
    ) -> Result<(Vec<CallRequest>, Map<String, Value>), ToolCallError> {
        let mut requests: Vec<CallRequest> = Vec::with_capacity(self.calls.len());
        let mut echo = Map::new();
        for call in self.calls.drain(..) {
            if call.name.is_empty() {
                return Err(ToolCallError::MissingName);
            }
            let id = conversation.call_id(&call.id, &requests);
            if let Some(extra_content) = call.extra_content {
                let fields = Map::from_iter([("extra_content".to_owned(), extra_content)]);
                echo.insert(id.clone(), fields.into());
            }
            let arguments = match call.arguments.trim() {
                "" => "{}".to_owned(),
                _ => call.arguments,
            };
            requests.push(CallRequest {
                id,
                name: call.name,
                arguments,
            });
        }
        Ok((requests, echo))
    }
}

/// Returns whether both are given and differ.
fn differ(one: &str, other: &str) -> bool {
    !one.is_empty() && !other.is_empty() && one != other
}

/// Sets the field if it is still empty; vendors repeat ids and names, or blank them, in later
/// pieces.
fn set_if_empty(field: &mut String, value: &str) {
    if field.is_empty() {
        value.clone_into(field);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks that these pieces produce these calls, each as `id name arguments`.
    #[track_caller]
    fn check(pieces: &Value, expected: &[&str]) {
        let mut calls = ToolCallAssembler::default();
        for piece in pieces.as_array().unwrap() {
            calls.add(piece).unwrap();
        }
        let (calls, _) = calls.finish(&Conversation::default()).unwrap();
        let line = |call: &CallRequest| format!("{} {} {}", call.id, call.name, call.arguments);
        assert_eq!(calls.iter().map(line).collect::<Vec<_>>(), expected);
    }

    fn function(name: &str, arguments: &str) -> Value {
        json!({"name": name, "arguments": arguments})
    }

    fn arguments(arguments: &str) -> Value {
        json!({"arguments": arguments})
    }

    #[test]
    fn pieces_go_where_their_index_says() {
        check(
            &json!([
                {"index": 0, "id": "a", "function": function("f", "")},
                {"index": 0, "function": arguments("{\"x\":")},
                {"index": 1, "id": "b", "function": function("g", "{")},
                {"index": 0, "function": arguments("1}")},
                {"index": 1, "function": arguments("}")},
            ]),
            &["a f {\"x\":1}", "b g {}"],
        );
    }

    #[test]
    fn a_missing_index_is_made_up_for() {
        check(
            &json!([
                {"id": "a", "function": function("f", "{\"x\":")},
                {"id": "a", "function": arguments("1}")},
                {"id": "b", "function": function("g", "{\"y\":")},
                {"function": arguments("2}")},
            ]),
            &["a f {\"x\":1}", "b g {\"y\":2}"],
        );
        check(
            &json!([{"function": function("f", "{}")}, {"function": function("g", "{}")}]),
            &["call_0_0 f {}", "call_0_1 g {}"],
        );
    }

    #[test]
    fn an_index_that_is_wrong_does_no_harm() {
        // Every call has the index 0.
        check(
            &json!([
                {"index": 0, "id": "a", "function": function("f", "{}")},
                {"index": 0, "id": "b", "function": function("f", "{\"y\":2}")},
                {"index": 0, "function": function("g", "{}")},
            ]),
            &["a f {}", "b f {\"y\":2}", "call_0_2 g {}"],
        );
        // The index counts pieces instead of calls.
        check(
            &json!([
                {"index": 0, "id": "a", "function": function("f", "")},
                {"index": 1, "function": arguments("{\"x\":")},
                {"index": 2, "function": arguments("1}")},
            ]),
            &["a f {\"x\":1}"],
        );
    }

    #[test]
    fn ids_and_names_may_be_blank_repeated_new_or_late() {
        let opening = json!({"index": 0, "id": "a", "function": function("f", "{\"x\":")});
        for continuation in [
            json!({"index": 0, "id": "", "function": function("", "1}")}),
            json!({"index": 0, "id": null, "function": {"name": null, "arguments": "1}"}}),
            json!({"index": 0, "id": "a", "function": function("f", "1}")}),
            json!({"index": 0, "id": "b", "function": arguments("1}")}),
        ] {
            check(&json!([opening, continuation]), &["a f {\"x\":1}"]);
        }
        check(
            &json!([
                {"index": 0, "id": "a", "function": arguments("{\"x\":")},
                {"index": 0, "function": function("f", "1}")},
            ]),
            &["a f {\"x\":1}"],
        );
        check(
            &json!([
                {"index": 0, "id": "a", "function": function("f", "{}")},
                {"index": 1, "id": "a", "function": function("g", "{}")},
            ]),
            &["a f {}", "call_0_1 g {}"],
        );
    }

    #[test]
    fn arguments_come_as_text_or_as_an_object_or_not_at_all() {
        check(
            &json!([
                {"index": 0, "id": "a", "function": {"name": "f", "arguments": {"x": 1}}},
                {"index": 1, "id": "b", "function": function("f", "")},
                {"index": 2, "id": "c", "function": {"name": "f", "arguments": null}},
                {"index": 3, "id": "d", "function": {"name": "f"}},
                // Malformed arguments are for the agent to reject.
                {"index": 4, "id": "e", "function": function("f", "{\"x\": tru")},
            ]),
            &[
                "a f {\"x\":1}",
                "b f {}",
                "c f {}",
                "d f {}",
                "e f {\"x\": tru",
            ],
        );
    }
}
