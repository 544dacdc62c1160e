//! Terminal modes: while no line editor is active, typed input is not echoed and not lost, and
//! Ctrl-C still interrupts; while a question is asked, the terminal edits the line of the answer.
//! Also reads such a line, and suspends the process, as Ctrl-Z does.

use std::io::stdin;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcsetattr,
};

/// Value of a special character that no key produces; see `termios(3)`.
const CODE_DISABLED: u8 = 0;
/// Most input that is kept of what was typed ahead, in bytes.
const TYPED_AHEAD_BYTES_MAX: usize = 64 * 1024;

/// The terminal on standard input. Its original mode is restored on drop.
#[derive(Debug)]
pub struct TerminalModeGuard {
    original_modes: Termios,
}

impl TerminalModeGuard {
    /// Saves the mode of the terminal; `None` if standard input is not a terminal.
    pub fn from_stdin() -> Option<Self> {
        let original_modes = tcgetattr(stdin()).ok()?;
        Some(Self { original_modes })
    }

    /// Stops echoing; what is typed from now on is buffered.
    pub fn disable_echo(&self) {
        set_modes(&self.quiet_modes());
    }

    /// Like [`TerminalModeGuard::disable_echo`], but Ctrl-Z is read as a key: a program that draws
    /// on the whole screen restores the terminal before it calls [`suspend`].
    pub fn enter_key_mode(&self) {
        let mut modes = self.quiet_modes();
        modes.input_modes.remove(InputModes::IXON);
        modes.local_modes.remove(LocalModes::IEXTEN);
        modes.special_codes[SpecialCodeIndex::VSUSP] = CODE_DISABLED;
        set_modes(&modes);
    }

    fn quiet_modes(&self) -> Termios {
        let mut quiet_modes = self.original_modes.clone();
        quiet_modes
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ICANON);
        quiet_modes
            .local_modes
            .insert(LocalModes::ISIG | LocalModes::NOFLSH);
        quiet_modes.input_modes.insert(InputModes::ICRNL);
        quiet_modes.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet_modes.special_codes[SpecialCodeIndex::VTIME] = 0;
        quiet_modes
    }

    /// Reads what was typed and not read yet.
    pub fn read_typed_ahead(&self) -> String {
        let mut bytes = Vec::new();
        let mut chunk = [0; 4096];
        while bytes.len() < TYPED_AHEAD_BYTES_MAX && has_input(Duration::ZERO) {
            match rustix::io::read(stdin(), &mut chunk) {
                Ok(count) if count > 0 => bytes.extend(chunk.iter().take(count)),
                Ok(_) | Err(_) => break,
            }
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Restores the original mode.
    pub fn restore(&self) {
        set_modes(&self.original_modes);
    }
}

impl Drop for TerminalModeGuard {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Longest line that answers a question, in bytes: as much as a terminal buffers of one.
const LINE_BYTES_MAX: usize = 4096;

/// Terminal mode while a question is asked in the middle of a run: the terminal echoes and edits
/// the line itself. Input that was typed before the question does not answer it and is discarded.
#[derive(Debug)]
pub struct QuestionModeGuard {
    original_modes: Termios,
}

impl QuestionModeGuard {
    /// Enters the mode; `None` if standard input is not a terminal.
    pub fn enter() -> Option<Self> {
        let original_modes = tcgetattr(stdin()).ok()?;
        tcflush(stdin(), QueueSelector::IFlush).unwrap_or_default();
        let mut line_modes = original_modes.clone();
        line_modes
            .local_modes
            .insert(LocalModes::ECHO | LocalModes::ICANON);
        set_modes(&line_modes);
        Some(Self { original_modes })
    }
}

impl Drop for QuestionModeGuard {
    fn drop(&mut self) {
        set_modes(&self.original_modes);
    }
}

/// Reads the next line of standard input without its line end; `None` if there is none. A terminal
/// returns one line at a time and buffers the rest: none is kept here, where a later question could
/// read it.
pub fn read_line() -> Option<String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; LINE_BYTES_MAX];
    while bytes.len() < LINE_BYTES_MAX && !bytes.ends_with(b"\n") {
        match rustix::io::read(stdin(), &mut chunk) {
            Ok(count @ 1..) => bytes.extend(chunk.iter().take(count)),
            Ok(0) if bytes.is_empty() => return None,
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Reads the keys that are typed; `None` if there will be no more.
pub fn read_keys() -> Option<Vec<u8>> {
    let mut chunk = [0; LINE_BYTES_MAX];
    loop {
        match rustix::io::read(stdin(), &mut chunk) {
            Ok(count @ 1..) => return Some(chunk.into_iter().take(count).collect()),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return None,
        }
    }
}

fn set_modes(modes: &Termios) {
    // Errors are ignored: a terminal that has gone away needs no mode.
    tcsetattr(stdin(), OptionalActions::Now, modes).unwrap_or_default();
}

/// Returns whether standard input is readable now or becomes so within `time_max`.
pub fn has_input(time_max: Duration) -> bool {
    let input = stdin();
    let mut poll_fds = [PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN)];
    let time_max = Timespec::try_from(time_max).unwrap_or_default();
    poll(&mut poll_fds, Some(&time_max)).is_ok_and(|count| count > 0)
}

/// Stops this process and its group, as Ctrl-Z does, until the shell continues them.
pub fn suspend() {
    // A process group without a shell is not stopped, which is not an error.
    kill_current_process_group(Signal::TSTP).unwrap_or_default();
}
