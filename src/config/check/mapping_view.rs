//! Reads the mappings of the tree by key. The walk has already reported every value of a wrong
//! shape; here it counts as absent.

use crate::config::diagnostic::Span;
use crate::config::yaml::{YamlLiteral, YamlNode, YamlScalar, YamlValue};

/// A mapping and its path.
#[derive(Clone, Debug)]
pub(super) struct MappingView<'a> {
    /// The mapping.
    pub(super) node: &'a YamlNode,
    /// Its path in the YAML.
    pub(super) path: String,
}

/// A string and its location.
#[derive(Clone, Debug)]
pub(super) struct TextValue<'a> {
    /// The string.
    pub(super) written: &'a str,
    /// Its path in the YAML.
    pub(super) path: String,
    /// Its location in the text.
    pub(super) span: &'a Span,
}

impl<'a> MappingView<'a> {
    /// Returns the path of a key of this mapping.
    pub(super) fn key_path(&self, key: &str) -> String {
        join_key(&self.path, key)
    }

    /// Returns the value of a key, unless it is empty.
    pub(super) fn get(&self, key: &str) -> Option<&'a YamlNode> {
        let value = &self.node.entry(key)?.value;
        (value.value != YamlValue::Null).then_some(value)
    }

    /// Returns the location of a key, or of the mapping if it lacks the key.
    pub(super) fn key_span(&self, key: &str) -> &'a Span {
        let entry = self.node.entry(key);
        entry.map_or(&self.node.span, |entry| &entry.key_span)
    }

    /// Returns the text of a key.
    pub(super) fn text(&self, key: &str) -> Option<TextValue<'a>> {
        scalar_text(self.get(key)?, self.key_path(key))
    }

    /// Returns the boolean of a key.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.scalar(key)?.as_flag()
    }

    /// Returns the integer of a key.
    pub(super) fn integer(&self, key: &str) -> Option<u64> {
        match self.scalar(key)?.literal {
            YamlLiteral::Integer(integer) => u64::try_from(integer).ok(),
            YamlLiteral::Flag(_) | YamlLiteral::Number(_) | YamlLiteral::Text => None,
        }
    }

    /// Returns the number of a key as written; numbers have no exponent.
    pub(super) fn decimal(&self, key: &str) -> Option<String> {
        match self.scalar(key)?.literal {
            YamlLiteral::Integer(integer) => Some(integer.to_string()),
            YamlLiteral::Number(number) => Some(number.to_string()),
            YamlLiteral::Flag(_) | YamlLiteral::Text => None,
        }
    }

    /// Returns the mapping of a key.
    pub(super) fn section(&self, key: &str) -> Option<MappingView<'a>> {
        let node = self.get(key)?;
        match &node.value {
            YamlValue::Mapping(_) => Some(MappingView {
                node,
                path: self.key_path(key),
            }),
            YamlValue::Null | YamlValue::Scalar(_) | YamlValue::List(_) => None,
        }
    }

    /// Returns the items of a list, each with its path; empty if there is no list.
    pub(super) fn items(&self, key: &str) -> Vec<(String, &'a YamlNode)> {
        let path = self.key_path(key);
        match self.get(key).map(|node| &node.value) {
            Some(YamlValue::List(items)) => items
                .iter()
                .enumerate()
                .map(|(index, item)| (format!("{path}[{index}]"), item))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the strings of a list.
    pub(super) fn texts(&self, key: &str) -> Vec<TextValue<'a>> {
        let items = self.items(key).into_iter();
        items
            .filter_map(|(path, item)| scalar_text(item, path))
            .collect()
    }

    /// Returns the entries of a list of mappings, or of a mapping of names to mappings, each with
    /// its name if it has one.
    pub(super) fn named_mappings(
        &self,
        key: &str,
    ) -> Vec<(Option<TextValue<'a>>, MappingView<'a>)> {
        match self.get(key).map(|node| &node.value) {
            Some(YamlValue::List(_)) => {
                let items = self.items(key).into_iter();
                let items = items.filter(|(_, node)| matches!(node.value, YamlValue::Mapping(_)));
                let entry = |(path, node): (String, &'a YamlNode)| {
                    let entry = MappingView { node, path };
                    (entry.text("name"), entry)
                };
                items.map(entry).collect()
            }
            Some(YamlValue::Mapping(entries)) => {
                let named = entries.iter().map(|entry| {
                    let path = format!("{}.{}", self.key_path(key), entry.key);
                    let name = TextValue {
                        written: &entry.key,
                        path: path.clone(),
                        span: &entry.key_span,
                    };
                    let node = &entry.value;
                    (Some(name), MappingView { node, path })
                });
                named.collect()
            }
            Some(YamlValue::Null | YamlValue::Scalar(_)) | None => Vec::new(),
        }
    }

    fn scalar(&self, key: &str) -> Option<&'a YamlScalar> {
        match &self.get(key)?.value {
            YamlValue::Scalar(scalar) => Some(scalar),
            YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => None,
        }
    }
}

/// Returns a scalar as text.
pub(super) fn scalar_text(node: &YamlNode, path: String) -> Option<TextValue<'_>> {
    match &node.value {
        YamlValue::Scalar(scalar) => Some(TextValue {
            written: &scalar.text,
            path,
            span: &node.span,
        }),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => None,
    }
}

/// Returns the path of `key` in the mapping at `path`.
pub(super) fn join_key(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
