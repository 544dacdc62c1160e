//! Owns the rule that no secret reaches a record. Whatever the store writes passes here; it knows
//! the values and asks nobody what is secret. It must never hold or print a value in the clear.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// What stands where a secret stood.
pub const REDACTED: &str = "[redacted]";

/// Shorter values are placeholders such as `EMPTY` or `ollama`, and taking them out would take
/// words out of answers. GitLab masks variables from the same length on.
pub const SECRET_BYTES_MIN: usize = 8;

/// How much of a secret's beginning is taken out too, so that a text that was cut in the middle of
/// a secret gives none of it away. Less is what all keys of a vendor begin with, like `sk-proj-`.
const BEGINNING_BYTES_MIN: usize = 12;

/// Takes secrets out of text.
#[derive(Clone, Default)]
pub struct Redactor {
    secrets: Vec<SecretString>,
    first_chars: Vec<char>,
}

/// Whether a text is complete.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Reached,
    MoreComes,
}

impl Redactor {
    /// Makes one that knows `secrets`; those shorter than [`SECRET_BYTES_MIN`] are left out.
    pub fn new(secrets: Vec<SecretString>) -> Self {
        let secrets: Vec<SecretString> = secrets
            .into_iter()
            .map(|secret| SecretString::from(secret.expose_secret().trim()))
            .filter(|secret| secret.expose_secret().len() >= SECRET_BYTES_MIN)
            .collect();
        let first_chars = secrets
            .iter()
            .filter_map(|secret| secret.expose_secret().chars().next())
            .collect();
        Self {
            secrets,
            first_chars,
        }
    }

    /// `text` without secrets.
    pub fn text(&self, text: &str) -> String {
        self.scan(text, End::Reached).0
    }

    /// Takes secrets out of every string and name in `value`.
    pub fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => fields
                .into_iter()
                .map(|(name, field)| (self.text(&name), self.json(field)))
                .collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }

    /// The clean beginning of `text`, and the rest that may be the beginning of a secret.
    fn scan<'t>(&self, text: &'t str, end: End) -> (String, &'t str) {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.find(self.first_chars.as_slice()) {
            let (plain, from_here) = rest.split_at(next);
            clean.push_str(plain);
            rest = from_here;
            let secret = self.longest_at(rest);
            if end == End::MoreComes && secret.is_cut {
                return (clean, rest);
            }
            let mut chars = rest.chars();
            if secret.is_telling {
                clean.push_str(REDACTED);
                rest = rest.split_at(secret.bytes).1;
            } else {
                clean.extend(chars.next());
                rest = chars.as_str();
            }
        }
        clean.push_str(rest);
        (clean, "")
    }

    /// How much of a secret `text` begins with.
    fn longest_at(&self, text: &str) -> Beginning {
        let mut longest = Beginning::default();
        for secret in &self.secrets {
            let secret = secret.expose_secret();
            let bytes = common_bytes(text, secret);
            longest.is_cut |= bytes == text.len() && bytes < secret.len();
            if bytes >= secret.len().min(BEGINNING_BYTES_MIN) && bytes > longest.bytes {
                longest.bytes = bytes;
                longest.is_telling = true;
            }
        }
        longest
    }
}

/// How much of a secret a text begins with.
#[derive(Default)]
struct Beginning {
    bytes: usize,
    /// It is enough to be taken out.
    is_telling: bool,
    /// The text ends within a secret.
    is_cut: bool,
}

fn common_bytes(text: &str, secret: &str) -> usize {
    text.chars()
        .zip(secret.chars())
        .take_while(|(left, right)| left == right)
        .map(|(left, _)| left.len_utf8())
        .sum()
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

/// Takes secrets out of a text that comes in pieces, also where a piece ends within a secret.
#[derive(Debug, Default)]
pub struct RedactedStream {
    held: String,
}

impl RedactedStream {
    /// Takes the next piece and gives what can be written by now.
    pub fn push(&mut self, redactor: &Redactor, piece: &str) -> String {
        self.held.push_str(piece);
        let (clean, rest) = redactor.scan(&self.held, End::MoreComes);
        self.held = rest.to_owned();
        clean
    }

    /// Ends the text and gives what was held back.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        redactor.text(&std::mem::take(&mut self.held))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use serde_json::json;

    use super::{RedactedStream, Redactor};

    fn redactor() -> Redactor {
        Redactor::new(vec![
            SecretString::from("sk-proj-0123456789abcdef"),
            SecretString::from(" sk-proj-0123456789abcdefXYZ\n"),
            SecretString::from("schlüssel€"),
            SecretString::from("EMPTY"),
        ])
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(redactor().text(text), expected, "whole");
        for (at, _) in text.char_indices() {
            let (head, tail) = text.split_at(at);
            let mut stream = RedactedStream::default();
            let mut got = stream.push(&redactor(), head);
            got += &stream.push(&redactor(), tail);
            got += &stream.finish(&redactor());
            assert_eq!(got, expected, "cut at byte {at}");
        }
    }

    #[test]
    fn secrets_go_and_the_text_around_them_stays() {
        check("nothing here", "nothing here");
        check("key=sk-proj-0123456789abcdef.", "key=[redacted].");
        check("key=sk-proj-0123456789abcdefXYZ!", "key=[redacted]!");
        check("sk-sk-proj-0123456789abcdef", "sk-[redacted]");
        check(
            "ein schlüssel€ und ein schlüssel",
            "ein [redacted] und ein schlüssel",
        );
        check("", "");
    }

    #[test]
    fn a_placeholder_is_no_secret() {
        check("api_key: EMPTY", "api_key: EMPTY");
    }

    #[test]
    fn a_secret_that_was_cut_short_goes_too_but_not_a_common_beginning() {
        check("key=sk-proj-012345…", "key=[redacted]…");
        check("keys begin with sk-proj-", "keys begin with sk-proj-");
    }

    #[test]
    fn json_is_searched_in_depth() {
        let value = json!({"a": ["schlüssel€", 1, {"sk-proj-0123456789abcdef": null}]});
        let clean = json!({"a": ["[redacted]", 1, {"[redacted]": null}]});
        assert_eq!(redactor().json(value), clean);
    }
}
