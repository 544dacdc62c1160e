//! The keys of a role of a pipeline.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Text, TextList, TextOrList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

pub(crate) const NAME: TypedKey<Text> = TypedKey::optional(
    &["name"],
    shape::text(),
    "Its name, if roles are a list: letters, digits and `-`.",
    Harmless,
);

pub(crate) const PURPOSE: TypedKey<Text> = TypedKey::optional(
    &["purpose"],
    shape::text(),
    "Its purpose, for tables.",
    Harmless,
);

pub(crate) const PROMPT: TypedKey<Text> = TypedKey::optional(
    &["prompt"],
    shape::text(),
    "The prompt for its agents. Default: `purpose`, or the prompt of the built-in role.",
    Harmless,
);

pub(crate) const RIGHTS: TypedKey<TextList> = TypedKey::optional(
    &["rights"],
    shape::texts(&ValueShape::OneOf(&["read", "write", "edit", "bash"])),
    "Its rights in addition to reading; without `bash` it is offered no commands or \
     programs, whatever its agent may run.",
    Harmless,
);

pub(crate) const WRITES: TypedKey<TextOrList> = TypedKey::optional(
    &["writes"],
    shape::one_of_or_list(&["own", "project"]),
    "Where it may write: in its own directory (`own`), everywhere in a project except the \
     directories of other roles (`project`), or also in these directories of the tree.",
    Harmless,
);

pub(crate) const READS: TypedKey<TextOrList> = TypedKey::optional(
    &["reads"],
    shape::one_of_or_list(&["all"]),
    "Roles whose outputs it reads: those of all earlier stages (`all`), or these.",
    Harmless,
);

pub(crate) const OUTPUT: TypedKey<Text> = TypedKey::optional(
    &["output"],
    shape::text(),
    "The file in its directory for later roles. A custom role without one passes on its \
     answer.",
    Harmless,
);

/// A role.
pub static ROLE: KeySection = KeySection {
    path: "roles[]",
    doc: "A role of a pipeline, or changes to a built-in one.",
    unknown_keys: UnknownKeys::Refused,
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
