//! Encodes the body of a Responses request. It is identical, byte for byte, up to the new items, so
//! that the vendor can serve the rest from its cache. Nothing here knows keys or endpoints.

use serde_json::{Map, Value, json};

use crate::backend::ModelRequest;
use crate::backend::conversation::ChatMessage;
use crate::backend::responses::echo;
use crate::backend::responses::output::kind;
use crate::backend::responses::parameters::{ResponsesParameters, SystemPlace};
use crate::prompts::media_notes::unaccepted_file_note;
use crate::tools::CallRequest;
use crate::tools::model_file::{ModelFile, ModelFileClass, ModelFileSource};
use crate::tools::portable_schema::fold_alternatives;
use crate::tools::spec::ToolOffer;

/// Returns the body up to the conversation, which comes last because only it grows.
pub(super) fn request_body(
    model: &str,
    parameters: &ResponsesParameters,
    request: &ModelRequest<'_>,
) -> Map<String, Value> {
    let mut tools: Vec<Value> = request.tools.iter().map(encode_tool).collect();
    tools.extend(parameters.tools.iter().cloned());
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("stream".to_owned(), json!(true));
    for (name, value) in parameters.fields(tools.len()) {
        body.insert(name.clone(), value.clone());
    }
    let mut input = Vec::new();
    match parameters.system {
        SystemPlace::Instructions => {
            body.insert("instructions".to_owned(), json!(&*request.system));
        }
        SystemPlace::Input => input.push(json!({"role": "system", "content": &*request.system})),
    }
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.into());
    }
    body.insert("input".to_owned(), input.into());
    body
}

/// Encodes a tool. Strict mode, which is the API's default, would make every optional parameter
/// required.
fn encode_tool(offer: &ToolOffer) -> Value {
    json!({
        "type": "function",
        "name": offer.name,
        "description": offer.description,
        "parameters": fold_alternatives(&offer.parameters),
        "strict": false,
    })
}

/// Encodes the items of one message.
pub(super) fn encode_message(message: &ChatMessage) -> Vec<Value> {
    match message {
        ChatMessage::User(text) => vec![json!({"role": "user", "content": &**text})],
        ChatMessage::Assistant { text, calls, echo } => {
            let items = match echo {
                Some(echo) => echo::restore_items(echo, calls),
                None => calls.iter().map(encode_call).collect(),
            };
            let is_text_missing =
                !text.is_empty() && !items.iter().any(|item| kind(item) == "message");
            let message = is_text_missing.then(|| json!({"role": "assistant", "content": text}));
            message.into_iter().chain(items).collect()
        }
        ChatMessage::CallResult { call_id, content } => vec![json!({
            "type": "function_call_output", "call_id": call_id, "output": content,
        })],
        ChatMessage::Images { text, images } => {
            let image_parts = images
                .iter()
                .map(|image| json!({"type": "input_image", "image_url": image.data_url()}));
            let text_part = json!({"type": "input_text", "text": text});
            let content: Vec<Value> = std::iter::once(text_part).chain(image_parts).collect();
            vec![json!({"role": "user", "content": content})]
        }
        ChatMessage::Files { text, files } => {
            let text_part = json!({"type": "input_text", "text": text});
            let files = files.iter().map(encode_file);
            let content: Vec<Value> = std::iter::once(text_part).chain(files).collect();
            vec![json!({"role": "user", "content": content})]
        }
    }
}

/// Encodes a file: <https://developers.openai.com/api/docs/guides/file-inputs>.
fn encode_file(file: &ModelFile) -> Value {
    match (file.class(), file.source()) {
        (ModelFileClass::Document, ModelFileSource::Bytes(bytes)) => json!({
            "type": "input_file", "filename": bytes.name(), "file_data": bytes.data_url(),
        }),
        (ModelFileClass::Document, ModelFileSource::Url(url)) => {
            json!({"type": "input_file", "file_url": url.as_str()})
        }
        (class @ (ModelFileClass::Audio | ModelFileClass::Video), _) => {
            json!({"type": "input_text", "text": unaccepted_file_note(class)})
        }
    }
}

fn encode_call(request: &CallRequest) -> Value {
    json!({
        "type": "function_call",
        "call_id": request.id,
        "name": request.name,
        "arguments": request.well_formed_arguments(),
    })
}
