//! Owns the body of a request. It is the same, byte for byte, up to the messages that are new, so
//! that vendors can serve the rest from their caches. Nothing here knows keys or endpoints.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::backend::{CallRequest, Message, Request, ToolOffer};

/// Keys that a config cannot set: the conversation depends on them, or they belong into the URL.
const OURS: &[&str] = &["model", "messages", "tools", "stream", "n", "api_version"];
/// Parameters that vendors refuse in a request without tools.
const ONLY_WITH_TOOLS: &[&str] = &["tool_choice", "parallel_tool_calls"];

/// The parameters of a config as every request carries them. Usage is asked for unless the config
/// has its own `stream_options`; a parameter that is null is left out.
pub(super) fn settled(parameters: &Map<String, Value>) -> Map<String, Value> {
    let mut settled = Map::new();
    settled.insert("stream_options".to_owned(), json!({"include_usage": true}));
    for (name, value) in parameters {
        if value.is_null() {
            settled.shift_remove(name);
        } else if !OURS.contains(&name.as_str()) {
            settled.insert(name.clone(), value.clone());
        }
    }
    settled
}

/// A request on the wire. The messages come last because only they grow.
#[derive(Debug)]
pub(super) struct Body<'a> {
    pub(super) model: &'a str,
    pub(super) parameters: &'a Map<String, Value>,
    pub(super) request: &'a Request<'a>,
}

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tools: Vec<Value> = self.request.tools.iter().map(tool).collect();
        let system = json!({"role": "system", "content": &*self.request.system});
        let conversation = self.request.messages.iter().map(message);
        let messages: Vec<Value> = std::iter::once(system).chain(conversation).collect();

        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("model", self.model)?;
        map.serialize_entry("stream", &true)?;
        for (name, value) in self.parameters {
            if !tools.is_empty() || !ONLY_WITH_TOOLS.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        if !tools.is_empty() {
            map.serialize_entry("tools", &tools)?;
        }
        map.serialize_entry("messages", &messages)?;
        map.end()
    }
}

fn tool(offer: &ToolOffer) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": offer.name,
            "description": offer.description,
            "parameters": offer.parameters,
        },
    })
}

fn message(message: &Message) -> Value {
    match message {
        Message::User(text) => json!({"role": "user", "content": &**text}),
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, calls } => {
            let content = Some(text).filter(|text| !text.is_empty());
            let wire_calls: Vec<Value> = calls.iter().map(call).collect();
            let message =
                json!({"role": "assistant", "content": content, "tool_calls": wire_calls});
            calls.iter().fold(message, |message, call| {
                echoed(message, call.echo.as_ref(), "message")
            })
        }
        Message::CallResult { call_id, content } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": content})
        }
    }
}

fn call(call: &CallRequest) -> Value {
    let wire_call = json!({
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": well_formed(&call.arguments)},
    });
    echoed(wire_call, call.echo.as_ref(), "call")
}

/// `object` with the fields that the vendor wants back in it; an echo has some for the `message`
/// and some for the `call`.
fn echoed(mut object: Value, echo: Option<&Value>, part: &str) -> Value {
    let fields = echo.and_then(|echo| echo.get(part)?.as_object());
    if let (Some(fields), Some(object)) = (fields, object.as_object_mut()) {
        object.extend(fields.clone());
    }
    object
}

/// Arguments that every server can read back: vLLM, llama.cpp and others refuse a whole
/// conversation for one call whose arguments are no JSON object.
fn well_formed(arguments: &str) -> String {
    match serde_json::from_str::<Map<String, Value>>(arguments) {
        Ok(_) => arguments.to_owned(),
        Err(_) => json!({"malformed_arguments": arguments}).to_string(),
    }
}
