//! Prepares the output items of a reply for later requests: in their order, in a form that the
//! vendor accepts if it has stored nothing.
//!
//! Reasoning goes back with the item that it led to; the vendor rejects it alone.

use serde_json::{Value, json};

use crate::backend::responses::output::{kind, text_field};
use crate::backend::responses::parameters::ReplyStorage;
use crate::tools::CallRequest;

/// Returns the items of a whole reply that go back, without the arguments of calls, which the
/// message holds.
pub(super) fn from_items(items: Vec<Value>, storage: ReplyStorage) -> Option<Value> {
    let mut items_kept = Vec::new();
    let mut reasoning = Vec::new();
    for mut item in items {
        let kind = kind(&item).to_owned();
        if kind == "reasoning" {
            reasoning.extend(is_self_contained(&item, storage).then_some(item));
            continue;
        }
        if kind.is_empty() || kind == "message" && is_empty(&item, "content") {
            reasoning.clear();
            continue;
        }
        if let Some(fields) = item.as_object_mut() {
            if kind == "function_call" {
                fields.shift_remove("arguments");
            }
            // Messages and calls are complete without their ids, and the vendor rejects ids that it
            // has not stored. Other items are rejected without ids.
            if storage == ReplyStorage::None && matches!(&*kind, "message" | "function_call") {
                fields.shift_remove("id");
            }
        }
        items_kept.append(&mut reasoning);
        items_kept.push(item);
    }
    (!items_kept.is_empty()).then_some(Value::Array(items_kept))
}

/// Returns the items of an earlier reply as a request holds them.
pub(super) fn restore_items(echo: &Value, calls: &[CallRequest]) -> Vec<Value> {
    let items = echo.as_array().into_iter().flatten();
    items.filter_map(|item| restore_item(item, calls)).collect()
}

/// Returns an item with the fields that the message holds.
fn restore_item(item: &Value, calls: &[CallRequest]) -> Option<Value> {
    let mut item = item.clone();
    if kind(&item) == "function_call" {
        let id = text_field(&item, "call_id");
        let call = calls.iter().find(|call| call.id == id)?;
        let arguments = json!(call.well_formed_arguments());
        item.as_object_mut()?
            .insert("arguments".to_owned(), arguments);
    }
    Some(item)
}

/// Returns whether reasoning can be read without looking up what is stored under its id.
fn is_self_contained(item: &Value, storage: ReplyStorage) -> bool {
    storage == ReplyStorage::Stored
        || !is_empty(item, "encrypted_content")
        || !is_empty(item, "content")
}

fn is_empty(item: &Value, field: &str) -> bool {
    match item.get(field) {
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which items of a reply go back, by their ids or call ids.
    #[track_caller]
    fn check(items: Value, storage: ReplyStorage, expected: &Value) {
        let Value::Array(items) = items else {
            panic!("{items}");
        };
        let echo = from_items(items, storage).unwrap_or_default();
        assert_eq!(echo, *expected);
    }

    fn reasoning(id: &str, encrypted: Option<&str>) -> Value {
        json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": encrypted})
    }

    fn message(id: &str) -> Value {
        json!({"type": "message", "id": id, "role": "assistant", "phase": "final_answer",
            "content": [{"type": "output_text", "text": "Hi."}]})
    }

    fn call(id: &str) -> Value {
        json!({"type": "function_call", "id": id, "call_id": "a", "name": "f", "arguments": "{}"})
    }

    fn without_fields(mut item: Value, fields: &[&str]) -> Value {
        for field in fields {
            item.as_object_mut().unwrap().shift_remove(*field);
        }
        item
    }

    #[test]
    fn ids_of_unstored_items_are_not_sent_back() {
        let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed"});
        let items = json!([
            reasoning("rs_1", Some("x")),
            search,
            message("msg_1"),
            call("fc_1"),
        ]);
        check(
            items.clone(),
            ReplyStorage::None,
            &json!([
                reasoning("rs_1", Some("x")),
                search,
                without_fields(message("msg_1"), &["id"]),
                without_fields(call("fc_1"), &["id", "arguments"]),
            ]),
        );
        check(
            items,
            ReplyStorage::Stored,
            &json!([
                reasoning("rs_1", Some("x")),
                search,
                message("msg_1"),
                without_fields(call("fc_1"), &["arguments"]),
            ]),
        );
    }

    #[test]
    fn reasoning_that_can_only_be_looked_up_goes_back_where_it_is_stored() {
        let items = json!([reasoning("rs_1", None), message("msg_1")]);
        check(
            items.clone(),
            ReplyStorage::None,
            &json!([without_fields(message("msg_1"), &["id"])]),
        );
        check(items.clone(), ReplyStorage::Stored, &items);
        // Servers of open models return it in plain text.
        let open = json!({"type": "reasoning", "id": "rs_1", "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm."}]});
        check(
            json!([open, message("msg_1")]),
            ReplyStorage::None,
            &json!([open, without_fields(message("msg_1"), &["id"])]),
        );
    }

    #[test]
    fn reasoning_that_led_nowhere_does_not_go_back() {
        let empty = json!({"type": "message", "id": "msg_0", "role": "assistant", "content": []});
        for items in [
            json!([reasoning("rs_1", Some("x"))]),
            json!([reasoning("rs_1", Some("x")), empty]),
            json!([]),
        ] {
            check(items, ReplyStorage::None, &Value::Null);
        }
        check(
            json!([call("fc_1"), reasoning("rs_1", Some("x"))]),
            ReplyStorage::None,
            &json!([without_fields(call("fc_1"), &["id", "arguments"])]),
        );
    }

    #[test]
    fn calls_get_back_the_arguments_that_the_message_holds() {
        let echo = from_items(vec![call("fc_1")], ReplyStorage::None).unwrap();
        let request = |id: &str, arguments: &str| CallRequest {
            id: id.to_owned(),
            name: "f".to_owned(),
            arguments: arguments.to_owned(),
        };
        let expected = without_fields(call("fc_1"), &["id"]);
        assert_eq!(restore_items(&echo, &[request("a", "{}")]), [expected]);
        // A call that is no longer in the message has no result either.
        assert!(restore_items(&echo, &[request("b", "{}")]).is_empty());
    }
}
