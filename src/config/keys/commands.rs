//! The keys of a backend about commands, and those of their resource limits.

use crate::code_mode::ProgramLanguage;
use crate::code_mode::language::PythonLibraries;
use crate::config::execution_mode::ExecutionMode;
use crate::config::keys::found_config::FoundConfigUse::{ByValue, NeedsNamedConfig};
use crate::config::keys::limits::SECONDS_MAX;
use crate::config::keys::{ConfigKey, IgnoredEffect, ValueShape, value_rules};
use crate::sandbox_policy::sandbox_level::CHOICES;

/// The prefix of the keys about commands, those about containers included.
pub(crate) const COMMAND_PREFIX: &str = "command_";
/// The prefix of the keys about programs.
pub(crate) const CODE_PREFIX: &str = "code_";
/// The prefix of the keys about MassGen's `srt` (the Sandbox Runtime).
pub(crate) const SRT_PREFIX: &str = "command_line_srt_";

/// What replaces the keys that open paths in `srt`.
const READABLE_PATHS: &str = "commands read what is granted and what toolchains need of the \
                              system, and nothing else; open more in `context_paths`";

keys! {
    /// Whether the agent may run commands, with the same access as its file tools. Requires `cwd`.
    const ENABLED = ["enable_mcp_command_line"] flag().with_default("false");

    /// Whether the agent writes programs that call its tools instead of single calls:
    /// `execute_code` is its only tool besides those for answers and votes. Requires `cwd`.
    /// Programs run at the level of `command_line_sandbox`, with `command_line_limits`, and never
    /// without a sandbox.
    const CODE = ["enable_code_based_tools"] flag().with_default("false");

    /// The language of the programs. `python` needs `python3`, `go` needs the Go toolchain.
    const CODE_LANGUAGE = ["code_language"] one_of(ProgramLanguage::NAMES).with_default("python");

    /// Libraries besides the standard library that Python programs may import: none, `numpy`, or
    /// `pandas` with `numpy`. They must be installed for the `python3` in `PATH`.
    const CODE_LIBRARIES = ["code_libraries"] one_of(PythonLibraries::NAMES)
        .with_default("standard");

    /// Where commands run: on this machine in massgen's sandbox, or in a container. `srt` is
    /// treated as `local`.
    const MODE = ["command_line_execution_mode"] one_of(ExecutionMode::NAMES).with_default("local");

    /// Regular expressions. Every simple command of a line must match one from its start:
    /// `pytest.*` is `pytest` with any arguments, and `pytest-3` too.
    const ALLOWED = ["command_line_allowed_commands"] texts();

    /// Regular expressions. No simple command of a line may match one from its start.
    const BLOCKED = ["command_line_blocked_commands"] texts().with_default("[]");

    /// Which commands are refused before they run. `standard`: becoming root, writing to raw
    /// devices, formatting disks, fork bombs. `strict`: also removing files and changing
    /// permissions, whatever the target. Without a sandbox level, `strict` applies.
    const POLICY = ["command_policy"] one_of(&["standard", "strict"]).with_default("standard");

    /// The sandbox level that enforces the grants of local commands: the strongest one that the
    /// machine supports, or the named one. With `off`, commands run with your own rights.
    const SANDBOX = ["command_line_sandbox"] one_of(CHOICES).in_found(ByValue(value_rules::sandbox))
        .with_default("auto");

    /// Network access of local commands: none, full, or the hosts of these domains. `example.org`
    /// is this host; `.example.org` or `*.example.org` are all hosts below it. Commands can send
    /// whatever they read to hosts that they reach.
    const NETWORK = ["command_line_network"] one_of_or_list(&["off", "on"])
        .in_found(ByValue(value_rules::network)).with_default("off");

    /// Resource limits of one command.
    const LIMITS = ["command_line_limits"] section(&COMMAND_LIMITS);

    /// Additional environment variables of commands: names of yours, or names with values. Every
    /// command of the agent can read them.
    const ENV = ["env"] names_or_pairs().in_found(ByValue(value_rules::variables))
        .with_default("[]");

    /// Same as a list in `command_line_network`, which takes precedence.
    const SRT_DOMAINS = ["command_line_srt_network_allowed_domains"] texts()
        .in_found(NeedsNamedConfig("opens the network to commands")).with_default("[]");
}

/// The read mode of `srt`.
pub(super) const SRT_READ_MODE: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_read_mode"],
    IgnoredEffect::Convenience,
    READABLE_PATHS,
)
.with_shape(ValueShape::OneOf(&["confined", "strict", "open"]))
.with_default("confined");

/// Additional readable paths of `srt`.
pub(super) const SRT_ALLOW_READ: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_allow_read"],
    IgnoredEffect::Convenience,
    READABLE_PATHS,
);

/// Hidden paths of `srt`.
pub(super) const SRT_DENY_READ: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_deny_read"],
    IgnoredEffect::Restricts,
    "use `hidden_paths` of a context path; what is not granted is closed anyway",
);

/// The sockets that `srt` opens to commands.
pub(super) const SRT_SOCKETS: ConfigKey = ConfigKey::unsupported(
    &["command_line_srt_allow_unix_sockets"],
    IgnoredEffect::Convenience,
    "commands cannot connect to sockets of the machine",
);

/// The prefix that MassGen puts before commands.
pub(super) const PREFIX: ConfigKey = ConfigKey::unsupported(
    &["command_execution_prefix"],
    IgnoredEffect::Restricts,
    "massgen's sandbox starts commands without a prefix",
);

/// The Python environment in which MassGen runs commands.
pub(super) const VENV: ConfigKey = ConfigKey::unsupported(
    &["command_execution_venv_path"],
    IgnoredEffect::Convenience,
    "commands use the `.venv` of their working directory when there is one",
);

/// The lowest and highest memory limit of a command, in bytes.
const MEMORY_BYTES: (u64, u64) = (16 << 20, 16 << 40);

/// The highest limit of processes of a command.
const PROCESSES_MAX: i64 = 1_000_000;

/// The lowest and highest limit of file descriptors of a process.
const OPEN_FILES_BOUNDS: (i64, i64) = (64, 1_000_000);

/// The lowest and highest limit of a file's length, in bytes.
const FILE_BYTES: (u64, u64) = (1 << 10, 16 << 40);

/// The lowest and highest size of output that is kept, in bytes.
const OUTPUT_BYTES: (u64, u64) = (1 << 10, 64 << 20);

section! {
    /// Resource limits of one command and all processes that it starts.
    pub static COMMAND_LIMITS = "agents[].backend.command_line_limits";

    /// Memory of all its processes, if the machine supports such a limit.
    const MEMORY = ["memory"] size(MEMORY_BYTES.0, MEMORY_BYTES.1);

    /// Concurrent processes and threads, if the machine supports such a limit.
    const PROCESSES = ["processes"] integer(1, PROCESSES_MAX).with_default("1024");

    /// File descriptors that each of its processes may have open. With more than about 700, a
    /// command can keep your other programs from passing descriptors to each other.
    const OPEN_FILES = ["open_files"] integer(OPEN_FILES_BOUNDS.0, OPEN_FILES_BOUNDS.1)
        .in_found(NeedsNamedConfig("changes the open file limit of commands")).with_default("512");

    /// Maximum size of a file that it writes.
    const FILE_SIZE = ["file_size"] size(FILE_BYTES.0, FILE_BYTES.1).with_default("4g");

    /// CPU time per process; one that exceeds it is killed by `SIGXCPU`.
    const CPU_SECONDS = ["cpu_seconds"] integer(1, SECONDS_MAX);

    /// Timeout in seconds, unless the call sets one: at most 3600, or this value if it is larger.
    const TIMEOUT = ["timeout"] integer(1, SECONDS_MAX).with_default("60");

    /// Maximum size of each output; the middle of a longer one is omitted.
    const OUTPUT = ["output"] size(OUTPUT_BYTES.0, OUTPUT_BYTES.1).with_default("1m");
}
