//! The keys of a backend about the container that its commands run in, the user's secrets that it is
//! given, and the packages that are installed in it.

use crate::config::keys::found_config::FoundConfigUse::{ByValue, NeedsNamedConfig};
use crate::config::keys::{ValueShape, value_rules};

/// The prefix of the keys about the container.
pub(crate) const PREFIX: &str = "command_line_docker_";

/// The lowest and highest memory limit of a container, in bytes. Engines refuse less than 6 MiB.
const MEMORY_BYTES: (u64, u64) = (16 << 20, 16 << 40);

/// The smallest share of a CPU that engines accept.
const CPUS_MIN: f64 = 0.01;

/// The maximum number of CPUs.
const CPUS_MAX: f64 = 1024.0;

keys! {
    /// The image of the agent's container. It must exist locally: nothing is pulled. With `sudo`
    /// the default is `massgen/mcp-runtime-sudo:latest`. It needs `/bin/sh`. A found config, not
    /// named with `--config`, cannot use another image.
    const IMAGE = ["command_line_docker_image"] text().in_found(ByValue(value_rules::image))
        .with_default("massgen/mcp-runtime:latest");

    /// Memory of all processes of the container. Default: `memory` of `command_line_limits`.
    const MEMORY = ["command_line_docker_memory_limit"] size(MEMORY_BYTES.0, MEMORY_BYTES.1);

    /// Number of CPUs for the container.
    const CPUS = ["command_line_docker_cpu_limit"] decimal(CPUS_MIN, CPUS_MAX);

    /// Network access of the container: none, the engine's network, or that of this machine,
    /// including its local servers.
    const NETWORK = ["command_line_docker_network_mode"] one_of(&["none", "bridge", "host"])
        .in_found(NeedsNamedConfig("opens the network to commands")).with_default("none");

    /// Whether the agent may become root in its container. Root inside is root in the mounted
    /// directories too, within their grants.
    const SUDO = ["command_line_docker_enable_sudo"] flag()
        .in_found(NeedsNamedConfig("lets commands become root in their container"))
        .with_default("false");

    /// Credentials of yours that every command of the agent can read. Default: none.
    const CREDENTIALS = ["command_line_docker_credentials"] section(&DOCKER_CREDENTIALS)
        .in_found(ByValue(value_rules::credentials));

    /// Packages to install in the container. Requires a network.
    const PACKAGES = ["command_line_docker_packages"] section(&DOCKER_PACKAGES);

    /// Where it is in the container.
    const BIND = ["bind"] text().make_required();

    /// How it is mounted.
    const MODE = ["mode"] one_of(&["ro"]);
}

section! {
    /// Credentials of yours that every command of the agent can read, read-only and only those
    /// listed. A found config, not named with `--config`, cannot have any.
    pub static DOCKER_CREDENTIALS = "agents[].backend.command_line_docker_credentials";

    /// Files of your home directory, at the same paths below `/home/massgen`: `~/.ssh`,
    /// `~/.gitconfig`, `~/.config/gh`, `~/.npmrc`, `~/.pypirc`, `~/.claude`, `~/.codex`.
    const MOUNT = ["mount"] texts_of(&ValueShape::OneOf(&["ssh_keys", "git_config", "gh_config",
        "npm_config", "pypi_config", "claude_config", "codex_config"]))
        .in_found(NeedsNamedConfig("gives commands your credentials")).with_default("[]");

    /// A mapping of other files or directories of yours to `{bind: PATH, mode: ro}`; PATH is the
    /// absolute path in the container.
    const ADDITIONAL_MOUNTS = ["additional_mounts"] tree()
        .in_found(NeedsNamedConfig("gives commands your credentials")).with_default("{}");

    /// A file with a line `NAME=value` per variable, relative to the config. Quotes around a value
    /// are removed, and lines that begin with `#` are ignored.
    const ENV_FILE = ["env_file"] text()
        .in_found(NeedsNamedConfig("gives commands variables from one of your files"));

    /// The only variables to use from `env_file`; all if the list is empty.
    const ENV_VARS_FROM_FILE = ["env_vars_from_file"] texts()
        .in_found(NeedsNamedConfig("gives commands your credentials")).with_default("[]");

    /// Variables of your environment to pass on.
    const ENV_VARS = ["env_vars"] texts()
        .in_found(NeedsNamedConfig("gives commands your credentials")).with_default("[]");

    /// Whether your whole environment is passed on, including all keys.
    const PASS_ALL_ENV = ["pass_all_env"] flag()
        .in_found(NeedsNamedConfig("gives commands your credentials")).with_default("false");
}

section! {
    /// Packages to install in the container, within 600 seconds for each kind.
    pub static DOCKER_PACKAGES = "agents[].backend.command_line_docker_packages";

    /// Packages to install when the container is created.
    const PREINSTALL = ["preinstall"] section(&DOCKER_PREINSTALL);

    /// Whether massgen installs the packages of `requirements.txt`, `pyproject.toml` and
    /// `package.json` in the root of the workspace, before a command and whenever one of them
    /// changes.
    const AUTO_INSTALL_DEPS = ["auto_install_deps"] flag().with_default("false");
}

section! {
    /// Packages to install when the container is created, in the order system, Python, npm.
    /// Failures are reported, and the run continues.
    pub static DOCKER_PREINSTALL = "agents[].backend.command_line_docker_packages.preinstall";

    /// Debian packages; requires `command_line_docker_enable_sudo`.
    const SYSTEM = ["system"] texts().with_default("[]");

    /// Python packages, as arguments of `pip`.
    const PYTHON = ["python"] texts().with_default("[]");

    /// npm packages; their programs are in `PATH`.
    const NPM = ["npm"] texts().with_default("[]");
}
