//! Pseudoterminal that a command gets instead of the user's terminal, and the mode of the user's
//! terminal in the meantime.

use std::io;

use rustix::fd::OwnedFd;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

/// Pseudoterminal of a command.
#[derive(Debug)]
pub(super) struct PseudoTerminal {
    /// The side that massgen reads and writes.
    own: OwnedFd,
    users: OwnedFd,
    /// Original mode of the user's terminal, if it was changed to raw mode.
    before: Option<Termios>,
}

impl PseudoTerminal {
    /// Opens one that the user types into; returns it and the command's side. Until it is dropped,
    /// the user's terminal is in raw mode: keys that interrupt or stop a program go to the command.
    pub(super) fn for_input(users: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let before = tcgetattr(users)?;
        let (mut terminal, end) = Self::with_modes(users, &before)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(users, OptionalActions::Now, &raw)?;
        terminal.before = Some(before);
        Ok((terminal, end))
    }

    /// Opens one that is only shown on the user's terminal, which processes line ends itself.
    pub(super) fn for_output(users: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let mut modes = tcgetattr(users)?;
        modes.output_modes.remove(OutputModes::OPOST);
        Self::with_modes(users, &modes)
    }

    fn with_modes(users: &OwnedFd, modes: &Termios) -> io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let own = openpt(flags)?;
        grantpt(&own)?;
        unlockpt(&own)?;
        let end = ioctl_tiocgptpeer(&own, flags)?;
        tcsetattr(&end, OptionalActions::Now, modes)?;
        let terminal = Self {
            own,
            users: users.try_clone()?,
            before: None,
        };
        terminal.resize();
        Ok((terminal, end))
    }

    /// Clones the handle of massgen's side.
    pub(super) fn try_clone_handle(&self) -> io::Result<OwnedFd> {
        self.own.try_clone()
    }

    /// Sets its size to the current size of the user's terminal. An unknown size is ignored.
    pub(super) fn resize(&self) {
        if let Ok(size) = tcgetwinsize(&self.users) {
            tcsetwinsize(&self.own, size).unwrap_or_default();
        }
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // Errors are ignored: a terminal that has gone away needs no mode.
            tcsetattr(&self.users, OptionalActions::Now, before).unwrap_or_default();
        }
    }
}
