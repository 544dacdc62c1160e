//! The keys of a backend about the container that its commands run in.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::{ConfigKey, KeySection, UnknownKeys, ValueShape, value_rules};

/// The image.
pub(super) const IMAGE: ConfigKey = ConfigKey::served(
    &["command_line_docker_image"],
    ValueShape::Text,
    "The image of the agent's container. It must be on this machine: nothing is fetched. With `sudo` \
     it is `massgen/mcp-runtime-sudo:latest`. It needs `/bin/sh`. A config that massgen has found and \
     you have not named with `--config` cannot name another.", ByValue(value_rules::image),)
.with_default("massgen/mcp-runtime:latest");
/// The memory limit.
pub(super) const MEMORY: ConfigKey = ConfigKey::served(
    &["command_line_docker_memory_limit"],
    ValueShape::Size(MEMORY_BYTES.0, MEMORY_BYTES.1),
    "Memory of all processes of the container; `memory` of `command_line_limits` if it is not there.",
    Harmless,
);
/// The CPU limit.
pub(super) const CPUS: ConfigKey = ConfigKey::served(
    &["command_line_docker_cpu_limit"],
    ValueShape::Number(CPUS_MIN, CPUS_MAX),
    "How many processors the container may keep busy.",
    Harmless,
);
/// The network access.
pub(super) const NETWORK: ConfigKey = ConfigKey::served(
    &["command_line_docker_network_mode"],
    ValueShape::OneOf(&["none", "bridge", "host"]),
    "What the container reaches of the network: nothing, what the engine's own network leads to, or \
     all that this machine reaches, with what listens on the machine itself.", Named("opens the network to commands"),)
.with_default("none");
/// Whether the agent may become root in it.
pub(super) const SUDO: ConfigKey = ConfigKey::served(
    &["command_line_docker_enable_sudo"],
    ValueShape::Flag,
    "Whether the agent may become root in its container. What is root inside is root in the mounted \
     directories too, with the rights of their grants.", Named("lets commands become root in their container"),)
.with_default("false");
/// The user's secrets that it is given.
pub(super) const CREDENTIALS: ConfigKey = ConfigKey::served(
    &["command_line_docker_credentials"],
    ValueShape::Mapping(&DOCKER_CREDENTIALS),
    "What of your credentials every command of the agent can read. Nothing without it.",
    ByValue(value_rules::credentials),
);
/// The packages that are installed in it.
pub(super) const PACKAGES: ConfigKey = ConfigKey::served(
    &["command_line_docker_packages"],
    ValueShape::Mapping(&DOCKER_PACKAGES),
    "What is installed in the container. It takes a network.",
    Harmless,
);

/// The lowest and highest memory limit of a container, in bytes. Engines refuse less than 6 MiB.
const MEMORY_BYTES: (u64, u64) = (16 << 20, 16 << 40);
/// The smallest share of a CPU that engines accept.
const CPUS_MIN: f64 = 0.01;
/// The maximum number of CPUs.
const CPUS_MAX: f64 = 1024.0;

/// The user's secrets that a container is given.
pub static DOCKER_CREDENTIALS: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_credentials",
    doc: "What of your credentials every command of the agent can read: all of it read-only, and \
          nothing that is not listed. A config that massgen has found and you have not named with \
          `--config` cannot have it.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["mount"],
            ValueShape::List(&ValueShape::OneOf(&[
                "ssh_keys",
                "git_config",
                "gh_config",
                "npm_config",
                "pypi_config",
            ])),
            "Files of your home, at the same places below `/home/massgen`: `~/.ssh`, `~/.gitconfig`, \
             `~/.config/gh`, `~/.npmrc`, `~/.pypirc`.", Named("gives commands what is yours"),)
        .with_default("[]"),
        ConfigKey::served(
            &["additional_mounts"],
            ValueShape::Any,
            "A mapping of other files or directories of yours to `{bind: PATH, mode: ro}`, where \
             PATH is the absolute path in the container.", Named("gives commands what is yours"),)
        .with_default("{}"),
        ConfigKey::served(
            &["env_file"],
            ValueShape::Text,
            "A file with a line `NAME=value` for each variable, relative to the config. Quotes around \
             a value are taken off, and lines that begin with `#` are passed over.", Named("gives commands variables of a file of yours"),),
        ConfigKey::served(
            &["env_vars_from_file"],
            ValueShape::List(&ValueShape::Text),
            "The only variables that are taken from `env_file`; all if the list is empty.", Named("gives commands what is yours"),)
        .with_default("[]"),
        ConfigKey::served(
            &["env_vars"],
            ValueShape::List(&ValueShape::Text),
            "Variables of your environment that are passed.", Named("gives commands what is yours"),)
        .with_default("[]"),
        ConfigKey::served(
            &["pass_all_env"],
            ValueShape::Flag,
            "Whether your whole environment is passed, with all keys in it.", Named("gives commands what is yours"),)
        .with_default("false"),
    ],
};

/// The packages that are installed in a container.
pub static DOCKER_PACKAGES: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages",
    doc: "What is installed in the container, within 600 seconds for each kind.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["preinstall"],
            ValueShape::Mapping(&DOCKER_PREINSTALL),
            "What is installed when the container is made.", Harmless,),
        ConfigKey::served(
            &["auto_install_deps"],
            ValueShape::Flag,
            "Whether massgen installs what `requirements.txt`, `pyproject.toml` and `package.json` in \
             the root of the workspace name, before a command and whenever one of them has changed.", Harmless,)
        .with_default("false"),
    ],
};

/// The packages that are installed when a container is created.
pub static DOCKER_PREINSTALL: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages.preinstall",
    doc: "Packages that are installed when the container is made, in the order system, Python, npm. \
          What cannot be installed is told, and the run goes on.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["system"],
            ValueShape::List(&ValueShape::Text),
            "Packages of Debian, which take `command_line_docker_enable_sudo`.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["python"],
            ValueShape::List(&ValueShape::Text),
            "Packages of Python, as `pip` takes them.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["npm"],
            ValueShape::List(&ValueShape::Text),
            "Packages of npm, whose programs are found by their names.",
            Harmless,
        )
        .with_default("[]"),
    ],
};
