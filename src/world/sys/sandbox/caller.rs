//! Owns what the supervisor of tier C reads of a process whose call it answers: its memory, its
//! handles, its directory. All of it is read through one handle on the process, so that it is of
//! one process; whether it is still the caller, [`crate::world::sys::sandbox::notification`] knows.
#![expect(clippy::disallowed_types, reason = "this is where the disk is")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// The longest path that the kernel takes, in bytes, with the zero at its end.
const PATH_BYTES_MAX: usize = 4096;
/// The most that is read of a process's status, in bytes.
const STATUS_BYTES_MAX: u64 = 16 * 1024;
/// Marks the current directory in place of a handle.
const CURRENT_DIRECTORY: i32 = -100;

const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Whether the last name of a path is followed if it is a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// What it leads to is meant.
    Follow,
    /// The link itself is meant.
    Keep,
}

/// A process, or one thread of it, that waits for an answer.
#[derive(Debug)]
pub(crate) struct NotifyingProcess {
    id: u32,
    proc: OwnedFd,
}

impl NotifyingProcess {
    /// Looks at the thread with this number.
    pub(crate) fn new(id: u32) -> Result<Self, Errno> {
        let flags = LOOK | OFlags::DIRECTORY;
        let proc = open(format!("/proc/{id}"), flags, Mode::empty())?;
        Ok(Self { id, proc })
    }

    /// `N` bytes of its memory.
    pub(crate) fn bytes<const N: usize>(&self, address: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        let memory = self.memory()?;
        memory
            .read_exact_at(&mut bytes, address)
            .map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// `length` bytes of its memory.
    pub(crate) fn content(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let memory = self.memory()?;
        memory
            .read_exact_at(&mut bytes, address)
            .map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// The text at an address, to the zero at its end.
    pub(crate) fn text(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; PATH_BYTES_MAX];
        // One read may end early, at memory that is not there.
        let length = self
            .memory()?
            .read_at(&mut bytes, address)
            .map_err(|_| Errno::FAULT)?;
        bytes.truncate(length);
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) => bytes.truncate(end),
            None if length == PATH_BYTES_MAX => return Err(Errno::NAMETOOLONG),
            None => return Err(Errno::FAULT),
        }
        Ok(bytes)
    }

    fn memory(&self) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(openat(&self.proc, "mem", flags, Mode::empty())?.into())
    }

    /// What its handle `number` is open on; [`CURRENT_DIRECTORY`] is one too.
    pub(crate) fn handle(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number == CURRENT_DIRECTORY {
            return openat(&self.proc, "cwd", LOOK, Mode::empty());
        }
        let number = u32::try_from(number).map_err(|_| Errno::BADF)?;
        let opened = openat(&self.proc, format!("fd/{number}"), LOOK, Mode::empty());
        opened.map_err(|error| match error {
            Errno::NOENT => Errno::BADF,
            other => other,
        })
    }

    /// What its path leads to, beginning at its handle `base`.
    pub(crate) fn follow(&self, base: i32, path: &[u8], last: LastLink) -> Result<OwnedFd, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        // libc itself names handles so. "self" is the caller there, not the supervisor.
        if let Some(number) = self.handle_in_path(path) {
            return self.handle(number);
        }
        let flags = match last {
            LastLink::Follow => LOOK,
            LastLink::Keep => LOOK | OFlags::NOFOLLOW,
        };
        // A link of /proc that is no text would lead anywhere, and be the supervisor's own.
        let resolve = ResolveFlags::NO_MAGICLINKS;
        if path.starts_with(b"/") {
            openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
        } else {
            openat2(self.handle(base)?, path, flags, Mode::empty(), resolve)
        }
    }

    fn handle_in_path(&self, path: &[u8]) -> Option<i32> {
        let own = format!("/proc/{}/fd/", self.id);
        let places = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/", &own];
        match path {
            b"/dev/stdin" => return Some(0),
            b"/dev/stdout" => return Some(1),
            b"/dev/stderr" => return Some(2),
            _ => {}
        }
        let mut numbers = places
            .iter()
            .filter_map(|place| path.strip_prefix(place.as_bytes()));
        str::from_utf8(numbers.next()?).ok()?.parse().ok()
    }

    /// A copy of its handle `number`, which does what the handle itself does.
    pub(crate) fn duplicate_handle(&self, number: i32) -> Result<OwnedFd, Errno> {
        let process = pidfd_open(self.process_id()?, PidfdFlags::empty())?;
        pidfd_getfd(process, number, PidfdGetfdFlags::empty())
    }

    /// The process that the thread is of.
    pub(crate) fn process_id(&self) -> Result<Pid, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let status: File = openat(&self.proc, "status", flags, Mode::empty())?.into();
        let mut text = String::new();
        status
            .take(STATUS_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|_| Errno::SRCH)?;
        let number = text.lines().find_map(|line| line.strip_prefix("Tgid:"));
        let number = number.and_then(|number| number.trim().parse().ok());
        number.and_then(Pid::from_raw).ok_or(Errno::SRCH)
    }
}
