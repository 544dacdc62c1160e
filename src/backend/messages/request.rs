//! Encodes the body of a Messages request. Up to the new messages, it is identical to the previous
//! body of the conversation, byte for byte, so that the vendor can use its cache; only the cache
//! breakpoints move. Nothing here knows keys or endpoints.

use serde_json::{Map, Value, json};

use crate::backend::ModelRequest;
use crate::backend::conversation::ChatMessage;
use crate::backend::messages::parameters::MessagesParameters;
use crate::backend::messages::strict_tools::StrictToolLimits;
use crate::prompts::media_notes::unaccepted_file_note;
use crate::tools::CallRequest;
use crate::tools::image::ModelImage;
use crate::tools::model_file::{ModelFile, ModelFileClass, ModelFileSource};
use crate::tools::portable_schema::fold_alternatives;
use crate::tools::spec::ToolOffer;

/// The field that marks a block as the end of content to be cached.
const CACHE_MARK: &str = "cache_control";
/// Parameters that the API rejects in a request without tools.
const ONLY_WITH_TOOLS: &[&str] = &["tool_choice"];
/// Maximum length of a tool's name in the API.
const NAME_CHARS_MAX: usize = 128;

/// Returns the body up to the conversation. The API reads tools, system message and conversation in
/// this order, so that the breakpoint on the system message covers the tools too.
pub(super) fn request_body(
    model: &str,
    settings: &MessagesParameters,
    request: &ModelRequest<'_>,
) -> Map<String, Value> {
    let mut strict_limits = settings.has_strict_tools.then(StrictToolLimits::default);
    let offers = request.tools.iter().map(|offer| {
        let schema = strict_limits
            .as_mut()
            .and_then(|limits| limits.strict_schema(offer));
        encode_tool(offer, schema)
    });
    let tools: Vec<Value> = offers
        .chain(settings.server_tools.iter().cloned())
        .collect();
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("stream".to_owned(), json!(true));
    for (name, value) in &settings.parameters {
        if !tools.is_empty() || !ONLY_WITH_TOOLS.contains(&name.as_str()) {
            body.insert(name.clone(), value.clone());
        }
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.into());
    }
    if let Some(mut system) = text_block(&request.system) {
        if let Some(cache) = &settings.cache {
            set_cache_breakpoint(&mut system, cache);
        }
        body.insert("system".to_owned(), json!([system]));
    }
    body.insert("messages".to_owned(), json!([]));
    body
}

/// Encodes a tool, which is strict if it has a schema for that.
fn encode_tool(offer: &ToolOffer, strict_schema: Option<Value>) -> Value {
    let is_strict = strict_schema.is_some();
    let mut tool = json!({
        "name": offer.name,
        "description": offer.description,
        "input_schema": strict_schema.unwrap_or_else(|| fold_alternatives(&offer.parameters)),
    });
    if is_strict && let Some(tool) = tool.as_object_mut() {
        tool.insert("strict".to_owned(), Value::Bool(true));
    }
    tool
}

/// Returns one element for each reply, and one for all messages to the model between two replies. A
/// message without blocks is omitted: the API rejects it, and merges its two neighbours.
pub(super) fn encode_messages(messages: &[ChatMessage]) -> Vec<Value> {
    let is_reply = |message: &ChatMessage| matches!(message, ChatMessage::Assistant { .. });
    messages
        .chunk_by(|one, next| !is_reply(one) && !is_reply(next))
        .filter_map(encode_group)
        .collect()
}

fn encode_group(messages: &[ChatMessage]) -> Option<Value> {
    let (role, content) = if let [ChatMessage::Assistant { text, calls, echo }] = messages {
        let echo = echo.as_ref().and_then(Value::as_array);
        let content = echo.cloned().unwrap_or_else(|| encode_reply(text, calls));
        ("assistant", content)
    } else {
        // The API requires results before everything else.
        let results = messages.iter().filter_map(encode_result);
        let blocks = messages.iter().flat_map(encode_message);
        ("user", results.chain(blocks).collect())
    };
    (!content.is_empty()).then(|| json!({"role": role, "content": content}))
}

fn encode_message(message: &ChatMessage) -> Vec<Value> {
    match message {
        ChatMessage::User(text) => text_block(text).into_iter().collect(),
        ChatMessage::Images { text, images } => {
            let images = images.iter().map(image_block);
            text_block(text).into_iter().chain(images).collect()
        }
        ChatMessage::Files { text, files } => {
            let files = files.iter().map(file_block);
            text_block(text).into_iter().chain(files).collect()
        }
        ChatMessage::Assistant { .. } | ChatMessage::CallResult { .. } => Vec::new(),
    }
}

fn image_block(image: &ModelImage) -> Value {
    let media_type = image.kind().to_string();
    let source = json!({"type": "base64", "media_type": media_type, "data": image.base64()});
    json!({"type": "image", "source": source})
}

/// Encodes a file: <https://platform.claude.com/docs/en/build-with-claude/pdf-support>.
fn file_block(file: &ModelFile) -> Value {
    let source = match (file.class(), file.source()) {
        (ModelFileClass::Document, ModelFileSource::Bytes(bytes)) => {
            let media_type = bytes.kind().to_string();
            json!({"type": "base64", "media_type": media_type, "data": bytes.base64()})
        }
        (ModelFileClass::Document, ModelFileSource::Url(url)) => {
            json!({"type": "url", "url": url.as_str()})
        }
        (class @ (ModelFileClass::Audio | ModelFileClass::Video), _) => {
            return json!({"type": "text", "text": unaccepted_file_note(class)});
        }
    };
    json!({"type": "document", "source": source})
}

/// Encodes a result. A blank result has no content: the API rejects an empty one.
fn encode_result(message: &ChatMessage) -> Option<Value> {
    let ChatMessage::CallResult { call_id, content } = message else {
        return None;
    };
    let id = sanitize_id(call_id);
    Some(if content.trim().is_empty() {
        json!({"type": "tool_result", "tool_use_id": id})
    } else {
        json!({"type": "tool_result", "tool_use_id": id, "content": content})
    })
}

/// Encodes a reply of which only text and calls are known.
pub(super) fn encode_reply(text: &str, calls: &[CallRequest]) -> Vec<Value> {
    let calls = calls.iter().map(|call| {
        json!({
            "type": "tool_use",
            "id": sanitize_id(&call.id),
            "name": sanitize_tool_name(&call.name),
            "input": encode_input(&call.arguments),
        })
    });
    text_block(text).into_iter().chain(calls).collect()
}

/// Returns a block of text, unless it is blank: the API rejects blank ones.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

/// Returns arguments as the object that the API requires.
pub(super) fn encode_input(arguments: &str) -> Value {
    let object: Result<Map<String, Value>, _> = serde_json::from_str(arguments);
    object.map_or_else(|_| json!({"malformed_arguments": arguments}), Value::from)
}

/// Returns `name` with only the characters that the API accepts. Models invent all sorts of names,
/// and an invalid one would make every later request fail.
pub(super) fn sanitize_tool_name(name: &str) -> String {
    sanitize_id(name).chars().take(NAME_CHARS_MAX).collect()
}

/// Returns `id` with only letters, digits, `_` and `-`, as the API requires. Other vendors, which
/// may have been asked before, use other characters in their ids.
pub(super) fn sanitize_id(id: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-');
    id.chars()
        .map(|sign| {
            if is_plain(sign) {
                sign.to_string()
            } else {
                format!("_{:x}", u32::from(sign))
            }
        })
        .collect()
}

/// Sets breakpoints on the newest message, so that the next request finds all before it in the
/// cache. The vendor looks back 20 blocks from a breakpoint: one on the first block too lets it find
/// the previous one after a reply with many calls.
/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>
pub(super) fn set_cache_breakpoints(newest: &mut [Value], cache: &Value) {
    let content = newest
        .last_mut()
        .and_then(|element| element.get_mut("content"));
    let blocks = content.and_then(Value::as_array_mut);
    let Some(blocks) = blocks else {
        return;
    };
    if let Some(first_block) = blocks.first_mut() {
        set_cache_breakpoint(first_block, cache);
    }
    if let Some(last_block) = blocks.last_mut() {
        set_cache_breakpoint(last_block, cache);
    }
}

fn set_cache_breakpoint(block: &mut Value, cache: &Value) {
    if let Some(block) = block.as_object_mut() {
        block.insert(CACHE_MARK.to_owned(), cache.clone());
    }
}
