//! Owns the marks of the table of keys that say what each key may do in a found config: one that lies
//! in the project, and that the user did not name with `--config`. Somebody else may have written it.

use crate::config::node::{Node, Value};

/// What a key may do in a found config. Every row of the table has one.
#[derive(Clone, Copy, Debug)]
pub enum FoundUse {
    /// Whatever it says, nothing outside the project is reached, and nothing is sent anywhere but to
    /// the vendors' own hosts. The keys of a section are judged by their own marks.
    Harmless,
    /// Its text, or each text of its list, is a path that has to lie in the project.
    Inside(PathUse),
    /// It needs a config that the user named, unless its value is empty or the default. The text says
    /// what the config would do with it.
    Named(&'static str),
    /// The value decides: the function says what the config would do that needs a named config, or
    /// gives `None`.
    ByValue(fn(&Setting<'_>) -> Option<String>),
}

/// What a path of a config is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
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
pub struct Setting<'a> {
    /// The value as it is written, before variables are filled in.
    pub written: &'a Node,
    /// The value with its variables.
    pub value: &'a Node,
    /// The mapping that holds the key, with its variables.
    pub beside: &'a Node,
    /// The mapping around that one.
    pub around: Option<&'a Node>,
    /// The agent whose key it is; empty outside of agents.
    pub agent: &'a str,
}

impl<'a> Setting<'a> {
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
pub fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Scalar(scalar) => Some(&scalar.text),
        Value::Null | Value::List(_) | Value::Mapping(_) => None,
    }
}

/// The items of a list; none for anything else.
pub fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        Value::Null | Value::Scalar(_) | Value::Mapping(_) => &[],
    }
}

/// Whether nothing is written there: an empty value, list or mapping.
pub fn is_empty(node: &Node) -> bool {
    match &node.value {
        Value::Null => true,
        Value::Scalar(_) => false,
        Value::List(items) => items.is_empty(),
        Value::Mapping(entries) => entries.is_empty(),
    }
}

fn text_of_key<'a>(mapping: &'a Node, name: &str) -> Option<&'a str> {
    text(&mapping.entry(name)?.value)
}
