//! Waits for a file to grow, and for the process that writes it to exit. It uses inotify and a file
//! lock, without polling.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};

use crate::path::AbsPath;

/// The size of the buffer for events; events of one file have 16 bytes each.
const EVENTS_BYTES: usize = 1024;

/// A watch on one file that another process may be writing.
#[derive(Debug)]
pub(crate) struct FileWatch {
    wakeups: Receiver<FileWakeup>,
}

/// What happened to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileWakeup {
    /// It was written to.
    Written,
    /// No process is writing to it any more.
    Unlocked,
}

impl FileWatch {
    /// Watches `path`, which a writer locks as long as it lives. Two threads wait for the kernel
    /// until the writer exits.
    pub(crate) fn new(path: &AbsPath) -> io::Result<Self> {
        let (sender, wakeups) = channel();
        let inotify = Arc::new(inotify::init(CreateFlags::CLOEXEC)?);
        let watch = inotify::add_watch(&inotify, path.as_path(), WatchFlags::MODIFY)?;
        let file = File::open(path.as_path())?;
        let unlock_sender = sender.clone();
        let writes_inotify = Arc::clone(&inotify);
        thread::Builder::new().spawn(move || forward_writes(&writes_inotify, &sender))?;
        thread::Builder::new().spawn(move || {
            // Where files cannot be locked, it is unknown whether the writer lives.
            drop(file.lock_shared());
            unlock_sender.send(FileWakeup::Unlocked).unwrap_or_default();
            // The kernel reports this to the other thread, which then ends. It fails only if the
            // file, and with it the watch, is gone.
            inotify::remove_watch(&inotify, watch).unwrap_or_default();
        })?;
        Ok(Self { wakeups })
    }

    /// Waits until something happens.
    pub(crate) fn wait(&self) -> FileWakeup {
        self.wakeups.recv().unwrap_or(FileWakeup::Unlocked)
    }
}

/// Forwards what the kernel reports until the watch is removed.
fn forward_writes(inotify: &OwnedFd, sender: &Sender<FileWakeup>) {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
    let mut events = Reader::new(inotify, &mut buffer);
    while let Ok(event) = events.next() {
        let is_removed = event.events().contains(ReadFlags::IGNORED);
        if is_removed || sender.send(FileWakeup::Written).is_err() {
            return;
        }
    }
}
