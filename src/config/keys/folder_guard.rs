//! The keys of a folder guard.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Inside};
use crate::config::keys::found_config::PathPurpose;
use crate::config::keys::shape::{self, Flag, Section, Text, TextList};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys, ValueShape};
use crate::permissions::guard::GuardPreset;

pub(crate) const KEY: ServedKey<Section> = ServedKey::optional(
    &["folder_guard"],
    shape::section(&FOLDER_GUARD),
    "Directories that this agent is held to. With it, the context paths are not \
     open to the agent.",
    Harmless,
);

pub(crate) const PRESET: ServedKey<Text> = ServedKey::optional(
    &["preset"],
    shape::one_of(GuardPreset::NAMES),
    "Directories of a part in a workflow, besides those of the lists. `execution` reads \
     `learnings` and writes `execution`; `planning` reads `learnings` and writes `planning`; \
     `validation` reads `execution` and writes `validation`; `read_only` reads `learnings`.",
    Harmless,
);

pub(crate) const ROOT: ServedKey<Text> = ServedKey::optional(
    &["root"],
    shape::text(),
    "Where the directories of `preset` and `Downloads/` lie, and where relative paths of the \
     agent's calls begin; its workspace unless it is written. What lies in the workspace is \
     made; elsewhere the directories must exist.",
    Inside(PathPurpose::OpenedForWriting),
);

pub(crate) const READ: ServedKey<TextList> = ServedKey::optional(
    &["read"],
    shape::texts(&ValueShape::Text),
    "Directories that may be read.",
    Inside(PathPurpose::OpenedForReading),
)
.with_default("[]");

pub(crate) const WRITE: ServedKey<TextList> = ServedKey::optional(
    &["write"],
    shape::texts(&ValueShape::Text),
    "Directories that may be read, and written by the winner.",
    Inside(PathPurpose::OpenedForWriting),
)
.with_default("[]");

pub(crate) const DOWNLOADS: ServedKey<Flag> = ServedKey::optional(
    &["downloads"],
    shape::flag(),
    "Whether `Downloads/` is open besides: for reading, and for writing where anything is.",
    Harmless,
)
.with_default("true");

/// The two lists of directories that an agent is restricted to.
pub static FOLDER_GUARD: KeySection = KeySection {
    path: "agents[].folder_guard",
    doc: "Directories that an agent is held to, absolute, below `~`, or relative to the directory \
          that massgen is started in. An empty `write` makes the agent read-only; two empty lists \
          open none of them. Without `folder_guard` there is no guard.",
    others: UnknownKeys::Refused,
    keys: &[
        PRESET.row(),
        ROOT.row(),
        READ.row(),
        WRITE.row(),
        DOWNLOADS.row(),
    ],
};
