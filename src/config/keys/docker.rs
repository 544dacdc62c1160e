//! The keys of a backend about the container that its commands run in.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, NeedsNamedConfig};
use crate::config::keys::shape::{self, ByteSize, Decimal, Flag, Section, Text};
use crate::config::keys::{TypedKey, docker_credentials, docker_packages, value_rules};

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
    shape::section(&docker_credentials::DOCKER_CREDENTIALS),
    "Credentials of yours that every command of the agent can read. Default: none.",
    ByValue(value_rules::credentials),
);

pub(crate) const PACKAGES: TypedKey<Section> = TypedKey::optional(
    &["command_line_docker_packages"],
    shape::section(&docker_packages::DOCKER_PACKAGES),
    "Packages to install in the container. Requires a network.",
    Harmless,
);
