//! The keys of the resource limits of a command.

use crate::config::keys::found_config::FoundConfigUse::NeedsNamedConfig;
use crate::config::keys::root::SECONDS_MAX;

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
