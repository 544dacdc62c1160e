//! Reads values of Rust types from YAML, and says at which line a value does not fit its type.
//! `yaml` parses the text, so that scalars mean the same here as in a config.

use std::fmt::{self, Display};
use std::slice;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use crate::config::diagnostic::{Span, line_and_column};
use crate::config::yaml::{self, YamlEntry, YamlLimits, YamlLiteral, YamlNode, YamlValue};

/// Why a text is not a value of the type, with the line and column in its message.
#[derive(Debug)]
pub struct YamlReadError {
    message: String,
    span: Option<Span>,
}

/// Reads a value within the limits for files that massgen wrote or that a user names.
///
/// # Errors
/// The text is not YAML, exceeds [`YamlLimits::RECORD`], or does not fit the type.
pub fn read_typed<T: DeserializeOwned>(text: &str) -> Result<T, YamlReadError> {
    let node = yaml::parse_within(text, &YamlLimits::RECORD).map_err(|diagnostic| YamlReadError {
        message: diagnostic.message,
        span: diagnostic.span,
    });
    node.and_then(|node| T::deserialize(YamlNodeDeserializer(&node)))
        .map_err(|error| error.with_location(text))
}

impl YamlReadError {
    /// Adds where the error is, unless a value inside has already said so.
    fn at(mut self, span: &Span) -> Self {
        self.span.get_or_insert_with(|| span.clone());
        self
    }

    /// Appends the line and column to the message.
    fn with_location(mut self, text: &str) -> Self {
        if let Some(span) = &self.span {
            let (line, column) = line_and_column(text, span.start);
            self.message = format!("{} at line {line}, column {column}", self.message);
        }
        self
    }
}

impl Display for YamlReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for YamlReadError {}

impl de::Error for YamlReadError {
    fn custom<T: Display>(message: T) -> Self {
        Self {
            message: message.to_string(),
            span: None,
        }
    }
}

/// A node as the source of a value. Text is expected where the type says so, whatever YAML infers
/// from the scalar: `version: 1.10` is a version as written.
struct YamlNodeDeserializer<'n>(&'n YamlNode);

impl<'de> Deserializer<'de> for YamlNodeDeserializer<'_> {
    type Error = YamlReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlReadError> {
        let value = match &self.0.value {
            YamlValue::Null => visitor.visit_unit(),
            YamlValue::Scalar(scalar) => match scalar.literal {
                YamlLiteral::Flag(flag) => visitor.visit_bool(flag),
                YamlLiteral::Integer(integer) => visitor.visit_i64(integer),
                // A number here may still be an integer that is too large for `i64`.
                YamlLiteral::Number(number) => match scalar.text.parse() {
                    Ok(integer) => visitor.visit_u64(integer),
                    Err(_) => visitor.visit_f64(number),
                },
                YamlLiteral::Text => visitor.visit_str(&scalar.text),
            },
            YamlValue::List(items) => visitor.visit_seq(YamlListItems(items.iter())),
            YamlValue::Mapping(entries) => visitor.visit_map(YamlMappingEntries::new(entries)),
        };
        value.map_err(|error| error.at(&self.0.span))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlReadError> {
        let flag = match &self.0.value {
            YamlValue::Scalar(scalar) => scalar.as_flag(),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => None,
        };
        match flag {
            Some(flag) => visitor.visit_bool(flag),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlReadError> {
        match &self.0.value {
            YamlValue::Scalar(scalar) => visitor
                .visit_str(&scalar.text)
                .map_err(|error: YamlReadError| error.at(&self.0.span)),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => {
                self.deserialize_any(visitor)
            }
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlReadError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlReadError> {
        match &self.0.value {
            YamlValue::Null => visitor.visit_none(),
            YamlValue::Scalar(_) | YamlValue::List(_) | YamlValue::Mapping(_) => {
                visitor.visit_some(self)
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, YamlReadError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlReadError> {
        match &self.0.value {
            YamlValue::Mapping(_) => self.deserialize_any(visitor),
            // A list could be read by the order of the fields, without their names.
            YamlValue::Null | YamlValue::Scalar(_) | YamlValue::List(_) => {
                let message = format!("expected a mapping, found {}", self.0.describe());
                let error: YamlReadError = de::Error::custom(message);
                Err(error.at(&self.0.span))
            }
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlReadError> {
        let value = match &self.0.value {
            YamlValue::Scalar(scalar) => {
                visitor.visit_enum(StrDeserializer::new(scalar.text.as_str()))
            }
            YamlValue::Mapping(entries) if entries.len() != 1 => {
                Err(de::Error::custom("expected a mapping with one key"))
            }
            YamlValue::Mapping(entries) => {
                visitor.visit_enum(MapAccessDeserializer::new(YamlMappingEntries::new(entries)))
            }
            YamlValue::Null | YamlValue::List(_) => return self.deserialize_any(visitor),
        };
        value.map_err(|error: YamlReadError| error.at(&self.0.span))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

/// The items of a list that are still to be read.
struct YamlListItems<'n>(slice::Iter<'n, YamlNode>);

impl<'de> SeqAccess<'de> for YamlListItems<'_> {
    type Error = YamlReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, YamlReadError> {
        let next_item = self.0.next();
        next_item
            .map(|item| seed.deserialize(YamlNodeDeserializer(item)))
            .transpose()
    }
}

/// The entries of a mapping that are still to be read, and the value of the key that was read last.
struct YamlMappingEntries<'n> {
    entries: slice::Iter<'n, YamlEntry>,
    value: Option<&'n YamlNode>,
}

impl<'n> YamlMappingEntries<'n> {
    fn new(entries: &'n [YamlEntry]) -> Self {
        Self {
            entries: entries.iter(),
            value: None,
        }
    }
}

impl<'de> MapAccess<'de> for YamlMappingEntries<'_> {
    type Error = YamlReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, YamlReadError> {
        let Some(entry) = self.entries.next() else {
            return Ok(None);
        };
        self.value = Some(&entry.value);
        let key: StrDeserializer<'_, YamlReadError> = entry.key.as_str().into_deserializer();
        let key = seed.deserialize(key);
        key.map(Some).map_err(|error| error.at(&entry.key_span))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<T::Value, YamlReadError> {
        let value = self.value.take();
        let value = value.ok_or_else(|| de::Error::custom("a value without a key"))?;
        seed.deserialize(YamlNodeDeserializer(value))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Record {
        name: String,
        size: u64,
        share: f64,
        is_new: bool,
        note: Option<String>,
        kind: Option<RecordKind>,
        labels: BTreeMap<String, Vec<u8>>,
        any: Value,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum RecordKind {
        Plain,
        Sized { bytes: u8 },
    }

    #[test]
    fn each_type_gets_its_value() {
        let text = "name: 1.10\nsize: 18446744073709551615\nshare: 2\nis_new: true\nnote: ~\n\
                    kind: plain\nlabels: {a: [1, 0x1F]}\nany: {flag: false, 'no': [no, ~, 1.5]}\n";
        let record = Record {
            name: "1.10".to_owned(),
            size: u64::MAX,
            share: 2.0,
            is_new: true,
            note: None,
            kind: Some(RecordKind::Plain),
            labels: BTreeMap::from([("a".to_owned(), vec![1, 31])]),
            any: json!({"flag": false, "no": ["no", null, 1.5]}),
        };
        assert_eq!(read_typed::<Record>(text).unwrap(), record);
        for flag in ["yes", "on", "'true'"] {
            let record: Record = read_typed(&format!("is_new: {flag}")).unwrap();
            assert!(record.is_new, "{flag}");
        }
        let sized: Record = read_typed("kind: {sized: {bytes: 7}}").unwrap();
        assert_eq!(sized.kind, Some(RecordKind::Sized { bytes: 7 }));
    }

    #[test]
    fn errors_name_the_line_and_column() {
        for (text, expected) in [
            (
                "\nnam: x\n",
                "unknown field `nam`, expected one of `name`, `size`, `share`, `is_new`, `note`, \
                 `kind`, `labels`, `any` at line 2, column 1",
            ),
            (
                "size: -1\n",
                "invalid value: integer `-1`, expected u64 at line 1, column 7",
            ),
            (
                "name: ~",
                "invalid type: unit value, expected a string at line 1, column 7",
            ),
            (
                "labels:\n  a: [1, x]\n",
                "invalid type: string \"x\", expected u8 at line 2, column 10",
            ),
            (
                "kind: other",
                "unknown variant `other`, expected `plain` or `sized` at line 1, column 7",
            ),
            (
                "kind: {sized: {}}",
                "missing field `bytes` at line 1, column 15",
            ),
            (
                "- plain\n",
                "expected a mapping, found a list at line 1, column 1",
            ),
            ("", "expected a mapping, found empty at line 1, column 1"),
            (
                "kind: {sized: {bytes: 1}, plain: ~}",
                "expected a mapping with one key at line 1, column 7",
            ),
            (
                "is_new: 1",
                "invalid type: integer `1`, expected a boolean at line 1, column 9",
            ),
            (
                "size: 1\nsize: 2\n",
                "duplicate key `size` at line 2, column 1",
            ),
        ] {
            let error = read_typed::<Record>(text).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
        }
    }
}
