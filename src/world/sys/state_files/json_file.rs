//! massgen's own files that hold one value as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::sys::state_files::{damaged_error, file, file_error};

/// Reads the value in the file at `path`; `None` if none exists, if it is not a regular file, if it
/// has more than `bytes_max` bytes, or if it is damaged.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read<T: DeserializeOwned>(path: &AbsPath, bytes_max: u64) -> Result<Option<T>> {
    let bytes = file::read_if_regular(path, bytes_max)?;
    Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Reads the value in the file at `path`, which massgen has written.
///
/// # Errors
/// It cannot be read, has more than `bytes_max` bytes, or is damaged.
pub(crate) fn read_written<T: DeserializeOwned>(path: &AbsPath, bytes_max: u64) -> Result<T> {
    let bytes = file::read_regular_capped(path, bytes_max)
        .map_err(|error| file_error("read", path.as_path(), error))?;
    let bytes = bytes.ok_or_else(|| damaged_error(path))?;
    serde_json::from_slice(&bytes).map_err(|error| damaged_error(path).with_source(error))
}

/// Writes `value` to the file at `path`, like [`file::replace`].
pub(crate) fn replace(path: &AbsPath, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let bytes = serde_json::to_vec_pretty(value).map_err(Error::unserializable)?;
    file::replace(path, &bytes)
}
