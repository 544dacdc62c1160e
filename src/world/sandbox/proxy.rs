//! Owns the way to the network for commands that may reach some domains only.

use std::io;
use std::os::fd::OwnedFd;

/// Answers at the listener of a sandbox. There is none in this version.
#[derive(Debug)]
pub enum Proxy {}

impl Proxy {
    /// Answers at `listener`, which lies in the network namespace of a sandbox, until it goes.
    pub fn serve(&self, _listener: OwnedFd) -> io::Result<()> {
        match *self {}
    }
}
