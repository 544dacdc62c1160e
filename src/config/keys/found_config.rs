//! The marks in the table of keys for what each key may do in a found config: one that is in the
//! project and that the user did not name with `--config`. It may be someone else's.

use crate::config::keys::shape::Text;
use crate::config::keys::{ConfigKey, TypedKey};
use crate::config::yaml::{YamlNode, YamlValue};
use crate::path::AbsPath;

/// The uses of a key that are allowed in a found config. Every row of the table has one.
#[derive(Clone, Copy, Debug)]
pub enum FoundConfigUse {
    /// Any value is allowed: nothing outside the project is reached, and nothing is sent to hosts
    /// other than the vendors' own. The keys of a section have their own marks.
    Harmless,
    /// Its string, or each string of its list, is a path that must be in the project.
    Inside(PathPurpose),
    /// A config that the user named is needed, unless the value is empty or the default. The string
    /// describes what the config would do with it.
    NeedsNamedConfig(&'static str),
    /// The value decides: the function describes what the config would do that needs a named
    /// config, or returns `None`.
    ByValue(fn(&KeySetting<'_>) -> Option<String>),
}

/// The purpose of a path in a config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathPurpose {
    /// A context path: open to agents, for writing if the same mapping has `permission: write`.
    Opened,
    /// A directory that agents may read.
    OpenedForReading,
    /// A file that an agent is shown and may read, or the URL of one.
    Uploaded,
    /// A directory that agents may write to.
    OpenedForWriting,
    /// A file that massgen reads; relative paths start at the config's directory.
    ReadByMassgen,
    /// A file that massgen writes; relative paths start at the config's directory.
    WrittenByMassgen,
    /// A directory that massgen writes to; relative paths start at `.massgen`.
    State,
    /// The project of a pipeline: a directory, or a keyword.
    Project,
}

/// A key that is set in a config, with its surroundings.
#[derive(Clone, Copy, Debug)]
pub struct KeySetting<'a> {
    /// The value before variable expansion.
    pub unexpanded: &'a YamlNode,
    /// The value after variable expansion.
    pub value: &'a YamlNode,
    /// The mapping that contains the key, after variable expansion.
    pub mapping: &'a YamlNode,
    /// The mapping that encloses `mapping`.
    pub enclosing: Option<&'a YamlNode>,
    /// The agent whose key it is; empty outside of agents.
    pub agent: &'a str,
}

impl<'a> KeySetting<'a> {
    /// Returns the text of a key in the same mapping.
    pub fn text_in_mapping(&self, key: &TypedKey<Text>) -> Option<&'a str> {
        text_of_key(self.mapping, key)
    }

    /// Returns the text of a key in the enclosing mapping.
    pub fn text_in_enclosing(&self, key: &TypedKey<Text>) -> Option<&'a str> {
        text_of_key(self.enclosing?, key)
    }
}

/// Returns the text of a scalar.
pub fn text(node: &YamlNode) -> Option<&str> {
    match &node.value {
        YamlValue::Scalar(scalar) => Some(&scalar.text),
        YamlValue::Null | YamlValue::List(_) | YamlValue::Mapping(_) => None,
    }
}

/// Returns the items of a list; empty for anything else.
pub fn items(node: &YamlNode) -> &[YamlNode] {
    match &node.value {
        YamlValue::List(items) => items,
        YamlValue::Null | YamlValue::Scalar(_) | YamlValue::Mapping(_) => &[],
    }
}

/// Returns whether a value is null or an empty list or mapping.
pub fn is_empty(node: &YamlNode) -> bool {
    match &node.value {
        YamlValue::Null => true,
        YamlValue::Scalar(_) => false,
        YamlValue::List(items) => items.is_empty(),
        YamlValue::Mapping(entries) => entries.is_empty(),
    }
}

/// Returns the text of a key in a mapping.
pub fn text_of_key<'a>(mapping: &'a YamlNode, key: &TypedKey<Text>) -> Option<&'a str> {
    text(value_of_key(mapping, key)?)
}

/// Returns the value of a key in a mapping.
pub fn value_of_key<'a>(mapping: &'a YamlNode, key: &ConfigKey) -> Option<&'a YamlNode> {
    Some(&mapping.entry(key.name())?.value)
}

/// A use that only a named config may have, as far as the text shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestrictedUse {
    /// A use that does not depend on the disk. The string describes what the config would do.
    Always(String),
    /// A use of a path, which is allowed inside the project.
    Path {
        /// The path, before symlinks are resolved.
        path: AbsPath,
        /// How the path is accessed.
        access: PathUseAccess,
    },
}

/// How a path named in a config is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUseAccess {
    /// Agents or massgen read it.
    Read,
    /// Agents write to it: protected names stay protected.
    AgentWrites,
    /// massgen writes to it: of the protected names only its own directory is writable.
    MassgenWrites,
}
