//! Owns which words leave the machine: texts that a person or a model wrote only if the user asked
//! for it, and no secret ever.

use serde_json::{Value as Json, json};

use crate::text::truncate;
use crate::tools::request::CallRequest;
use crate::world::diagnostics::telemetry::otlp::{
    AnyValue, AttributeValue, KeyValue, OtlpSpan, attribute,
};
use crate::world::diagnostics::telemetry::settings::ContentCapture;
use crate::world::store::redact::Redactor;

/// The most of one text that is told, in characters.
const TEXT_CHARS_MAX: usize = 10_000;

/// Something that was said to a model or by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenAiMessage<'t> {
    /// `user` or `assistant`.
    pub(crate) role: &'static str,
    /// What was said.
    pub(crate) text: &'t str,
    /// The calls that a model asked for.
    pub(crate) calls: &'t [CallRequest],
    /// Why a model stopped.
    pub(crate) finish_reason: Option<&'static str>,
}

/// What may be told.
#[derive(Clone, Debug)]
pub(crate) struct ContentFilter {
    content: ContentCapture,
    redactor: Redactor,
}

impl ContentFilter {
    /// Tells texts as `content` says, without what `redactor` knows.
    pub(crate) fn new(content: ContentCapture, redactor: Redactor) -> Self {
        Self { content, redactor }
    }

    /// A text that a person or a model wrote, where those are told.
    pub(crate) fn text_attribute(&self, key: &str, text: &str) -> Option<KeyValue> {
        match self.content {
            ContentCapture::Withheld => None,
            ContentCapture::Included => Some(attribute(key, self.redact_and_truncate(text))),
        }
    }

    /// A message, where those are told, in the form of the conventions: a list as JSON text.
    pub(crate) fn message_attribute(
        &self,
        key: &str,
        message: GenAiMessage<'_>,
    ) -> Option<KeyValue> {
        if self.content == ContentCapture::Withheld {
            return None;
        }
        let mut parts =
            vec![json!({"type": "text", "content": self.redact_and_truncate(message.text)})];
        parts.extend(message.calls.iter().map(|call| {
            let arguments = self.redact_and_truncate(&call.arguments);
            json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
        }));
        let mut told = json!({"role": message.role, "parts": parts});
        if let (Json::Object(fields), Some(reason)) = (&mut told, message.finish_reason) {
            fields.insert("finish_reason".to_owned(), reason.into());
        }
        Some(attribute(key, json!([told]).to_string()))
    }

    /// The secrets go first: the beginning of one says less than all of it, and still something.
    fn redact_and_truncate(&self, text: &str) -> String {
        truncate(&self.redactor.text(text), TEXT_CHARS_MAX)
    }

    /// Takes secrets out of everything that `span` says.
    pub(crate) fn clean(&self, span: &mut OtlpSpan) {
        span.name = self.redactor.text(&span.name);
        let of_events = span
            .events
            .iter_mut()
            .flat_map(|event| &mut event.attributes);
        for attribute in span.attributes.iter_mut().chain(of_events) {
            if let Some(value) = &mut attribute.value {
                self.clean_value(value);
            }
        }
    }

    fn clean_value(&self, value: &mut AnyValue) {
        match &mut value.value {
            Some(AttributeValue::Text(text)) => *text = self.redactor.text(text),
            Some(AttributeValue::List(list)) => {
                for value in &mut list.values {
                    self.clean_value(value);
                }
            }
            Some(AttributeValue::Truth(_) | AttributeValue::Whole(_) | AttributeValue::Real(_))
            | None => {}
        }
    }
}
