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

use crate::world::sandbox::Streams;
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::terminal::Terminal;

/// How much is copied at once, in bytes: what a pipe holds.
const COPIED_BYTES: usize = 64 * 1024;

/// The way between the user's streams and a command's.
#[derive(Debug)]
pub struct Passage {
    terminal: Option<Terminal>,
    /// Ends with the last copy of what the command writes.
    copies: Receiver<Infallible>,
    /// Ends the reading of what the user types.
    over: Interrupt,
}

/// What goes on in the threads of a passage.
struct Copying {
    going: Sender<Infallible>,
    over: Interrupt,
}

/// A stream of the user's that a command cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a directory is no stream")]
pub struct IsDirectory;

impl Passage {
    /// Opens a way between `users` streams and those that come back.
    ///
    /// # Errors
    /// One of them is a [directory](IsDirectory), or the machine gives no pipe or terminal.
    pub fn open(users: Streams) -> io::Result<(Self, Streams)> {
        let Streams {
            stdin,
            stdout,
            stderr,
        } = users;
        for stream in [stdin.as_ref(), Some(&stdout), Some(&stderr)] {
            stream.map_or(Ok(()), no_directory)?;
        }
        let over = Interrupt::new()?;
        let (going, copies) = channel(1);
        let copying = Copying {
            going,
            over: over.clone(),
        };
        // One who types into a pipeline needs their own terminal as it is.
        let typed = stdin.as_ref().is_some_and(isatty) && isatty(&stdout);
        let shown = [&stdout, &stderr].into_iter().find(|stream| isatty(stream));
        let terminal = shown.map(|shown| copying.terminal(shown, typed));
        let terminal = terminal.transpose()?;
        let end = terminal.as_ref().map(|(_, end)| end);
        let stdin = match (stdin, &terminal) {
            (Some(stdin), Some((terminal, end))) if typed => {
                copying.feed(stdin, terminal.handle()?)?;
                Some(end.try_clone()?)
            }
            (Some(stdin), _) => {
                let (reader, writer) = pipe()?;
                copying.feed(stdin, writer.into())?;
                Some(reader.into())
            }
            (None, _) => None,
        };
        let is_one = is_one(&stdout, &stderr)?;
        let stdout = copying.output(stdout, end)?;
        let stderr = if is_one {
            stdout.try_clone()?
        } else {
            copying.output(stderr, end)?
        };
        let passage = Self {
            terminal: terminal.map(|(terminal, _)| terminal),
            copies,
            over,
        };
        Ok((
            passage,
            Streams {
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
            .map(Terminal::resize)
            .unwrap_or_default();
    }

    /// Waits until all that the command wrote is with the user. It has ended.
    pub async fn copied(&mut self) {
        self.over.raise();
        while self.copies.recv().await.is_some() {}
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.over.raise();
    }
}

impl Copying {
    /// A terminal that is shown on `users`, and the command's side of it.
    fn terminal(&self, users: &OwnedFd, typed: bool) -> io::Result<(Terminal, OwnedFd)> {
        let (terminal, end) = if typed {
            Terminal::typed_into(users)?
        } else {
            Terminal::shown_on(users)?
        };
        self.show(terminal.handle()?, users.try_clone()?)?;
        Ok((terminal, end))
    }

    /// What the command gets in place of a stream of the user's: its own terminal for a terminal, a
    /// pipe for all else.
    fn output(&self, users: OwnedFd, terminal: Option<&OwnedFd>) -> io::Result<OwnedFd> {
        match terminal {
            Some(terminal) if isatty(&users) => terminal.try_clone(),
            _ => {
                let (reader, writer) = pipe()?;
                self.show(reader.into(), users)?;
                Ok(writer.into())
            }
        }
    }

    /// Copies what the command writes until there is no more, or nobody reads it.
    fn show(&self, from: OwnedFd, to: OwnedFd) -> io::Result<()> {
        let going = self.going.clone();
        in_thread(move || {
            let _going = going;
            copy(&from, &to, None)
        })
    }

    /// Copies what the user types or sends until there is no more, or it is over.
    fn feed(&self, from: OwnedFd, to: OwnedFd) -> io::Result<()> {
        let over = self.over.clone();
        in_thread(move || copy(&from, &to, Some(&over)))
    }
}

fn in_thread(work: impl FnOnce() -> Result<(), Errno> + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("stream".to_owned());
    // Whoever is left on either side sees the end of it.
    thread.spawn(move || work().unwrap_or_default()).map(drop)
}

fn copy(from: &OwnedFd, to: &OwnedFd, over: Option<&Interrupt>) -> Result<(), Errno> {
    let mut room = vec![0; COPIED_BYTES];
    loop {
        if wait(from.as_fd(), PollFlags::IN, over)? == Woken::Over {
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
enum Woken {
    /// Something can be read or written.
    Ready,
    /// Nobody needs it any more.
    Over,
}

fn wait(
    handle: BorrowedFd<'_>,
    until: PollFlags,
    over: Option<&Interrupt>,
) -> Result<Woken, Errno> {
    let mut asked = vec![PollFd::from_borrowed_fd(handle, until)];
    asked.extend(over.map(|over| PollFd::from_borrowed_fd(over.as_fd(), PollFlags::IN)));
    while let Err(error) = poll(&mut asked, None) {
        if error != Errno::INTR {
            return Err(error);
        }
    }
    let is_over = asked.get(1).is_some_and(|over| !over.revents().is_empty());
    Ok(if is_over { Woken::Over } else { Woken::Ready })
}

fn no_directory(stream: &OwnedFd) -> io::Result<()> {
    if FileType::from_raw_mode(fstat(stream)?.st_mode) == FileType::Directory {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, IsDirectory));
    }
    Ok(())
}

/// Whether two streams of the user's lead to the same place: what is written to them keeps its order.
fn is_one(one: &OwnedFd, other: &OwnedFd) -> io::Result<bool> {
    let (one, other) = (fstat(one)?, fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
