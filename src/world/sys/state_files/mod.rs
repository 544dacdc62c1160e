//! File operations on massgen's own files: state, logs, sessions, and the few files that the
//! command line names. Agents' paths must never come here: they are opened beneath a grant.

use std::io::{self, ErrorKind};
use std::path::Path;

use uuid::Uuid;

use crate::error::{self, Error, Result};
use crate::path::AbsPath;

mod exclusive_lock;
pub(crate) mod sync;
pub(crate) mod dir;
pub(crate) mod disk_usage;
pub(crate) mod file;
pub(crate) mod json_file;
pub(crate) mod clear;
pub(crate) mod process_directory;
pub(crate) mod private_directory;
pub(crate) mod archive;
pub(crate) mod create_once;
pub(crate) mod inbox;
pub(crate) mod listing;
pub(crate) mod lockfile;
pub(crate) mod socket;
pub(crate) mod tree;
pub(crate) mod tree_digest;
pub(crate) mod unpack;
pub(crate) mod watch;

/// Hints for the user about errors of the system.
const HINTS: &[(ErrorKind, &str)] = &[
    (ErrorKind::StorageFull, "the disk is full: free some space"),
    (
        ErrorKind::QuotaExceeded,
        "the disk quota is exceeded: free some space",
    ),
    (
        ErrorKind::PermissionDenied,
        "check the permissions of it and its parent directory",
    ),
    (
        ErrorKind::ReadOnlyFilesystem,
        "the file system is mounted read-only: choose another directory",
    ),
    (
        ErrorKind::NotADirectory,
        "a file exists where a directory is expected: move it away",
    ),
    (ErrorKind::IsADirectory, "expected a file"),
    (ErrorKind::NotFound, "check that the directory exists"),
];

/// Reports that `doing` failed at `path`, with a hint where one is known.
pub(crate) fn file_error(doing: &str, path: &Path, error: io::Error) -> Error {
    let hint = HINTS.iter().find(|(kind, _)| *kind == error.kind());
    let failure = Error::io(format!("cannot {doing} `{}`", path.display()), error);
    match hint {
        Some((_, hint)) => failure.with_hint(*hint),
        None => failure,
    }
}

/// Reports that the content of `path` is not what massgen wrote.
pub(crate) fn damaged_error(path: &AbsPath) -> Error {
    Error::new(
        error::ErrorKind::Environment,
        format!("`{path}` is damaged"),
    )
}

/// Returns the result of `lookup`; `None` if nothing exists at `path`, which is not an error.
fn found<T>(path: &AbsPath, lookup: io::Result<T>) -> Result<Option<T>> {
    match lookup {
        Ok(value) => Ok(Some(value)),
        Err(error) if is_missing(error.kind()) => Ok(None),
        Err(error) => Err(file_error("look at", path.as_path(), error)),
    }
}

/// Returns whether an error of this kind means that nothing exists at a path.
pub(crate) fn is_missing(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename
    )
}

/// Returns random hexadecimal digits, at most 32.
fn random_digits(digits: usize) -> String {
    let mut text = Uuid::new_v4().simple().to_string();
    text.truncate(digits);
    text
}
