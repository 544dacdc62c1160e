//! The wire format Responses, OpenAI's own.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::backend::ModelRequest;
use crate::backend::conversation::ChatMessage;
use crate::backend::remote::wire::{ReplyDecoder, WireCodec};
use crate::backend::responses::decoder::ResponsesDecoder;
use crate::backend::responses::parameters::{ResponsesParameters, SystemPlace};
use crate::backend::responses::request::{encode_message, request_body};
use crate::backend::source_list::SourceList;
use crate::config::BackendConfig;
use crate::config::vendors::GROK;

mod decoder;
mod echo;
mod output;
mod parameters;
mod request;

/// Responses codec of one model.
#[derive(Debug)]
pub(super) struct ResponsesCodec {
    model: String,
    parameters: ResponsesParameters,
}

impl ResponsesCodec {
    /// Creates the codec with the request parameters of `config`.
    pub(super) fn new(config: &BackendConfig) -> Self {
        let system = if config.vendor.name == GROK {
            SystemPlace::Input
        } else {
            SystemPlace::Instructions
        };
        let parameters = ResponsesParameters::from_config(&config.model, &config.parameters);
        Self {
            model: config.model.clone(),
            parameters: parameters.with_system(system),
        }
    }
}

impl WireCodec for ResponsesCodec {
    fn request_body(&self, request: &ModelRequest<'_>) -> Map<String, Value> {
        request_body(&self.model, &self.parameters, request)
    }

    fn encode_messages(&self, messages: &[ChatMessage], range: Range<usize>) -> Vec<Value> {
        let new_messages = messages.get(range).unwrap_or_default();
        new_messages.iter().flat_map(encode_message).collect()
    }

    fn decoder<'a>(&'a self, request: ModelRequest<'a>) -> Box<dyn ReplyDecoder + 'a> {
        let sources = SourceList::for_request(&request, &self.parameters.tools);
        let decoder = ResponsesDecoder::new(&request, self.parameters.storage);
        Box::new(decoder.with_sources(sources))
    }
}
