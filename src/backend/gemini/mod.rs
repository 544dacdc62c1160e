//! The wire format of Google's models, `generateContent`:
//! <https://ai.google.dev/api/generate-content>.

use std::ops::Range;
use std::sync::Mutex;

use serde_json::{Map, Value};

use crate::backend::ModelRequest;
use crate::backend::conversation::ChatMessage;
use crate::backend::gemini::decoder::GenerateContentDecoder;
use crate::backend::gemini::parameters::GenerateContentParameters;
use crate::backend::gemini::request::{encode_messages, request_body};
use crate::backend::remote::wire::{ReplyDecoder, WireCodec};
use crate::backend::source_list::SourceList;
use crate::config::BackendConfig;
use crate::config::vendors::{GeminiGeneration, gemini_generation};

mod decoder;
mod parameters;
mod request;
mod schema;

/// `generateContent` codec of one model.
#[derive(Debug)]
pub(super) struct GenerateContentCodec {
    model_generation: GeminiGeneration,
    parameters: GenerateContentParameters,
    /// The last finish reason that was reported as unknown, so that it is reported once.
    last_unknown_finish: Mutex<Option<String>>,
}

impl GenerateContentCodec {
    /// Creates the codec for the model of `config`.
    pub(super) fn new(config: &BackendConfig) -> Self {
        let model_generation = gemini_generation(&config.model);
        Self {
            model_generation,
            parameters: GenerateContentParameters::new(&config.parameters, model_generation),
            last_unknown_finish: Mutex::default(),
        }
    }
}

impl WireCodec for GenerateContentCodec {
    fn request_body(&self, request: &ModelRequest<'_>) -> Map<String, Value> {
        request_body(&self.parameters, request)
    }

    fn encode_messages(&self, messages: &[ChatMessage], range: Range<usize>) -> Vec<Value> {
        encode_messages(messages, range, self.model_generation)
    }

    fn decoder<'a>(&'a self, request: ModelRequest<'a>) -> Box<dyn ReplyDecoder + 'a> {
        let sources = SourceList::for_request(&request, &self.parameters.tools);
        let decoder = GenerateContentDecoder::new(request.conversation, &self.last_unknown_finish);
        Box::new(decoder.with_sources(sources))
    }
}
