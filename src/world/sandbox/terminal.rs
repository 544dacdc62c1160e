//! Owns a terminal of massgen's own that a command has in place of the user's, and the mode of the
//! user's meanwhile.

use std::io;

use rustix::fd::OwnedFd;
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    OptionalActions, OutputModes, Termios, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

/// A terminal of a command's.
#[derive(Debug)]
pub(super) struct PseudoTerminal {
    /// The side on which massgen reads and writes.
    own: OwnedFd,
    users: OwnedFd,
    /// How the user's terminal was before it passed every key on.
    before: Option<Termios>,
}

impl PseudoTerminal {
    /// One that the user types into, and the command's side of it. Until this goes, the user's own
    /// passes every key on: those that end or stop a program mean the command.
    pub(super) fn for_input(users: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let before = tcgetattr(users)?;
        let (mut terminal, end) = Self::with_modes(users, &before)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(users, OptionalActions::Now, &raw)?;
        terminal.before = Some(before);
        Ok((terminal, end))
    }

    /// One that is shown on the user's alone, which sees to the ends of lines itself.
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

    /// A handle on massgen's side.
    pub(super) fn try_clone_handle(&self) -> io::Result<OwnedFd> {
        self.own.try_clone()
    }

    /// Makes it as large as the user's is now. A terminal that does not know says nothing.
    pub(super) fn resize(&self) {
        if let Ok(size) = tcgetwinsize(&self.users) {
            tcsetwinsize(&self.own, size).unwrap_or_default();
        }
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // A terminal that has gone needs no mode.
            tcsetattr(&self.users, OptionalActions::Now, before).unwrap_or_default();
        }
    }
}
