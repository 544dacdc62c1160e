//! The keys of a backend about the container that its commands run in, the user's secrets that it is
//! given, and the packages that are installed in it.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, ByteSize, Decimal, Flag, Section, Text, TextList, Tree};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys, ValueShape, value_rules};

/// The prefix of the keys about the container.
pub(crate) const PREFIX: &str = "command_line_docker_";

/// The lowest and highest memory limit of a container, in bytes. Engines refuse less than 6 MiB.
const MEMORY_BYTES: (u64, u64) = (16 << 20, 16 << 40);

/// The smallest share of a CPU that engines accept.
const CPUS_MIN: f64 = 0.01;

/// The maximum number of CPUs.
const CPUS_MAX: f64 = 1024.0;

pub(crate) const IMAGE: TypedKey<Text> = TypedKey::optional(
    &["command_line_docker_image"],
    shape::text(),
    "The image of the agent's container. It must exist locally: nothing is pulled. With `sudo` the \
     default is `massgen/mcp-runtime-sudo:latest`. It needs `/bin/sh`. A found config, not named \
     with `--config`, cannot use another image.",
    ByValue(value_rules::image),
)
.with_default("massgen/mcp-runtime:latest");

pub(crate) const MEMORY: TypedKey<ByteSize> = TypedKey::optional(
    &["command_line_docker_memory_limit"],
    shape::size(MEMORY_BYTES.0, MEMORY_BYTES.1),
    "Memory of all processes of the container. Default: `memory` of `command_line_limits`.",
    Harmless,
);

pub(crate) const CPUS: TypedKey<Decimal> = TypedKey::optional(
    &["command_line_docker_cpu_limit"],
    shape::decimal(CPUS_MIN, CPUS_MAX),
    "Number of CPUs for the container.",
    Harmless,
);

pub(crate) const NETWORK: TypedKey<Text> = TypedKey::optional(
    &["command_line_docker_network_mode"],
    shape::one_of(&["none", "bridge", "host"]),
    "Network access of the container: none, the engine's network, or that of this machine, \
     including its local servers.",
    NeedsNamedConfig("opens the network to commands"),
)
.with_default("none");

pub(crate) const SUDO: TypedKey<Flag> = TypedKey::optional(
    &["command_line_docker_enable_sudo"],
    shape::flag(),
    "Whether the agent may become root in its container. Root inside is root in the mounted \
     directories too, within their grants.",
    NeedsNamedConfig("lets commands become root in their container"),
)
.with_default("false");

pub(crate) const CREDENTIALS: TypedKey<Section> = TypedKey::optional(
    &["command_line_docker_credentials"],
    shape::section(&DOCKER_CREDENTIALS),
    "Credentials of yours that every command of the agent can read. Default: none.",
    ByValue(value_rules::credentials),
);

pub(crate) const PACKAGES: TypedKey<Section> = TypedKey::optional(
    &["command_line_docker_packages"],
    shape::section(&DOCKER_PACKAGES),
    "Packages to install in the container. Requires a network.",
    Harmless,
);

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

pub(crate) const PREINSTALL: TypedKey<Section> = TypedKey::optional(
    &["preinstall"],
    shape::section(&DOCKER_PREINSTALL),
    "Packages to install when the container is created.",
    Harmless,
);

pub(crate) const AUTO_INSTALL_DEPS: TypedKey<Flag> = TypedKey::optional(
    &["auto_install_deps"],
    shape::flag(),
    "Whether massgen installs the packages of `requirements.txt`, `pyproject.toml` and \
     `package.json` in the root of the workspace, before a command and whenever one of \
     them changes.",
    Harmless,
)
.with_default("false");

pub(crate) const SYSTEM: TypedKey<TextList> = TypedKey::optional(
    &["system"],
    shape::texts(&ValueShape::Text),
    "Debian packages; requires `command_line_docker_enable_sudo`.",
    Harmless,
)
.with_default("[]");

pub(crate) const PYTHON: TypedKey<TextList> = TypedKey::optional(
    &["python"],
    shape::texts(&ValueShape::Text),
    "Python packages, as arguments of `pip`.",
    Harmless,
)
.with_default("[]");

pub(crate) const NPM: TypedKey<TextList> = TypedKey::optional(
    &["npm"],
    shape::texts(&ValueShape::Text),
    "npm packages; their programs are in `PATH`.",
    Harmless,
)
.with_default("[]");

/// The packages that are installed in a container.
pub static DOCKER_PACKAGES: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages",
    doc: "Packages to install in the container, within 600 seconds for each kind.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[PREINSTALL.row(), AUTO_INSTALL_DEPS.row()],
};

/// The packages that are installed when a container is created.
pub static DOCKER_PREINSTALL: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages.preinstall",
    doc: "Packages to install when the container is created, in the order system, Python, npm. \
          Failures are reported, and the run continues.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[SYSTEM.row(), PYTHON.row(), NPM.row()],
};
