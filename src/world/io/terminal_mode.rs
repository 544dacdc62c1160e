//! Owns the mode of the user's terminal where no line editor has it: what is typed is not shown and not
//! lost, and Ctrl-C still interrupts.

use std::io::stdin;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcsetattr,
};

/// The most typed ahead that is kept, in bytes.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// The terminal of standard input. It is as it was found when this goes.
#[derive(Debug)]
pub struct TerminalModeGuard {
    found: Termios,
}

impl TerminalModeGuard {
    /// Remembers how the terminal is; nothing if standard input is none.
    pub fn from_stdin() -> Option<Self> {
        let found = tcgetattr(stdin()).ok()?;
        Some(Self { found })
    }

    /// From now on, what is typed waits unseen.
    pub fn disable_echo(&self) {
        let mut quiet = self.found.clone();
        quiet
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON);
        quiet
            .local_modes
            .insert(LocalModes::ISIG | LocalModes::NOFLSH);
        quiet.input_modes.insert(InputModes::ICRNL);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        set_modes(&quiet);
    }

    /// What was typed and not read, as text.
    pub fn read_typed_ahead(&self) -> String {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        while bytes.len() < AHEAD_BYTES_MAX && has_input(Duration::ZERO) {
            match rustix::io::read(stdin(), &mut piece) {
                Ok(count) if count > 0 => bytes.extend(piece.iter().take(count)),
                Ok(_) | Err(_) => break,
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Makes the terminal as it was found.
    pub fn restore(&self) {
        set_modes(&self.found);
    }
}

impl Drop for TerminalModeGuard {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The longest line that answers a question, in bytes: as much as a terminal keeps of one.
const LINE_BYTES_MAX: usize = 4096;

/// The terminal while a question is asked in the middle of a run: it shows what is typed and edits the
/// line itself. What was typed before the question is no answer to it, and goes.
#[derive(Debug)]
pub struct QuestionModeGuard {
    before: Termios,
}

impl QuestionModeGuard {
    /// Begins to ask; nothing if standard input is no terminal.
    pub fn enter() -> Option<Self> {
        let before = tcgetattr(stdin()).ok()?;
        tcflush(stdin(), QueueSelector::IFlush).unwrap_or_default();
        let mut shown = before.clone();
        shown
            .local_modes
            .insert(LocalModes::ECHO | LocalModes::ICANON);
        set_modes(&shown);
        Some(Self { before })
    }
}

impl Drop for QuestionModeGuard {
    fn drop(&mut self) {
        set_modes(&self.before);
    }
}

/// The next line of standard input without its end; `None` if there is none. A terminal gives one line
/// at a time, and what follows stays with it: nothing is kept here that the next question could take.
pub fn read_line() -> Option<String> {
    let mut bytes = Vec::new();
    let mut piece = [0; LINE_BYTES_MAX];
    while bytes.len() < LINE_BYTES_MAX && !bytes.ends_with(b"\n") {
        match rustix::io::read(stdin(), &mut piece) {
            Ok(count @ 1..) => bytes.extend(piece.iter().take(count)),
            Ok(0) if bytes.is_empty() => return None,
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

fn set_modes(modes: &Termios) {
    // A terminal that has gone needs no mode.
    tcsetattr(stdin(), OptionalActions::Now, modes).unwrap_or_default();
}

/// Whether something can be read from standard input now, or after at most `patience`.
pub fn has_input(patience: Duration) -> bool {
    let input = stdin();
    let mut waiting = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
    let patience = Timespec::try_from(patience).unwrap_or_default();
    poll(&mut waiting, Some(&patience)).is_ok_and(|count| count > 0)
}
