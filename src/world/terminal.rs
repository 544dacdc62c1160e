//! Owns the mode of the user's terminal where no line editor has it: while a run goes on, what is typed
//! is not shown and not lost, and Ctrl-C still interrupts.

use std::io::stdin;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

/// The most typed ahead that is kept, in bytes.
const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// The terminal of standard input. It is as it was found when this goes.
#[derive(Debug)]
pub struct Keyboard {
    found: Termios,
}

impl Keyboard {
    /// Remembers how the terminal is; nothing if standard input is none.
    pub fn find() -> Option<Self> {
        let found = tcgetattr(stdin()).ok()?;
        Some(Self { found })
    }

    /// From now on, what is typed waits unseen.
    pub fn quieten(&self) {
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
        self.set(&quiet);
    }

    /// What was typed since, as text; the terminal is then as it was found.
    pub fn typed_ahead(&self) -> String {
        let mut bytes = Vec::new();
        let mut piece = [0; 4096];
        while bytes.len() < AHEAD_BYTES_MAX && has_input() {
            match rustix::io::read(stdin(), &mut piece) {
                Ok(count) if count > 0 => bytes.extend(piece.iter().take(count)),
                Ok(_) | Err(_) => break,
            }
        }
        self.restore();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Makes the terminal as it was found.
    pub fn restore(&self) {
        self.set(&self.found);
    }

    fn set(&self, modes: &Termios) {
        // A terminal that has gone needs no mode.
        tcsetattr(stdin(), OptionalActions::Now, modes).unwrap_or_default();
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Whether something can be read from standard input at once.
fn has_input() -> bool {
    let input = stdin();
    let mut waiting = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut waiting, Some(&now)).is_ok_and(|count| count > 0)
}
