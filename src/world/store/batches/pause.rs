//! The pause of a batch while endpoints fail, and its cancellation: two files that every process
//! looks at before it begins a cell.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::batch::next_step::{PAUSE_MAX_MS, pause_after};
use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::io::clock;
use crate::world::io::files::read_regular_file;
use crate::world::store::batches::BatchDir;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::file;

/// Maximum size of the file of a pause, in bytes.
const PAUSE_BYTES_MAX: u64 = 64 * 1024;

/// How far the clock of the host that began a pause may be ahead of this one, in milliseconds.
const CLOCK_SKEW_MAX_MS: u64 = 60_000;

/// What the file of a cancellation says if a config is wrong.
const WRONG_CONFIG: &[u8] = b"a config is wrong";

/// A pause of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchPause {
    /// Its end, in milliseconds since 1970.
    pub until_ms: u64,
    /// The number of pauses since the last result.
    pub count: u32,
    /// Why, in one sentence.
    pub reason: String,
}

impl BatchPause {
    /// Returns how long it still lasts; zero if it is over, or if the clock was set back since.
    pub fn remaining(&self) -> Duration {
        let time_left = self.until_ms.saturating_sub(now_ms());
        let rest_max = PAUSE_MAX_MS.saturating_add(CLOCK_SKEW_MAX_MS);
        Duration::from_millis(if time_left > rest_max { 0 } else { time_left })
    }
}

impl BatchDir {
    /// Returns the last pause since the last result, if there was one.
    pub fn pause(&self) -> Result<Option<BatchPause>> {
        let bytes = read_regular_file(&self.pause_file(), PAUSE_BYTES_MAX)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    /// Returns the pause in progress.
    pub fn active_pause(&self) -> Result<Option<BatchPause>> {
        let pause = self.pause()?;
        Ok(pause.filter(|pause| !pause.remaining().is_zero()))
    }

    /// Pauses the batch, each time for longer; a pause in progress is not prolonged.
    pub fn begin_pause(&self, reason: &str) -> Result<()> {
        let last_pause = self.pause()?;
        if last_pause
            .as_ref()
            .is_some_and(|pause| !pause.remaining().is_zero())
        {
            return Ok(());
        }
        let count = last_pause.map_or(0, |pause| pause.count);
        let length = pause_after(count);
        let pause = BatchPause {
            until_ms: now_ms().saturating_add(length),
            count: count.saturating_add(1),
            reason: reason.to_owned(),
        };
        let text = serde_json::to_vec(&pause)
            .map_err(|error| Error::bug("a pause has no JSON form").with_source(error))?;
        file::replace_unsynced(&self.pause_file(), &text)
    }

    /// Ends the pauses: a cell has a result, or the user wants to continue.
    pub fn end_pauses(&self) -> Result<()> {
        if file::exists(&self.pause_file())? {
            clear::remove(&self.pause_file())?;
        }
        Ok(())
    }

    /// Returns whether the user has cancelled the batch.
    pub fn is_cancelled(&self) -> Result<bool> {
        file::exists(&self.cancel_file())
    }

    /// Cancels the batch: no cell begins, and those in progress are parked.
    pub fn cancel(&self) -> Result<()> {
        file::replace_unsynced(&self.cancel_file(), b"")
    }

    /// Cancels the batch because a config is wrong for all cells.
    pub fn cancel_for_config(&self) -> Result<()> {
        file::replace_unsynced(&self.cancel_file(), WRONG_CONFIG)
    }

    /// Returns whether the batch was cancelled because a config is wrong.
    pub fn is_config_wrong(&self) -> Result<bool> {
        let cancel_text = read_regular_file(&self.cancel_file(), PAUSE_BYTES_MAX)?;
        Ok(cancel_text.as_deref() == Some(WRONG_CONFIG))
    }

    /// Revokes the cancellation.
    pub fn revoke_cancellation(&self) -> Result<()> {
        if self.is_cancelled()? {
            clear::remove(&self.cancel_file())?;
        }
        Ok(())
    }

    fn pause_file(&self) -> AbsPath {
        self.dir.join("pause.json")
    }

    fn cancel_file(&self) -> AbsPath {
        self.dir.join("cancelled")
    }
}

fn now_ms() -> u64 {
    clock::now().unix_nanoseconds() / 1_000_000
}
