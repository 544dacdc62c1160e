//! The wire format Chat Completions, which most vendors and all local servers use.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};
use url::Url;

use crate::backend::ModelRequest;
use crate::backend::chatcompletion::decoder::ChatCompletionsDecoder;
use crate::backend::chatcompletion::reasoning::ReasoningEchoPolicy;
use crate::backend::chatcompletion::request::{encode_message, request_body, request_parameters};
use crate::backend::chatcompletion::short_ids::{requires_short_ids, shorten_ids};
use crate::backend::conversation::ChatMessage;
use crate::backend::remote::wire::{RefusalRemedy, ReplyDecoder, WireCodec};
use crate::config::BackendConfig;
use crate::config::vendors::{ReasoningEcho, reasoning_echo};

mod calls;
mod decoder;
mod thoughts;
mod short_ids;
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
