//! The keys about the user's secrets that a container is given.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, Flag, Text, TextList, Tree};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape};

pub(crate) const MOUNT: TypedKey<TextList> = TypedKey::optional(
    &["mount"],
    shape::texts(&ValueShape::OneOf(&[
        "ssh_keys",
        "git_config",
        "gh_config",
        "npm_config",
        "pypi_config",
        "claude_config",
        "codex_config",
    ])),
    "Files of your home directory, at the same paths below `/home/massgen`: `~/.ssh`, \
     `~/.gitconfig`, `~/.config/gh`, `~/.npmrc`, `~/.pypirc`, \
     `~/.claude`, `~/.codex`.",
    NeedsNamedConfig("gives commands your credentials"),
)
.with_default("[]");

pub(crate) const ADDITIONAL_MOUNTS: TypedKey<Tree> = TypedKey::optional(
    &["additional_mounts"],
    shape::tree(),
    "A mapping of other files or directories of yours to `{bind: PATH, mode: ro}`; PATH is \
     the absolute path in the container.",
    NeedsNamedConfig("gives commands your credentials"),
)
.with_default("{}");

pub(crate) const ENV_FILE: TypedKey<Text> = TypedKey::optional(
    &["env_file"],
    shape::text(),
    "A file with a line `NAME=value` per variable, relative to the config. Quotes around a \
     value are removed, and lines that begin with `#` are ignored.",
    NeedsNamedConfig("gives commands variables from one of your files"),
);

pub(crate) const ENV_VARS_FROM_FILE: TypedKey<TextList> = TypedKey::optional(
    &["env_vars_from_file"],
    shape::texts(&ValueShape::Text),
    "The only variables to use from `env_file`; all if the list is empty.",
    NeedsNamedConfig("gives commands your credentials"),
)
.with_default("[]");

pub(crate) const ENV_VARS: TypedKey<TextList> = TypedKey::optional(
    &["env_vars"],
    shape::texts(&ValueShape::Text),
    "Variables of your environment to pass on.",
    NeedsNamedConfig("gives commands your credentials"),
)
.with_default("[]");

pub(crate) const PASS_ALL_ENV: TypedKey<Flag> = TypedKey::optional(
    &["pass_all_env"],
    shape::flag(),
    "Whether your whole environment is passed on, including all keys.",
    NeedsNamedConfig("gives commands your credentials"),
)
.with_default("false");

/// The path of a mount in the container. The names of the mapping around it are the user's, so that
/// no section lists it.
pub(crate) const BIND: TypedKey<Text> = TypedKey::required(
    &["bind"],
    shape::text(),
    "Where it is in the container.",
    Harmless,
);

/// The mode of a mount.
pub(crate) const MODE: TypedKey<Text> = TypedKey::optional(
    &["mode"],
    shape::one_of(&["ro"]),
    "How it is mounted.",
    Harmless,
);

/// The user's secrets that a container is given.
pub static DOCKER_CREDENTIALS: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_credentials",
    doc: "Credentials of yours that every command of the agent can read, read-only and only those \
          listed. A found config, not named with `--config`, cannot have any.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        MOUNT.row(),
        ADDITIONAL_MOUNTS.row(),
        ENV_FILE.row(),
        ENV_VARS_FROM_FILE.row(),
        ENV_VARS.row(),
        PASS_ALL_ENV.row(),
    ],
};
