//! The layout of a delivery's directory.

use rustix::io::Errno;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::state_files::file;

/// The directory of one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeliveryDir(pub(super) AbsPath);

impl DeliveryDir {
    /// Returns the seal that identifies this directory.
    pub(super) fn seal(&self) -> Result<DirectorySeal> {
        DirectorySeal::from_directory(&self.0)
    }

    /// Returns whether something was offered or applied. The versions of files that agents read are
    /// stored before that, and stay if the run delivers nothing.
    pub(super) fn is_used(&self) -> Result<bool> {
        Ok(file::exists(&self.journal())? || file::exists(&self.source_file())?)
    }

    /// Returns the file with the name of the commit that was made from the delivery.
    pub(super) fn commit(&self) -> AbsPath {
        self.0.join("commit")
    }

    /// Returns the path of the journal.
    pub(super) fn journal(&self) -> AbsPath {
        self.0.join("journal.jsonl")
    }

    /// Returns the file that describes what can be delivered, and where.
    pub(super) fn source_file(&self) -> AbsPath {
        self.0.join("delivery.json")
    }

    /// Returns the directory of the slots.
    pub(super) fn slots(&self) -> AbsPath {
        self.0.join("slots")
    }

    /// Returns the directory of contents that were made from the user's and the agent's versions.
    pub(super) fn made_contents(&self) -> AbsPath {
        self.0.join("made")
    }

    /// Returns the directory of the layer over the root with this number.
    pub(super) fn layer(&self, root: usize) -> AbsPath {
        self.0.join("layers").join(root.to_string())
    }
}

/// Opens one of the user's trees, or a directory of a delivery. A symlink in its path is refused.
pub(super) fn open_root(path: &AbsPath) -> Result<DirectoryHandle> {
    DirectoryHandle::open_own(path).map_err(|error| delivery_error("open", path, error))
}

/// Creates the error that `doing` failed at `path`.
pub(super) fn delivery_error(doing: &str, path: &AbsPath, cause: FileSystemError) -> Error {
    let error = Error::new(ErrorKind::Io, format!("cannot {doing} `{path}`: {cause}"));
    let FileSystemError::System(errno) = cause else {
        return error;
    };
    let known_error = HINTS.iter().find(|(errnos, _)| errnos.contains(&errno));
    match known_error {
        Some((_, hint)) => error.with_hint(*hint),
        None => error,
    }
}

/// Hints for errors of the operating system.
const HINTS: &[(&[Errno], &str)] = &[
    (
        &[Errno::NOSPC, Errno::DQUOT],
        "the disk is full: free some space",
    ),
    (&[Errno::ROFS], "the file system is mounted read-only"),
    (
        &[Errno::ACCESS, Errno::PERM],
        "check the permissions of it and its parent directory",
    ),
];
