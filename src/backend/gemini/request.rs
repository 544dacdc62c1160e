//! Encodes the body of a `generateContent` request. It is identical, byte for byte, up to the new
//! contents, so that the vendor can serve the rest from its cache. Nothing here knows keys or
//! endpoints.

use std::ops::Range;

use serde_json::{Map, Value, json};

use crate::backend::ModelRequest;
use crate::backend::conversation::ChatMessage;
use crate::backend::gemini::parameters::GenerateContentParameters;
use crate::backend::gemini::schema;
use crate::config::vendors::GeminiGeneration;
use crate::prompts::media_notes::unaccepted_file_note;
use crate::tools::CallRequest;
use crate::tools::image::{ImageKind, ModelImage};
use crate::tools::model_file::{ModelFile, ModelFileClass, ModelFileKind, ModelFileSource};
use crate::tools::spec::ToolOffer;

/// Placeholder for the signature of a call that another model made; a call that has it instead of a
/// signature is accepted: <https://ai.google.dev/gemini-api/docs/thought-signatures#faqs>.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Returns the body up to the conversation, which comes last because only it grows.
pub(super) fn request_body(
    parameters: &GenerateContentParameters,
    request: &ModelRequest<'_>,
) -> Map<String, Value> {
    let mut body = Map::new();
    let system = json!({"parts": [{"text": &*request.system}]});
    body.insert("systemInstruction".to_owned(), system);
    let mut tools = parameters.tools.clone();
    let mut tool_config = parameters.tool_config.clone();
    if !request.tools.is_empty() {
        if !tools.is_empty() {
            tool_config.insert("includeServerSideToolInvocations".to_owned(), json!(true));
        }
        let declarations: Vec<Value> = request.tools.iter().map(encode_tool).collect();
        tools.insert(0, json!({"functionDeclarations": declarations}));
        if !tool_config.is_empty() {
            body.insert("toolConfig".to_owned(), tool_config.into());
        }
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.into());
    }
    body.extend(parameters.body.clone());
    body.insert("contents".to_owned(), json!([]));
    body
}

fn encode_tool(offer: &ToolOffer) -> Value {
    let mut declaration = Map::new();
    declaration.insert("name".to_owned(), json!(offer.name));
    declaration.insert("description".to_owned(), json!(offer.description));
    if let Some(parameters) = schema::tool_parameters(&offer.parameters) {
        declaration.insert("parametersJsonSchema".to_owned(), parameters);
    }
    declaration.into()
}

/// Encodes the messages in `range`. The results of the calls of one reply form one content, as the
/// vendor requires; each user message is a content by itself.
pub(super) fn encode_messages(
    messages: &[ChatMessage],
    range: Range<usize>,
    model_generation: GeminiGeneration,
) -> Vec<Value> {
    let earlier_messages = messages.get(..range.end).unwrap_or(messages);
    let new_messages = messages.get(range).unwrap_or_default();
    let groups = new_messages.chunk_by(|one, next| is_result(one) && is_result(next));
    groups
        .filter_map(|group| encode_group(earlier_messages, group, model_generation))
        .collect()
}

fn is_result(message: &ChatMessage) -> bool {
    matches!(message, ChatMessage::CallResult { .. })
}

/// Encodes one content. Returns `None` for an empty reply, because one without parts is rejected.
fn encode_group(
    earlier_messages: &[ChatMessage],
    group: &[ChatMessage],
    model_generation: GeminiGeneration,
) -> Option<Value> {
    let (role, parts) = match group {
        [ChatMessage::Assistant { text, calls, echo }] => {
            let parts = match echo {
                Some(Value::Array(parts)) => parts.clone(),
                Some(_) | None => encode_reply(text, calls, model_generation),
            };
            ("model", parts)
        }
        [ChatMessage::User(text)] => ("user", vec![json!({"text": &**text})]),
        [ChatMessage::Images { text, images }] => {
            let text_part = std::iter::once(json!({"text": text}));
            (
                "user",
                text_part.chain(images.iter().map(image_part)).collect(),
            )
        }
        [ChatMessage::Files { text, files }] => {
            let text_part = std::iter::once(json!({"text": text}));
            (
                "user",
                text_part.chain(files.iter().map(file_part)).collect(),
            )
        }
        results => {
            let responses = results
                .iter()
                .filter_map(|result| encode_result(earlier_messages, result));
            ("user", responses.collect())
        }
    };
    (!parts.is_empty()).then(|| json!({"role": role, "parts": parts}))
}

/// Encodes an image; of the supported image types, Google rejects GIF:
/// <https://ai.google.dev/gemini-api/docs/image-understanding#supported-formats>.
fn image_part(image: &ModelImage) -> Value {
    match image.kind() {
        ImageKind::Gif => json!({"text": "[a GIF, which this model does not take]"}),
        kind @ (ImageKind::Png | ImageKind::Jpeg | ImageKind::Webp) => {
            json!({"inlineData": {"mimeType": kind.to_string(), "data": image.base64()}})
        }
    }
}

/// Encodes a file: <https://ai.google.dev/gemini-api/docs/file-input-methods>. The type of a file
/// at a URL must be known.
fn file_part(file: &ModelFile) -> Value {
    match (file.class(), file.source()) {
        (_, ModelFileSource::Bytes(bytes)) => {
            json!({"inlineData": {"mimeType": bytes.kind().to_string(), "data": bytes.base64()}})
        }
        (ModelFileClass::Document, ModelFileSource::Url(url)) => {
            let media_type = ModelFileKind::Pdf.to_string();
            json!({"fileData": {"mimeType": media_type, "fileUri": url.as_str()}})
        }
        (class @ (ModelFileClass::Audio | ModelFileClass::Video), ModelFileSource::Url(_)) => {
            json!({"text": unaccepted_file_note(class)})
        }
    }
}

/// Encodes the parts of a reply from another model.
fn encode_reply(
    text: &str,
    calls: &[CallRequest],
    model_generation: GeminiGeneration,
) -> Vec<Value> {
    let text = Some(text).filter(|text| !text.is_empty());
    let mut parts: Vec<Value> = text.map(|text| json!({"text": text})).into_iter().collect();
    for (position, call) in calls.iter().enumerate() {
        let arguments: Value =
            serde_json::from_str(&call.well_formed_arguments()).unwrap_or_default();
        let call = json!({"id": call.id, "name": call.name, "args": arguments});
        // The first call of a reply carries the signature.
        parts.push(match (model_generation, position) {
            (GeminiGeneration::Current, 0) => {
                json!({"functionCall": call, "thoughtSignature": NO_SIGNATURE})
            }
            (GeminiGeneration::Current | GeminiGeneration::Early, _) => {
                json!({"functionCall": call})
            }
        });
    }
    parts
}

/// Encodes the result of a call, under the id and the name that the vendor knows the call by.
fn encode_result(earlier_messages: &[ChatMessage], result: &ChatMessage) -> Option<Value> {
    let ChatMessage::CallResult { call_id, content } = result else {
        return None;
    };
    let call = earlier_messages
        .iter()
        .rev()
        .find_map(|message| find_call(message, call_id));
    let mut response: Map<String, Value> = call.into_iter().flatten().collect();
    response.insert("response".to_owned(), json!({"output": content}));
    Some(json!({"functionResponse": response}))
}

/// Returns id and name of a call, if `message` made it.
fn find_call(message: &ChatMessage, call_id: &str) -> Option<Map<String, Value>> {
    let ChatMessage::Assistant { calls, echo, .. } = message else {
        return None;
    };
    let position = calls.iter().position(|call| call.id == call_id)?;
    let parts = echo.as_ref().and_then(Value::as_array);
    let id = match parts {
        Some(parts) => calls_in(parts).nth(position)?.get("id").cloned(),
        None => Some(json!(call_id)),
    };
    let id = id.map(|id| ("id".to_owned(), id));
    let name = ("name".to_owned(), json!(calls.get(position)?.name));
    Some(id.into_iter().chain([name]).collect())
}

/// Returns the calls among the parts of a reply.
pub(super) fn calls_in(parts: &[Value]) -> impl Iterator<Item = &Value> {
    parts.iter().filter_map(|part| part.get("functionCall"))
}
