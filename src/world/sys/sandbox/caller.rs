//! Access by the supervisor of level `landlock` to a process whose call it answers: its memory, its
//! handles, its current directory. All of it is read through one handle on `/proc/PID`, so that it
//! belongs to one process; [`crate::world::sys::sandbox::notification`] knows whether that still is
//! the caller.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// The longest path that the kernel accepts, in bytes, with the terminating NUL.
const PATH_BYTES_MAX: usize = 4096;
/// The most that is read of a process's `status` file, in bytes.
const STATUS_BYTES_MAX: u64 = 16 * 1024;
/// Stands for the current directory instead of a handle (`AT_FDCWD`).
const CURRENT_DIRECTORY: i32 = -100;

/// Flags for a handle that names a file and gives no access to its content.
const PATH_HANDLE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Whether the last name of a path is followed if it is a symlink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastLink {
    /// Its target is meant.
    Follow,
    /// The symlink itself is meant.
    Keep,
}

/// A thread whose system call the supervisor answers, or one that such a call names, and the
/// process that it belongs to.
#[derive(Debug)]
pub(crate) struct NotifyingProcess {
    id: u32,
    /// The directory of the thread in `/proc`.
    proc_dir: OwnedFd,
}

impl NotifyingProcess {
    /// Opens the thread with this ID.
    pub(crate) fn new(id: u32) -> Result<Self, Errno> {
        let flags = PATH_HANDLE | OFlags::DIRECTORY;
        let proc_dir = open(format!("/proc/{id}"), flags, Mode::empty())?;
        Ok(Self { id, proc_dir })
    }

    /// Reads `N` bytes of its memory.
    pub(crate) fn read_array<const N: usize>(&self, address: u64) -> Result<[u8; N], Errno> {
        let mut bytes = [0; N];
        let memory = self.memory()?;
        memory
            .read_exact_at(&mut bytes, address)
            .map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// Reads `length` bytes of its memory.
    pub(crate) fn read_bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let memory = self.memory()?;
        memory
            .read_exact_at(&mut bytes, address)
            .map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    /// Reads the NUL-terminated string at an address.
    pub(crate) fn read_string(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; PATH_BYTES_MAX];
        // The read may end early, at unmapped memory.
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
        Ok(openat(&self.proc_dir, "mem", flags, Mode::empty())?.into())
    }

    /// Opens what its handle `number` refers to; [`CURRENT_DIRECTORY`] is accepted, too.
    pub(crate) fn handle(&self, number: i32) -> Result<OwnedFd, Errno> {
        if number == CURRENT_DIRECTORY {
            return openat(&self.proc_dir, "cwd", PATH_HANDLE, Mode::empty());
        }
        let number = u32::try_from(number).map_err(|_| Errno::BADF)?;
        let result = openat(
            &self.proc_dir,
            format!("fd/{number}"),
            PATH_HANDLE,
            Mode::empty(),
        );
        result.map_err(|error| match error {
            Errno::NOENT => Errno::BADF,
            other => other,
        })
    }

    /// Resolves a path of the process, relative to its handle `base`.
    pub(crate) fn follow(
        &self,
        base: i32,
        path: &[u8],
        last_link: LastLink,
    ) -> Result<OwnedFd, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        // libc itself names handles this way. "self" means the caller there, not the supervisor.
        if let Some(number) = self.handle_in_path(path) {
            return self.handle(number);
        }
        let flags = match last_link {
            LastLink::Follow => PATH_HANDLE,
            LastLink::Keep => PATH_HANDLE | OFlags::NOFOLLOW,
        };
        // A magic link of /proc could lead anywhere, and would be resolved for the supervisor.
        let resolve = ResolveFlags::NO_MAGICLINKS;
        if path.starts_with(b"/") {
            // The filter denies changes of the root directory, so it is that of the supervisor.
            openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)
        } else {
            openat2(self.handle(base)?, path, flags, Mode::empty(), resolve)
        }
    }

    fn handle_in_path(&self, path: &[u8]) -> Option<i32> {
        let own_prefix = format!("/proc/{}/fd/", self.id);
        let prefixes = [
            "/proc/self/fd/",
            "/proc/thread-self/fd/",
            "/dev/fd/",
            &own_prefix,
        ];
        match path {
            b"/dev/stdin" => return Some(0),
            b"/dev/stdout" => return Some(1),
            b"/dev/stderr" => return Some(2),
            _ => {}
        }
        let mut numbers = prefixes
            .iter()
            .filter_map(|prefix| path.strip_prefix(prefix.as_bytes()));
        str::from_utf8(numbers.next()?).ok()?.parse().ok()
    }

    /// Duplicates its handle `number`; the copy shares the open file description.
    pub(crate) fn duplicate_handle(&self, number: i32) -> Result<OwnedFd, Errno> {
        let process = pidfd_open(self.process_id()?, PidfdFlags::empty())?;
        pidfd_getfd(process, number, PidfdGetfdFlags::empty())
    }

    /// Returns the ID of the process that the thread belongs to.
    pub(crate) fn process_id(&self) -> Result<Pid, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let status: File = openat(&self.proc_dir, "status", flags, Mode::empty())?.into();
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
