//! Resource limits of commands (`command_line_limits`).

use serde::{Deserialize, Serialize};

/// The resources that one command may use, including all processes that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Memory of all its processes, in bytes; `None` is unlimited.
    pub memory_bytes: Option<u64>,
    /// Number of processes and threads at the same time.
    pub processes: u64,
    /// The longest file that it may write, in bytes.
    pub file_bytes: u64,
    /// CPU time of each process, in seconds; `None` is unlimited.
    pub cpu_seconds: Option<u64>,
    /// Open file descriptors of each process. The kernel counts the descriptors that all of the
    /// user's processes have in flight over Unix sockets together, and lets a process send none
    /// while there are more than this limit of its own. The limit is therefore below 1024, the
    /// usual one of the user's other programs.
    pub open_files: u64,
    /// Free space to keep on the disk that it writes to, in bytes; with less it is killed.
    pub disk_free_bytes: u64,
    /// Free inodes to keep on that file system; with fewer the command is killed. On a small file
    /// system, a fraction of its inodes is enough.
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
