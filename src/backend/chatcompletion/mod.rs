//! Owns the wire format Chat Completions, which most vendors and all local servers speak.

use std::ops::Range;

use serde_json::{Map, Value};
use url::Url;

use crate::backend::Request;
use crate::backend::chatcompletion::decoder::Decoder;
use crate::backend::chatcompletion::request::{frame, message, settled};
use crate::backend::conversation::Message;
use crate::backend::remote::wire::{Decode, Wire};
use crate::config::BackendConfig;
use crate::config::vendors::{ReasoningEcho, reasoning_echo_at};

mod calls;
mod decoder;
mod request;

/// Chat Completions of one model.
#[derive(Debug)]
pub(super) struct Completions {
    model: String,
    parameters: Map<String, Value>,
    echo: ReasoningEcho,
}

impl Completions {
    /// The format as the server at `url` wants it.
    pub(super) fn new(config: &BackendConfig, url: &Url) -> Self {
        Self {
            model: config.model.clone(),
            parameters: settled(&config.parameters),
            echo: reasoning_echo_at(url),
        }
    }
}

impl Wire for Completions {
    fn frame(&self, request: &Request<'_>) -> Map<String, Value> {
        frame(&self.model, &self.parameters, request)
    }

    fn elements(&self, messages: &[Message], new: Range<usize>) -> Vec<Value> {
        let new = messages.get(new).unwrap_or_default();
        new.iter().filter_map(message).collect()
    }

    fn decoder<'a>(&'a self, request: Request<'a>) -> Box<dyn Decode + 'a> {
        Box::new(Decoder::new(&request, self.echo))
    }
}
