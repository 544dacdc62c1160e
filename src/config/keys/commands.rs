//! Owns the keys of a backend about commands.

use crate::config::keys::found::FoundUse::{ByValue, Harmless, Named};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::{Ignored, Key, Others, Section, Shape, values};
use crate::confinement::tier::CHOICES;
use crate::programs::Language;
use crate::programs::dialect::Libraries;

/// What is said of keys that are there for another sandbox.
const READING: &str = "commands read what is granted and what toolchains need of the system, and \
                       nothing else; open more in `context_paths`";

/// Whether there are commands at all.
pub(super) const ENABLED: Key = Key::served(
    &["enable_mcp_command_line"],
    Shape::Flag,
    "Whether the agent may run commands, with the rights of its file tools. It needs `cwd`.",
    Harmless,
)
.or("false");
/// Whether the agent works by programs.
pub(super) const CODE: Key = Key::served(
    &["enable_code_based_tools"],
    Shape::Flag,
    "Whether the agent works by programs that call its tools, instead of single calls: \
     `execute_code` is its only tool beside those for answers and votes. It needs `cwd`. Programs \
     are held as `command_line_sandbox` and `command_line_limits` say, and always held.",
    Harmless,
)
.or("false");
/// What they are written in.
pub(super) const CODE_LANGUAGE: Key = Key::served(
    &["code_language"],
    Shape::OneOf(Language::NAMES),
    "What the programs are written in. `python` needs `python3`, `go` needs the Go toolchain.",
    Harmless,
)
.or("python");
/// What they import besides.
pub(super) const CODE_LIBRARIES: Key = Key::served(
    &["code_libraries"],
    Shape::OneOf(Libraries::NAMES),
    "What Python programs may import that does not come with Python: nothing, `numpy`, or `pandas` with \
     `numpy`. It must be installed for the `python3` of `PATH`.", Harmless,)
.or("standard");
/// Where they run.
pub(super) const MODE: Key = Key::served(
    &["command_line_execution_mode"],
    Shape::OneOf(&["local", "docker", "srt"]),
    "Where commands run: on this machine in massgen's sandbox, or in a container. `srt` is taken for \
     `local`.", Harmless,)
.or("local");
/// The only commands.
pub(super) const ALLOWED: Key = Key::served(
    &["command_line_allowed_commands"],
    Shape::List(&Shape::Text),
    "Regular expressions. Every simple command of a line must match one from its start: `pytest.*` \
     is `pytest` with any arguments, and `pytest-3` too.",
    Harmless,
);
/// Never these commands.
pub(super) const BLOCKED: Key = Key::served(
    &["command_line_blocked_commands"],
    Shape::List(&Shape::Text),
    "Regular expressions. No simple command of a line may match one from its start.",
    Harmless,
)
.or("[]");
/// How much is refused by text.
pub(super) const POLICY: Key = Key::served(
    &["command_policy"],
    Shape::OneOf(&["standard", "strict"]),
    "How much is refused before a command runs. `standard`: becoming root, writing to raw devices, \
     formatting disks, fork bombs. `strict`: also what removes files or changes rights, whatever the \
     target. Where nothing enforces, it is `strict`.", Harmless,)
.or("standard");
/// How local commands are held to their grants.
pub(super) const SANDBOX: Key = Key::served(
    &["command_line_sandbox"],
    Shape::OneOf(CHOICES),
    "How local commands are held to their grants: the strongest tier that the machine can do, or the \
     one that is named. `off` lets commands do all that you may do.", ByValue(values::sandbox),)
.or("auto");
/// What local commands reach of the network.
pub(super) const NETWORK: Key = Key::served(
    &["command_line_network"],
    Shape::OneOfOrList(&["off", "on"]),
    "What local commands reach of the network: nothing, everything, or hosts of these domains. \
     `example.org` is this host; `.example.org` or `*.example.org` is all below it. Whatever they \
     reach can be sent what they read.",
    ByValue(values::network),
)
.or("off");
/// What one command may use up.
pub(super) const LIMITS: Key = Key::served(
    &["command_line_limits"],
    Shape::Mapping(&COMMAND_LIMITS),
    "How much one command may use.",
    Harmless,
);
/// Variables that commands have.
pub(super) const ENV: Key = Key::served(
    &["env"],
    Shape::Names,
    "Variables that commands have besides the usual ones: names of yours, or names with values. \
     Every command of the agent can read them.",
    ByValue(values::variables),
)
.or("[]");
/// The domains of another sandbox.
pub(super) const SRT_DOMAINS: Key = Key::served(
    &["command_line_srt_network_allowed_domains"],
    Shape::List(&Shape::Text),
    "The same as a list in `command_line_network`, which counts if both are there.",
    Named("opens the network to commands"),
)
.or("[]");
/// What another sandbox reads.
pub(super) const SRT_READ_MODE: Key = Key::unserved(
    &["command_line_srt_read_mode"],
    Shape::OneOf(&["confined", "strict", "open"]),
    READING,
    Ignored::Looks,
)
.or("confined");
/// What another sandbox reads besides.
pub(super) const SRT_ALLOW_READ: Key = Key::unserved(
    &["command_line_srt_allow_read"],
    Shape::Any,
    READING,
    Ignored::Looks,
);
/// What another sandbox hides.
pub(super) const SRT_DENY_READ: Key = Key::unserved(
    &["command_line_srt_deny_read"],
    Shape::Any,
    "list what lies in a context path in its `hidden_paths`; what is not granted is closed anyway",
    Ignored::Restricts,
);
/// The sockets of another sandbox.
pub(super) const SRT_SOCKETS: Key = Key::unserved(
    &["command_line_srt_allow_unix_sockets"],
    Shape::Any,
    "commands reach no socket of the machine",
    Ignored::Looks,
);
/// What MassGen starts commands with.
pub(super) const PREFIX: Key = Key::unserved(
    &["command_execution_prefix"],
    Shape::Any,
    "commands are started by massgen's own sandbox and nothing before it",
    Ignored::Restricts,
);
/// The environment of Python in which MassGen starts commands.
pub(super) const VENV: Key = Key::unserved(
    &["command_execution_venv_path"],
    Shape::Any,
    "commands use the `.venv` of their working directory when there is one",
    Ignored::Looks,
);

/// The least and the most memory of a command, in bytes.
const MEMORY_BYTES: (u64, u64) = (16 << 20, 16 << 40);
/// The most processes of a command.
const PROCESSES_MAX: i64 = 1_000_000;
/// The fewest and the most file descriptors of a process.
const OPEN_FILES: (i64, i64) = (64, 1_000_000);
/// The least and the most length of a file, in bytes.
const FILE_BYTES: (u64, u64) = (1 << 10, 16 << 40);
/// The least and the most output that is kept, in bytes.
const OUTPUT_BYTES: (u64, u64) = (1 << 10, 64 << 20);

/// How much one command may use.
pub static COMMAND_LIMITS: Section = Section {
    path: "agents[].backend.command_line_limits",
    doc: "How much one command may use, with all that it starts.",
    others: Others::Refused,
    keys: &[
        Key::served(
            &["memory"],
            Shape::Size(MEMORY_BYTES.0, MEMORY_BYTES.1),
            "Memory of all its processes, where the machine can limit it.", Harmless,),
        Key::served(
            &["processes"],
            Shape::Integer(1, PROCESSES_MAX),
            "Processes and threads at the same time, where the machine can limit them.", Harmless,)
        .or("1024"),
        Key::served(
            &["open_files"],
            Shape::Integer(OPEN_FILES.0, OPEN_FILES.1),
            "File descriptors that each of its processes may have open. With more than about 700, a \
             command can keep your other programs from passing descriptors to each other.",
            Named("changes how many files commands may have open"),
        )
        .or("512"),
        Key::served(
            &["file_size"],
            Shape::Size(FILE_BYTES.0, FILE_BYTES.1),
            "The longest file that it may write.", Harmless,)
        .or("4g"),
        Key::served(
            &["cpu_seconds"],
            Shape::Integer(1, SECONDS_MAX),
            "Processor time of each of its processes; one that takes longer is ended by `SIGXCPU`.", Harmless,),
        Key::served(
            &["timeout"],
            Shape::Integer(1, SECONDS_MAX),
            "Seconds that it may run, unless its call says how long: 3600 at most, or this if it is more.", Harmless,)
        .or("60"),
        Key::served(
            &["output"],
            Shape::Size(OUTPUT_BYTES.0, OUTPUT_BYTES.1),
            "How much is kept of each of its outputs, which the model reads whole; the middle of a \
             longer one is left out.", Harmless,)
        .or("1m"),
    ],
};
