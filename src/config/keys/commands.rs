//! The keys of a backend about commands.

use crate::code_mode::ProgramLanguage;
use crate::code_mode::language::PythonLibraries;
use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{
    ConfigKey, FormerValue, IgnoredEffect, KeySection, UnknownKeys, ValueShape, value_rules,
};
use crate::sandbox_policy::sandbox_level::CHOICES;

/// What is said about keys that belong to another sandbox.
const READING: &str = "commands read what is granted and what toolchains need of the system, and \
                       nothing else; open more in `context_paths`";

/// Whether the agent can run commands.
pub(super) const ENABLED: ConfigKey = ConfigKey::served(
    &["enable_mcp_command_line"],
    ValueShape::Flag,
    "Whether the agent may run commands, with the same access as its file tools. Requires `cwd`.",
    Harmless,
)
.with_default("false");
/// Whether the agent writes programs instead of single calls.
pub(super) const CODE: ConfigKey = ConfigKey::served(
    &["enable_code_based_tools"],
    ValueShape::Flag,
    "Whether the agent writes programs that call its tools instead of single calls: `execute_code` \
     is its only tool besides those for answers and votes. Requires `cwd`. Programs run at the \
     level of `command_line_sandbox`, with `command_line_limits`, and never without a sandbox.",
    Harmless,
)
.with_default("false");
/// The language of programs.
pub(super) const CODE_LANGUAGE: ConfigKey = ConfigKey::served(
    &["code_language"],
    ValueShape::OneOf(ProgramLanguage::NAMES),
    "The language of the programs. `python` needs `python3`, `go` needs the Go toolchain.",
    Harmless,
)
.with_default("python");
/// The additional libraries of programs.
pub(super) const CODE_LIBRARIES: ConfigKey = ConfigKey::served(
    &["code_libraries"],
    ValueShape::OneOf(PythonLibraries::NAMES),
    "Libraries besides the standard library that Python programs may import: none, `numpy`, or \
     `pandas` with `numpy`. They must be installed for the `python3` in `PATH`.",
    Harmless,
)
.with_default("standard");
/// Where commands run.
pub(super) const MODE: ConfigKey = ConfigKey::served(
    &["command_line_execution_mode"],
    ValueShape::OneOf(&["local", "docker", "srt"]),
    "Where commands run: on this machine in massgen's sandbox, or in a container. `srt` is treated \
     as `local`.",
    Harmless,
)
.with_default("local");
/// The only allowed commands.
pub(super) const ALLOWED: ConfigKey = ConfigKey::served(
    &["command_line_allowed_commands"],
    ValueShape::List(&ValueShape::Text),
    "Regular expressions. Every simple command of a line must match one from its start: `pytest.*` \
     is `pytest` with any arguments, and `pytest-3` too.",
    Harmless,
);
/// Blocked commands.
pub(super) const BLOCKED: ConfigKey = ConfigKey::served(
    &["command_line_blocked_commands"],
    ValueShape::List(&ValueShape::Text),
    "Regular expressions. No simple command of a line may match one from its start.",
    Harmless,
)
.with_default("[]");
/// How much is refused by the text rules.
pub(super) const POLICY: ConfigKey = ConfigKey::served(
    &["command_policy"],
    ValueShape::OneOf(&["standard", "strict"]),
    "Which commands are refused before they run. `standard`: becoming root, writing to raw \
     devices, formatting disks, fork bombs. `strict`: also removing files and changing \
     permissions, whatever the target. Without a sandbox level, `strict` applies.",
    Harmless,
)
.with_default("standard");
/// The sandbox level of local commands.
pub(super) const SANDBOX: ConfigKey = ConfigKey::served(
    &["command_line_sandbox"],
    ValueShape::OneOf(CHOICES),
    "The sandbox level that enforces the grants of local commands: the strongest one that the machine \
     supports, or the named one. With `off`, commands run with your own rights.", ByValue(value_rules::sandbox),)
.with_default("auto")
.with_former_values(FORMER_LEVELS);
/// The names of sandbox levels in earlier versions.
const FORMER_LEVELS: &[FormerValue] = &[
    FormerValue {
        former: "A",
        current: "overlay",
    },
    FormerValue {
        former: "B",
        current: "namespaces",
    },
    FormerValue {
        former: "C",
        current: "landlock",
    },
];
/// The network access of local commands.
pub(super) const NETWORK: ConfigKey = ConfigKey::served(
    &["command_line_network"],
    ValueShape::OneOfOrList(&["off", "on"]),
    "Network access of local commands: none, full, or the hosts of these domains. `example.org` is \
     this host; `.example.org` or `*.example.org` are all hosts below it. Commands can send \
     whatever they read to hosts that they reach.",
    ByValue(value_rules::network),
)
.with_default("off");
/// The resource limits of a command.
pub(super) const LIMITS: ConfigKey = ConfigKey::served(
    &["command_line_limits"],
    ValueShape::Mapping(&COMMAND_LIMITS),
    "Resource limits of one command.",
    Harmless,
);
/// Variables for commands.
pub(super) const ENV: ConfigKey = ConfigKey::served(
    &["env"],
    ValueShape::Names,
    "Additional environment variables of commands: names of yours, or names with values. Every \
     command of the agent can read them.",
    ByValue(value_rules::variables),
)
.with_default("[]");
/// The domains of another sandbox.
pub(super) const SRT_DOMAINS: ConfigKey = ConfigKey::served(
    &["command_line_srt_network_allowed_domains"],
    ValueShape::List(&ValueShape::Text),
    "Same as a list in `command_line_network`, which takes precedence.",
    Named("opens the network to commands"),
)
.with_default("[]");
/// The read mode of another sandbox.
pub(super) const SRT_READ_MODE: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_read_mode"],
    ValueShape::OneOf(&["confined", "strict", "open"]),
    READING,
    IgnoredEffect::Cosmetic,
)
.with_default("confined");
/// Additional readable paths of another sandbox.
pub(super) const SRT_ALLOW_READ: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_allow_read"],
    ValueShape::Any,
    READING,
    IgnoredEffect::Cosmetic,
);
/// Hidden paths of another sandbox.
pub(super) const SRT_DENY_READ: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_deny_read"],
    ValueShape::Any,
    "use `hidden_paths` of a context path; what is not granted is closed anyway",
    IgnoredEffect::Restricts,
);
/// The sockets of another sandbox.
pub(super) const SRT_SOCKETS: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_allow_unix_sockets"],
    ValueShape::Any,
    "commands cannot connect to sockets of the machine",
    IgnoredEffect::Cosmetic,
);
/// The prefix that MassGen puts before commands.
pub(super) const PREFIX: ConfigKey = ConfigKey::unserved(
    &["command_execution_prefix"],
    ValueShape::Any,
    "massgen's sandbox starts commands without a prefix",
    IgnoredEffect::Restricts,
);
/// The Python environment in which MassGen runs commands.
pub(super) const VENV: ConfigKey = ConfigKey::unserved(
    &["command_execution_venv_path"],
    ValueShape::Any,
    "commands use the `.venv` of their working directory when there is one",
    IgnoredEffect::Cosmetic,
);

/// The lowest and highest memory limit of a command, in bytes.
const MEMORY_BYTES: (u64, u64) = (16 << 20, 16 << 40);
/// The highest limit of processes of a command.
const PROCESSES_MAX: i64 = 1_000_000;
/// The lowest and highest limit of file descriptors of a process.
const OPEN_FILES: (i64, i64) = (64, 1_000_000);
/// The lowest and highest limit of a file's length, in bytes.
const FILE_BYTES: (u64, u64) = (1 << 10, 16 << 40);
/// The lowest and highest size of output that is kept, in bytes.
const OUTPUT_BYTES: (u64, u64) = (1 << 10, 64 << 20);

/// The resource limits of a command.
pub static COMMAND_LIMITS: KeySection = KeySection {
    path: "agents[].backend.command_line_limits",
    doc: "Resource limits of one command and all processes that it starts.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["memory"],
            ValueShape::Size(MEMORY_BYTES.0, MEMORY_BYTES.1),
            "Memory of all its processes, if the machine supports such a limit.", Harmless,),
        ConfigKey::served(
            &["processes"],
            ValueShape::Integer(1, PROCESSES_MAX),
            "Concurrent processes and threads, if the machine supports such a limit.", Harmless,)
        .with_default("1024"),
        ConfigKey::served(
            &["open_files"],
            ValueShape::Integer(OPEN_FILES.0, OPEN_FILES.1),
            "File descriptors that each of its processes may have open. With more than about 700, a \
             command can keep your other programs from passing descriptors to each other.",
            Named("changes the open file limit of commands"),
        )
        .with_default("512"),
        ConfigKey::served(
            &["file_size"],
            ValueShape::Size(FILE_BYTES.0, FILE_BYTES.1),
            "Maximum size of a file that it writes.", Harmless,)
        .with_default("4g"),
        ConfigKey::served(
            &["cpu_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "CPU time per process; one that exceeds it is killed by `SIGXCPU`.", Harmless,),
        ConfigKey::served(
            &["timeout"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Timeout in seconds, unless the call sets one: at most 3600, or this value if it is larger.", Harmless,)
        .with_default("60"),
        ConfigKey::served(
            &["output"],
            ValueShape::Size(OUTPUT_BYTES.0, OUTPUT_BYTES.1),
            "Maximum size of each output; the middle of a longer one is omitted.", Harmless,)
        .with_default("1m"),
    ],
};
