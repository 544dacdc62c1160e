//! Copies an agent's recorded replies to the file that the config names for them.

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::records::replies::HEADER;
use crate::world::sys::state_files::{self, file};

/// The largest recording that is copied, in bytes.
const RECORDING_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Refuses a target that is something other than a recording or cannot be written.
pub fn check_target(path: &AbsPath) -> Result<()> {
    file::expect_writable_for_user(path)?;
    match file::begins_with(path, HEADER.as_bytes()) {
        Ok(Some(true) | None) => Ok(()),
        Ok(Some(false)) => Err(Error::new(
            ErrorKind::Config,
            format!("`{path}` exists and is not a recording of massgen: not replacing it"),
        )
        .with_hint("choose another file with `record`, or move this one away")),
        Err(error) => Err(state_files::file_error("read", path.as_path(), error)),
    }
}

/// Copies the recording `from` to `to` atomically, unless something else exists there now.
pub fn publish(from: &AbsPath, to: &AbsPath) -> Result<()> {
    check_target(to)?;
    let unreadable = |error| state_files::file_error("read", from.as_path(), error);
    let bytes = file::read_regular_capped(from, RECORDING_BYTES_MAX).map_err(unreadable)?;
    let bytes = bytes.ok_or_else(|| unreadable(std::io::ErrorKind::FileTooLarge.into()))?;
    file::write_for_user(to, &bytes)
}
