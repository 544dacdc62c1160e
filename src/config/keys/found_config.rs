//! Owns the marks of the table of keys that say what each key may do in a found config: one that lies
//! in the project, and that the user did not name with `--config`. Somebody else may have written it.

use crate::config::yaml::{YamlNode, YamlValue};

/// What a key may do in a found config. Every row of the table has one.
#[derive(Clone, Copy, Debug)]
pub enum FoundConfigUse {
    /// Whatever it says, nothing outside the project is reached, and nothing is sent anywhere but to
    /// the vendors' own hosts. The keys of a section are judged by their own marks.
    Harmless,
    /// Its text, or each text of its list, is a path that has to lie in the project.
    Inside(PathPurpose),
    /// It needs a config that the user named, unless its value is empty or the default. The text says
    /// what the config would do with it.
    Named(&'static str),
    /// The value decides: the function says what the config would do that needs a named config, or
    /// gives `None`.
    ByValue(fn(&KeySetting<'_>) -> Option<String>),
}

/// What a path of a config is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPurpose {
    /// A context path: open to agents, for writing if `permission: write` stands beside it.
    Opened,
    /// A directory that agents may read.
    OpenedForReading,
    /// A directory that agents may write to.
    OpenedForWriting,
    /// A file that massgen reads; relative ones lie beside the config.
    ReadByMassgen,
    /// A file that massgen writes; relative ones lie beside the config.
    WrittenByMassgen,
    /// A directory that massgen writes to; relative ones lie below `.massgen`.
    State,
    /// The project of a pipeline: a directory, or a word.
    Project,
}

/// A key that is set in a config, with what stands around it.
#[derive(Clone, Copy, Debug)]
pub struct KeySetting<'a> {
    /// The value as it is written, before variables are filled in.
    pub written: &'a YamlNode,
    /// The value with its variables.
    pub value: &'a YamlNode,
    /// The mapping that holds the key, with its variables.
    pub beside: &'a YamlNode,
    /// The mapping around that one.
    pub around: Option<&'a YamlNode>,
    /// The agent whose key it is; empty outside of agents.
    pub agent: &'a str,
}

impl<'a> KeySetting<'a> {
    /// The text of the key `name` beside this one.
    pub fn text_beside(&self, name: &str) -> Option<&'a str> {
        text_of_key(self.beside, name)
    }

    /// The text of the key `name` in the mapping around that of this key.
    pub fn text_around(&self, name: &str) -> Option<&'a str> {
        text_of_key(self.around?, name)
    }
}

/// The text of a single value.
pub fn text(node: &YamlNode) -> Option<&str> {
    match &node.value {
        YamlValue::Scalar(scalar) => Some(&scalar.text),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => None,
    }
}

/// The items of a list; none for anything else.
pub fn items(node: &YamlNode) -> &[YamlNode] {
    match &node.value {
        YamlValue::List(items) => items,
        YamlValue::Null | YamlValue::Scalar(_) | YamlValue::Mapping(_) => &[],
    }
}

/// Whether nothing is written there: an empty value, list or mapping.
pub fn is_empty(node: &YamlNode) -> bool {
    match &node.value {
        YamlValue::Null => true,
        YamlValue::Scalar(_) => false,
        YamlValue::List(items) => items.is_empty(),
        YamlValue::Mapping(entries) => entries.is_empty(),
    }
}

fn text_of_key<'a>(mapping: &'a YamlNode, name: &str) -> Option<&'a str> {
    text(&mapping.entry(name)?.value)
}
