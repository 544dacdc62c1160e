//! Tool calls that an agent has announced over the Agent Client Protocol in this turn. A permission
//! request may leave out what the announcement said, and some agents announce a call by its first
//! update alone. <https://agentclientprotocol.com/protocol/tool-calls>

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::backend::NativeToolCall;
use crate::backend::external_agent::permission::INPUT_KEYS;
use crate::backend::external_agent::protocol::{AgentEvent, native_tool_call, text_at};
use crate::text::to_hex;

/// Maximum number of calls that are remembered; the oldest is forgotten first.
const CALLS_MAX: usize = 256;
/// Maximum size of what is remembered of one call, in bytes.
const CALL_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of any other argument that is remembered in full, in bytes.
const OTHER_ARGUMENT_BYTES_MAX: usize = 512;
/// The kinds of calls whose path is shown to the user.
const KINDS_WITH_PATH: &[&str] = &["read", "edit", "delete", "search"];

/// The calls of a turn, by their ids.
#[derive(Debug, Default)]
pub(super) struct AnnouncedCalls {
    calls: BTreeMap<String, AnnouncedCall>,
    order: VecDeque<String>,
}

#[derive(Debug, Default)]
struct AnnouncedCall {
    /// The announcement as far as decisions depend on it, in the form of the protocol; empty once
    /// the call has ended.
    fields: Map<String, Value>,
    /// Whether the user has been shown the call.
    is_shown: bool,
    has_ended: bool,
}

impl AnnouncedCalls {
    /// Handles a `tool_call` or `tool_call_update`; returns the events that follow from it.
    pub(super) fn update(&mut self, update: &Value) -> Vec<AgentEvent> {
        let status = text_at(update, "/status");
        let id = text_at(update, "/toolCallId");
        // Calls without an id cannot be told apart.
        let mut unidentified_call = AnnouncedCall::default();
        let call = if id.is_empty() {
            &mut unidentified_call
        } else {
            self.entry(id)
        };
        if !call.has_ended {
            call.merge(update);
        }
        let has_started = !matches!(status, "" | "pending") || !call.is_input_missing();
        let shown_call = (has_started && !call.is_shown).then(|| call.show(update));
        let is_completion = status == "completed" && !call.has_ended;
        if matches!(status, "completed" | "failed") {
            call.has_ended = true;
            call.fields.clear();
        }
        let shown_events = shown_call.map(AgentEvent::NativeToolCall).into_iter();
        let completion = is_completion.then_some(AgentEvent::ToolCallCompleted);
        shown_events.chain(completion).collect()
    }

    /// Returns what was announced about a call that has not ended.
    pub(super) fn announcement(&self, id: &str) -> Value {
        let fields = self.calls.get(id).map(|call| call.fields.clone());
        fields.unwrap_or_default().into()
    }

    /// Forgets all calls; returns the events of those that have not been shown.
    pub(super) fn clear(&mut self) -> Vec<AgentEvent> {
        let order = std::mem::take(&mut self.order).into_iter();
        let mut calls = std::mem::take(&mut self.calls);
        let unshown_calls = order
            .filter_map(|id| calls.remove(&id))
            .filter(|call| !call.is_shown);
        unshown_calls
            .map(|mut call| AgentEvent::NativeToolCall(call.show(&Value::Null)))
            .collect()
    }

    fn entry(&mut self, id: &str) -> &mut AnnouncedCall {
        if !self.calls.contains_key(id) {
            if self.order.len() == CALLS_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.calls.remove(&oldest);
            }
            self.order.push_back(id.to_owned());
        }
        self.calls.entry(id.to_owned()).or_default()
    }
}

impl AnnouncedCall {
    /// Replaces the fields that an update has. What gets too long is forgotten.
    fn merge(&mut self, update: &Value) {
        for field in ["kind", "title"] {
            let text = text_at(update, &format!("/{field}"));
            if !text.is_empty() {
                self.fields.insert(field.to_owned(), text.into());
            }
        }
        let list = |name: &str| update.get(name).and_then(Value::as_array);
        let path = |location: &Value| json!({"path": text_at(location, "/path")});
        if let Some(locations) = list("locations") {
            let locations: Vec<Value> = locations.iter().map(path).collect();
            self.fields.insert("locations".to_owned(), locations.into());
        }
        if let Some(pieces) = list("content") {
            let is_diff = |piece: &&Value| text_at(piece, "/type") == "diff";
            let diff = |piece: &Value| json!({"type": "diff", "path": text_at(piece, "/path")});
            let diffs: Vec<Value> = pieces.iter().filter(is_diff).map(diff).collect();
            self.fields.insert("content".to_owned(), diffs.into());
        }
        if let Some(input) = update.get("rawInput").filter(|input| !input.is_null()) {
            self.fields
                .insert("rawInput".to_owned(), essential_input(input));
        }
        if json!(self.fields).to_string().len() > CALL_BYTES_MAX {
            self.fields.clear();
        }
    }

    /// Returns whether the arguments are still to come: those that were given say nothing.
    fn is_input_missing(&self) -> bool {
        let Some(input) = self.fields.get("rawInput").and_then(Value::as_object) else {
            return false;
        };
        match self.text("kind") {
            "execute" => !input.contains_key("command"),
            _ => input.is_empty() && self.first_path().is_empty(),
        }
    }

    fn text(&self, field: &str) -> &str {
        let text = self.fields.get(field).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    fn first_path(&self) -> &str {
        let locations = self.fields.get("locations");
        locations.map_or("", |locations| text_at(locations, "/0/path"))
    }

    /// Returns the call as it is shown to the user. Without a title, the text of `update` says most
    /// about it.
    fn show(&mut self, update: &Value) -> NativeToolCall {
        self.is_shown = true;
        let kind = self.text("kind");
        let (title, path) = (self.text("title"), self.first_path());
        let name = path.rsplit('/').next().unwrap_or_default();
        let detail = match (title, path) {
            ("", "") => text_at(update, "/content/0/content/text").to_owned(),
            ("", path) => path.to_owned(),
            (title, _) if title.contains(name) || !KINDS_WITH_PATH.contains(&kind) => {
                title.to_owned()
            }
            (title, path) => format!("{title} {path}"),
        };
        native_tool_call(if kind.is_empty() { "tool" } else { kind }, &detail.into())
    }
}

/// Returns the arguments on which decisions depend; others that are long are replaced by a digest,
/// because a person who approves a command approves all of its arguments.
fn essential_input(input: &Value) -> Value {
    let Some(input) = input.as_object() else {
        return json!({"input": null});
    };
    let essential = |(name, value): (&String, &Value)| {
        let is_needed = INPUT_KEYS.iter().any(|keys| keys.contains(&name.as_str()));
        let text = value.to_string();
        let value = if is_needed || text.len() <= OTHER_ARGUMENT_BYTES_MAX {
            value.clone()
        } else {
            Value::from(format!("SHA-256 {}", to_hex(&Sha256::digest(text))))
        };
        (name.clone(), value)
    };
    input.iter().map(essential).collect::<Map<_, _>>().into()
}
