//! The wire format Chat Completions, which most vendors and all local servers use.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use url::Url;

use crate::backend::ModelRequest;
use crate::backend::chatcompletion::decoder::ChatCompletionsDecoder;
use crate::backend::chatcompletion::reasoning::ReasoningEchoPolicy;
use crate::backend::chatcompletion::request::{encode_message, request_body, request_parameters};
use crate::backend::conversation::ChatMessage;
use crate::backend::remote::wire::{RefusalRemedy, ReplyDecoder, WireCodec};
use crate::config::BackendConfig;
use crate::config::vendors::{ReasoningEcho, reasoning_echo};
use crate::text::to_hex;

mod calls;
mod decoder;
mod thoughts;
mod reasoning;
mod request;

/// Chat Completions codec of one model.
#[derive(Debug)]
pub(super) struct ChatCompletionsCodec {
    model: String,
    parameters: Map<String, Value>,
    echo: ReasoningEcho,
    /// How much of the reasoning of earlier replies is sent back, as the vendor has demanded.
    echo_policy: Mutex<ReasoningEchoPolicy>,
    /// Whether ids of calls have nine letters and digits.
    has_short_ids: bool,
}

impl ChatCompletionsCodec {
    /// Creates the codec for the server at `url`.
    pub(super) fn new(config: &BackendConfig, url: &Url) -> Self {
        Self {
            model: config.model.clone(),
            parameters: request_parameters(&config.parameters),
            echo: config
                .reasoning_echo
                .unwrap_or_else(|| reasoning_echo(config.vendor.name, url, &config.model)),
            echo_policy: Mutex::default(),
            has_short_ids: requires_short_ids(config),
        }
    }
}

impl WireCodec for ChatCompletionsCodec {
    fn request_body(&self, request: &ModelRequest<'_>) -> Map<String, Value> {
        request_body(&self.model, &self.parameters, request)
    }

    fn encode_messages(&self, messages: &[ChatMessage], range: Range<usize>) -> Vec<Value> {
        let new_messages = messages.get(range).unwrap_or_default();
        let policy = *self
            .echo_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let encoded = new_messages.iter().filter_map(|message| {
            let mut message = encode_message(message, policy)?;
            if self.has_short_ids {
                shorten_ids(&mut message);
            }
            Some(message)
        });
        encoded.collect()
    }

    fn adapt_to_refusal(&self, message: &str) -> RefusalRemedy {
        let mut policy = self
            .echo_policy
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match policy.after_refusal(message) {
            Some(next) if self.echo != ReasoningEcho::Refused => {
                *policy = next;
                RefusalRemedy::Retry
            }
            Some(_) | None => RefusalRemedy::None,
        }
    }

    fn decoder<'a>(&'a self, request: ModelRequest<'a>) -> Box<dyn ReplyDecoder + 'a> {
        Box::new(ChatCompletionsDecoder::new(&request, self.echo))
    }
}

/// Length of the ids of calls that Mistral's models require.
const ID_CHARS: usize = 9;

/// Returns whether a model is one of Mistral's, which require ids of calls with [`ID_CHARS`] letters
/// and digits: another vendor that answered before, or a server without ids, has other ones. All of
/// Mistral's names end so, with a size or a version after.
fn requires_short_ids(config: &BackendConfig) -> bool {
    let name = config.model.to_lowercase();
    ["stral", "xtral"].iter().any(|end| name.contains(end))
}

/// Shortens the ids in a message, each always to the same one.
fn shorten_ids(message: &mut Value) {
    if let Some(id) = message.get_mut("tool_call_id") {
        shorten_id(id);
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for id in calls
        .into_iter()
        .flatten()
        .filter_map(|call| call.get_mut("id"))
    {
        shorten_id(id);
    }
}

fn shorten_id(id: &mut Value) {
    let text = id.as_str().unwrap_or_default();
    if text.len() == ID_CHARS && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return;
    }
    let digest = to_hex(&Sha256::digest(text));
    *id = Value::String(digest.chars().take(ID_CHARS).collect());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_and_its_result_have_the_same_short_id() {
        let mut call = json!({"tool_calls": [{"id": "functions.x:0"}, {"id": "abcDEF123"}]});
        let mut result = json!({"tool_call_id": "functions.x:0"});
        shorten_ids(&mut call);
        shorten_ids(&mut result);
        let short_id = &call["tool_calls"][0]["id"];
        assert_eq!(*short_id, result["tool_call_id"]);
        assert_eq!(short_id.as_str().map(str::len), Some(ID_CHARS));
        assert_eq!(call["tool_calls"][1]["id"], "abcDEF123");
    }
}
