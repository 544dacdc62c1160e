//! Owns reading a mapping of the tree by its keys. The walk has reported every value of a wrong
//! shape before; here it counts as not written.

use crate::config::diagnostic::Span;
use crate::config::node::{Literal, Node, Scalar, Value};

/// A mapping and its path.
#[derive(Clone, Debug)]
pub(super) struct View<'a> {
    /// The mapping.
    pub(super) node: &'a Node,
    /// Its path in the YAML.
    pub(super) path: String,
}

/// A text and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Text<'a> {
    /// The text.
    pub(super) written: &'a str,
    /// Its path in the YAML.
    pub(super) path: String,
    /// Where it stands.
    pub(super) span: &'a Span,
}

impl<'a> View<'a> {
    /// The path of a key of this mapping.
    pub(super) fn path_of(&self, key: &str) -> String {
        join(&self.path, key)
    }

    /// The value of a key, unless it is empty.
    pub(super) fn get(&self, key: &str) -> Option<&'a Node> {
        let value = &self.node.entry(key)?.value;
        (value.value != Value::Null).then_some(value)
    }

    /// Where a key stands, or the mapping if it does not.
    pub(super) fn span_of(&self, key: &str) -> &'a Span {
        let entry = self.node.entry(key);
        entry.map_or(&self.node.span, |entry| &entry.key_span)
    }

    /// The text of a key.
    pub(super) fn text(&self, key: &str) -> Option<Text<'a>> {
        text_of(self.get(key)?, self.path_of(key))
    }

    /// The truth value of a key.
    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.scalar(key)?.as_flag()
    }

    /// The number of a key.
    pub(super) fn integer(&self, key: &str) -> Option<u64> {
        match self.scalar(key)?.literal {
            Literal::Integer(integer) => u64::try_from(integer).ok(),
            Literal::Flag(_) | Literal::Number(_) | Literal::Text => None,
        }
    }

    /// The number of a key, written out: no number has an exponent.
    pub(super) fn decimal(&self, key: &str) -> Option<String> {
        match self.scalar(key)?.literal {
            Literal::Integer(integer) => Some(integer.to_string()),
            Literal::Number(number) => Some(number.to_string()),
            Literal::Flag(_) | Literal::Text => None,
        }
    }

    /// The mapping of a key.
    pub(super) fn section(&self, key: &str) -> Option<View<'a>> {
        let node = self.get(key)?;
        match &node.value {
            Value::Mapping(_) => Some(View {
                node,
                path: self.path_of(key),
            }),
            Value::Null | Value::Scalar(_) | Value::List(_) => None,
        }
    }

    /// The items of a list, each with its path; none if there is no list.
    pub(super) fn items(&self, key: &str) -> Vec<(String, &'a Node)> {
        let path = self.path_of(key);
        match self.get(key).map(|node| &node.value) {
            Some(Value::List(items)) => items
                .iter()
                .enumerate()
                .map(|(index, item)| (format!("{path}[{index}]"), item))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The texts of a list.
    pub(super) fn texts(&self, key: &str) -> Vec<Text<'a>> {
        let items = self.items(key).into_iter();
        items
            .filter_map(|(path, item)| text_of(item, path))
            .collect()
    }

    /// The entries of a list of mappings, or of a mapping of names to mappings, each with its name if it
    /// has one.
    pub(super) fn named(&self, key: &str) -> Vec<(Option<Text<'a>>, View<'a>)> {
        match self.get(key).map(|node| &node.value) {
            Some(Value::List(_)) => {
                let items = self.items(key).into_iter();
                let items = items.filter(|(_, node)| matches!(node.value, Value::Mapping(_)));
                let entry = |(path, node): (String, &'a Node)| {
                    let entry = View { node, path };
                    (entry.text("name"), entry)
                };
                items.map(entry).collect()
            }
            Some(Value::Mapping(entries)) => {
                let named = entries.iter().map(|entry| {
                    let path = format!("{}.{}", self.path_of(key), entry.key);
                    let name = Text {
                        written: &entry.key,
                        path: path.clone(),
                        span: &entry.key_span,
                    };
                    let node = &entry.value;
                    (Some(name), View { node, path })
                });
                named.collect()
            }
            Some(Value::Null | Value::Scalar(_)) | None => Vec::new(),
        }
    }

    fn scalar(&self, key: &str) -> Option<&'a Scalar> {
        match &self.get(key)?.value {
            Value::Scalar(scalar) => Some(scalar),
            Value::Null | Value::List(_) | Value::Mapping(_) => None,
        }
    }
}

/// A scalar as text.
pub(super) fn text_of(node: &Node, path: String) -> Option<Text<'_>> {
    match &node.value {
        Value::Scalar(scalar) => Some(Text {
            written: &scalar.text,
            path,
            span: &node.span,
        }),
        Value::Null | Value::List(_) | Value::Mapping(_) => None,
    }
}

/// The path of `key` in the mapping at `path`.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}
