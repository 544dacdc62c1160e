//! Proxy between the user's standard streams and those of a command: all data is copied, so that
//! the command holds no file of the user's whose mode, timestamps or attributes it could change. If
//! the user has a terminal, the command gets a pseudoterminal of massgen's.

use std::convert::Infallible;
use std::io::{self, pipe};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, read, write};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{
    OptionalActions, OutputModes, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::world::sandbox::ProcessStreams;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Size of a chunk that is copied, in bytes: the capacity of a pipe.
const COPIED_BYTES: usize = 64 * 1024;

/// The proxy between the user's streams and a command's.
#[derive(Debug)]
pub struct StdioProxy {
    terminal: Option<PseudoTerminal>,
    /// Closed when the last thread that copies output ends.
    output_copies: Receiver<Infallible>,
    /// Stops the thread that copies input; it does not touch the command.
    input_interrupt: CommandInterrupt,
}

/// State that the copying threads share.
struct StdioCopier {
    /// Each thread that copies output holds a clone.
    copy_guard: Sender<Infallible>,
    /// Stops the thread that copies input.
    input_interrupt: CommandInterrupt,
}

/// Error for a user's stream that is a directory, which a command cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a directory is not a stream")]
pub struct DirectoryStreamError;

impl StdioProxy {
    /// Opens a proxy for the `user_streams` and returns the streams for the command.
    ///
    /// # Errors
    /// A stream is a [directory](DirectoryStreamError), or no pipe or terminal can be opened.
    pub fn open(user_streams: ProcessStreams) -> io::Result<(Self, ProcessStreams)> {
        let ProcessStreams {
            stdin,
            stdout,
            stderr,
        } = user_streams;
        for stream in [stdin.as_ref(), Some(&stdout), Some(&stderr)] {
            stream.map_or(Ok(()), reject_directory)?;
        }
        let input_interrupt = CommandInterrupt::new()?;
        let (copy_guard, output_copies) = channel(1);
        let copier = StdioCopier {
            copy_guard,
            input_interrupt: input_interrupt.clone(),
        };
        // The user's terminal is in raw mode only while the command has it to itself. In a shell
        // pipeline, the command reads a pipe, so the user's terminal still has to edit lines and to
        // turn Ctrl-C into a signal.
        let is_interactive = stdin.as_ref().is_some_and(isatty) && isatty(&stdout);
        let shown_stream = [&stdout, &stderr].into_iter().find(|stream| isatty(stream));
        let terminal = shown_stream.map(|stream| copier.open_terminal(stream, is_interactive));
        let terminal = terminal.transpose()?;
        let command_end = terminal.as_ref().map(|(_, command_end)| command_end);
        let stdin = match (stdin, &terminal) {
            (Some(stdin), Some((terminal, command_end))) if is_interactive => {
                copier.copy_input(stdin, terminal.try_clone_handle()?)?;
                Some(command_end.try_clone()?)
            }
            (Some(stdin), _) => {
                let (reader, writer) = pipe()?;
                copier.copy_input(stdin, writer.into())?;
                Some(reader.into())
            }
            (None, _) => None,
        };
        let is_shared = is_same_file(&stdout, &stderr)?;
        let stdout = copier.open_output(stdout, command_end)?;
        let stderr = if is_shared {
            stdout.try_clone()?
        } else {
            copier.open_output(stderr, command_end)?
        };
        let proxy = Self {
            terminal: terminal.map(|(terminal, _)| terminal),
            output_copies,
            input_interrupt,
        };
        Ok((
            proxy,
            ProcessStreams {
                stdin,
                stdout,
                stderr,
            },
        ))
    }

    /// Sets the size of the command's terminal to the current size of the user's.
    pub fn resize(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.resize();
        }
    }

    /// Waits until everything that the command wrote has reached the user. The command must have
    /// ended.
    pub async fn wait_for_output(&mut self) {
        // What the user types from now on is not for the command.
        self.input_interrupt.raise();
        while self.output_copies.recv().await.is_some() {}
    }
}

impl Drop for StdioProxy {
    fn drop(&mut self) {
        self.input_interrupt.raise();
    }
}

impl StdioCopier {
    /// Opens a terminal that is shown on `user_stream`; returns it and the command's side of it.
    fn open_terminal(
        &self,
        user_stream: &OwnedFd,
        is_interactive: bool,
    ) -> io::Result<(PseudoTerminal, OwnedFd)> {
        let (terminal, command_end) = if is_interactive {
            PseudoTerminal::for_input(user_stream)?
        } else {
            PseudoTerminal::for_output(user_stream)?
        };
        self.copy_output(terminal.try_clone_handle()?, user_stream.try_clone()?)?;
        Ok((terminal, command_end))
    }

    /// Returns the command's replacement for a stream of the user's: its own terminal for a
    /// terminal, a pipe for anything else.
    fn open_output(&self, user_stream: OwnedFd, terminal: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        match terminal {
            Some(terminal) if isatty(&user_stream) => terminal.try_clone(),
            _ => {
                let (reader, writer) = pipe()?;
                self.copy_output(reader.into(), user_stream)?;
                Ok(writer.into())
            }
        }
    }

    /// Copies the command's output until its end, or until the reader is gone.
    fn copy_output(&self, from: OwnedFd, to: OwnedFd) -> io::Result<()> {
        let guard = self.copy_guard.clone();
        in_thread(move || {
            let _guard = guard;
            copy(&from, &to, None)
        })
    }

    /// Copies the user's input until its end, or until the interrupt is raised.
    fn copy_input(&self, from: OwnedFd, to: OwnedFd) -> io::Result<()> {
        let interrupt = self.input_interrupt.clone();
        in_thread(move || copy(&from, &to, Some(&interrupt)))
    }
}

fn in_thread(work: impl FnOnce() -> Result<(), Errno> + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("stream".to_owned());
    // On an error the streams are closed, so that both sides see the end.
    thread.spawn(move || work().unwrap_or_default()).map(drop)
}

fn copy(from: &OwnedFd, to: &OwnedFd, interrupt: Option<&CommandInterrupt>) -> Result<(), Errno> {
    let mut buffer = vec![0; COPIED_BYTES];
    loop {
        if wait(from.as_fd(), PollFlags::IN, interrupt)? == StdioWakeup::Stopped {
            return Ok(());
        }
        let length = match read(from, &mut *buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(error) => return Err(error),
        };
        let mut bytes_left = buffer.get(..length).unwrap_or_default();
        while !bytes_left.is_empty() {
            match write(to, bytes_left) {
                Ok(written) => bytes_left = bytes_left.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // The user's stream is nonblocking.
                Err(Errno::AGAIN) => {
                    wait(to.as_fd(), PollFlags::OUT, None)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Why a wait ended.
#[derive(PartialEq, Eq)]
enum StdioWakeup {
    /// Something can be read or written.
    Ready,
    /// The proxy stops; no more input is needed.
    Stopped,
}

fn wait(
    handle: BorrowedFd<'_>,
    events: PollFlags,
    interrupt: Option<&CommandInterrupt>,
) -> Result<StdioWakeup, Errno> {
    let mut handles = vec![PollFd::from_borrowed_fd(handle, events)];
    handles.extend(
        interrupt.map(|interrupt| PollFd::from_borrowed_fd(interrupt.as_fd(), PollFlags::IN)),
    );
    while let Err(error) = poll(&mut handles, None) {
        if error != Errno::INTR {
            return Err(error);
        }
    }
    let is_interrupted = handles
        .get(1)
        .is_some_and(|interrupt| !interrupt.revents().is_empty());
    Ok(if is_interrupted {
        StdioWakeup::Stopped
    } else {
        StdioWakeup::Ready
    })
}

fn reject_directory(stream: &OwnedFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(stream)?.st_mode) == FileType::Directory {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            DirectoryStreamError,
        ));
    }
    Ok(())
}

/// Returns whether two of the user's streams lead to the same file, so that writes to them must
/// keep their order.
fn is_same_file(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

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
