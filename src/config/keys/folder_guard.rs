//! The keys of a folder guard.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, Flag, Section, Text, TextList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};
use crate::permissions::guard::GuardPreset;

pub(crate) const KEY: TypedKey<Section> = TypedKey::optional(
    &["folder_guard"],
    shape::section(&FOLDER_GUARD),
    "Restricts this agent to these directories. The context paths are then not \
     open to it.",
    Harmless,
);

pub(crate) const PRESET: TypedKey<Text> = TypedKey::optional(
    &["preset"],
    shape::one_of(GuardPreset::NAMES),
    "Directories for a part in a workflow, in addition to the lists. `execution` reads \
     `learnings` and writes `execution`; `planning` reads `learnings` and writes \
     `planning`; `validation` reads `execution` and writes `validation`; `read_only` reads \
     `learnings`.",
    Harmless,
);

pub(crate) const ROOT: TypedKey<Text> = TypedKey::optional(
    &["root"],
    shape::text(),
    "The parent of the directories of `preset` and of `Downloads/`, and the base of \
     relative paths in the agent's calls. Default: its workspace. Directories in the \
     workspace are created; elsewhere they must exist.",
    Inside(PathPurpose::OpenedForWriting),
);

pub(crate) const READ: TypedKey<TextList> = TypedKey::optional(
    &["read"],
    shape::texts(&ValueShape::Text),
    "Directories that may be read.",
    Inside(PathPurpose::OpenedForReading),
)
.with_default("[]");

pub(crate) const WRITE: TypedKey<TextList> = TypedKey::optional(
    &["write"],
    shape::texts(&ValueShape::Text),
    "Directories that may be read, and changed like a context path with `permission: write`.",
    Inside(PathPurpose::OpenedForWriting),
)
.with_default("[]");

pub(crate) const DOWNLOADS: TypedKey<Flag> = TypedKey::optional(
    &["downloads"],
    shape::flag(),
    "Whether `Downloads/` is also open: to read, and to write if any directory is \
     writable.",
    Harmless,
)
.with_default("true");

/// The two lists of directories that an agent is restricted to.
pub static FOLDER_GUARD: KeySection = KeySection {
    path: "agents[].folder_guard",
    doc: "The only directories open to an agent: absolute, below `~`, or relative to the directory \
          in which massgen is started. With an empty `write` the agent is read-only; two empty \
          lists open nothing. Without `folder_guard` there is no such restriction.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        PRESET.row(),
        ROOT.row(),
        READ.row(),
        WRITE.row(),
        DOWNLOADS.row(),
    ],
};
