//! Owns what a command may use up (`command_line_limits`).

use serde::{Deserialize, Serialize};

/// The most that one command, with all that it starts, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory of all its processes, in bytes; none without a number.
    pub memory_bytes: Option<u64>,
    /// Processes and threads at the same time.
    pub processes: u64,
    /// The longest file that it may write, in bytes.
    pub file_bytes: u64,
    /// Processor time of each process, in seconds; none without a number.
    pub cpu_seconds: Option<u64>,
    /// File descriptors that each of its processes may have open at the same time. The descriptors that
    /// the user's processes have in flight between Unix sockets are counted together, and a process
    /// sends none while there are more of them than this limit of its own: so it stays below the 1024
    /// that the user's other programs usually have.
    pub open_files: u64,
    /// What stays free on the disk that it writes to, in bytes: below that it is ended.
    pub disk_free_bytes: u64,
    /// How many more files could still be made there (inodes): below that it is ended. On a small file
    /// system a part of all that it can hold is enough.
    pub disk_free_files: u64,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            processes: 1024,
            file_bytes: 4 * 1024 * 1024 * 1024,
            cpu_seconds: None,
            open_files: 512,
            disk_free_bytes: 256 * 1024 * 1024,
            disk_free_files: 16 * 1024,
        }
    }
}
