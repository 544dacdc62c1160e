//! The keys of a role of a pipeline.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Text, TextList, TextOrList};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys, ValueShape};

pub(crate) const NAME: ServedKey<Text> = ServedKey::optional(
    &["name"],
    shape::text(),
    "What it is called, where roles are written as a list: letters, digits and `-`.",
    Harmless,
);

pub(crate) const PURPOSE: ServedKey<Text> = ServedKey::optional(
    &["purpose"],
    shape::text(),
    "What it is for, for tables.",
    Harmless,
);

pub(crate) const PROMPT: ServedKey<Text> = ServedKey::optional(
    &["prompt"],
    shape::text(),
    "What its agents are told of their part; without it, `purpose`, or the text of a role that is \
     built in.",
    Harmless,
);

pub(crate) const RIGHTS: ServedKey<TextList> = ServedKey::optional(
    &["rights"],
    shape::texts(&ValueShape::OneOf(&["read", "write", "edit", "bash"])),
    "What it may do. It may read in any case; without `bash` it is offered no commands and no \
     programs, whatever its agent could run.",
    Harmless,
);

pub(crate) const WRITES: ServedKey<TextOrList> = ServedKey::optional(
    &["writes"],
    shape::one_of_or_list(&["own", "project"]),
    "Where it may write: in the directory that has its name (`own`), in a project everywhere but in \
     the directories of others (`project`), or also in these directories of the tree.",
    Harmless,
);

pub(crate) const READS: ServedKey<TextOrList> = ServedKey::optional(
    &["reads"],
    shape::one_of_or_list(&["all"]),
    "Whose outputs it is told: of all stages before its own (`all`), or of these roles.",
    Harmless,
);

pub(crate) const OUTPUT: ServedKey<Text> = ServedKey::optional(
    &["output"],
    shape::text(),
    "The file in its directory that later roles are told of. An own role without one leaves its \
     answer.",
    Harmless,
);

/// A role.
pub static ROLE: KeySection = KeySection {
    path: "roles[]",
    doc: "A role of a pipeline, or what is different about one that is built in.",
    others: UnknownKeys::Refused,
    keys: &[
        NAME.row(),
        PURPOSE.row(),
        PROMPT.row(),
        RIGHTS.row(),
        WRITES.row(),
        READS.row(),
        OUTPUT.row(),
    ],
};
