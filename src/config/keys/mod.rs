//! Owns the one table of all keys a config may have: their shapes, defaults and meaning. The check,
//! `docs/config.md`, the JSON Schema and the suggestions for typing errors are made from it.

use crate::config::keys::found_config::FoundConfigUse;
use crate::config::size;
use crate::text::list_names;

pub mod agents;
pub mod commands;
pub mod docker;
pub mod found_config;
pub mod hooks;
pub mod limits;
pub mod models;
pub mod orchestrator;
pub mod permissions;
pub mod root;
pub mod servers;
mod value_rules;
pub mod workflow;

/// What keys about commands begin with.
pub const ABOUT_COMMANDS: &str = "command_line_";
/// The longest unknown key for which a known one is looked up, in bytes.
const SUGGESTED_KEY_BYTES_MAX: usize = 64;

/// A mapping of the YAML: its keys, and what becomes of others.
#[derive(Debug)]
pub struct KeySection {
    /// The path of the mapping as the reference names it, such as `agents[].backend`.
    pub path: &'static str,
    /// One sentence about the mapping.
    pub doc: &'static str,
    /// What becomes of keys that are not listed.
    pub others: UnknownKeys,
    /// The keys in the order of the reference.
    pub keys: &'static [ConfigKey],
}

/// What becomes of keys that a section does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownKeys {
    /// They are errors.
    Refused,
    /// They belong to the model's API and go into its requests, unless they look like a typing
    /// error.
    PassedOn,
    /// What becomes of them in a backend: those that it lists and massgen acts on are errors.
    AsInBackend,
}

/// One key, or several that share everything but their name.
#[derive(Debug)]
pub struct ConfigKey {
    /// The names; most rows have one.
    pub names: &'static [&'static str],
    /// What its value may be.
    pub shape: ValueShape,
    /// What holds if it is not written, as YAML. An unserved key with this value gets no warning,
    /// for nothing else happens anyway.
    pub default: Option<&'static str>,
    /// What it does, in one or two sentences.
    pub doc: &'static str,
    /// Whether massgen acts on it.
    pub status: KeyStatus,
    /// What it may do in a config that the user did not name.
    pub found: FoundConfigUse,
}

/// Whether massgen acts on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyStatus {
    /// It does what the reference says, and a mapping without it is an error.
    Required,
    /// It does what the reference says.
    Served,
    /// It belongs to the model's API and goes into every request as it is.
    PassedOn,
    /// A key of MassGen's that this version does not act on; `doc` says what happens instead.
    Unserved(IgnoredEffect),
    /// A key that is an error; `doc` says what to write instead.
    Refused,
}

/// What is lost where a key is not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IgnoredEffect {
    /// A convenience, a way of working, or how something looks: a warning says so.
    Cosmetic,
    /// A restriction that the user relies on: the key is an error, unless its value restricts nothing.
    Restricts,
    /// The same of these values only.
    RestrictsAs(&'static [&'static str]),
}

/// What a value may be.
#[derive(Debug)]
pub enum ValueShape {
    /// Anything; variables in it are expanded.
    Any,
    /// Anything, taken to the letter: variables in it are not expanded.
    Verbatim,
    /// Text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number within these bounds.
    Integer(i64, i64),
    /// A number within these bounds.
    Number(f64, f64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, or a list of texts.
    OneOfOrList(&'static [&'static str]),
    /// A number of bytes within these bounds: `2g`, `512m`, or a whole number.
    Size(u64, u64),
    /// A list of texts, or a mapping of names to texts.
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
    /// The shape as messages and the reference name it.
    pub fn describe(&self) -> String {
        match self {
            ValueShape::Any | ValueShape::Verbatim => "anything".to_owned(),
            ValueShape::Text => "text".to_owned(),
            ValueShape::Flag => "`true` or `false`".to_owned(),
            ValueShape::Integer(least, most) => format!("a whole number from {least} to {most}"),
            ValueShape::Number(least, most) => format!("a number from {least} to {most}"),
            ValueShape::OneOf(names) => list_names(names, "or"),
            ValueShape::OneOfOrList(names) => {
                format!("{}, or a list of texts", list_names(names, "or"))
            }
            ValueShape::Size(least, most) => {
                let (least, most) = (size::describe(*least), size::describe(*most));
                format!("a size from `{least}` to `{most}`")
            }
            ValueShape::Names => "a list of names, or a mapping of names to texts".to_owned(),
            ValueShape::List(ValueShape::Text) => "a list of texts".to_owned(),
            ValueShape::List(_) => "a list".to_owned(),
            ValueShape::Mapping(_) => "a mapping".to_owned(),
            ValueShape::TextOr(_) => "text or a mapping".to_owned(),
            ValueShape::Named(_) => {
                "a list of mappings, or a mapping of names to mappings".to_owned()
            }
        }
    }
}

impl ConfigKey {
    /// A key that has to be there.
    const fn required(
        name: &'static [&'static str],
        shape: ValueShape,
        doc: &'static str,
        found: FoundConfigUse,
    ) -> Self {
        Self::row(name, shape, doc, (KeyStatus::Required, found))
    }

    /// A key that massgen acts on.
    const fn served(
        name: &'static [&'static str],
        shape: ValueShape,
        doc: &'static str,
        found: FoundConfigUse,
    ) -> Self {
        Self::row(name, shape, doc, (KeyStatus::Served, found))
    }

    /// Keys that go to the model's API.
    const fn passed(
        names: &'static [&'static str],
        shape: ValueShape,
        doc: &'static str,
        found: FoundConfigUse,
    ) -> Self {
        Self::row(names, shape, doc, (KeyStatus::PassedOn, found))
    }

    /// Keys that massgen does not act on; `instead` says what happens, or what to write where that is
    /// an error.
    const fn unserved(
        names: &'static [&'static str],
        shape: ValueShape,
        instead: &'static str,
        ignored: IgnoredEffect,
    ) -> Self {
        let status = KeyStatus::Unserved(ignored);
        Self::row(names, shape, instead, (status, FoundConfigUse::Harmless))
    }

    /// Keys that are errors; `instead` says what to write.
    const fn refused(names: &'static [&'static str], instead: &'static str) -> Self {
        let status = (KeyStatus::Refused, FoundConfigUse::Harmless);
        Self::row(names, ValueShape::Any, instead, status)
    }

    const fn row(
        names: &'static [&'static str],
        shape: ValueShape,
        doc: &'static str,
        (status, found): (KeyStatus, FoundConfigUse),
    ) -> Self {
        Self {
            names,
            shape,
            default: None,
            doc,
            status,
            found,
        }
    }

    /// Whether massgen acts on it.
    pub fn is_implemented(&self) -> bool {
        matches!(self.status, KeyStatus::Required | KeyStatus::Served)
    }

    /// Adds what holds if the key is not written.
    const fn with_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }
}

impl KeySection {
    /// The rows of all keys that can be looked up here: its own, and those of a backend of which the
    /// same becomes.
    pub fn known_keys(&self) -> impl Iterator<Item = &'static ConfigKey> {
        let shared = match self.others {
            UnknownKeys::AsInBackend => agents::BACKEND.keys,
            UnknownKeys::Refused | UnknownKeys::PassedOn => &[],
        };
        let shared = shared.iter().filter(|key| !key.is_implemented());
        self.keys.iter().chain(shared)
    }

    /// The row of a key.
    pub fn find(&self, name: &str) -> Option<&'static ConfigKey> {
        self.known_keys().find(|key| key.names.contains(&name))
    }

    /// Whether a key that has no row here goes to the model's API.
    pub fn passes_on(&self, name: &str) -> bool {
        match self.others {
            UnknownKeys::Refused => false,
            // No vendor has parameters about commands: whoever writes one wants to hold them.
            _ if name.starts_with(ABOUT_COMMANDS) => false,
            UnknownKeys::PassedOn => true,
            UnknownKeys::AsInBackend => agents::BACKEND.find(name).is_none(),
        }
    }

    /// The known key that an unknown one was probably meant to be.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        let known = self
            .known_keys()
            .filter(|key| key.status != KeyStatus::Refused)
            .flat_map(|key| key.names.iter().copied());
        nearest(name, known)
    }
}

/// The candidate that `name` was probably meant to be: at most a third of its letters, and no more
/// than three, differ.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > SUGGESTED_KEY_BYTES_MAX {
        return None;
    }
    let fold = |text: &str| text.to_lowercase().replace('-', "_");
    let wanted = fold(name);
    let distance_max = (wanted.chars().count() / 3).min(3);
    candidates
        .filter(|candidate| candidate.len().abs_diff(wanted.len()) <= distance_max)
        .map(|candidate| (strsim::osa_distance(&wanted, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Every section, each once, in the order of the reference.
pub static SECTIONS: &[&KeySection] = &[
    &root::ROOT,
    &agents::AGENT,
    &agents::BACKEND,
    &commands::COMMAND_LIMITS,
    &docker::DOCKER_CREDENTIALS,
    &docker::DOCKER_PACKAGES,
    &docker::DOCKER_PREINSTALL,
    &servers::MCP_SERVER,
    &servers::OAUTH,
    &servers::SECURITY,
    &agents::EXTRA_BODY,
    &agents::FALLBACK,
    &agents::FOLDER_GUARD,
    &orchestrator::ORCHESTRATOR,
    &orchestrator::CONTEXT_PATH,
    &orchestrator::COORDINATION,
    &orchestrator::TIMEOUT,
    &workflow::WORKFLOW,
    &workflow::STAGE,
    &workflow::ROLE,
    &root::RETENTION,
    &root::TIMEOUT_SETTINGS,
    &root::CHECK,
    &root::RATE_LIMIT,
    &limits::LIMITS,
    &permissions::PERMISSIONS,
    &hooks::HOOKS,
    &hooks::HOOK_GROUP,
    &hooks::HOOK,
    &root::UI,
];
