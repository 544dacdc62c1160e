//! Owns the wire format of Google's models, `generateContent`:
//! <https://ai.google.dev/api/generate-content>.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::backend::Request;
use crate::backend::conversation::Message;
use crate::backend::gemini::decoder::Decoder;
use crate::backend::gemini::parameters::Parameters;
use crate::backend::gemini::request::{contents, frame};
use crate::backend::remote::wire::{Decode, Wire};
use crate::config::BackendConfig;
use crate::config::vendors::{GeminiLine, gemini_line};

mod decoder;
mod parameters;
mod request;
mod schema;

/// `generateContent` of one model.
#[derive(Debug)]
pub(super) struct GenerateContent {
    line: GeminiLine,
    parameters: Parameters,
}

impl GenerateContent {
    /// The format as the model of `config` wants it.
    pub(super) fn new(config: &BackendConfig) -> Self {
        let line = gemini_line(&config.model);
        Self {
            line,
            parameters: Parameters::new(&config.parameters, line),
        }
    }
}

impl Wire for GenerateContent {
    fn frame(&self, request: &Request<'_>) -> Map<String, Value> {
        frame(&self.parameters, request)
    }

    fn elements(&self, messages: &[Message], new: Range<usize>) -> Vec<Value> {
        contents(messages, new, self.line)
    }

    fn decoder<'a>(&'a self, request: Request<'a>) -> Box<dyn Decode + 'a> {
        Box::new(Decoder::new(request.conversation))
    }
}
