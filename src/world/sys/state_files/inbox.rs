//! A directory of the user's in which other programs leave files for massgen: waits for new ones
//! with inotify, without polling, and reads and removes them. It must never follow a symlink or
//! block on a pipe.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::collections::BTreeSet;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::mem::MaybeUninit;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags, openat, statx, unlinkat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::geteuid;
use tokio::sync::mpsc;

use crate::path::AbsPath;
use crate::sandbox_policy::FileIdentity;
use crate::world::sys::meta;

/// The size of the buffer for events, which have at most 272 bytes each.
const EVENTS_BYTES: usize = 4096;
/// Maximum number of changes that wait to be taken.
const QUEUED_CHANGES_MAX: usize = 64;
/// The mode bit that lets every user change a directory.
const WORLD_WRITABLE: u32 = 0o002;

/// A watched directory. It is opened for each access: the kernel reports its removal only when it
/// is not open.
#[derive(Debug)]
pub(crate) struct InboxDirectory {
    path: AbsPath,
    /// Its device and inode.
    identity: FileIdentity,
    changes: mpsc::Receiver<io::Result<InboxChange>>,
    /// Ends the thread that waits for the kernel when it is closed.
    _stop: OwnedFd,
}

/// What happened to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InboxChange {
    /// Files of these names were completely written, or moved there.
    Added(BTreeSet<String>),
    /// More files were added than the kernel reports.
    Overflow,
    /// It was removed or moved away.
    Gone,
}

/// Why other users could leave files in a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboxExposure {
    /// All users may change it.
    OpenToOthers,
    /// Another user owns it.
    OfAnotherUser,
}

/// Why a file of the directory was not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboxFileError {
    /// It is not a regular file.
    #[error("it is a symlink, a directory or a special file; expected a regular file")]
    NotRegular,
    /// Another user owns it.
    #[error("another user owns it")]
    OfAnotherUser,
    /// It is too large.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
}

impl InboxDirectory {
    /// Watches the directory at `path`. A thread waits for the kernel until this is dropped. The
    /// inner error is that other users could leave files in the directory.
    pub(crate) fn open(path: &AbsPath) -> io::Result<Result<Self, InboxExposure>> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let addition = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO;
        let removal = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF;
        let flags = addition | removal | WatchFlags::ONLYDIR;
        inotify::add_watch(&inotify, path.as_path(), flags)?;
        let directory = open_directory(path)?;
        if let Some(exposure) = find_exposure(&directory.metadata()?) {
            return Ok(Err(exposure));
        }
        let (stop_reader, stop_writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let (sender, changes) = mpsc::channel(QUEUED_CHANGES_MAX);
        thread::Builder::new().spawn(move || forward_changes(&inotify, &stop_reader, &sender))?;
        Ok(Ok(Self {
            path: path.clone(),
            identity: identity(&directory)?,
            changes,
            _stop: stop_writer,
        }))
    }

    /// Waits until files were added, or the directory is gone. Cancel-safe.
    pub(crate) async fn wait_for_change(&mut self) -> io::Result<InboxChange> {
        let change = self.changes.recv().await;
        change.unwrap_or(Ok(InboxChange::Gone))
    }

    /// Opens the directory, if it is still the same.
    fn open_again(&self) -> io::Result<File> {
        let directory = open_directory(&self.path)?;
        if identity(&directory)? == self.identity {
            Ok(directory)
        } else {
            Err(io::Error::new(ErrorKind::NotFound, "it was replaced"))
        }
    }

    /// Returns at most `count_max` of the names that `is_wanted` accepts, sorted.
    pub(crate) fn names(
        &self,
        is_wanted: impl Fn(&str) -> bool,
        count_max: usize,
    ) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(self.open_again()?)? {
            let name = entry?.file_name().to_str().map(str::to_owned);
            names.extend(name.ok().filter(|name| is_wanted(name)));
        }
        names.sort();
        names.truncate(count_max);
        Ok(names)
    }

    /// Reads the file `name`; `None` if it does not exist.
    pub(crate) fn read(
        &self,
        name: &str,
        bytes_max: u64,
    ) -> Result<Option<Vec<u8>>, InboxFileError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let directory = self.open_again().map_err(InboxFileError::Unreadable)?;
        let file = match openat(&directory, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            // A symlink, a socket, or a device without a driver.
            Err(Errno::LOOP | Errno::NXIO | Errno::NODEV) => {
                return Err(InboxFileError::NotRegular);
            }
            Err(error) => return Err(InboxFileError::Unreadable(error.into())),
        };
        let metadata = file.metadata().map_err(InboxFileError::Unreadable)?;
        if !metadata.is_file() {
            return Err(InboxFileError::NotRegular);
        }
        if metadata.uid() != geteuid().as_raw() {
            return Err(InboxFileError::OfAnotherUser);
        }
        let mut bytes = Vec::new();
        let count = file
            .take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(InboxFileError::Unreadable)?;
        if u64::try_from(count).is_ok_and(|count| count <= bytes_max) {
            Ok(Some(bytes))
        } else {
            Err(InboxFileError::TooLarge(bytes_max))
        }
    }

    /// Removes the file `name`, or the symlink of this name.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(self.open_again()?, name, AtFlags::empty())?)
    }
}

fn open_directory(path: &AbsPath) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path.as_path(), flags, Mode::empty())?.into())
}

fn identity(directory: &File) -> io::Result<FileIdentity> {
    let stat = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    Ok(meta::identity(&stat))
}

/// Sends changes until the directory is gone, nothing receives them, or `stop_reader` is closed.
fn forward_changes(
    inotify: &OwnedFd,
    stop_reader: &OwnedFd,
    changes: &mpsc::Sender<io::Result<InboxChange>>,
) {
    loop {
        let mut poll_fds = [
            PollFd::new(inotify, PollFlags::IN),
            PollFd::new(stop_reader, PollFlags::IN),
        ];
        match poll(&mut poll_fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return changes.blocking_send(Err(error.into())).unwrap_or_default(),
        }
        let [_, stop_reader] = &poll_fds;
        if !stop_reader.revents().is_empty() {
            return;
        }
        let change = match read_changes(inotify) {
            Ok(None) => continue,
            Ok(Some(change)) => Ok(change),
            Err(error) => Err(error),
        };
        let is_last = !matches!(&change, Ok(InboxChange::Added(_) | InboxChange::Overflow));
        if changes.blocking_send(change).is_err() || is_last {
            return;
        }
    }
}

/// Reads all pending events; `None` if there are none.
fn read_changes(inotify: &OwnedFd) -> io::Result<Option<InboxChange>> {
    let mut buffer = [MaybeUninit::uninit(); EVENTS_BYTES];
    let mut events = Reader::new(inotify, &mut buffer);
    let removal =
        ReadFlags::DELETE_SELF | ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT;
    let mut added_names = BTreeSet::new();
    loop {
        match events.next() {
            Ok(event) if event.events().intersects(removal) => {
                return Ok(Some(InboxChange::Gone));
            }
            Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => {
                return Ok(Some(InboxChange::Overflow));
            }
            Ok(event) => {
                let name = event.file_name().and_then(|name| name.to_str().ok());
                added_names.extend(name.map(str::to_owned));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let has_names = !added_names.is_empty();
                return Ok(has_names.then_some(InboxChange::Added(added_names)));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn find_exposure(metadata: &Metadata) -> Option<InboxExposure> {
    if metadata.permissions().mode() & WORLD_WRITABLE != 0 {
        Some(InboxExposure::OpenToOthers)
    } else if metadata.uid() == geteuid().as_raw() {
        None
    } else {
        Some(InboxExposure::OfAnotherUser)
    }
}
