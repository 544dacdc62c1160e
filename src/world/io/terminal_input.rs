//! What the user types on the terminal while a run works: waits for it without reading it, so that
//! a question of the run can read its answer itself. It must never read from a terminal whose
//! foreground job is another one.

use std::collections::BTreeMap;
use std::io::stdin;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, tcgetattr, tcgetpgrp};
use tokio::sync::mpsc;

use crate::world::io::terminal_mode::has_input;

/// The largest input that is read at once, in bytes: as much as a terminal buffers of a line.
const INPUT_BYTES_MAX: usize = 4096;

/// Variable with the time for which an escape character waits for the rest of a key, in
/// milliseconds, as in ncurses: a slow connection needs more.
const ESCAPE_DELAY: &str = "ESCDELAY";
/// The time without the variable, and its maximum, in milliseconds.
const ESCAPE_DELAY_DEFAULT_MS: u16 = 50;
const ESCAPE_DELAY_MAX_MS: u16 = 5000;

/// Returns the time for which an escape character waits for the rest of a key, in milliseconds.
pub fn escape_delay_ms(env: &BTreeMap<String, String>) -> u16 {
    let value = env.get(ESCAPE_DELAY).and_then(|text| text.parse().ok());
    value
        .unwrap_or(ESCAPE_DELAY_DEFAULT_MS)
        .clamp(1, ESCAPE_DELAY_MAX_MS)
}

/// The terminal on standard input, while a run works.
#[derive(Debug)]
pub struct TerminalInput {
    /// Lets the thread wait for input once more.
    wait_sender: std_mpsc::Sender<()>,
    input_receiver: mpsc::Receiver<()>,
    escape_delay: Duration,
    /// Ends the thread when it is closed.
    _stop_writer: OwnedFd,
}

/// Input from the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedInput {
    /// A line that the terminal itself echoed and edited.
    Line(Vec<u8>),
    /// Keys that were not shown.
    Keys(Vec<u8>),
    /// Nothing at the moment.
    Nothing,
    /// The input has ended, or belongs to another job.
    Ended,
}

impl TerminalInput {
    /// Starts to wait for input; `None` if standard input is not a terminal. A thread waits until
    /// this is dropped. `env` is the process environment.
    pub fn start(env: &BTreeMap<String, String>) -> Option<Self> {
        tcgetattr(stdin()).ok()?;
        let (stop_reader, stop_writer) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        let (wait_sender, wait_receiver) = std_mpsc::channel();
        let (input_sender, input_receiver) = mpsc::channel(1);
        wait_sender.send(()).ok()?;
        thread::Builder::new()
            .spawn(move || {
                while wait_receiver.recv().is_ok() && wait_for_input(&stop_reader) {
                    if input_sender.blocking_send(()).is_err() {
                        return;
                    }
                }
            })
            .ok()?;
        Some(Self {
            wait_sender,
            input_receiver,
            escape_delay: Duration::from_millis(escape_delay_ms(env).into()),
            _stop_writer: stop_writer,
        })
    }

    /// Returns the time for which an escape character waits for the rest of a key.
    pub fn escape_delay(&self) -> Duration {
        self.escape_delay
    }

    /// Waits until there is input; forever if there can be none. Cancel-safe, unless it completes:
    /// then [`TerminalInput::read`] must be called.
    pub async fn wait(&mut self) {
        if self.input_receiver.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Reads the available input without waiting for more.
    pub fn read(&mut self) -> TypedInput {
        let is_foreground = tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp());
        let Some(modes) = tcgetattr(stdin()).ok().filter(|_| is_foreground) else {
            return TypedInput::Ended;
        };
        if !has_input(Duration::ZERO) {
            // A question has read it.
            return self.wait_again(TypedInput::Nothing);
        }
        let mut bytes = [0; INPUT_BYTES_MAX];
        match rustix::io::read(stdin(), &mut bytes) {
            Ok(count @ 1..) => {
                let bytes: Vec<u8> = bytes.into_iter().take(count).collect();
                self.wait_again(if modes.local_modes.contains(LocalModes::ICANON) {
                    TypedInput::Line(bytes)
                } else {
                    TypedInput::Keys(bytes)
                })
            }
            Err(Errno::INTR) => self.wait_again(TypedInput::Nothing),
            Ok(_) | Err(_) => TypedInput::Ended,
        }
    }

    fn wait_again(&self, input: TypedInput) -> TypedInput {
        match self.wait_sender.send(()) {
            Ok(()) => input,
            Err(_) => TypedInput::Ended,
        }
    }
}

/// Waits until standard input is readable; returns false if the other end of `stop_reader` is
/// closed before.
fn wait_for_input(stop_reader: &OwnedFd) -> bool {
    let input = stdin();
    loop {
        let mut poll_fds = [
            PollFd::from_borrowed_fd(input.as_fd(), PollFlags::IN),
            PollFd::new(stop_reader, PollFlags::IN),
        ];
        match poll(&mut poll_fds, None) {
            Ok(_) => {
                let [input, stop_reader] = &poll_fds;
                if !stop_reader.revents().is_empty() {
                    return false;
                }
                if !input.revents().is_empty() {
                    return true;
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Returns whether standard input is a pipe, a socket or a file with bytes that can be read now.
/// Nothing is read.
pub fn has_unread_bytes() -> bool {
    rustix::io::ioctl_fionread(stdin()).is_ok_and(|bytes| bytes > 0)
}
