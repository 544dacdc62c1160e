//! The bytes of an open regular file, and copying them: holes stay holes, and the file system may
//! share the blocks.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use rustix::fs::{self, copy_file_range, ftruncate, seek};
use rustix::io::{Errno, pread, pwrite};

use crate::world::sys::file_system_error::FileSystemError;

/// The buffer size for copying where the kernel cannot copy by itself, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// A regular file that was opened for reading.
#[derive(Debug)]
pub(crate) struct FileContent(File);

impl From<File> for FileContent {
    fn from(file: File) -> Self {
        Self(file)
    }
}

impl Read for FileContent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Seek for FileContent {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Copies the first `size_bytes` of `from` into the empty file `to`.
pub(crate) fn copy(from: &FileContent, to: &File, size_bytes: u64) -> Result<(), FileSystemError> {
    let from = &from.0;
    let mut offset = 0;
    while let Some(data) = next_data(from, offset, size_bytes)? {
        copy_range(from, to, data.start, data.end)?;
        offset = data.end;
    }
    Ok(ftruncate(to, size_bytes)?)
}

/// Returns the next range of data in the first `size_bytes` of a file, at or after `offset`; where
/// the file system reports no holes, the rest is data.
pub(crate) fn next_data(
    file: &File,
    offset: u64,
    size_bytes: u64,
) -> Result<Option<Range<u64>>, Errno> {
    if offset >= size_bytes {
        return Ok(None);
    }
    let start = match seek(file, fs::SeekFrom::Data(offset)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(offset..size_bytes)),
        Err(errno) => return Err(errno),
    };
    let end = seek(file, fs::SeekFrom::Hole(start))?.min(size_bytes);
    Ok((start < end).then_some(start..end))
}

fn copy_range(from: &File, to: &File, mut start: u64, end: u64) -> Result<(), FileSystemError> {
    while start < end {
        let length = usize::try_from(end - start).unwrap_or(usize::MAX);
        let (mut read_at, mut write_at) = (start, start);
        match copy_file_range(from, Some(&mut read_at), to, Some(&mut write_at), length) {
            Ok(0) => return Ok(()),
            Ok(_) => start = write_at,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {
                return copy_with_buffer(from, to, start, end);
            }
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

fn copy_with_buffer(
    from: &File,
    to: &File,
    mut start: u64,
    end: u64,
) -> Result<(), FileSystemError> {
    let mut buffer = vec![0; BUFFER_BYTES];
    while start < end {
        let chunk_length = usize::try_from(end - start)
            .map_or(BUFFER_BYTES, |bytes_left| bytes_left.min(BUFFER_BYTES));
        let chunk = buffer.get_mut(..chunk_length).unwrap_or_default();
        let bytes_read = pread(from, &mut *chunk, start)?;
        let mut unwritten = chunk.get(..bytes_read).unwrap_or_default();
        if unwritten.is_empty() {
            return Ok(());
        }
        while !unwritten.is_empty() {
            let bytes_written = pwrite(to, unwritten, start)?;
            start += u64::try_from(bytes_written).unwrap_or(u64::MAX);
            unwritten = unwritten.get(bytes_written..).unwrap_or_default();
        }
    }
    Ok(())
}
