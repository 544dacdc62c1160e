//! Reads and writes configs for the user beneath a directory, through no symlink. A config is written
//! atomically, and over nothing but the file that the user has agreed to replace.

use std::io::Read;

use sha2::{Digest, Sha256};

use crate::config::draft::destination::ConfigDestination;
use crate::config::yaml::CONFIG_BYTES_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::text::to_hex;
use crate::world::io::locate::locate;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};

/// What became of a config that was to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigWrite {
    /// It is on the disk.
    Written,
    /// Another file exists at that path, and nothing was written.
    Occupied {
        /// The digest of that file, with which it can be replaced.
        digest: String,
    },
}

/// A config as it is on the disk.
#[derive(Debug)]
pub struct ExistingConfig {
    /// Its content.
    pub bytes: Vec<u8>,
    /// The digest with which [`write_config`] replaces it.
    pub digest: String,
    meta: FileMetadata,
}

/// Reads `file` below `directory`.
pub fn read_config(directory: &AbsPath, file: &ConfigDestination) -> Result<ExistingConfig> {
    let file = file.path();
    let read_failure = |error| access_error("read", file, error).with_hint("open another file");
    let root = DirectoryHandle::open(&locate(directory)?.into_real()).map_err(read_failure)?;
    read_existing(&root, file).map_err(read_failure)
}

/// Writes `text` to `file` below `directory`. An existing file is replaced only if
/// `replaced_digest` is its digest.
pub fn write_config(
    directory: &AbsPath,
    file: &ConfigDestination,
    text: &str,
    replaced_digest: Option<&str>,
) -> Result<ConfigWrite> {
    let file = file.path();
    let write_failure = |error| write_error(file, error);
    let root = DirectoryHandle::open(&locate(directory)?.into_real()).map_err(write_failure)?;
    let (parent, name) = root.parent_of(file).map_err(|error| {
        if error == FileSystemError::Missing {
            missing_directory_error(file)
        } else {
            write_failure(error)
        }
    })?;
    let existing = match read_existing(&root, file) {
        Ok(existing) => Some(existing),
        Err(FileSystemError::Missing) => None,
        Err(error) => return Err(write_failure(error)),
    };
    let mut staged_file = StagedFile::new(&parent).map_err(write_failure)?;
    let replace_policy = match &existing {
        None => ReplacePolicy::Nothing,
        Some(existing) if replaced_digest == Some(existing.digest.as_str()) => {
            staged_file
                .copy_ownership(&existing.meta)
                .map_err(write_failure)?;
            ReplacePolicy::Only(&existing.meta.version)
        }
        Some(existing) => {
            let digest = existing.digest.clone();
            return Ok(ConfigWrite::Occupied { digest });
        }
    };
    staged_file.write(text.as_bytes()).map_err(write_failure)?;
    match staged_file.place_at(name, replace_policy, PlacementDurability::Synced) {
        Ok(_) => Ok(ConfigWrite::Written),
        Err(error) => Err(write_failure(error)),
    }
}

fn read_existing(
    root: &DirectoryHandle,
    file: &RelPath,
) -> std::result::Result<ExistingConfig, FileSystemError> {
    let (content, meta) = root.open_file(file)?;
    let bytes_max = u64::try_from(CONFIG_BYTES_MAX).unwrap_or(u64::MAX);
    if meta.version.size_bytes > bytes_max {
        return Err(FileSystemError::Limit(
            "the existing file is larger than a config may be",
        ));
    }
    let mut bytes = Vec::new();
    content.take(bytes_max).read_to_end(&mut bytes)?;
    let digest = to_hex(&Sha256::digest(&bytes));
    Ok(ExistingConfig {
        bytes,
        digest,
        meta,
    })
}

fn write_error(file: &RelPath, error: FileSystemError) -> Error {
    access_error("write", file, error).with_hint("choose another name, or remove the existing file")
}

/// Returns the error of an attempt to read or write `file`.
fn access_error(attempt: &str, file: &RelPath, error: FileSystemError) -> Error {
    let kind = match error {
        FileSystemError::Replaced | FileSystemError::NotRegular(_) => ErrorKind::Denied,
        FileSystemError::IsDirectory
        | FileSystemError::NotDirectory
        | FileSystemError::NameTooLong
        | FileSystemError::Limit(_) => ErrorKind::Usage,
        FileSystemError::Exists | FileSystemError::Changed => ErrorKind::Environment,
        FileSystemError::Missing | FileSystemError::NotEmpty | FileSystemError::System(_) => {
            ErrorKind::Io
        }
    };
    let reason = if error == FileSystemError::Replaced {
        "its path contains a symlink".to_owned()
    } else {
        error.to_string()
    };
    Error::new(kind, format!("cannot {attempt} `{file}`: {reason}"))
}

fn missing_directory_error(file: &RelPath) -> Error {
    let directory = file.parent().unwrap_or_default();
    let message = format!("the directory `{directory}` does not exist");
    Error::new(ErrorKind::Usage, message).with_hint("create it, or write a name without it")
}
