//! Encodes the body of a Chat Completions request. It is identical, byte for byte, up to the new
//! messages, so that vendors can serve the rest from their caches. Nothing here knows keys or
//! endpoints.

use serde_json::{Map, Value, json};

use crate::backend::ModelRequest;
use crate::backend::chatcompletion::reasoning::ReasoningEchoPolicy;
use crate::backend::conversation::ChatMessage;
use crate::prompts::media_notes::unaccepted_file_note;
use crate::tools::CallRequest;
use crate::tools::model_file::{ModelFile, ModelFileClass, ModelFileSource};
use crate::tools::portable_schema::fold_alternatives;
use crate::tools::spec::ToolOffer;

/// Keys that a config cannot set: the conversation depends on them, or they belong in the URL.
const RESERVED_KEYS: &[&str] = &["model", "messages", "tools", "stream", "n", "api_version"];
/// Parameters that vendors reject in a request without tools.
const ONLY_WITH_TOOLS: &[&str] = &["tool_choice", "parallel_tool_calls"];

/// The config key that enables `OpenRouter`'s web search, and the parameter that requests it:
/// <https://openrouter.ai/docs/features/web-search>.
const WEB_SEARCH: &str = "enable_web_search";
const PLUGINS: &str = "plugins";

/// Returns the parameters that every request carries. Usage is requested unless the config has its
/// own `stream_options`; a parameter that is null is omitted.
pub(super) fn request_parameters(parameters: &Map<String, Value>) -> Map<String, Value> {
    let mut converted = Map::new();
    converted.insert("stream_options".to_owned(), json!({"include_usage": true}));
    for (name, value) in parameters {
        if value.is_null() {
            converted.shift_remove(name);
        } else if !RESERVED_KEYS.contains(&name.as_str()) {
            converted.insert(name.clone(), value.clone());
        }
    }
    if converted.shift_remove(WEB_SEARCH) == Some(json!(true)) {
        let plugins = converted.entry(PLUGINS).or_insert_with(|| json!([]));
        if let Value::Array(plugins) = plugins {
            plugins.push(json!({"id": "web"}));
        }
    }
    converted
}

/// Returns the body up to the conversation, which comes last because only it grows.
pub(super) fn request_body(
    model: &str,
    parameters: &Map<String, Value>,
    request: &ModelRequest<'_>,
) -> Map<String, Value> {
    let tools: Vec<Value> = request.tools.iter().map(encode_tool).collect();
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("stream".to_owned(), json!(true));
    for (name, value) in parameters {
        if !tools.is_empty() || !ONLY_WITH_TOOLS.contains(&name.as_str()) {
            body.insert(name.clone(), value.clone());
        }
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.into());
    }
    let system = json!({"role": "system", "content": &*request.system});
    body.insert("messages".to_owned(), json!([system]));
    body
}

fn encode_tool(offer: &ToolOffer) -> Value {
    json!({
        "type": "function",
        "function": {
            "name": offer.name,
            "description": offer.description,
            "parameters": fold_alternatives(&offer.parameters),
        },
    })
}

/// Encodes a message; `policy` says what it carries of its reasoning. Returns `None` for an empty
/// reply, because some vendors reject an empty message.
pub(super) fn encode_message(message: &ChatMessage, policy: ReasoningEchoPolicy) -> Option<Value> {
    Some(match message {
        ChatMessage::User(text) => json!({"role": "user", "content": &**text}),
        ChatMessage::Assistant { text, calls, echo } if calls.is_empty() => {
            if text.is_empty() {
                return None;
            }
            let message = json!({"role": "assistant", "content": text});
            with_fields(message, policy.fields(echo.as_ref(), false))
        }
        ChatMessage::Assistant { text, calls, echo } => {
            let content = Some(text).filter(|text| !text.is_empty());
            let echo = echo.as_ref();
            let wire_calls: Vec<Value> = calls
                .iter()
                .map(|request| {
                    encode_call(
                        request,
                        echo.and_then(|echo| echo.get("calls")?.get(&request.id)),
                    )
                })
                .collect();
            let message =
                json!({"role": "assistant", "content": content, "tool_calls": wire_calls});
            with_fields(message, policy.fields(echo, true))
        }
        ChatMessage::CallResult { call_id, content } => {
            json!({"role": "tool", "tool_call_id": call_id, "content": content})
        }
        ChatMessage::Images { text, images } => {
            let image_parts = images
                .iter()
                .map(|image| json!({"type": "image_url", "image_url": {"url": image.data_url()}}));
            let text_part = json!({"type": "text", "text": text});
            let content: Vec<Value> = std::iter::once(text_part).chain(image_parts).collect();
            json!({"role": "user", "content": content})
        }
        ChatMessage::Files { text, files } => {
            let text_part = json!({"type": "text", "text": text});
            let files = files.iter().map(encode_file);
            let content: Vec<Value> = std::iter::once(text_part).chain(files).collect();
            json!({"role": "user", "content": content})
        }
    })
}

/// Encodes a file: <https://developers.openai.com/api/docs/guides/file-inputs>,
/// <https://openrouter.ai/docs/features/multimodal/audio>,
/// <https://openrouter.ai/docs/features/multimodal/videos>. No vendor reads a recording from a URL.
fn encode_file(file: &ModelFile) -> Value {
    match (file.class(), file.source()) {
        (ModelFileClass::Document, ModelFileSource::Bytes(bytes)) => {
            let document = json!({"filename": bytes.name(), "file_data": bytes.data_url()});
            json!({"type": "file", "file": document})
        }
        (ModelFileClass::Document, ModelFileSource::Url(url)) => {
            let name = url.file_name().unwrap_or("document.pdf");
            json!({"type": "file", "file": {"filename": name, "file_data": url.as_str()}})
        }
        (ModelFileClass::Audio, ModelFileSource::Bytes(bytes)) => {
            let audio = json!({"data": bytes.base64(), "format": bytes.kind().suffix()});
            json!({"type": "input_audio", "input_audio": audio})
        }
        (class @ ModelFileClass::Audio, ModelFileSource::Url(_)) => {
            json!({"type": "text", "text": unaccepted_file_note(class)})
        }
        (ModelFileClass::Video, ModelFileSource::Bytes(bytes)) => {
            json!({"type": "video_url", "video_url": {"url": bytes.data_url()}})
        }
        (ModelFileClass::Video, ModelFileSource::Url(url)) => {
            json!({"type": "video_url", "video_url": {"url": url.as_str()}})
        }
    }
}

fn encode_call(request: &CallRequest, echo: Option<&Value>) -> Value {
    let wire_call = json!({
        "id": request.id,
        "type": "function",
        "function": {"name": request.name, "arguments": request.well_formed_arguments()},
    });
    let fields = echo.and_then(Value::as_object).cloned();
    with_fields(wire_call, fields.unwrap_or_default())
}

/// Returns `object` with the fields that the vendor requires back.
fn with_fields(mut object: Value, fields: Map<String, Value>) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.extend(fields);
    }
    object
}
