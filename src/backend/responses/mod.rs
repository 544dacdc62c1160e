//! Owns the wire format Responses, OpenAI's own.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::backend::Request;
use crate::backend::conversation::Message;
use crate::backend::remote::wire::{Decode, Wire};
use crate::backend::responses::decoder::Decoder;
use crate::backend::responses::parameters::Parameters;
use crate::backend::responses::request::{frame, items};
use crate::config::BackendConfig;

mod decoder;
mod echo;
mod output;
mod parameters;
mod request;
mod voice;

/// Responses of one model.
#[derive(Debug)]
pub(super) struct Responses {
    model: String,
    parameters: Parameters,
}

impl Responses {
    /// The format with what `config` says about requests.
    pub(super) fn new(config: &BackendConfig) -> Self {
        Self {
            model: config.model.clone(),
            parameters: Parameters::of(&config.model, &config.parameters),
        }
    }
}

impl Wire for Responses {
    fn frame(&self, request: &Request<'_>) -> Map<String, Value> {
        frame(&self.model, &self.parameters, request)
    }

    fn elements(&self, messages: &[Message], new: Range<usize>) -> Vec<Value> {
        let new = messages.get(new).unwrap_or_default();
        new.iter().flat_map(items).collect()
    }

    fn decoder<'a>(&'a self, request: Request<'a>) -> Box<dyn Decode + 'a> {
        Box::new(Decoder::new(&request, self.parameters.storage))
    }
}
