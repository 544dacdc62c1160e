//! Filters the content that is exported: texts written by a person or a model only if the user
//! enabled that. A secret must never be exported.

use serde_json::{Value as Json, json};

use crate::text::truncate;
use crate::tools::CallRequest;
use crate::world::diagnostics::telemetry::otlp::{
    AnyValue, AttributeValue, KeyValue, OtlpSpan, attribute,
};
use crate::world::diagnostics::telemetry::settings::ContentCapture;
use crate::world::store::redact::Redactor;

/// Longest text that is exported, in characters.
const TEXT_CHARS_MAX: usize = 10_000;

/// A message to or from a model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GenAiMessage<'t> {
    /// `user` or `assistant`.
    pub(crate) role: &'static str,
    /// The text of the message.
    pub(crate) text: &'t str,
    /// The tool calls that a model requested.
    pub(crate) calls: &'t [CallRequest],
    /// The reason why a model stopped.
    pub(crate) finish_reason: Option<&'static str>,
}

/// Filter for exported content.
#[derive(Clone, Debug)]
pub(crate) struct ContentFilter {
    content: ContentCapture,
    redactor: Redactor,
}

impl ContentFilter {
    /// Creates a filter that exports texts according to `content`, without the secrets that
    /// `redactor` knows.
    pub(crate) fn new(content: ContentCapture, redactor: Redactor) -> Self {
        Self { content, redactor }
    }

    /// Returns an attribute with a text written by a person or a model, if such texts are exported.
    pub(crate) fn text_attribute(&self, key: &str, text: &str) -> Option<KeyValue> {
        match self.content {
            ContentCapture::Withheld => None,
            ContentCapture::Included => Some(attribute(key, self.redact_and_truncate(text))),
        }
    }

    /// Returns an attribute with a message, if messages are exported, in the format of the
    /// conventions: a list as JSON text.
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
        let mut object = json!({"role": message.role, "parts": parts});
        if let (Json::Object(fields), Some(reason)) = (&mut object, message.finish_reason) {
            fields.insert("finish_reason".to_owned(), reason.into());
        }
        Some(attribute(key, json!([object]).to_string()))
    }

    /// Redacts before truncating: the remaining beginning of a secret would not be recognised, but
    /// still reveals something.
    fn redact_and_truncate(&self, text: &str) -> String {
        truncate(&self.redactor.text(text), TEXT_CHARS_MAX)
    }

    /// Redacts secrets from all texts of `span`.
    pub(crate) fn redact_span(&self, span: &mut OtlpSpan) {
        span.name = self.redactor.text(&span.name);
        let event_attributes = span
            .events
            .iter_mut()
            .flat_map(|event| &mut event.attributes);
        for attribute in span.attributes.iter_mut().chain(event_attributes) {
            if let Some(value) = &mut attribute.value {
                self.redact_value(value);
            }
        }
    }

    fn redact_value(&self, value: &mut AnyValue) {
        match &mut value.value {
            Some(AttributeValue::Text(text)) => *text = self.redactor.text(text),
            Some(AttributeValue::Array(array)) => {
                for value in &mut array.values {
                    self.redact_value(value);
                }
            }
            Some(AttributeValue::Bool(_) | AttributeValue::Int(_) | AttributeValue::Double(_))
            | None => {}
        }
    }
}
