//! The keys of a check: a command that is run on every answer.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Flag, Integer, Text, TextList};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

pub(crate) const COMMAND: TypedKey<Text> = TypedKey::required(
    &["command"],
    shape::text(),
    "The shell command. `${NAME}` is expanded from your environment when the config is \
     read; `$NAME` is left to the shell.",
    Harmless,
);

pub(crate) const NAME: TypedKey<Text> = TypedKey::optional(
    &["name"],
    shape::text(),
    "Its name for voters and in reports. Default: the command.",
    Harmless,
);

pub(crate) const REQUIRED: TypedKey<Flag> = TypedKey::optional(
    &["required"],
    shape::flag(),
    "Whether an answer must pass it. With `false`, voters see the result and decide.",
    Harmless,
)
.with_default("true");

pub(crate) const TIMEOUT: TypedKey<Integer> = TypedKey::optional(
    &["timeout"],
    shape::integer(1, 24 * 60 * 60),
    "Timeout in seconds.",
    Harmless,
)
.with_default("600");

pub(crate) const RETRIES: TypedKey<Integer> = TypedKey::optional(
    &["retries"],
    shape::integer(0, 10),
    "How often it is run again if it fails, for one that sometimes fails by chance. It passes if one \
     run does.",
    Harmless,
)
.with_default("0");

pub(crate) const FIXED: TypedKey<TextList> = TypedKey::optional(
    &["fixed"],
    shape::texts(&ValueShape::Text),
    "Globs of files, such as `tests/**`, relative to the write path, that it takes from your files, \
     whatever an answer does to them. Needs attempts.",
    Harmless,
);

/// A command that checks answers.
pub static CHECK: KeySection = KeySection {
    path: "checks[]",
    doc: "A command whose exit status decides whether an answer passes; see `docs/checks.md` for \
          where it runs. An answer that fails a required check cannot win while another one \
          passes.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        COMMAND.row(),
        NAME.row(),
        REQUIRED.row(),
        TIMEOUT.row(),
        RETRIES.row(),
        FIXED.row(),
    ],
};
