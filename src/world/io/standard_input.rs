//! Whether something waits on standard input that this process does not read.

use std::io::stdin;

/// Returns whether standard input is a pipe, a socket or a file with bytes that can be read now.
/// Nothing is read.
pub fn has_unread_bytes() -> bool {
    rustix::io::ioctl_fionread(stdin()).is_ok_and(|bytes| bytes > 0)
}
