//! Typed access to the mappings of the parsed YAML, by the keys of `config::keys`: the type of a key
//! determines what is read. `key_walk` has already reported every value of a wrong shape; here it
//! counts as absent.

use crate::config::diagnostic::Span;
use crate::config::keys::shape::{
    ByteSize, Decimal, Flag, Integer, NamedSections, NodeList, Section, SeveralTexts,
    SingleMapping, SingleText, Text,
};
use crate::config::keys::{ConfigKey, TypedKey};
use crate::config::size;
use crate::config::yaml::{YamlEntry, YamlLiteral, YamlNode, YamlScalar, YamlValue};

/// A mapping without keys.
static EMPTY: YamlNode = YamlNode {
    span: 0..0,
    value: YamlValue::Null,
};

/// A mapping and its path.
///
/// A key may have several names. The lists under all of them are joined; of other values, the first
/// that is set counts.
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
    /// The string, with its variables expanded.
    pub(super) value: &'a str,
    /// Its path in the YAML.
    pub(super) path: String,
    /// Its location in the text.
    pub(super) span: &'a Span,
}

/// The place of a finding.
#[derive(Clone, Debug)]
pub(super) struct FindingPlace<'a> {
    /// Its path in the YAML.
    pub(super) path: String,
    /// Its location in the text.
    pub(super) span: &'a Span,
}

impl<'a> From<&TextValue<'a>> for FindingPlace<'a> {
    fn from(text: &TextValue<'a>) -> Self {
        Self::from((&text.path, text.span))
    }
}

impl<'a, P: Into<String>> From<(P, &'a Span)> for FindingPlace<'a> {
    fn from((path, span): (P, &'a Span)) -> Self {
        let path = path.into();
        Self { path, span }
    }
}

impl<'a> MappingView<'a> {
    /// Returns the mapping at `path`; `None` if the value is something else.
    pub(super) fn new(node: &'a YamlNode, path: String) -> Option<Self> {
        match &node.value {
            YamlValue::Mapping(_) => Some(Self { node, path }),
            YamlValue::Null | YamlValue::Scalar(_) | YamlValue::List(_) => None,
        }
    }

    /// Returns the path of a key of this mapping.
    pub(super) fn key_path(&self, key: &ConfigKey) -> String {
        let name = self.entry(key).map(|entry| entry.key.as_str());
        join_key(&self.path, name.unwrap_or(key.name()))
    }

    /// Returns the value of a key, unless it is null.
    pub(super) fn get(&self, key: &ConfigKey) -> Option<&'a YamlNode> {
        let value = &self.entry(key)?.value;
        (value.value != YamlValue::Null).then_some(value)
    }

    /// Returns the entry of a key; of several names of the key, the first whose value is not null
    /// counts.
    pub(super) fn entry(&self, key: &ConfigKey) -> Option<&'a YamlEntry> {
        let is_set = |entry: &&YamlEntry| entry.value.value != YamlValue::Null;
        let set_entry = self.entries(key).find(is_set);
        set_entry.or_else(|| self.entries(key).next())
    }

    /// Returns the location of a key, or of the mapping if it lacks the key.
    pub(super) fn key_span(&self, key: &ConfigKey) -> &'a Span {
        let entry = self.entry(key);
        entry.map_or(&self.node.span, |entry| &entry.key_span)
    }

    /// Returns the place of a key, or of the mapping if it lacks the key.
    pub(super) fn at(&self, key: &ConfigKey) -> FindingPlace<'a> {
        (self.key_path(key), self.key_span(key)).into()
    }

    /// Returns the text of a key.
    pub(super) fn text<V: SingleText>(&self, key: &TypedKey<V>) -> Option<TextValue<'a>> {
        scalar_text(self.get(key)?, self.key_path(key))
    }

    /// Returns the text of a key, without its place.
    pub(super) fn word<V: SingleText>(&self, key: &TypedKey<V>) -> Option<&'a str> {
        self.text(key).map(|text| text.value)
    }

    /// Returns a copy of the text of a key.
    pub(super) fn string(&self, key: &TypedKey<Text>) -> Option<String> {
        self.word(key).map(str::to_owned)
    }

    /// Returns whether a key has this text.
    pub(super) fn has_text<V: SingleText>(&self, key: &TypedKey<V>, text: &str) -> bool {
        self.word(key) == Some(text)
    }

    /// Returns whether a key is `true`.
    pub(super) fn is_set(&self, key: &TypedKey<Flag>) -> bool {
        self.flag(key) == Some(true)
    }

    /// Returns the boolean of a key.
    pub(super) fn flag(&self, key: &TypedKey<Flag>) -> Option<bool> {
        self.scalar(key)?.as_flag()
    }

    /// Returns the integer of a key.
    pub(super) fn integer<N: TryFrom<i64>>(&self, key: &TypedKey<Integer>) -> Option<N> {
        match self.scalar(key)?.literal {
            YamlLiteral::Integer(integer) => N::try_from(integer).ok(),
            YamlLiteral::Flag(_) | YamlLiteral::Number(_) | YamlLiteral::Text => None,
        }
    }

    /// Returns the number of a key in decimal digits, without an exponent: text, so that callers
    /// convert it into whole units, such as billionths of a CPU, without rounding.
    pub(super) fn decimal(&self, key: &TypedKey<Decimal>) -> Option<String> {
        match self.scalar(key)?.literal {
            YamlLiteral::Integer(integer) => Some(integer.to_string()),
            YamlLiteral::Number(number) => Some(number.to_string()),
            YamlLiteral::Flag(_) | YamlLiteral::Text => None,
        }
    }

    /// Returns the number of a key, rounded to the nearest `f64`.
    pub(super) fn float(&self, key: &TypedKey<Decimal>) -> Option<f64> {
        self.decimal(key)?.parse().ok()
    }

    /// Returns the number of bytes of a key.
    pub(super) fn size(&self, key: &TypedKey<ByteSize>) -> Option<u64> {
        size::bytes(&self.scalar(key)?.text)
    }

    /// Returns the mapping of a key.
    pub(super) fn section<V: SingleMapping>(&self, key: &TypedKey<V>) -> Option<MappingView<'a>> {
        MappingView::new(self.get(key)?, self.key_path(key))
    }

    /// Returns the mapping of a key; without one, a mapping that has no keys.
    pub(super) fn section_or_empty(&self, key: &TypedKey<Section>) -> MappingView<'a> {
        self.section(key).unwrap_or_else(|| MappingView {
            node: &EMPTY,
            path: self.key_path(key),
        })
    }

    /// Returns the items of a list as mappings; a view of something else has no keys.
    pub(super) fn views(&self, key: &TypedKey<NodeList>) -> Vec<MappingView<'a>> {
        let items = self.items(key).into_iter();
        items
            .map(|(path, node)| MappingView { node, path })
            .collect()
    }

    /// Returns the items of a list, each with its path; empty if there is no list.
    pub(super) fn items(&self, key: &TypedKey<NodeList>) -> Vec<(String, &'a YamlNode)> {
        self.items_of_any_list(key)
    }

    /// Returns the strings of a list.
    pub(super) fn texts<V: SeveralTexts>(&self, key: &TypedKey<V>) -> Vec<TextValue<'a>> {
        let items = self.items_of_any_list(key).into_iter();
        items
            .filter_map(|(path, item)| scalar_text(item, path))
            .collect()
    }

    /// Returns copies of the strings of a list.
    pub(super) fn strings<V: SeveralTexts>(&self, key: &TypedKey<V>) -> Vec<String> {
        let texts = self.texts(key).into_iter();
        texts.map(|text| text.value.to_owned()).collect()
    }

    /// Returns the entries of a list of mappings, or of a mapping of names to mappings, each with
    /// its name if it has one. In a list, `name` holds it. In a mapping, a name whose value is null
    /// is an entry without keys: for some, such as a built-in role, the name says everything.
    pub(super) fn named_mappings(
        &self,
        key: &TypedKey<NamedSections>,
        name: &TypedKey<Text>,
    ) -> Vec<(Option<TextValue<'a>>, MappingView<'a>)> {
        match self.get(key).map(|node| &node.value) {
            Some(YamlValue::List(_)) => {
                let items = self.items_of_any_list(key).into_iter();
                let entries = items.filter_map(|(path, node)| MappingView::new(node, path));
                entries.map(|entry| (entry.text(name), entry)).collect()
            }
            Some(YamlValue::Mapping(entries)) => {
                let named_entries = entries.iter().map(|entry| {
                    let path = join_key(&self.key_path(key), &entry.key);
                    let name = TextValue {
                        value: &entry.key,
                        path: path.clone(),
                        span: &entry.key_span,
                    };
                    // Not `new`: each name is an entry, whatever its value.
                    let node = &entry.value;
                    (Some(name), MappingView { node, path })
                });
                named_entries.collect()
            }
            Some(YamlValue::Null | YamlValue::Scalar(_)) | None => Vec::new(),
        }
    }

    /// Returns the entries under all names of a key.
    fn entries(&self, key: &ConfigKey) -> impl Iterator<Item = &'a YamlEntry> {
        let (node, names) = (self.node, key.names);
        names.iter().filter_map(|name| node.entry(name))
    }

    /// Returns the items of the lists under all names of a key, each with its path. Unlike
    /// [`Self::items`], it accepts keys whose values have other shapes too.
    fn items_of_any_list(&self, key: &ConfigKey) -> Vec<(String, &'a YamlNode)> {
        let mut all_items = Vec::new();
        for entry in self.entries(key) {
            if let YamlValue::List(items) = &entry.value.value {
                let path = join_key(&self.path, &entry.key);
                let items = items.iter().enumerate();
                all_items.extend(items.map(|(index, item)| (format!("{path}[{index}]"), item)));
            }
        }
        all_items
    }

    fn scalar(&self, key: &ConfigKey) -> Option<&'a YamlScalar> {
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
            value: &scalar.text,
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
