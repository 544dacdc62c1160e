//! The keys of a check: a command that is run on every answer.

use crate::config::keys::found_config::FoundConfigUse::Harmless;
use crate::config::keys::shape::{self, Flag, Integer, Text};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys};

pub(crate) const COMMAND: ServedKey<Text> = ServedKey::required(
    &["command"],
    shape::text(),
    "What is given to the shell. `${NAME}` is filled in from your environment when the config is \
     read; `$NAME` is the shell's.",
    Harmless,
);

pub(crate) const NAME: ServedKey<Text> = ServedKey::optional(
    &["name"],
    shape::text(),
    "What voters and reports call it; without it, the command.",
    Harmless,
);

pub(crate) const REQUIRED: ServedKey<Flag> = ServedKey::optional(
    &["required"],
    shape::flag(),
    "Whether an answer has to pass it. With `false`, voters are told and decide.",
    Harmless,
)
.with_default("true");

pub(crate) const TIMEOUT: ServedKey<Integer> = ServedKey::optional(
    &["timeout"],
    shape::integer(1, 24 * 60 * 60),
    "How long it may take, in seconds.",
    Harmless,
)
.with_default("600");

/// A command that checks answers.
pub static CHECK: KeySection = KeySection {
    path: "checks[]",
    doc: "A command that tells by its exit status whether an answer holds; `docs/checks.md` says where \
          it runs. An answer that fails a required one cannot win while one is there that passes.",
    others: UnknownKeys::Refused,
    keys: &[COMMAND.row(), NAME.row(), REQUIRED.row(), TIMEOUT.row()],
};
