//! Owns what a config says that a found config may not: one that lies in the project and that the
//! user did not name. What is looked at is listed here without the disk; where paths lie is for the
//! caller to find out.

use crate::path::AbsPath;

/// Something that only a config may say that the user named, as far as the text tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestrictedUse {
    /// It says so whatever the disk holds. The text is what the config would do.
    Always(String),
    /// It says so unless the path lies in the project.
    Path {
        /// The path, before links are followed.
        path: AbsPath,
        /// What happens there.
        access: PathUseAccess,
    },
}

/// What happens at a path that a config names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUseAccess {
    /// Agents or massgen read it.
    Read,
    /// Agents write to it: protected names stay protected.
    AgentWrites,
    /// massgen writes to it: of the protected names only its own directory is open.
    MassgenWrites,
}
