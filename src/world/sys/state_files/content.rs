//! Owns how the bytes of one file get from one handle to another without taking more disk than
//! they must: shared where the file system can, with holes kept as holes. It never opens a path.
#![expect(clippy::disallowed_types, reason = "this is where the disk is")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use rustix::io::Errno;

/// What came of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyOutcome {
    /// All is there; so many bytes had to be stored anew.
    Stored(u64),
    /// More than the limit would have been stored; the target holds a part.
    OverLimit,
}

/// Copies the first `size` bytes of `source` into the empty `target`, unless that would store more
/// than `bytes_max`. What is added to the source meanwhile is left out.
pub(crate) fn copy(
    source: &File,
    target: &File,
    size: u64,
    bytes_max: u64,
) -> io::Result<CopyOutcome> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(CopyOutcome::Stored(0));
    }
    let (mut from, mut to) = (source, target);
    let mut stored: u64 = 0;
    let mut at = 0;
    while let Some(data) = next_data(source, at, size)? {
        let length = data.end.saturating_sub(data.start);
        stored = stored.saturating_add(length);
        if stored > bytes_max {
            return Ok(CopyOutcome::OverLimit);
        }
        from.seek(SeekFrom::Start(data.start))?;
        to.seek(SeekFrom::Start(data.start))?;
        io::copy(&mut from.take(length), &mut to)?;
        at = data.end;
    }
    target.set_len(size)?;
    Ok(CopyOutcome::Stored(stored))
}

/// The next stretch of data at or after `at`; a file system that knows no holes has only data.
fn next_data(file: &File, at: u64, size: u64) -> io::Result<Option<Range<u64>>> {
    if at >= size {
        return Ok(None);
    }
    let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(at..size)),
        Err(error) => return Err(error.into()),
    };
    let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?.min(size);
    Ok((start < end).then_some(start..end))
}
