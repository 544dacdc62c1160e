//! Copies the bytes of one file from one handle to another with as little disk space as possible:
//! blocks are shared where the file system supports it, and holes stay holes. It must never open a
//! path.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use crate::world::sys::content::next_data;

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyOutcome {
    /// Everything was copied; this many bytes had to be newly stored.
    Stored(u64),
    /// More than the limit would have been stored; the target holds a part.
    OverLimit,
}

/// Copies the first `size` bytes of `source` into the empty `target`, unless that would store more
/// than `bytes_max`. What is appended to the source meanwhile is left out.
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
    let mut stored_bytes: u64 = 0;
    let mut offset = 0;
    while let Some(data) = next_data(source, offset, size)? {
        let length = data.end.saturating_sub(data.start);
        stored_bytes = stored_bytes.saturating_add(length);
        if stored_bytes > bytes_max {
            return Ok(CopyOutcome::OverLimit);
        }
        from.seek(SeekFrom::Start(data.start))?;
        to.seek(SeekFrom::Start(data.start))?;
        io::copy(&mut from.take(length), &mut to)?;
        offset = data.end;
    }
    target.set_len(size)?;
    Ok(CopyOutcome::Stored(stored_bytes))
}
