//! The keys of a backend about the container that its commands run in.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::{ConfigKey, KeySection, UnknownKeys, ValueShape, value_rules};

/// The image.
pub(super) const IMAGE: ConfigKey = ConfigKey::served(
    &["command_line_docker_image"],
    ValueShape::Text,
    "The image of the agent's container. It must exist locally: nothing is pulled. With `sudo` the \
     default is `massgen/mcp-runtime-sudo:latest`. It needs `/bin/sh`. A found config, not named \
     with `--config`, cannot use another image.",
    ByValue(value_rules::image),
)
.with_default("massgen/mcp-runtime:latest");
/// The memory limit.
pub(super) const MEMORY: ConfigKey = ConfigKey::served(
    &["command_line_docker_memory_limit"],
    ValueShape::Size(MEMORY_BYTES.0, MEMORY_BYTES.1),
    "Memory of all processes of the container. Default: `memory` of `command_line_limits`.",
    Harmless,
);
/// The CPU limit.
pub(super) const CPUS: ConfigKey = ConfigKey::served(
    &["command_line_docker_cpu_limit"],
    ValueShape::Number(CPUS_MIN, CPUS_MAX),
    "Number of CPUs for the container.",
    Harmless,
);
/// The network access.
pub(super) const NETWORK: ConfigKey = ConfigKey::served(
    &["command_line_docker_network_mode"],
    ValueShape::OneOf(&["none", "bridge", "host"]),
    "Network access of the container: none, the engine's network, or that of this machine, \
     including its local servers.",
    Named("opens the network to commands"),
)
.with_default("none");
/// Whether the agent may become root in it.
pub(super) const SUDO: ConfigKey = ConfigKey::served(
    &["command_line_docker_enable_sudo"],
    ValueShape::Flag,
    "Whether the agent may become root in its container. Root inside is root in the mounted \
     directories too, within their grants.",
    Named("lets commands become root in their container"),
)
.with_default("false");
/// The user's secrets that it is given.
pub(super) const CREDENTIALS: ConfigKey = ConfigKey::served(
    &["command_line_docker_credentials"],
    ValueShape::Mapping(&DOCKER_CREDENTIALS),
    "Credentials of yours that every command of the agent can read. Default: none.",
    ByValue(value_rules::credentials),
);
/// The packages that are installed in it.
pub(super) const PACKAGES: ConfigKey = ConfigKey::served(
    &["command_line_docker_packages"],
    ValueShape::Mapping(&DOCKER_PACKAGES),
    "Packages to install in the container. Requires a network.",
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
    doc: "Credentials of yours that every command of the agent can read, read-only and only those \
          listed. A found config, not named with `--config`, cannot have any.",
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
            "Files of your home directory, at the same paths below `/home/massgen`: `~/.ssh`, \
             `~/.gitconfig`, `~/.config/gh`, `~/.npmrc`, `~/.pypirc`.",
            Named("gives commands your credentials"),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["additional_mounts"],
            ValueShape::Any,
            "A mapping of other files or directories of yours to `{bind: PATH, mode: ro}`; PATH is \
             the absolute path in the container.",
            Named("gives commands your credentials"),
        )
        .with_default("{}"),
        ConfigKey::served(
            &["env_file"],
            ValueShape::Text,
            "A file with a line `NAME=value` per variable, relative to the config. Quotes around a \
             value are removed, and lines that begin with `#` are ignored.",
            Named("gives commands variables from one of your files"),
        ),
        ConfigKey::served(
            &["env_vars_from_file"],
            ValueShape::List(&ValueShape::Text),
            "The only variables to use from `env_file`; all if the list is empty.",
            Named("gives commands your credentials"),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["env_vars"],
            ValueShape::List(&ValueShape::Text),
            "Variables of your environment to pass on.",
            Named("gives commands your credentials"),
        )
        .with_default("[]"),
        ConfigKey::served(
            &["pass_all_env"],
            ValueShape::Flag,
            "Whether your whole environment is passed on, including all keys.",
            Named("gives commands your credentials"),
        )
        .with_default("false"),
    ],
};

/// The packages that are installed in a container.
pub static DOCKER_PACKAGES: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages",
    doc: "Packages to install in the container, within 600 seconds for each kind.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["preinstall"],
            ValueShape::Mapping(&DOCKER_PREINSTALL),
            "Packages to install when the container is created.",
            Harmless,
        ),
        ConfigKey::served(
            &["auto_install_deps"],
            ValueShape::Flag,
            "Whether massgen installs the packages of `requirements.txt`, `pyproject.toml` and \
             `package.json` in the root of the workspace, before a command and whenever one of \
             them changes.",
            Harmless,
        )
        .with_default("false"),
    ],
};

/// The packages that are installed when a container is created.
pub static DOCKER_PREINSTALL: KeySection = KeySection {
    path: "agents[].backend.command_line_docker_packages.preinstall",
    doc: "Packages to install when the container is created, in the order system, Python, npm. \
          Failures are reported, and the run continues.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["system"],
            ValueShape::List(&ValueShape::Text),
            "Debian packages; requires `command_line_docker_enable_sudo`.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["python"],
            ValueShape::List(&ValueShape::Text),
            "Python packages, as arguments of `pip`.",
            Harmless,
        )
        .with_default("[]"),
        ConfigKey::served(
            &["npm"],
            ValueShape::List(&ValueShape::Text),
            "npm packages; their programs are in `PATH`.",
            Harmless,
        )
        .with_default("[]"),
    ],
};
