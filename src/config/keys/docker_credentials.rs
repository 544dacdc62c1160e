//! The keys about the user's secrets that a container is given.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, Named};
use crate::config::keys::shape::{self, Flag, Text, TextList, Tree};
use crate::config::keys::{KeySection, ServedKey, UnknownKeys, ValueShape};

pub(crate) const MOUNT: ServedKey<TextList> = ServedKey::optional(
    &["mount"],
    shape::texts(&ValueShape::OneOf(&[
        "ssh_keys",
        "git_config",
        "gh_config",
        "npm_config",
        "pypi_config",
    ])),
    "Files of your home, at the same places below `/home/massgen`: `~/.ssh`, `~/.gitconfig`, \
     `~/.config/gh`, `~/.npmrc`, `~/.pypirc`.",
    Named("gives commands what is yours"),
)
.with_default("[]");

pub(crate) const ADDITIONAL_MOUNTS: ServedKey<Tree> = ServedKey::optional(
    &["additional_mounts"],
    shape::tree(),
    "A mapping of other files or directories of yours to `{bind: PATH, mode: ro}`, where \
     PATH is the absolute path in the container.",
    Named("gives commands what is yours"),
)
.with_default("{}");

pub(crate) const ENV_FILE: ServedKey<Text> = ServedKey::optional(
    &["env_file"],
    shape::text(),
    "A file with a line `NAME=value` for each variable, relative to the config. Quotes around \
     a value are taken off, and lines that begin with `#` are passed over.",
    Named("gives commands variables of a file of yours"),
);

pub(crate) const ENV_VARS_FROM_FILE: ServedKey<TextList> = ServedKey::optional(
    &["env_vars_from_file"],
    shape::texts(&ValueShape::Text),
    "The only variables that are taken from `env_file`; all if the list is empty.",
    Named("gives commands what is yours"),
)
.with_default("[]");

pub(crate) const ENV_VARS: ServedKey<TextList> = ServedKey::optional(
    &["env_vars"],
    shape::texts(&ValueShape::Text),
    "Variables of your environment that are passed.",
    Named("gives commands what is yours"),
)
.with_default("[]");

pub(crate) const PASS_ALL_ENV: ServedKey<Flag> = ServedKey::optional(
    &["pass_all_env"],
    shape::flag(),
    "Whether your whole environment is passed, with all keys in it.",
    Named("gives commands what is yours"),
)
.with_default("false");

/// The path of a mount in the container. The names of the mapping around it are the user's, so that
/// no section lists it.
pub(crate) const BIND: ServedKey<Text> = ServedKey::required(
    &["bind"],
    shape::text(),
    "Where it is in the container.",
    Harmless,
);

/// The mode of a mount.
pub(crate) const MODE: ServedKey<Text> = ServedKey::optional(
    &["mode"],
    shape::one_of(&["ro"]),
    "How it is mounted.",
    Harmless,
);

/// The user's secrets that a container is given.
pub static DOCKER_CREDENTIALS: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_credentials",
    doc: "What of your credentials every command of the agent can read: all of it read-only, and \
          nothing that is not listed. A config that massgen has found and you have not named with \
          `--config` cannot have it.",
    others: UnknownKeys::Refused,
    keys: &[
        MOUNT.row(),
        ADDITIONAL_MOUNTS.row(),
        ENV_FILE.row(),
        ENV_VARS_FROM_FILE.row(),
        ENV_VARS.row(),
        PASS_ALL_ENV.row(),
    ],
};
