//! The wire format Chat Completions, which most vendors and all local servers use.

use std::ops::Range;

use serde_json::{Map, Value};
use url::Url;

use crate::backend::ModelRequest;
use crate::backend::chatcompletion::decoder::ChatCompletionsDecoder;
use crate::backend::chatcompletion::request::{encode_message, request_body, request_parameters};
use crate::backend::conversation::ChatMessage;
use crate::backend::remote::wire::{ReplyDecoder, WireCodec};
use crate::config::BackendConfig;
use crate::config::vendors::{ReasoningEcho, reasoning_echo_at};

mod calls;
mod decoder;
mod request;

/// Chat Completions codec of one model.
#[derive(Debug)]
pub(super) struct ChatCompletionsCodec {
    model: String,
    parameters: Map<String, Value>,
    echo: ReasoningEcho,
}

impl ChatCompletionsCodec {
    /// Creates the codec for the server at `url`.
    pub(super) fn new(config: &BackendConfig, url: &Url) -> Self {
        Self {
            model: config.model.clone(),
            parameters: request_parameters(&config.parameters),
            echo: reasoning_echo_at(url),
        }
    }
}

impl WireCodec for ChatCompletionsCodec {
    fn request_body(&self, request: &ModelRequest<'_>) -> Map<String, Value> {
        request_body(&self.model, &self.parameters, request)
    }

    fn encode_messages(&self, messages: &[ChatMessage], new: Range<usize>) -> Vec<Value> {
        let new = messages.get(new).unwrap_or_default();
        new.iter().filter_map(encode_message).collect()
    }

    fn decoder<'a>(&'a self, request: ModelRequest<'a>) -> Box<dyn ReplyDecoder + 'a> {
        Box::new(ChatCompletionsDecoder::new(&request, self.echo))
    }
}
