//! Parses bytes into a tree in which every key and value knows its location in the text. It has no
//! knowledge of which keys exist, and bounds what a hostile file can cost.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_yaml::budget::BudgetBreach;
use serde_yaml::{Location, MessageFormatter, Spanned, UserMessageFormatter};

use crate::config::diagnostic::{Diagnostic, Span, quote};

/// The longest config that is parsed, in bytes.
pub const CONFIG_BYTES_MAX: usize = 1024 * 1024;
/// The maximum number of scalars, lists and mappings in a config, with aliases expanded.
pub const NODES_MAX: usize = 20_000;
/// The maximum number of aliases (`*name`) in a config.
pub const ALIASES_MAX: usize = 1_000;
/// The maximum nesting depth of a config.
pub const DEPTH_MAX: usize = 32;
/// The maximum size of all scalars, with aliases expanded, in bytes.
const SCALAR_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a text may contain at most.
#[derive(Clone, Copy, Debug)]
pub struct YamlLimits {
    /// Scalars, lists and mappings, with aliases expanded.
    pub nodes: usize,
    /// Aliases (`*name`).
    pub aliases: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// The size of all scalars, with aliases expanded, in bytes.
    pub scalar_bytes: usize,
}

impl YamlLimits {
    /// The limits for configs, which may come from strangers.
    pub const CONFIG: Self = Self {
        nodes: NODES_MAX,
        aliases: ALIASES_MAX,
        depth: DEPTH_MAX,
        scalar_bytes: SCALAR_BYTES_MAX,
    };
    /// The limits for files that massgen wrote or that a user names, such as recordings.
    pub const RECORD: Self = Self {
        nodes: 250_000,
        aliases: ALIASES_MAX,
        depth: 2 * DEPTH_MAX,
        scalar_bytes: 64 * 1024 * 1024,
    };
}

/// A value and its location.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlNode {
    /// Its location; for an alias, where it is used.
    pub span: Span,
    /// The value.
    pub value: YamlValue,
}

/// A value in the tree.
#[derive(Clone, Debug, PartialEq)]
pub enum YamlValue {
    /// Nothing, `~` or `null`.
    Null,
    /// A scalar.
    Scalar(YamlScalar),
    /// A list.
    List(Vec<YamlNode>),
    /// A mapping in the order of the file; keys are unique.
    Mapping(Vec<YamlEntry>),
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlEntry {
    /// The key.
    pub key: String,
    /// The location of the key.
    pub key_span: Span,
    /// The value.
    pub value: YamlNode,
}

/// A scalar: its text, and the type that YAML infers from it.
#[derive(Clone, Debug, PartialEq)]
pub struct YamlScalar {
    /// The text; of an unquoted number or boolean, as it was written.
    pub text: String,
    /// The inferred value.
    pub literal: YamlLiteral,
}

/// The value that YAML 1.2 infers for a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum YamlLiteral {
    /// `true` or `false`.
    Flag(bool),
    /// An integer in the range of `i64`.
    Integer(i64),
    /// Any other number: with a fraction or an exponent, or an integer that is too large.
    Number(f64),
    /// Text, quoted or not.
    Text,
}

impl YamlScalar {
    /// Interprets `text` as an unquoted YAML scalar.
    pub fn infer(text: String) -> Self {
        let literal = if let Ok(flag) = text.parse::<bool>() {
            YamlLiteral::Flag(flag)
        } else if let Ok(integer) = text.parse::<i64>() {
            YamlLiteral::Integer(integer)
        } else {
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => YamlLiteral::Number(number),
                _ => YamlLiteral::Text,
            }
        };
        Self { text, literal }
    }

    /// Returns the boolean, where one is expected. There, capital letters and quotes do not matter,
    /// and `yes`, `no`, `on` and `off` are booleans, as in YAML 1.1.
    pub fn as_flag(&self) -> Option<bool> {
        match (self.literal, self.text.to_ascii_lowercase().as_str()) {
            (YamlLiteral::Flag(flag), _) => Some(flag),
            (YamlLiteral::Text, "yes" | "on" | "true") => Some(true),
            (YamlLiteral::Text, "no" | "off" | "false") => Some(false),
            _ => None,
        }
    }
}

impl YamlNode {
    /// Returns the entries of a mapping; empty for anything else.
    pub fn entries(&self) -> &[YamlEntry] {
        match &self.value {
            YamlValue::Mapping(entries) => entries,
            YamlValue::Null | YamlValue::Scalar(_) | YamlValue::List(_) => &[],
        }
    }

    /// Returns the entry of a mapping with the key `key`.
    pub fn entry(&self, key: &str) -> Option<&YamlEntry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Returns whether the value is `false`, also as YAML 1.1 writes it.
    pub fn is_false(&self) -> bool {
        match &self.value {
            YamlValue::Scalar(scalar) => scalar.as_flag() == Some(false),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => false,
        }
    }

    /// Describes the value for messages.
    pub fn describe(&self) -> String {
        match &self.value {
            YamlValue::Null => "empty".to_owned(),
            YamlValue::Scalar(scalar) => quote(&scalar.text),
            YamlValue::List(_) => "a list".to_owned(),
            YamlValue::Mapping(_) => "a mapping".to_owned(),
        }
    }

    /// Converts the value to JSON.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            YamlValue::Null => serde_json::Value::Null,
            YamlValue::Scalar(scalar) => match scalar.literal {
                YamlLiteral::Flag(flag) => flag.into(),
                YamlLiteral::Integer(integer) => integer.into(),
                YamlLiteral::Number(number) => number.into(),
                YamlLiteral::Text => scalar.text.as_str().into(),
            },
            YamlValue::List(items) => items.iter().map(YamlNode::to_json).collect(),
            YamlValue::Mapping(entries) => entries
                .iter()
                .map(|entry| (entry.key.clone(), entry.value.to_json()))
                .collect(),
        }
    }
}

/// Decodes the bytes of a file as text without a byte-order mark, if they are short enough and
/// valid UTF-8.
pub fn decode(bytes: &[u8]) -> Result<&str, Box<Diagnostic>> {
    if bytes.len() > CONFIG_BYTES_MAX {
        let mebibytes = CONFIG_BYTES_MAX / (1024 * 1024);
        let message = format!("the file is larger than {mebibytes} MiB");
        let error = Diagnostic::error("", message);
        return Err(Box::new(
            error.with_suggestion("check that this is the intended file"),
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let valid_bytes = bytes.get(..error.valid_up_to()).unwrap_or_default();
        let line = valid_bytes.split(|byte| *byte == b'\n').count();
        let message = format!("the file is not UTF-8 text: invalid byte in line {line}");
        let hint = "save the file with the encoding UTF-8";
        Box::new(Diagnostic::error("", message).with_suggestion(hint))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Parses the text of a config into a tree.
pub fn parse(text: &str) -> Result<YamlNode, Box<Diagnostic>> {
    parse_within(text, &YamlLimits::CONFIG)
}

/// Parses a text into a tree, within `limits`.
pub fn parse_within(text: &str, limits: &YamlLimits) -> Result<YamlNode, Box<Diagnostic>> {
    let options = serde_yaml::options! {
        strict_booleans: true,
        leading_zero_numbers_as_strings: true,
        budget: serde_yaml::budget! {
            max_nodes: limits.nodes,
            max_aliases: limits.aliases,
            enforce_alias_anchor_ratio: false,
            max_depth: limits.depth,
            max_total_scalar_bytes: limits.scalar_bytes,
            max_documents: 1,
        },
    };
    match serde_yaml::from_str_with_options::<Spanned<RawYaml>>(text, options) {
        Ok(raw) => Ok(build_node(raw, text)),
        Err(error) => Err(Box::new(syntax_error(&error, text, limits))),
    }
}

/// Returns the parser's message about invalid YAML, with its location. Exceeded limits and
/// duplicate keys get messages of our own.
fn syntax_error(error: &serde_yaml::Error, text: &str, limits: &YamlLimits) -> Diagnostic {
    let error = error.without_snippet();
    let cause = root_cause(error);
    let (message, hint) = if is_second_document(cause) {
        (
            "the file has more than one YAML document".to_owned(),
            "remove what follows the second `---`, or put it in a file of its own".to_owned(),
        )
    } else if let serde_yaml::Error::Budget { .. } = cause {
        let limits = format!(
            "{} values, {} aliases and {} levels",
            limits.nodes, limits.aliases, limits.depth
        );
        (
            "the YAML is too large, too deep, or its aliases make it so".to_owned(),
            format!("at most {limits} are read"),
        )
    } else if let serde_yaml::Error::DuplicateMappingKey { key, .. } = cause {
        let key = quote(key.as_deref().unwrap_or_default());
        (
            format!("duplicate key {key}"),
            "remove one of the two".to_owned(),
        )
    } else {
        let words = UserMessageFormatter.format_message(cause);
        (
            format!("not valid YAML: {words}"),
            "indent with spaces, and put text with `:`, `#`, `{` or `[` in quotes".to_owned(),
        )
    };
    let diagnostic = Diagnostic::error("", message).with_suggestion(hint);
    match error.location() {
        Some(location) => diagnostic.with_span(&span_of_error(location, text)),
        None => diagnostic,
    }
}

/// Returns whether a further document is what the parser refuses.
fn is_second_document(cause: &serde_yaml::Error) -> bool {
    use serde_yaml::Error::{Budget, MultipleDocuments};
    matches!(
        cause,
        MultipleDocuments { .. }
            | Budget {
                breach: BudgetBreach::Documents { .. },
                ..
            }
    )
}

/// Returns the error without the parser's notes on aliases and without snippets.
fn root_cause(error: &serde_yaml::Error) -> &serde_yaml::Error {
    if let serde_yaml::Error::AliasError { error, .. } = error {
        root_cause(error.without_snippet())
    } else {
        error
    }
}

/// The parser's output: typed values, each with its location.
enum RawYaml {
    Null,
    Flag(bool),
    Integer(i64),
    Number(f64),
    Text(String),
    List(Vec<Spanned<RawYaml>>),
    Mapping(Vec<(Spanned<String>, Spanned<RawYaml>)>),
}

impl<'de> Deserialize<'de> for RawYaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawYamlVisitor)
    }
}

struct RawYamlVisitor;

impl<'de> Visitor<'de> for RawYamlVisitor {
    type Value = RawYaml;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<RawYaml, E> {
        Ok(RawYaml::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<RawYaml, E> {
        Ok(RawYaml::Flag(flag))
    }

    fn visit_i64<E>(self, integer: i64) -> Result<RawYaml, E> {
        Ok(RawYaml::Integer(integer))
    }

    fn visit_u64<E>(self, integer: u64) -> Result<RawYaml, E> {
        // By way of its digits, because Rust has no `f64::from(u64)`.
        let number = || {
            integer
                .to_string()
                .parse()
                .map_or(RawYaml::Null, RawYaml::Number)
        };
        Ok(i64::try_from(integer).map_or_else(|_| number(), RawYaml::Integer))
    }

    fn visit_f64<E>(self, number: f64) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawYaml, E> {
        Ok(RawYaml::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RawYaml, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(RawYaml::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<RawYaml, A::Error> {
        let mut mapping = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            mapping.push(entry);
        }
        Ok(RawYaml::Mapping(mapping))
    }
}

fn build_node(raw: Spanned<RawYaml>, text: &str) -> YamlNode {
    // For an alias, the text is where the value is defined.
    let definition_span = span_of(raw.defined);
    let scalar = |literal| {
        YamlValue::Scalar(YamlScalar {
            text: text
                .get(definition_span.clone())
                .unwrap_or_default()
                .to_owned(),
            literal,
        })
    };
    let value = match raw.value {
        RawYaml::Null => YamlValue::Null,
        RawYaml::Flag(flag) => scalar(YamlLiteral::Flag(flag)),
        RawYaml::Integer(integer) => scalar(YamlLiteral::Integer(integer)),
        RawYaml::Number(number) => scalar(YamlLiteral::Number(number)),
        RawYaml::Text(text) => YamlValue::Scalar(YamlScalar {
            text,
            literal: YamlLiteral::Text,
        }),
        RawYaml::List(items) => YamlValue::List(
            items
                .into_iter()
                .map(|item| build_node(item, text))
                .collect(),
        ),
        RawYaml::Mapping(entries) => {
            let entry = |(key, value): (Spanned<String>, Spanned<RawYaml>)| YamlEntry {
                key_span: span_of(key.referenced),
                key: key.value,
                value: build_node(value, text),
            };
            YamlValue::Mapping(entries.into_iter().map(entry).collect())
        }
    };
    YamlNode {
        span: span_of(raw.referenced),
        value,
    }
}

/// Returns the byte range of a value or key.
fn span_of(location: Location) -> Span {
    let number = |value: Option<u64>| value.and_then(|value| usize::try_from(value).ok());
    let span = location.span();
    let start = number(span.byte_offset()).unwrap_or(0);
    start..start.saturating_add(number(span.byte_len()).unwrap_or(0))
}

/// Returns the byte range of an error; the parser may know it only in characters.
fn span_of_error(location: Location, text: &str) -> Span {
    if location.span().byte_offset().is_some() {
        return span_of(location);
    }
    let chars = usize::try_from(location.span().offset()).unwrap_or(usize::MAX);
    let start = text
        .char_indices()
        .nth(chars)
        .map_or(text.len(), |(byte, _)| byte);
    start..start
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists every value with its path as `path = text @ source`.
    fn walk(node: &YamlNode, path: &str, text: &str, out: &mut Vec<String>) {
        let source = text.get(node.span.clone()).unwrap();
        match &node.value {
            YamlValue::Null => out.push(format!("{path} = null @ {source}")),
            YamlValue::Scalar(scalar) => {
                out.push(format!(
                    "{path} = {:?} {:?} @ {source}",
                    scalar.literal, scalar.text
                ));
            }
            YamlValue::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(item, &format!("{path}[{index}]"), text, out);
                }
            }
            YamlValue::Mapping(entries) => {
                for entry in entries {
                    let key = text.get(entry.key_span.clone()).unwrap();
                    walk(
                        &entry.value,
                        &format!("{path}.{}({key})", entry.key),
                        text,
                        out,
                    );
                }
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let mut out = Vec::new();
        walk(&parse(text).unwrap(), "", text, &mut out);
        assert_eq!(out, expected);
    }

    #[test]
    fn values_know_their_place_and_their_text() {
        check(
            "\u{fc}: \"\u{e4} b\"\n",
            &[".\u{fc}(\u{fc}) = Text \"\u{e4} b\" @ \"\u{e4} b\""],
        );
        check(
            "a: [1, 2.5, ~, 'it', 0x1F, 007, no, true, 1_000]",
            &[
                ".a(a)[0] = Integer(1) \"1\" @ 1",
                ".a(a)[1] = Number(2.5) \"2.5\" @ 2.5",
                ".a(a)[2] = null @ ~",
                ".a(a)[3] = Text \"it\" @ 'it'",
                ".a(a)[4] = Integer(31) \"0x1F\" @ 0x1F",
                ".a(a)[5] = Text \"007\" @ 007",
                ".a(a)[6] = Text \"no\" @ no",
                ".a(a)[7] = Flag(true) \"true\" @ true",
                ".a(a)[8] = Integer(1000) \"1_000\" @ 1_000",
            ],
        );
        check(
            "a: &x 1\nb: *x\n",
            &[
                ".a(a) = Integer(1) \"1\" @ 1",
                ".b(b) = Integer(1) \"1\" @ *x",
            ],
        );
        check(
            "a: &m {k: v}\nb:\n  <<: *m\n  z: 1\n",
            &[
                ".a(a).k(k) = Text \"v\" @ v",
                ".b(b).z(z) = Integer(1) \"1\" @ 1",
                ".b(b).k(*m) = Text \"v\" @ *m",
            ],
        );
    }

    #[test]
    fn numbers_beyond_all_bounds_stay_numbers() {
        check(
            "[18446744073709551615, -9223372036854775808]",
            &[
                "[0] = Number(1.8446744073709552e19) \"18446744073709551615\" @ 18446744073709551615",
                "[1] = Integer(-9223372036854775808) \"-9223372036854775808\" @ -9223372036854775808",
            ],
        );
    }

    #[test]
    fn variables_are_read_as_yaml_reads_them() {
        for (text, expected) in [
            ("true", YamlLiteral::Flag(true)),
            ("7", YamlLiteral::Integer(7)),
            ("0.5", YamlLiteral::Number(0.5)),
            ("inf", YamlLiteral::Text),
            ("NaN", YamlLiteral::Text),
            ("", YamlLiteral::Text),
            ("sk-1", YamlLiteral::Text),
        ] {
            assert_eq!(
                YamlScalar::infer(text.to_owned()).literal,
                expected,
                "{text}"
            );
        }
    }
}
