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
    controller: OwnedFd,
    user_terminal: OwnedFd,
    /// Original modes of the user's terminal, if they were changed to raw mode.
    original_modes: Option<Termios>,
}

impl PseudoTerminal {
    /// Opens one that the user types into; returns it and the command's side. Until it is dropped,
    /// the user's terminal is in raw mode: keys that interrupt or stop a program go to the command.
    pub(super) fn for_input(user_terminal: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let original_modes = tcgetattr(user_terminal)?;
        let (mut terminal, command_side) = Self::with_modes(user_terminal, &original_modes)?;
        let mut raw_modes = original_modes.clone();
        raw_modes.make_raw();
        tcsetattr(user_terminal, OptionalActions::Now, &raw_modes)?;
        terminal.original_modes = Some(original_modes);
        Ok((terminal, command_side))
    }

    /// Opens one that is only shown on the user's terminal, which processes line ends itself.
    pub(super) fn for_output(user_terminal: &OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let mut modes = tcgetattr(user_terminal)?;
        modes.output_modes.remove(OutputModes::OPOST);
        Self::with_modes(user_terminal, &modes)
    }

    fn with_modes(user_terminal: &OwnedFd, modes: &Termios) -> io::Result<(Self, OwnedFd)> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags)?;
        grantpt(&controller)?;
        unlockpt(&controller)?;
        let command_side = ioctl_tiocgptpeer(&controller, flags)?;
        tcsetattr(&command_side, OptionalActions::Now, modes)?;
        let terminal = Self {
            controller,
            user_terminal: user_terminal.try_clone()?,
            original_modes: None,
        };
        terminal.resize();
        Ok((terminal, command_side))
    }

    /// Clones the handle of massgen's side.
    pub(super) fn try_clone_handle(&self) -> io::Result<OwnedFd> {
        self.controller.try_clone()
    }

    /// Sets its size to the current size of the user's terminal. An unknown size is ignored.
    pub(super) fn resize(&self) {
        if let Ok(size) = tcgetwinsize(&self.user_terminal) {
            tcsetwinsize(&self.controller, size).unwrap_or_default();
        }
    }
}

impl Drop for PseudoTerminal {
    fn drop(&mut self) {
        if let Some(original_modes) = &self.original_modes {
            // Errors are ignored: a terminal that has gone away needs no mode.
            tcsetattr(&self.user_terminal, OptionalActions::Now, original_modes)
                .unwrap_or_default();
        }
    }
}
