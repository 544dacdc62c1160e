//! The keys of the resource limits of a command.

use crate::config::keys::found_config::FoundConfigUse::{Harmless, NeedsNamedConfig};
use crate::config::keys::root::SECONDS_MAX;
use crate::config::keys::shape::{self, ByteSize, Integer};
use crate::config::keys::{KeySection, TypedKey, UnknownKeys};

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

pub(crate) const MEMORY: TypedKey<ByteSize> = TypedKey::optional(
    &["memory"],
    shape::size(MEMORY_BYTES.0, MEMORY_BYTES.1),
    "Memory of all its processes, if the machine supports such a limit.",
    Harmless,
);

pub(crate) const PROCESSES: TypedKey<Integer> = TypedKey::optional(
    &["processes"],
    shape::integer(1, PROCESSES_MAX),
    "Concurrent processes and threads, if the machine supports such a limit.",
    Harmless,
)
.with_default("1024");

pub(crate) const OPEN_FILES: TypedKey<Integer> = TypedKey::optional(
    &["open_files"],
    shape::integer(OPEN_FILES_BOUNDS.0, OPEN_FILES_BOUNDS.1),
    "File descriptors that each of its processes may have open. With more than about 700, a \
     command can keep your other programs from passing descriptors to each other.",
    NeedsNamedConfig("changes the open file limit of commands"),
)
.with_default("512");

pub(crate) const FILE_SIZE: TypedKey<ByteSize> = TypedKey::optional(
    &["file_size"],
    shape::size(FILE_BYTES.0, FILE_BYTES.1),
    "Maximum size of a file that it writes.",
    Harmless,
)
.with_default("4g");

pub(crate) const CPU_SECONDS: TypedKey<Integer> = TypedKey::optional(
    &["cpu_seconds"],
    shape::integer(1, SECONDS_MAX),
    "CPU time per process; one that exceeds it is killed by `SIGXCPU`.",
    Harmless,
);

pub(crate) const TIMEOUT: TypedKey<Integer> = TypedKey::optional(
    &["timeout"],
    shape::integer(1, SECONDS_MAX),
    "Timeout in seconds, unless the call sets one: at most 3600, or this value if it is larger.",
    Harmless,
)
.with_default("60");

pub(crate) const OUTPUT: TypedKey<ByteSize> = TypedKey::optional(
    &["output"],
    shape::size(OUTPUT_BYTES.0, OUTPUT_BYTES.1),
    "Maximum size of each output; the middle of a longer one is omitted.",
    Harmless,
)
.with_default("1m");

/// The resource limits of a command.
pub static COMMAND_LIMITS: KeySection = KeySection {
    path: "agents[].backend.command_line_limits",
    doc: "Resource limits of one command and all processes that it starts.",
    unknown_keys: UnknownKeys::Refused,
    keys: &[
        MEMORY.row(),
        PROCESSES.row(),
        OPEN_FILES.row(),
        FILE_SIZE.row(),
        CPU_SECONDS.row(),
        TIMEOUT.row(),
        OUTPUT.row(),
    ],
};
