//! Owns the wire format Messages: Anthropic's own, with thinking, prompt caching and server tools.

use std::ops::Range;

use serde_json::{Map, Value};

use crate::backend::Request;
use crate::backend::conversation::Message;
use crate::backend::messages::decoder::Decoder;
use crate::backend::messages::parameters::Settings;
use crate::backend::messages::request::{elements, frame, mark};
use crate::backend::remote::wire::{Decode, Wire};
use crate::config::BackendConfig;

mod content;
mod decoder;
mod parameters;
mod request;

/// Messages of one model.
#[derive(Debug)]
pub(super) struct Messages {
    model: String,
    settings: Settings,
}

impl Messages {
    /// The format as `config` wants it.
    pub(super) fn new(config: &BackendConfig) -> Self {
        Self {
            model: config.model.clone(),
            settings: Settings::of(&config.parameters),
        }
    }
}

impl Wire for Messages {
    fn frame(&self, request: &Request<'_>) -> Map<String, Value> {
        frame(&self.model, &self.settings, request)
    }

    fn elements(&self, messages: &[Message], new: Range<usize>) -> Vec<Value> {
        elements(messages.get(new).unwrap_or_default())
    }

    fn mark_newest(&self, newest: &mut [Value]) {
        if let Some(cache) = &self.settings.cache {
            mark(newest, cache);
        }
    }

    fn decoder<'a>(&'a self, request: Request<'a>) -> Box<dyn Decode + 'a> {
        Box::new(Decoder::new(request.conversation))
    }
}
