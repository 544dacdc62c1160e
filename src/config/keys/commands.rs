//! The keys of a backend about commands.

use crate::code_mode::ProgramLanguage;
use crate::code_mode::language::PythonLibraries;
use crate::config::keys::found_config::FoundConfigUse::{ByValue, Harmless, Named};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{
    ConfigKey, IgnoredEffect, KeySection, UnknownKeys, ValueShape, value_rules,
};
use crate::sandbox_policy::sandbox_level::CHOICES;

/// What is said about keys that belong to another sandbox.
const READING: &str = "commands read what is granted and what toolchains need of the system, and \
                       nothing else; open more in `context_paths`";

/// Whether the agent can run commands.
pub(super) const ENABLED: ConfigKey = ConfigKey::served(
    &["enable_mcp_command_line"],
    ValueShape::Flag,
    "Whether the agent may run commands, with the rights of its file tools. It needs `cwd`.",
    Harmless,
)
.with_default("false");
/// Whether the agent writes programs instead of single calls.
pub(super) const CODE: ConfigKey = ConfigKey::served(
    &["enable_code_based_tools"],
    ValueShape::Flag,
    "Whether the agent works by programs that call its tools, instead of single calls: \
     `execute_code` is its only tool beside those for answers and votes. It needs `cwd`. Programs \
     are held as `command_line_sandbox` and `command_line_limits` say, and always held.",
    Harmless,
)
.with_default("false");
/// The language of programs.
pub(super) const CODE_LANGUAGE: ConfigKey = ConfigKey::served(
    &["code_language"],
    ValueShape::OneOf(ProgramLanguage::NAMES),
    "What the programs are written in. `python` needs `python3`, `go` needs the Go toolchain.",
    Harmless,
)
.with_default("python");
/// The additional libraries of programs.
pub(super) const CODE_LIBRARIES: ConfigKey = ConfigKey::served(
    &["code_libraries"],
    ValueShape::OneOf(PythonLibraries::NAMES),
    "What Python programs may import that does not come with Python: nothing, `numpy`, or `pandas` with \
     `numpy`. It must be installed for the `python3` of `PATH`.", Harmless,)
.with_default("standard");
/// Where commands run.
pub(super) const MODE: ConfigKey = ConfigKey::served(
    &["command_line_execution_mode"],
    ValueShape::OneOf(&["local", "docker", "srt"]),
    "Where commands run: on this machine in massgen's sandbox, or in a container. `srt` is taken for \
     `local`.", Harmless,)
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
    "How much is refused before a command runs. `standard`: becoming root, writing to raw devices, \
     formatting disks, fork bombs. `strict`: also what removes files or changes rights, whatever the \
     target. Where nothing enforces, it is `strict`.", Harmless,)
.with_default("standard");
/// The sandbox level of local commands.
pub(super) const SANDBOX: ConfigKey = ConfigKey::served(
    &["command_line_sandbox"],
    ValueShape::OneOf(CHOICES),
    "How local commands are held to their grants: the strongest tier that the machine can do, or the \
     one that is named. `off` lets commands do all that you may do.", ByValue(value_rules::sandbox),)
.with_default("auto");
/// The network access of local commands.
pub(super) const NETWORK: ConfigKey = ConfigKey::served(
    &["command_line_network"],
    ValueShape::OneOfOrList(&["off", "on"]),
    "What local commands reach of the network: nothing, everything, or hosts of these domains. \
     `example.org` is this host; `.example.org` or `*.example.org` is all below it. Whatever they \
     reach can be sent what they read.",
    ByValue(value_rules::network),
)
.with_default("off");
/// The resource limits of a command.
pub(super) const LIMITS: ConfigKey = ConfigKey::served(
    &["command_line_limits"],
    ValueShape::Mapping(&COMMAND_LIMITS),
    "How much one command may use.",
    Harmless,
);
/// Variables for commands.
pub(super) const ENV: ConfigKey = ConfigKey::served(
    &["env"],
    ValueShape::Names,
    "Variables that commands have besides the usual ones: names of yours, or names with values. \
     Every command of the agent can read them.",
    ByValue(value_rules::variables),
)
.with_default("[]");
/// The domains of another sandbox.
pub(super) const SRT_DOMAINS: ConfigKey = ConfigKey::served(
    &["command_line_srt_network_allowed_domains"],
    ValueShape::List(&ValueShape::Text),
    "The same as a list in `command_line_network`, which counts if both are there.",
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
    "list what lies in a context path in its `hidden_paths`; what is not granted is closed anyway",
    IgnoredEffect::Restricts,
);
/// The sockets of another sandbox.
pub(super) const SRT_SOCKETS: ConfigKey = ConfigKey::unserved(
    &["command_line_srt_allow_unix_sockets"],
    ValueShape::Any,
    "commands reach no socket of the machine",
    IgnoredEffect::Cosmetic,
);
/// The prefix that MassGen puts before commands.
pub(super) const PREFIX: ConfigKey = ConfigKey::unserved(
    &["command_execution_prefix"],
    ValueShape::Any,
    "commands are started by massgen's own sandbox and nothing before it",
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
    doc: "How much one command may use, with all that it starts.",
    others: UnknownKeys::Refused,
    keys: &[
        ConfigKey::served(
            &["memory"],
            ValueShape::Size(MEMORY_BYTES.0, MEMORY_BYTES.1),
            "Memory of all its processes, where the machine can limit it.", Harmless,),
        ConfigKey::served(
            &["processes"],
            ValueShape::Integer(1, PROCESSES_MAX),
            "Processes and threads at the same time, where the machine can limit them.", Harmless,)
        .with_default("1024"),
        ConfigKey::served(
            &["open_files"],
            ValueShape::Integer(OPEN_FILES.0, OPEN_FILES.1),
            "File descriptors that each of its processes may have open. With more than about 700, a \
             command can keep your other programs from passing descriptors to each other.",
            Named("changes how many files commands may have open"),
        )
        .with_default("512"),
        ConfigKey::served(
            &["file_size"],
            ValueShape::Size(FILE_BYTES.0, FILE_BYTES.1),
            "The longest file that it may write.", Harmless,)
        .with_default("4g"),
        ConfigKey::served(
            &["cpu_seconds"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Processor time of each of its processes; one that takes longer is ended by `SIGXCPU`.", Harmless,),
        ConfigKey::served(
            &["timeout"],
            ValueShape::Integer(1, SECONDS_MAX),
            "Seconds that it may run, unless its call says how long: 3600 at most, or this if it is more.", Harmless,)
        .with_default("60"),
        ConfigKey::served(
            &["output"],
            ValueShape::Size(OUTPUT_BYTES.0, OUTPUT_BYTES.1),
            "How much is kept of each of its outputs, which the model reads whole; the middle of a \
             longer one is left out.", Harmless,)
        .with_default("1m"),
    ],
};
