//! The single table of all keys of a config: their shapes, defaults and meaning. The checks,
//! `docs/config.md`, the JSON Schema and the suggestions for misspelled keys are all derived from
//! it.

use crate::config::keys::found_config::FoundConfigUse;
use crate::config::size;
use crate::text::list_names;

#[macro_use]
mod declaration;
pub mod agents;
pub mod backend;
pub mod checks;
pub mod commands;
pub mod context_paths;
pub mod coordination;
pub mod custom_tools;
pub mod docker;
pub mod found_config;
pub mod hooks;
pub mod limits;
pub mod machine_policy;
pub mod media;
pub mod memory;
pub mod models;
pub mod orchestrator;
pub mod permissions;
pub mod preparation;
pub mod root;
mod typed_key;
pub mod servers;
pub mod shape;
pub mod ui;
mod value_rules;
pub mod workflow;

pub use typed_key::TypedKey;

/// The prefix of keys about commands.
pub const COMMAND_LINE_PREFIX: &str = "command_line_";
/// The longest unknown key for which a similar known one is looked up, in bytes.
const SUGGESTED_KEY_BYTES_MAX: usize = 64;

/// A mapping in the YAML: its keys, and how unknown keys are treated.
#[derive(Debug)]
pub struct KeySection {
    /// The path of the mapping in the reference, such as `agents[].backend`.
    pub path: &'static str,
    /// One sentence about the mapping.
    pub doc: &'static str,
    /// How keys that it does not list are treated.
    pub unknown_keys: UnknownKeys,
    /// The keys in the order of the reference.
    pub keys: &'static [ConfigKey],
}

/// How keys that a section does not list are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKeys {
    /// They are errors.
    Refused,
    /// They are sent to the model's API, unless they look like a typing error.
    PassedOn,
    /// Like `PassedOn`, except those that a backend lists: what massgen acts on there is an error
    /// here.
    PassedOnUnlessOfBackend,
}

/// A key, or several that share everything but their name.
#[derive(Debug)]
pub struct ConfigKey {
    /// The names; most rows have one.
    pub names: &'static [&'static str],
    /// The shape of its value.
    pub shape: ValueShape,
    /// Values of MassGen that massgen reads as others, with a warning.
    pub foreign_values: &'static [ForeignValue],
    /// The default as YAML. An unsupported key with this value gets no warning, because the
    /// behaviour is the same.
    pub default: Option<&'static str>,
    /// Its effect, in one or two sentences.
    pub doc: &'static str,
    /// Whether massgen acts on it.
    pub status: KeyStatus,
    /// Its allowed uses in a config that the user did not name.
    pub found_config_use: FoundConfigUse,
}

/// A value of MassGen that massgen does not have.
#[derive(Debug)]
pub struct ForeignValue {
    /// The value in MassGen.
    pub massgen_value: &'static str,
    /// The value that it is read as.
    pub read_as: &'static str,
    /// What happens, in words that follow a colon.
    pub doc: &'static str,
}

/// Whether massgen acts on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// It has the documented effect, and a mapping without it is an error.
    Required,
    /// It has the documented effect.
    Supported,
    /// It is sent to the model's API in every request, unchanged.
    PassedOn,
    /// A key of MassGen that this version does not act on; `doc` describes what happens instead.
    Unsupported(IgnoredEffect),
    /// A key that is an error; `doc` describes what to write instead.
    Refused,
}

/// What is lost when a key is not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredEffect {
    /// Nothing that the user would notice, such as the look of another program: it is accepted
    /// with any value.
    Nothing,
    /// A convenience, a way of working, the appearance, or a limit that MassGen ignores too: it
    /// gets a warning.
    Convenience,
    /// A restriction that MassGen applies, so that the user relies on it: the key is an error,
    /// unless its value restricts nothing.
    Restricts,
    /// Like `Restricts`, but of scalars only these are errors.
    RestrictsAs(&'static [&'static str]),
}

/// The shape of a value.
#[derive(Debug)]
pub enum ValueShape {
    /// Anything; variables in it are expanded.
    Any,
    /// Any value, taken literally: variables in it are not expanded.
    Verbatim,
    /// Text.
    Text,
    /// `true` or `false`.
    Flag,
    /// An integer within these bounds.
    Integer(i64, i64),
    /// A number within these bounds.
    Number(f64, f64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, or a list of strings.
    OneOfOrList(&'static [&'static str]),
    /// A number of bytes within these bounds: `2g`, `512m`, or an integer.
    Size(u64, u64),
    /// A list of strings, or a mapping of names to strings.
    Names,
    /// A list whose items all have this shape.
    List(&'static ValueShape),
    /// A mapping with the keys of a section.
    Mapping(&'static KeySection),
    /// Text, or a mapping with the keys of a section.
    TextOr(&'static KeySection),
    /// A list of mappings with the keys of a section, or a mapping of names to such mappings.
    Named(&'static KeySection),
}

impl ValueShape {
    /// Returns the shape as messages and the reference describe it.
    pub fn describe(&self) -> String {
        match self {
            ValueShape::Any | ValueShape::Verbatim => "anything".to_owned(),
            ValueShape::Text => "a string".to_owned(),
            ValueShape::Flag => "`true` or `false`".to_owned(),
            ValueShape::Integer(min, max) => format!("a whole number from {min} to {max}"),
            ValueShape::Number(min, max) => format!("a number from {min} to {max}"),
            ValueShape::OneOf(names) => list_names(names, "or"),
            ValueShape::OneOfOrList(names) => {
                format!("{}, or a list of strings", list_names(names, "or"))
            }
            ValueShape::Size(min, max) => {
                let (min, max) = (size::describe(*min), size::describe(*max));
                format!("a size from `{min}` to `{max}`")
            }
            ValueShape::Names => "a list of names, or a mapping of names to strings".to_owned(),
            ValueShape::List(ValueShape::Text) => "a list of strings".to_owned(),
            ValueShape::List(_) => "a list".to_owned(),
            ValueShape::Mapping(_) => "a mapping".to_owned(),
            ValueShape::TextOr(_) => "a string or a mapping".to_owned(),
            ValueShape::Named(_) => {
                "a list of mappings, or a mapping of names to mappings".to_owned()
            }
        }
    }
}

impl ConfigKey {
    /// Creates keys that are sent to the model's API.
    const fn passed_on(
        names: &'static [&'static str],
        shape: ValueShape,
        doc: &'static str,
    ) -> Self {
        Self::new(names, shape, doc, KeyStatus::PassedOn)
    }

    /// Creates keys that massgen does not act on; `alternative` describes what happens, or what to
    /// write where the key is an error.
    const fn unsupported(
        names: &'static [&'static str],
        ignored: IgnoredEffect,
        alternative: &'static str,
    ) -> Self {
        let status = KeyStatus::Unsupported(ignored);
        Self::new(names, ValueShape::Any, alternative, status)
    }

    /// Creates keys that are errors; `alternative` describes what to write.
    const fn refused(names: &'static [&'static str], alternative: &'static str) -> Self {
        Self::new(names, ValueShape::Any, alternative, KeyStatus::Refused)
    }

    /// Creates keys that are harmless in a found config, without values of other programs or a
    /// default.
    const fn new(
        names: &'static [&'static str],
        shape: ValueShape,
        doc: &'static str,
        status: KeyStatus,
    ) -> Self {
        Self {
            names,
            shape,
            foreign_values: &[],
            default: None,
            doc,
            status,
            found_config_use: FoundConfigUse::Harmless,
        }
    }

    /// Returns its name, or the first of several.
    pub(crate) const fn name(&self) -> &'static str {
        match self.names {
            [name, ..] => name,
            [] => "",
        }
    }

    /// Returns whether massgen acts on it.
    pub fn is_implemented(&self) -> bool {
        matches!(self.status, KeyStatus::Required | KeyStatus::Supported)
    }

    /// Adds the default.
    const fn with_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// Sets the shape of the values.
    const fn with_shape(mut self, shape: ValueShape) -> Self {
        self.shape = shape;
        self
    }

    /// Sets what is allowed in a found config.
    const fn in_found(mut self, allowed: FoundConfigUse) -> Self {
        self.found_config_use = allowed;
        self
    }
}

impl KeySection {
    /// Creates a section in which unknown keys are errors.
    const fn new(path: &'static str, doc: &'static str, keys: &'static [ConfigKey]) -> Self {
        Self {
            path,
            doc,
            unknown_keys: UnknownKeys::Refused,
            keys,
        }
    }

    /// Sets how unknown keys are treated.
    const fn with_unknown_keys(mut self, unknown_keys: UnknownKeys) -> Self {
        self.unknown_keys = unknown_keys;
        self
    }

    /// Returns the rows of all keys that are known here: the section's own and, with
    /// `PassedOnUnlessOfBackend`, those of a backend that massgen does not act on.
    pub fn known_keys(&self) -> impl Iterator<Item = &'static ConfigKey> {
        let backend_keys = match self.unknown_keys {
            UnknownKeys::PassedOnUnlessOfBackend => backend::BACKEND.keys,
            UnknownKeys::Refused | UnknownKeys::PassedOn => &[],
        };
        let backend_keys = backend_keys.iter().filter(|key| !key.is_implemented());
        self.keys.iter().chain(backend_keys)
    }

    /// Returns the row of a key.
    pub fn find(&self, name: &str) -> Option<&'static ConfigKey> {
        self.known_keys().find(|key| key.names.contains(&name))
    }

    /// Returns whether a key without a row here is sent to the model's API.
    pub fn passes_on(&self, name: &str) -> bool {
        match self.unknown_keys {
            UnknownKeys::Refused => false,
            // No vendor has parameters about commands: such a key is meant as a restriction.
            _ if name.starts_with(COMMAND_LINE_PREFIX) => false,
            UnknownKeys::PassedOn => true,
            UnknownKeys::PassedOnUnlessOfBackend => backend::BACKEND.find(name).is_none(),
        }
    }

    /// Returns the known key that an unknown one probably means.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        let names = self
            .known_keys()
            .filter(|key| key.status != KeyStatus::Refused)
            .flat_map(|key| key.names.iter().copied());
        nearest(name, names)
    }
}

/// Returns the candidate that `name` probably means: at most a third of its letters, and no more
/// than three, may differ.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > SUGGESTED_KEY_BYTES_MAX {
        return None;
    }
    let fold = |text: &str| text.to_lowercase().replace('-', "_");
    let folded_name = fold(name);
    let distance_max = (folded_name.chars().count() / 3).min(3);
    candidates
        .filter(|candidate| candidate.len().abs_diff(folded_name.len()) <= distance_max)
        .map(|candidate| {
            let distance = strsim::osa_distance(&folded_name, &fold(candidate));
            (distance, candidate)
        })
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the hint about an unknown name: the candidate that it probably means, or `otherwise`.
pub fn nearest_hint<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
    otherwise: impl Into<String>,
) -> String {
    match nearest(name, candidates) {
        Some(similar_name) => format!("did you mean `{similar_name}`?"),
        None => otherwise.into(),
    }
}

/// Every section, each once, in the order of the reference.
pub static SECTIONS: &[&KeySection] = &[
    &root::ROOT,
    &agents::AGENT,
    &backend::BACKEND,
    &commands::COMMAND_LIMITS,
    &docker::DOCKER_CREDENTIALS,
    &docker::DOCKER_PACKAGES,
    &docker::DOCKER_PREINSTALL,
    &servers::MCP_SERVER,
    &custom_tools::CUSTOM_TOOL,
    &custom_tools::PROGRAM_TOOL,
    &servers::SERVER_OAUTH,
    &servers::SERVER_SECURITY,
    &backend::EXTRA_BODY_SECTION,
    &backend::FALLBACK_SECTION,
    &media::UPLOAD,
    &context_paths::FOLDER_GUARD,
    &orchestrator::ORCHESTRATOR,
    &context_paths::CONTEXT_PATH,
    &coordination::COORDINATION,
    &agents::SUBAGENT_ORCHESTRATOR,
    &agents::SUBAGENT,
    &preparation::DSPY,
    &preparation::PERSONA_GENERATOR,
    &preparation::CRITERIA_GENERATOR,
    &orchestrator::TIMEOUT,
    &workflow::WORKFLOW,
    &workflow::STAGE,
    &workflow::PIPELINE_ROLE,
    &limits::RETENTION,
    &limits::TIMEOUT_SETTINGS,
    &checks::CHECK,
    &checks::JUDGE,
    &checks::CRITERION,
    &memory::MEMORY,
    &memory::PERSISTENT_MEMORY,
    &memory::MEMORY_COMPRESSION,
    &limits::RATE_LIMIT,
    &limits::LIMITS,
    &permissions::PERMISSIONS,
    &permissions::PERMISSION_RULES,
    &hooks::HOOKS,
    &hooks::HOOK_GROUP,
    &hooks::HOOK,
    &ui::UI,
];
