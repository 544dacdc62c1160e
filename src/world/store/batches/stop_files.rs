//! The files that every process of a batch looks at before it begins a cell: one if the batch was
//! cancelled, and one while endpoints fail.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::io::files::read_regular_file;
use crate::world::store::batches::BatchDir;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::file;

/// Maximum size of the reason why endpoints fail, in bytes.
const REASON_BYTES_MAX: u64 = 64 * 1024;

impl BatchDir {
    /// Returns whether the user has cancelled the batch.
    pub fn is_cancelled(&self) -> Result<bool> {
        file::exists(&self.cancel_file())
    }

    /// Cancels the batch: no cell begins, and those in progress are parked.
    pub fn cancel(&self) -> Result<()> {
        file::replace_unsynced(&self.cancel_file(), b"")
    }

    /// Revokes the cancellation.
    pub fn revoke_cancellation(&self) -> Result<()> {
        clear::remove(&self.cancel_file())
    }

    /// Returns why a cell of the last submission is held, if one is.
    pub fn held_reason(&self) -> Result<Option<String>> {
        let reason = read_regular_file(&self.held_file(), REASON_BYTES_MAX)?;
        Ok(reason.map(|reason| String::from_utf8_lossy(&reason).into_owned()))
    }

    /// Records why a cell is held: its endpoints failed.
    pub fn hold(&self, reason: &str) -> Result<()> {
        file::replace_unsynced(&self.held_file(), reason.as_bytes())
    }

    /// Forgets that cells were held.
    pub fn release_held(&self) -> Result<()> {
        clear::remove(&self.held_file())
    }

    fn cancel_file(&self) -> AbsPath {
        self.dir.join("cancelled")
    }

    fn held_file(&self) -> AbsPath {
        self.dir.join("held")
    }
}
