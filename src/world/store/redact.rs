//! Redacts secrets, so that none reaches the records of a run. It is given the values and does not
//! decide what is secret. It must never print a value.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::text::map_json_strings;

/// The replacement for a secret.
pub const REDACTED: &str = "[redacted]";

/// The length of the shortest value that is redacted, in bytes. Shorter ones are placeholders such
/// as `EMPTY` or `ollama`, and redacting them would remove words from answers. GitLab masks
/// variables from the same length on.
pub const SECRET_BYTES_MIN: usize = 8;

/// The shortest prefix of a secret that is redacted too, so that text truncated inside a secret
/// reveals none of it. Shorter prefixes are shared by all keys of a vendor, like `sk-proj-`.
const PREFIX_BYTES_MIN: usize = 12;

/// The characters that percent-encoding replaces: all but letters, digits and these four (RFC 3986,
/// section 2.3).
const PERCENT_ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Redacts secrets in text: verbatim, and as they are encoded in JSON, URLs and base64.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The secrets in every encoding, sorted.
    secrets: Vec<SecretString>,
    /// The distinct characters that they start with.
    first_chars: Vec<char>,
}

/// Whether a text is complete, or more of it may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextCompleteness {
    Complete,
    Partial,
}

impl Redactor {
    /// Creates a redactor of `secrets`; those shorter than [`SECRET_BYTES_MIN`] are ignored.
    pub fn new(secrets: Vec<SecretString>) -> Self {
        let mut redactor = Self::default();
        for secret in secrets {
            redactor.insert(secret.expose_secret());
        }
        redactor
    }

    /// Adds a secret, unless it is shorter than [`SECRET_BYTES_MIN`].
    pub fn insert(&mut self, secret: &str) {
        let secret = secret.trim();
        if secret.len() < SECRET_BYTES_MIN {
            return;
        }
        for encoding in encodings(secret) {
            let Err(position) = self.position_of(&encoding) else {
                continue;
            };
            if let Some(first) = encoding.chars().next()
                && !self.first_chars.contains(&first)
            {
                self.first_chars.push(first);
            }
            self.secrets.insert(position, SecretString::from(encoding));
        }
    }

    /// Returns whether it knows no secret.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Returns `text` with secrets redacted.
    pub fn text(&self, text: &str) -> String {
        self.scan(text, TextCompleteness::Complete).0
    }

    /// Redacts every string and object key in `value`.
    pub fn json(&self, value: Value) -> Value {
        map_json_strings(value, &|text| self.text(text))
    }

    /// Returns `value` as YAML. Secrets are redacted before YAML folds and escapes strings.
    pub(crate) fn yaml(&self, value: &impl Serialize) -> Result<String> {
        let json = serde_json::to_value(value).map_err(Error::unserializable)?;
        serde_yaml::to_string(&self.json(json)).map_err(Error::unserializable)
    }

    /// Returns the redacted beginning of `text`, and the rest if that may be the beginning of a
    /// secret.
    fn scan<'t>(&self, text: &'t str, completeness: TextCompleteness) -> (String, &'t str) {
        let mut redacted = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.find(self.first_chars.as_slice()) {
            let (plain, candidate) = rest.split_at(next);
            redacted.push_str(plain);
            rest = candidate;
            let secret = self.secret_prefix_of(rest);
            if completeness == TextCompleteness::Partial && secret.is_cut {
                return (redacted, rest);
            }
            let mut chars = rest.chars();
            if let Some(bytes) = secret.bytes {
                redacted.push_str(REDACTED);
                rest = rest.split_at(bytes).1;
            } else {
                redacted.extend(chars.next());
                rest = chars.as_str();
            }
        }
        redacted.push_str(rest);
        (redacted, "")
    }

    /// Returns how much of a secret `text` starts with.
    fn secret_prefix_of(&self, text: &str) -> SecretPrefix {
        let sorts_before = |secret: &SecretString| secret.expose_secret() <= text;
        let position = self.secrets.partition_point(sorts_before);
        let next = self.secrets.get(position).map(ExposeSecret::expose_secret);
        let last = position
            .checked_sub(1)
            .and_then(|last| self.secrets.get(last));
        // No secret shares a longer prefix with the text than its neighbors in sorted order do.
        let neighbors = [last.map(ExposeSecret::expose_secret), next];
        let longest_common = neighbors
            .into_iter()
            .flatten()
            .map(|secret| common_bytes(text, secret))
            .max();
        let long_enough = longest_common.filter(|bytes| *bytes >= PREFIX_BYTES_MIN);
        SecretPrefix {
            bytes: long_enough.or_else(|| self.short_secret_at(text)),
            is_cut: next.is_some_and(|secret| secret.starts_with(text)),
        }
    }

    /// Returns the length of the longest secret shorter than [`PREFIX_BYTES_MIN`] that `text`
    /// starts with.
    fn short_secret_at(&self, text: &str) -> Option<usize> {
        let mut lengths = (SECRET_BYTES_MIN..PREFIX_BYTES_MIN).rev();
        lengths.find(|length| {
            let is_secret = |head: &str| self.position_of(head).is_ok();
            text.get(..*length).is_some_and(is_secret)
        })
    }

    /// Returns the index of an encoded secret, or where to insert it.
    fn position_of(&self, encoding: &str) -> std::result::Result<usize, usize> {
        let compare = |secret: &SecretString| secret.expose_secret().cmp(encoding);
        self.secrets.binary_search_by(compare)
    }
}

/// Returns a secret verbatim and as it is encoded in JSON, URLs and base64.
fn encodings(secret: &str) -> Vec<String> {
    let json = serde_json::Value::from(secret).to_string();
    let json = json.trim_matches('"').to_owned();
    let percent = utf8_percent_encode(secret, PERCENT_ENCODED).to_string();
    let mut encodings = vec![
        secret.to_owned(),
        json.replace('/', r"\/"),
        json,
        lower_escapes(&percent),
        percent,
    ];
    for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
        encodings.extend(
            (0..3).filter_map(|preceding_bytes| within_base64(&engine, secret, preceding_bytes)),
        );
    }
    encodings.sort();
    encodings.dedup();
    encodings.retain(|encoding| encoding.len() >= SECRET_BYTES_MIN);
    encodings
}

/// Returns the same percent-encoding with lower-case hexadecimal digits.
fn lower_escapes(percent: &str) -> String {
    let mut digits_left = 0_u8;
    let lower_chars = percent.chars().map(|c| {
        let is_digit = digits_left > 0;
        digits_left = if c == '%' {
            2
        } else {
            digits_left.saturating_sub(1)
        };
        if is_digit { c.to_ascii_lowercase() } else { c }
    });
    lower_chars.collect()
}

/// Returns the part of a text's base64 that depends on the secret alone, if so many bytes precede
/// it in its first group of three.
fn within_base64<E: Engine>(engine: &E, secret: &str, preceding_bytes: usize) -> Option<String> {
    let bytes = [vec![0; preceding_bytes], secret.as_bytes().to_vec()].concat();
    let encoded = engine.encode(&bytes);
    // A character encodes six bits; one that contains bits of a neighbour is not predictable.
    let start = preceding_bytes.saturating_mul(8).div_ceil(6);
    let end = bytes.len().saturating_mul(8) / 6;
    encoded.get(start..end).map(str::to_owned)
}

/// How much of a secret a text begins with.
struct SecretPrefix {
    /// The length to redact in bytes, if it is long enough for that.
    bytes: Option<usize>,
    /// Whether the text ends within a secret.
    is_cut: bool,
}

/// Returns the length of the common prefix in bytes, cut to whole characters.
fn common_bytes(text: &str, secret: &str) -> usize {
    let pairs = text.bytes().zip(secret.bytes());
    let common_len = pairs.take_while(|(left, right)| left == right).count();
    text.floor_char_boundary(common_len)
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} secrets)", self.secrets.len())
    }
}

/// Redacts text that arrives in chunks, even if a secret is split between them.
#[derive(Debug, Default)]
pub struct RedactedStream {
    /// The end of the text so far, which may be the beginning of a secret.
    pending: String,
}

impl RedactedStream {
    /// Adds the next chunk and returns the text that can be written now.
    pub fn push(&mut self, redactor: &Redactor, chunk: &str) -> String {
        self.pending.push_str(chunk);
        let (redacted, rest) = redactor.scan(&self.pending, TextCompleteness::Partial);
        self.pending = rest.to_owned();
        redacted
    }

    /// Ends the text and returns what was held back.
    pub fn finish(&mut self, redactor: &Redactor) -> String {
        redactor.text(&std::mem::take(&mut self.pending))
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
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
    fn secrets_are_redacted_and_the_text_around_them_stays() {
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
    fn a_secret_is_redacted_in_every_encoding() {
        let redactor = Redactor::new(vec![SecretString::from("key/of+the \"user\"=é")]);
        let check =
            |text: &str, expected: &str| assert_eq!(redactor.text(text), expected, "{text}");
        check(r#"{"a":"key/of+the \"user\"=é"}"#, r#"{"a":"[redacted]"}"#);
        check(r#""key\/of+the \"user\"=é""#, r#""[redacted]""#);
        check(
            "?a=key%2Fof%2Bthe%20%22user%22%3D%C3%A9&b",
            "?a=[redacted]&b",
        );
        check(
            "?a=key%2fof%2bthe%20%22user%22%3d%c3%a9&b",
            "?a=[redacted]&b",
        );
        for before in ["", "a", "ab", "abc", "Bearer "] {
            let encoded = STANDARD.encode(format!("{before}key/of+the \"user\"=é!"));
            let clean = redactor.text(&encoded);
            assert!(clean.contains("[redacted]"), "{before}: {clean}");
            assert!(clean.len() < 28, "{before}: {clean}");
        }
        check("a2V5", "a2V5");
    }

    #[test]
    fn a_placeholder_is_no_secret() {
        check("api_key: EMPTY", "api_key: EMPTY");
    }

    #[test]
    fn a_truncated_secret_is_redacted_but_not_a_short_prefix() {
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
