//! The keys of a context path.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, Flag, NodeList, Text, TextList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape, value_rules};

pub(crate) const KEY: TypedKey<NodeList> = TypedKey::optional(
    &["context_paths"],
    shape::nodes(const { &ValueShape::TextOr(&CONTEXT_PATH) }),
    "Context paths for this agent only, in addition to those of `orchestrator`.",
    Inside(PathPurpose::Opened),
)
.with_default("[]");

pub(crate) const PATH: TypedKey<Text> = TypedKey::required(
    &["path"],
    shape::text(),
    "The path: absolute, below `~`, or relative to the directory in which massgen is \
     started.",
    Inside(PathPurpose::Opened),
);

pub(crate) const PERMISSION: TypedKey<Text> = TypedKey::optional(
    &["permission"],
    shape::one_of(&["read", "write"]),
    "What agents may do there; the changes of the answer that wins are delivered.",
    Harmless,
)
.with_default("read");

pub(crate) const PROTECTED_PATHS: TypedKey<TextList> = TypedKey::optional(
    &["protected_paths"],
    shape::texts(&ValueShape::Text),
    "Paths inside that are read-only.",
    Harmless,
)
.with_default("[]");

pub(crate) const HIDDEN_PATHS: TypedKey<TextList> = TypedKey::optional(
    &["hidden_paths"],
    shape::texts(&ValueShape::Text),
    "Paths inside that are hidden.",
    Harmless,
)
.with_default("[]");

pub(crate) const UNPROTECTED: TypedKey<TextList> = TypedKey::optional(
    &["unprotected"],
    shape::texts(&ValueShape::Text),
    "Names that are protected by default, such as `.vscode`, but writable here.",
    ByValue(value_rules::unprotected),
)
.with_default("[]");

pub(crate) const ALLOW_BROAD: TypedKey<Flag> = TypedKey::optional(
    &["allow_broad"],
    shape::flag(),
    "Whether the path may be your home directory, a system directory, or a parent of the \
     directory in which massgen is started.",
    Harmless,
)
.with_default("false");

/// A path of the user that agents are given.
pub static CONTEXT_PATH: KeySection = KeySection {
    path: "context_paths[]",
    doc: "A directory of yours that is open to agents. All agents may read it; with `permission: \
          write`, each changes its own copy of it until an answer has won. `orchestrator.context_paths` and \
          `agents[].backend.context_paths` have the same keys; of two entries with the same path, \
          the one of `orchestrator` takes precedence.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        PATH.row(),
        PERMISSION.row(),
        PROTECTED_PATHS.row(),
        HIDDEN_PATHS.row(),
        UNPROTECTED.row(),
        ALLOW_BROAD.row(),
    ],
};
