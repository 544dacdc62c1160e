//! The wire format Messages: Anthropic's own, with thinking, prompt caching and server tools.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::backend::ModelRequest;
use crate::backend::conversation::ChatMessage;
use crate::backend::messages::decoder::MessagesDecoder;
use crate::backend::messages::parameters::MessagesParameters;
use crate::backend::messages::request::{encode_messages, request_body, set_cache_breakpoints};
use crate::backend::remote::wire::{ReplyDecoder, WireCodec};
use crate::config::BackendConfig;

mod content;
mod decoder;
mod parameters;
mod request;
mod strict_tools;

/// Messages codec of one model.
#[derive(Debug)]
pub(super) struct MessagesCodec {
    model: String,
    settings: MessagesParameters,
}

impl MessagesCodec {
    /// Creates the codec for `config`.
    pub(super) fn new(config: &BackendConfig) -> Self {
        Self {
            model: config.model.clone(),
            settings: MessagesParameters::from_config(&config.parameters),
        }
    }
}

impl WireCodec for MessagesCodec {
    fn request_body(&self, request: &ModelRequest<'_>) -> Map<String, Value> {
        request_body(&self.model, &self.settings, request)
    }

    fn encode_messages(&self, messages: &[ChatMessage], range: Range<usize>) -> Vec<Value> {
        encode_messages(messages.get(range).unwrap_or_default())
    }

    fn set_cache_breakpoint(&self, newest: &mut [Value]) {
        if let Some(cache) = &self.settings.cache {
            set_cache_breakpoints(newest, cache);
        }
    }

    fn decoder<'a>(&'a self, request: ModelRequest<'a>) -> Box<dyn ReplyDecoder + 'a> {
        Box::new(MessagesDecoder::new(request.conversation))
    }
}
