//! Owns what stands between the user's streams and those of a command: all is copied, so that the
//! command holds nothing of the user's whose mode, times or attributes it could change. Where the
//! user has a terminal, the command has one of massgen's own.

use std::convert::Infallible;
use std::io::{self, pipe};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, fstat};
use rustix::io::{Errno, read, write};
use rustix::termios::isatty;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::world::sandbox::ProcessStreams;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::terminal::PseudoTerminal;

/// How much is copied at once, in bytes: what a pipe holds.
const COPIED_BYTES: usize = 64 * 1024;

/// The way between the user's streams and a command's.
#[derive(Debug)]
pub struct StdioProxy {
    terminal: Option<PseudoTerminal>,
    /// Ends with the last copy of what the command writes.
    copies: Receiver<Infallible>,
    /// Ends the reading of what the user types.
    over: CommandInterrupt,
}

/// What goes on in the threads of a passage.
struct StdioCopier {
    going: Sender<Infallible>,
    over: CommandInterrupt,
}

/// A stream of the user's that a command cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a directory is no stream")]
pub struct DirectoryStreamError;

impl StdioProxy {
    /// Opens a way between `users` streams and those that come back.
    ///
    /// # Errors
    /// One of them is a [directory](DirectoryStreamError), or the machine gives no pipe or terminal.
    pub fn open(users: ProcessStreams) -> io::Result<(Self, ProcessStreams)> {
        let ProcessStreams {
            stdin,
            stdout,
            stderr,
        } = users;
        for stream in [stdin.as_ref(), Some(&stdout), Some(&stderr)] {
            stream.map_or(Ok(()), reject_directory)?;
        }
        let over = CommandInterrupt::new()?;
        let (going, copies) = channel(1);
        let copying = StdioCopier {
            going,
            over: over.clone(),
        };
        // One who types into a pipeline needs their own terminal as it is.
        let typed = stdin.as_ref().is_some_and(isatty) && isatty(&stdout);
        let shown = [&stdout, &stderr].into_iter().find(|stream| isatty(stream));
        let terminal = shown.map(|shown| copying.open_terminal(shown, typed));
        let terminal = terminal.transpose()?;
        let end = terminal.as_ref().map(|(_, end)| end);
        let stdin = match (stdin, &terminal) {
            (Some(stdin), Some((terminal, end))) if typed => {
                copying.copy_input(stdin, terminal.try_clone_handle()?)?;
                Some(end.try_clone()?)
            }
            (Some(stdin), _) => {
                let (reader, writer) = pipe()?;
                copying.copy_input(stdin, writer.into())?;
                Some(reader.into())
            }
            (None, _) => None,
        };
        let is_one = is_same_file(&stdout, &stderr)?;
        let stdout = copying.open_output(stdout, end)?;
        let stderr = if is_one {
            stdout.try_clone()?
        } else {
            copying.open_output(stderr, end)?
        };
        let passage = Self {
            terminal: terminal.map(|(terminal, _)| terminal),
            copies,
            over,
        };
        Ok((
            passage,
            ProcessStreams {
                stdin,
                stdout,
                stderr,
            },
        ))
    }

    /// Tells the command's terminal how large the user's is now.
    pub fn resize(&self) {
        self.terminal
            .as_ref()
            .map(PseudoTerminal::resize)
            .unwrap_or_default();
    }

    /// Waits until all that the command wrote is with the user. It has ended.
    pub async fn wait_for_output(&mut self) {
        self.over.raise();
        while self.copies.recv().await.is_some() {}
    }
}

impl Drop for StdioProxy {
    fn drop(&mut self) {
        self.over.raise();
    }
}

impl StdioCopier {
    /// A terminal that is shown on `users`, and the command's side of it.
    fn open_terminal(&self, users: &OwnedFd, typed: bool) -> io::Result<(PseudoTerminal, OwnedFd)> {
        let (terminal, end) = if typed {
            PseudoTerminal::for_input(users)?
        } else {
            PseudoTerminal::for_output(users)?
        };
        self.copy_output(terminal.try_clone_handle()?, users.try_clone()?)?;
        Ok((terminal, end))
    }

    /// What the command gets in place of a stream of the user's: its own terminal for a terminal, a
    /// pipe for all else.
    fn open_output(&self, users: OwnedFd, terminal: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        match terminal {
            Some(terminal) if isatty(&users) => terminal.try_clone(),
            _ => {
                let (reader, writer) = pipe()?;
                self.copy_output(reader.into(), users)?;
                Ok(writer.into())
            }
        }
    }

    /// Copies what the command writes until there is no more, or nobody reads it.
    fn copy_output(&self, from: OwnedFd, to: OwnedFd) -> io::Result<()> {
        let going = self.going.clone();
        in_thread(move || {
            let _going = going;
            copy(&from, &to, None)
        })
    }

    /// Copies what the user types or sends until there is no more, or it is over.
    fn copy_input(&self, from: OwnedFd, to: OwnedFd) -> io::Result<()> {
        let over = self.over.clone();
        in_thread(move || copy(&from, &to, Some(&over)))
    }
}

fn in_thread(work: impl FnOnce() -> Result<(), Errno> + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("stream".to_owned());
    // Whoever is left on either side sees the end of it.
    thread.spawn(move || work().unwrap_or_default()).map(drop)
}

fn copy(from: &OwnedFd, to: &OwnedFd, over: Option<&CommandInterrupt>) -> Result<(), Errno> {
    let mut room = vec![0; COPIED_BYTES];
    loop {
        if wait(from.as_fd(), PollFlags::IN, over)? == StdioWakeup::Ended {
            return Ok(());
        }
        let length = match read(from, &mut *room) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(error) => return Err(error),
        };
        let mut rest = room.get(..length).unwrap_or_default();
        while !rest.is_empty() {
            match write(to, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                // The user's stream is one that does not wait.
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
    /// Nobody needs it any more.
    Ended,
}

fn wait(
    handle: BorrowedFd<'_>,
    until: PollFlags,
    over: Option<&CommandInterrupt>,
) -> Result<StdioWakeup, Errno> {
    let mut asked = vec![PollFd::from_borrowed_fd(handle, until)];
    asked.extend(over.map(|over| PollFd::from_borrowed_fd(over.as_fd(), PollFlags::IN)));
    while let Err(error) = poll(&mut asked, None) {
        if error != Errno::INTR {
            return Err(error);
        }
    }
    let is_over = asked.get(1).is_some_and(|over| !over.revents().is_empty());
    Ok(if is_over {
        StdioWakeup::Ended
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

/// Whether two streams of the user's lead to the same place: what is written to them keeps its order.
fn is_same_file(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
