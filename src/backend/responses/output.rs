//! Assembles the output items of one reply from what a vendor streams.
//!
//! An item is announced, arrives in pieces, arrives whole, and arrives once more with the whole
//! reply. Servers omit some of these; an item still counts once.

use serde_json::{Value, json};

use crate::backend::conversation::Conversation;
use crate::backend::json_bytes;
use crate::tools::CallRequest;

/// Maximum number of items in one reply.
const ITEMS_MAX: usize = 512;

/// The items so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct OutputAssembler {
    items: Vec<OutputItem>,
}

#[derive(Debug)]
struct OutputItem {
    /// The index under which it is streamed.
    index: Option<u64>,
    value: Value,
    /// The size of the value, in bytes.
    bytes: usize,
    /// The arguments of a call that arrived outside the item.
    arguments: String,
}

/// Error in the items of a reply.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum OutputError {
    #[error("has more than {ITEMS_MAX} items")]
    TooMany,
    #[error("the reply makes a tool call without a name")]
    MissingName,
}

impl OutputAssembler {
    /// Returns the bytes of all items.
    pub(super) fn bytes(&self) -> usize {
        let sizes = self.items.iter();
        sizes
            .map(|item| item.bytes.saturating_add(item.arguments.len()))
            .sum()
    }

    /// Adds an item, or replaces its earlier version. Returns its position.
    pub(super) fn upsert(
        &mut self,
        index: Option<u64>,
        value: &Value,
    ) -> Result<usize, OutputError> {
        let known_position = self
            .items
            .iter()
            .rposition(|item| item.is_same_item(index, value));
        let Some(position) = known_position else {
            return self.begin_item(index, value.clone());
        };
        if let Some(item) = self.items.get_mut(position) {
            item.bytes = json_bytes(value);
            item.value = value.clone();
        }
        Ok(position)
    }

    /// Returns the position of the item that an event is about. Adds the item if it has not been
    /// announced.
    pub(super) fn position(&mut self, event: &Value) -> Result<usize, OutputError> {
        let id = text_field(event, "item_id");
        let index = event.get("output_index").and_then(Value::as_u64);
        let newest_where =
            |matches: &dyn Fn(&OutputItem) -> bool| self.items.iter().rposition(matches);
        // Some servers use a new id for an item in every event, others the same index for all
        // items.
        let by_id = newest_where(&|item| !id.is_empty() && text_field(&item.value, "id") == id);
        let by_index = newest_where(&|item| index.is_some() && item.index == index);
        let last_item = newest_where(&|_| id.is_empty() && index.is_none());
        match by_id.or(by_index).or(last_item) {
            Some(position) => Ok(position),
            None => self.begin_item(index, json!({"id": id})),
        }
    }

    fn begin_item(&mut self, index: Option<u64>, value: Value) -> Result<usize, OutputError> {
        let position = self.items.len();
        if position == ITEMS_MAX {
            return Err(OutputError::TooMany);
        }
        self.items.push(OutputItem {
            index,
            bytes: json_bytes(&value),
            value,
            arguments: String::new(),
        });
        Ok(position)
    }

    /// Appends to a call's arguments.
    pub(super) fn add_arguments(&mut self, event: &Value) -> Result<(), OutputError> {
        let position = self.position(event)?;
        if let Some(item) = self.items.get_mut(position) {
            item.arguments.push_str(text_field(event, "delta"));
        }
        Ok(())
    }

    /// Sets a call's arguments.
    pub(super) fn set_arguments(&mut self, event: &Value) -> Result<(), OutputError> {
        let position = self.position(event)?;
        if let Some(item) = self.items.get_mut(position) {
            item.arguments = arguments(event);
        }
        Ok(())
    }

    /// Returns the calls for the agent, and all items. Each call has an id that is unique in the
    /// conversation.
    pub(super) fn finish(
        &mut self,
        conversation: &Conversation,
    ) -> Result<(Vec<CallRequest>, Vec<Value>), OutputError> {
        let mut calls: Vec<CallRequest> = Vec::new();
        let mut values = Vec::with_capacity(self.items.len());
        for mut item in self.items.drain(..) {
            if kind(&item.value) == "function_call" {
                let mut call = item.call()?;
                call.id = conversation.call_id(&call.id, &calls);
                if let Some(fields) = item.value.as_object_mut() {
                    fields.insert("call_id".to_owned(), json!(call.id));
                }
                calls.push(call);
            }
            values.push(item.value);
        }
        Ok((calls, values))
    }
}

impl OutputItem {
    /// Returns whether `value` is this item: the same call, or else an item with the same id, or
    /// with the same index and type, as far as the type is known.
    fn is_same_item(&self, index: Option<u64>, value: &Value) -> bool {
        let call_ids = (
            text_field(&self.value, "call_id"),
            text_field(value, "call_id"),
        );
        if !call_ids.0.is_empty() && !call_ids.1.is_empty() {
            return call_ids.0 == call_ids.1;
        }
        let ids = (text_field(&self.value, "id"), text_field(value, "id"));
        let has_same_index = index.is_some() && self.index == index;
        let has_same_type = ["", kind(value)].contains(&kind(&self.value));
        (!ids.0.is_empty() && ids.0 == ids.1) || (has_same_index && has_same_type)
    }

    fn call(&self) -> Result<CallRequest, OutputError> {
        let name = text_field(&self.value, "name");
        if name.is_empty() {
            return Err(OutputError::MissingName);
        }
        let whole_arguments = arguments(&self.value);
        let candidates = [&whole_arguments, &self.arguments];
        let arguments = candidates.into_iter().find(|text| !text.trim().is_empty());
        Ok(CallRequest {
            id: text_field(&self.value, "call_id").to_owned(),
            name: name.to_owned(),
            arguments: arguments.map_or("{}", |text| text).to_owned(),
        })
    }
}

/// Returns the arguments of a call or an event; some servers write them as an object.
fn arguments(item: &Value) -> String {
    match item.get("arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(whole) => whole.to_string(),
    }
}

/// Returns a string field; empty if it is missing or not a string.
pub(super) fn text_field<'v>(object: &'v Value, field: &str) -> &'v str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the type of an item or event.
pub(super) fn kind(object: &Value) -> &str {
    text_field(object, "type")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::conversation::ChatMessage;

    /// A step in the stream of a reply's items.
    enum Step {
        /// An item arrives, in part or whole.
        Item(Option<u64>, Value),
        /// More arguments.
        Delta(Value),
        /// All arguments.
        Done(Value),
    }
    use Step::{Delta, Done, Item};

    fn function(id: &str, call_id: &str, arguments: &str) -> Value {
        json!({"type": "function_call", "id": id, "call_id": call_id, "name": "f",
            "arguments": arguments})
    }

    fn delta(id: &str, index: u64, delta: &str) -> Step {
        Delta(json!({"item_id": id, "output_index": index, "delta": delta}))
    }

    /// Checks that these steps produce these calls, each as `id arguments`.
    #[track_caller]
    fn check(steps: Vec<Step>, expected: &[&str]) {
        let mut output = OutputAssembler::default();
        for step in steps {
            match step {
                Item(index, value) => {
                    output.upsert(index, &value).unwrap();
                }
                Delta(event) => output.add_arguments(&event).unwrap(),
                Done(event) => output.set_arguments(&event).unwrap(),
            }
        }
        let message = ChatMessage::Assistant {
            text: String::new(),
            calls: vec![CallRequest {
                id: "taken".to_owned(),
                name: "f".to_owned(),
                arguments: "{}".to_owned(),
            }],
            echo: None,
        };
        let (calls, items) = output
            .finish(&Conversation::from_messages(vec![message]))
            .unwrap();
        let line = |call: &CallRequest| format!("{} {}", call.id, call.arguments);
        assert_eq!(calls.iter().map(line).collect::<Vec<_>>(), expected);
        let ids = items
            .iter()
            .map(|item| text_field(item, "call_id"))
            .filter(|id| !id.is_empty());
        assert!(ids.eq(calls.iter().map(|call| &*call.id)));
    }

    #[test]
    fn pieces_go_to_the_item_that_they_name() {
        check(
            vec![
                Item(Some(0), function("fc_a", "a", "")),
                Item(Some(1), function("fc_b", "b", "")),
                delta("fc_b", 1, "{\"y\""),
                delta("fc_a", 0, "{\"x\":"),
                delta("fc_b", 1, ":2}"),
                delta("fc_a", 0, "1}"),
            ],
            &["a {\"x\":1}", "b {\"y\":2}"],
        );
        // Nothing is announced.
        check(
            vec![
                delta("fc_a", 0, "{\"x\":"),
                delta("fc_b", 1, "{\"y\":2}"),
                delta("fc_a", 0, "1}"),
                Item(Some(1), function("fc_b", "b", "")),
                Item(Some(0), function("fc_a", "a", "")),
            ],
            &["a {\"x\":1}", "b {\"y\":2}"],
        );
        // Every event has another id.
        check(
            vec![
                Item(Some(0), function("r1", "a", "")),
                Item(Some(1), function("r2", "b", "")),
                delta("r3", 0, "{\"x\":1}"),
                delta("r4", 1, "{\"y\":2}"),
            ],
            &["a {\"x\":1}", "b {\"y\":2}"],
        );
        // Every item has the same number.
        check(
            vec![
                Item(Some(0), function("fc_a", "a", "")),
                delta("fc_a", 0, "{\"x\":1}"),
                Item(Some(0), function("fc_b", "b", "")),
                delta("fc_b", 0, "{\"y\":2}"),
                Item(Some(0), function("fc_a", "a", "{\"x\":1}")),
            ],
            &["a {\"x\":1}", "b {\"y\":2}"],
        );
    }

    #[test]
    fn a_call_counts_once_however_often_it_comes() {
        let whole = function("fc_a", "a", "{\"x\":1}");
        check(vec![Item(Some(0), whole.clone())], &["a {\"x\":1}"]);
        check(
            vec![
                Item(Some(0), function("fc_a", "a", "")),
                delta("fc_a", 0, "{\"x\":"),
                delta("fc_a", 0, "1}"),
                Done(json!({"item_id": "fc_a", "output_index": 0, "arguments": "{\"x\":1}"})),
                Item(Some(0), whole.clone()),
                Item(Some(0), whole.clone()),
            ],
            &["a {\"x\":1}"],
        );
        // The id changes and the index does not.
        let again = function("other", "a", "{\"x\":1}");
        check(
            vec![Item(Some(3), whole), Item(Some(0), again)],
            &["a {\"x\":1}"],
        );
    }

    #[test]
    fn arguments_are_taken_from_where_they_stand() {
        let announced = || Item(Some(0), function("fc_a", "a", ""));
        let done = |arguments: Value| Done(json!({"output_index": 0, "arguments": arguments}));
        check(
            vec![announced(), done(json!("{\"x\":1}"))],
            &["a {\"x\":1}"],
        );
        check(vec![announced(), done(json!({"x": 1}))], &["a {\"x\":1}"]);
        check(vec![announced()], &["a {}"]);
        // A whole item without arguments does not discard those that came before.
        check(
            vec![announced(), delta("fc_a", 0, "{\"x\":1}"), announced()],
            &["a {\"x\":1}"],
        );
        // Malformed arguments are for the agent to reject.
        check(
            vec![Item(Some(0), function("fc_a", "a", "{\"x\": tru"))],
            &["a {\"x\": tru"],
        );
    }

    #[test]
    fn ids_are_replaced_where_they_are_missing_or_in_use() {
        check(
            vec![
                Item(Some(0), function("fc_a", "taken", "{}")),
                Item(Some(1), function("fc_b", "", "{}")),
                Item(Some(2), json!({"type": "message", "id": "m"})),
                Item(Some(3), function("fc_c", "c", "{}")),
            ],
            &["call_1_0 {}", "call_1_1 {}", "c {}"],
        );
    }

    #[test]
    fn items_without_a_name_or_without_end_are_refused() {
        let mut output = OutputAssembler::default();
        output
            .upsert(Some(0), &json!({"type": "function_call", "call_id": "a"}))
            .unwrap();
        assert_eq!(
            output.finish(&Conversation::default()).unwrap_err(),
            OutputError::MissingName
        );
        let mut output = OutputAssembler::default();
        for index in 0..ITEMS_MAX {
            let item = json!({"type": "message", "id": format!("msg_{index}")});
            assert_eq!(output.upsert(None, &item), Ok(index));
        }
        let one_more = json!({"type": "message", "id": "msg"});
        assert_eq!(output.upsert(None, &one_more), Err(OutputError::TooMany));
    }
}
