//! The uses that a found config must not have: one that is in the project and that the user did not
//! name. They are listed here without accessing the disk; the caller resolves where the paths are.

use crate::path::AbsPath;

/// A use that only a named config may have, as far as the text shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestrictedUse {
    /// A use that does not depend on the disk. The string describes what the config would do.
    Always(String),
    /// A use of a path, which is allowed inside the project.
    Path {
        /// The path, before symlinks are resolved.
        path: AbsPath,
        /// How the path is accessed.
        access: PathUseAccess,
    },
}

/// How a path named in a config is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUseAccess {
    /// Agents or massgen read it.
    Read,
    /// Agents write to it: protected names stay protected.
    AgentWrites,
    /// massgen writes to it: of the protected names only its own directory is writable.
    MassgenWrites,
}
