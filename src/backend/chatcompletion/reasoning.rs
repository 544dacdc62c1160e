//! The reasoning of a reply that the vendor wants back in later requests: how it is collected, and
//! when it is sent.

use serde_json::{Map, Value, json};

use crate::backend::json_bytes;
use crate::config::vendors::ReasoningEcho;

/// The fields in which vendors send reasoning as text.
const CONTENT: &str = "reasoning_content";
const TEXT_FIELDS: &[&str] = &[CONTENT, "reasoning"];
/// The field for reasoning in parts, some of them encrypted:
/// <https://openrouter.ai/docs/use-cases/reasoning-tokens>.
const DETAILS: &str = "reasoning_details";
/// The texts of a part, which are streamed in pieces.
const DETAIL_TEXT_FIELDS: &[&str] = &["text", "summary"];
/// Words in the error message of a vendor that requires the reasoning; others do not accept it.
const DEMAND_WORDS: &[&str] = &["missing", "must", "required", "passed back"];

/// The parts of an echo: the fields that are sent back unless the vendor refuses them, and those
/// that are sent only if the vendor demands them.
const ALWAYS_SENT: &str = "message";
const SENT_ON_DEMAND: &str = "reasoning";

/// The reasoning of one reply so far.
#[derive(Debug)]
pub(super) struct ReasoningCollector {
    echo: ReasoningEcho,
    field: &'static str,
    text: String,
    details: Vec<Value>,
    /// The bytes of all pieces of the details.
    detail_bytes: usize,
}

impl ReasoningCollector {
    /// Creates a collector for a model that treats an echo as `echo` says.
    pub(super) fn new(echo: ReasoningEcho) -> Self {
        Self {
            echo,
            field: CONTENT,
            text: String::new(),
            details: Vec::new(),
            detail_bytes: 0,
        }
    }

    /// Returns the bytes that it holds, at least.
    pub(super) fn bytes(&self) -> usize {
        self.detail_bytes.saturating_add(self.text.len())
    }

    /// Adds the reasoning in a piece of a reply; returns its text.
    pub(super) fn add(&mut self, delta: &Value) -> Option<String> {
        let details = delta
            .get(DETAILS)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let field_text = TEXT_FIELDS.iter().find_map(|field| {
            let text = delta.get(*field)?.as_str()?;
            (!text.is_empty()).then_some((*field, text))
        });
        let text = match field_text {
            Some((_, text)) => text.to_owned(),
            None => details.iter().filter_map(detail_text).collect(),
        };
        if self.echo != ReasoningEcho::Refused {
            if let Some((field, text)) = field_text {
                self.field = field;
                self.text.push_str(text);
            }
            for detail in details {
                self.detail_bytes = self.detail_bytes.saturating_add(json_bytes(detail));
                self.add_detail(detail);
            }
        }
        (!text.is_empty()).then_some(text)
    }

    /// Appends a part to the one before it if it continues that.
    fn add_detail(&mut self, detail: &Value) {
        let Some(fields) = detail.as_object() else {
            return;
        };
        let last_detail = self.details.last_mut().and_then(Value::as_object_mut);
        let text_field = DETAIL_TEXT_FIELDS
            .iter()
            .find(|name| fields.contains_key(**name));
        let (Some(last_detail), Some(text_field)) = (last_detail, text_field) else {
            return self.details.push(detail.clone());
        };
        let is_same = |name| last_detail.get(name) == fields.get(name);
        if !is_same("type") || !is_same("index") || !last_detail.contains_key(*text_field) {
            return self.details.push(detail.clone());
        }
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
            match (last_detail.get_mut(name), value) {
                (Some(Value::String(text_before)), Value::String(piece)) if name == text_field => {
                    text_before.push_str(piece);
                }
                _ => {
                    last_detail.insert(name.clone(), value.clone());
                }
            }
        }
    }

    /// Returns the parts of the echo of a whole reply. Reasoning as text matters only with calls.
    pub(super) fn finish(&mut self, has_calls: bool) -> Map<String, Value> {
        let (text, details) = (
            std::mem::take(&mut self.text),
            std::mem::take(&mut self.details),
        );
        let fields = if !details.is_empty() {
            json!({DETAILS: details})
        } else if has_calls && !text.is_empty() {
            json!({self.field: text})
        } else {
            return Map::new();
        };
        let part = match self.echo {
            ReasoningEcho::Wanted => ALWAYS_SENT,
            ReasoningEcho::OnDemand | ReasoningEcho::Refused => SENT_ON_DEMAND,
        };
        Map::from_iter([(part.to_owned(), fields)])
    }
}

fn detail_text(detail: &Value) -> Option<&str> {
    DETAIL_TEXT_FIELDS
        .iter()
        .find_map(|name| detail.get(*name)?.as_str())
}

/// How much of the reasoning of earlier replies is sent back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReasoningEchoPolicy {
    /// What this vendor and model are known to want.
    #[default]
    AsKnown,
    /// All, and with every call: the vendor demands it.
    All,
    /// Nothing: the vendor refuses it.
    Nothing,
}

impl ReasoningEchoPolicy {
    /// Returns the policy after a refusal with this message; `None` if the refusal is about
    /// something else.
    pub(super) fn after_refusal(self, message: &str) -> Option<Self> {
        let message = message.to_lowercase();
        if !message.contains(CONTENT) && !message.contains(DETAILS) {
            return None;
        }
        let requires_reasoning = DEMAND_WORDS.iter().any(|word| message.contains(word));
        let next = if requires_reasoning {
            Self::All
        } else {
            Self::Nothing
        };
        (self == Self::AsKnown).then_some(next)
    }

    /// Returns the fields that a message carries; `has_calls` says whether it makes calls.
    pub(super) fn fields(self, echo: Option<&Value>, has_calls: bool) -> Map<String, Value> {
        let part = |name: &str| {
            let part = echo.and_then(|echo| echo.get(name)?.as_object());
            part.cloned().unwrap_or_default()
        };
        match self {
            Self::Nothing => Map::new(),
            Self::AsKnown => part(ALWAYS_SENT),
            Self::All => {
                let mut fields = part(ALWAYS_SENT);
                fields.extend(part(SENT_ON_DEMAND));
                if has_calls && !fields.contains_key(CONTENT) {
                    let text = TEXT_FIELDS
                        .iter()
                        .find_map(|name| fields.get(*name).cloned());
                    fields.insert(CONTENT.to_owned(), text.unwrap_or_else(|| json!("")));
                }
                fields
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_parts_of_reasoning_are_joined() {
        let mut reasoning = ReasoningCollector::new(ReasoningEcho::Wanted);
        let text = |index: u64, text: &str| json!({"type": "reasoning.text", "index": index, "text": text, "signature": null});
        let encrypted = json!({"type": "reasoning.encrypted", "index": 1, "data": "AB"});
        let mut shown = String::new();
        for delta in [
            json!({"reasoning": "Hm", "reasoning_details": [text(0, "Hm")]}),
            json!({"reasoning_details": [text(0, ".")]}),
            json!({"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "", "signature": "S"}, encrypted]}),
            json!({"reasoning_details": [text(2, "So"), encrypted, "odd"]}),
        ] {
            shown.push_str(&reasoning.add(&delta).unwrap_or_default());
        }
        assert_eq!(shown, "Hm.So");
        let whole = json!({"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "S"});
        let details = json!([whole, encrypted, text(2, "So"), encrypted]);
        let expected = json!({"message": {"reasoning_details": details}});
        assert_eq!(Value::from(reasoning.finish(false)), expected);
    }

    #[test]
    fn a_refusal_decides_what_is_sent() {
        #[track_caller]
        fn check(message: &str, expected: Option<ReasoningEchoPolicy>) {
            assert_eq!(
                ReasoningEchoPolicy::AsKnown.after_refusal(message),
                expected,
                "{message}"
            );
        }
        let all = Some(ReasoningEchoPolicy::All);
        check(
            "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
            all,
        );
        check(
            "The `reasoning_content` in the thinking mode must be passed back to the API.",
            all,
        );
        let nothing = Some(ReasoningEchoPolicy::Nothing);
        check("property 'reasoning_content' is unsupported", nothing);
        check("Unknown field: reasoning_details", nothing);
        check("missing parameter: model", None);
        let again = ReasoningEchoPolicy::All.after_refusal("reasoning_content is missing");
        assert_eq!(again, None);
    }

    #[test]
    fn a_message_carries_the_reasoning_that_is_sent() {
        #[track_caller]
        fn check(policy: ReasoningEchoPolicy, echo: &Value, expected: &Value) {
            let fields = policy.fields(Some(echo), true);
            assert_eq!(Value::from(fields), *expected, "{policy:?} {echo}");
        }
        let known = json!({"message": {"reasoning_content": "Hm"}});
        let echo = json!({"reasoning": {"reasoning": "Hm"}});
        let details = json!({"message": {"reasoning_details": [1]}});
        check(
            ReasoningEchoPolicy::AsKnown,
            &known,
            &json!({"reasoning_content": "Hm"}),
        );
        check(ReasoningEchoPolicy::AsKnown, &echo, &json!({}));
        check(
            ReasoningEchoPolicy::All,
            &known,
            &json!({"reasoning_content": "Hm"}),
        );
        check(
            ReasoningEchoPolicy::All,
            &echo,
            &json!({"reasoning": "Hm", "reasoning_content": "Hm"}),
        );
        check(
            ReasoningEchoPolicy::All,
            &json!({}),
            &json!({"reasoning_content": ""}),
        );
        check(
            ReasoningEchoPolicy::AsKnown,
            &details,
            &json!({"reasoning_details": [1]}),
        );
        check(ReasoningEchoPolicy::Nothing, &known, &json!({}));
        let text_alone = ReasoningEchoPolicy::All.fields(Some(&json!({})), false);
        assert_eq!(text_alone, Map::new());
    }
}
