//! Owns the folder guard: two lists of directories that replace an agent's other grants on the
//! user's files. It is no second engine; it lowers to grants.

use crate::path::AbsPath;

/// The directory below the workspace that a guard opens for writing unless it is dropped.
pub const DOWNLOADS: &str = "Downloads";

/// Whether an agent is held to listed directories. `Off` and two empty lists are different things:
/// the second gives no access at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FolderGuard {
    /// The agent has its workspace and the context paths.
    #[default]
    Off,
    /// The agent has these directories and nothing else.
    On {
        /// Directories that may be read.
        read: Vec<AbsPath>,
        /// Directories that may be read and written.
        write: Vec<AbsPath>,
        /// Whether the built-in grant of `Downloads/` is there.
        downloads: Downloads,
    },
}

impl FolderGuard {
    /// The directories that it lists; none without a guard.
    pub fn directories(&self) -> impl Iterator<Item = &AbsPath> {
        let (read, write): (&[AbsPath], &[AbsPath]) = match self {
            FolderGuard::Off => (&[], &[]),
            FolderGuard::On { read, write, .. } => (read, write),
        };
        read.iter().chain(write)
    }
}

/// Whether `Downloads/` in the workspace is open under a guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Downloads {
    /// Open for reading and writing.
    #[default]
    Open,
    /// Dropped by the config.
    Dropped,
}
