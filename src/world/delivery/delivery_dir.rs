//! Owns what lies where in the directory of a delivery.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::sys::file_system_error::FileSystemError;

/// The directory of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliveryDir(pub(super) AbsPath);

impl DeliveryDir {
    /// What tells this directory from all others.
    pub(super) fn seal(&self) -> Result<DirectorySeal> {
        DirectorySeal::from_directory(&self.0)
    }

    /// The name of the commit that was made with what it holds.
    pub(super) fn commit(&self) -> AbsPath {
        self.0.join("commit")
    }

    /// The journal.
    pub(super) fn journal(&self) -> AbsPath {
        self.0.join("journal.jsonl")
    }

    /// What could be delivered, and where.
    pub(super) fn source_file(&self) -> AbsPath {
        self.0.join("delivery.json")
    }

    /// The slots.
    pub(super) fn slots(&self) -> AbsPath {
        self.0.join("slots")
    }

    /// Contents that were made of the user's and ours.
    pub(super) fn made_contents(&self) -> AbsPath {
        self.0.join("made")
    }

    /// What was changed below the root of this number.
    pub(super) fn layer(&self, root: usize) -> AbsPath {
        self.0.join("layers").join(root.to_string())
    }
}

/// Says that `doing` failed at `path`.
pub(super) fn delivery_error(doing: &str, path: &AbsPath, fault: FileSystemError) -> Error {
    let error = Error::new(ErrorKind::Io, format!("cannot {doing} `{path}`: {fault}"));
    let FileSystemError::System(errno) = fault else {
        return error;
    };
    let known = HINTS.iter().find(|(errnos, _)| errnos.contains(&errno));
    match known {
        Some((_, hint)) => error.with_hint(*hint),
        None => error,
    }
}

/// What the user can do about an error of the system.
const HINTS: &[(&[Errno], &str)] = &[
    (
        &[Errno::NOSPC, Errno::DQUOT],
        "the disk is full: free some space",
    ),
    (&[Errno::ROFS], "the file system is mounted read-only"),
    (
        &[Errno::ACCESS, Errno::PERM],
        "check who may write to it and the directory that holds it",
    ),
];
