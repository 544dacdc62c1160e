//! A temporary file without a name, which keeps what was received until it is decided about. It
//! disappears when it is closed.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::path::AbsPath;

/// A temporary file that is written at its end and read anywhere.
#[derive(Debug)]
pub(crate) struct SpoolFile {
    file: File,
    size_bytes: u64,
}

impl SpoolFile {
    /// Creates an empty file on the file system of the directory `dir`.
    pub(crate) fn new_in(dir: &AbsPath) -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile_in(dir.as_path())?,
            size_bytes: 0,
        })
    }

    /// Returns its size in bytes.
    pub(crate) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Appends `bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.size_bytes)?;
        self.size_bytes = self
            .size_bytes
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    /// Removes everything after the first `size_bytes`.
    pub(crate) fn truncate(&mut self, size_bytes: u64) -> io::Result<()> {
        self.size_bytes = size_bytes;
        self.file.set_len(size_bytes)
    }

    /// Fills `buffer` with the bytes at `offset`.
    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}
