//! Unix sockets with paths in massgen's own directories. The kernel accepts paths of about a
//! hundred bytes, so each socket is reached through a handle on the directory that holds it.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, chmodat, openat};

use crate::path::AbsPath;

/// Listens at `name` in `dir`, for this user alone.
pub(crate) fn listen(dir: &AbsPath, name: &str) -> io::Result<UnixListener> {
    let handle = open_directory(dir)?;
    let listener = UnixListener::bind(path_in(&handle, name))?;
    chmodat(&handle, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
    Ok(listener)
}

/// Connects to the socket at `path`.
pub(crate) fn connect(path: &AbsPath) -> io::Result<UnixStream> {
    let dir = path.parent().unwrap_or_else(AbsPath::root);
    let name = path.as_path().file_name().unwrap_or_default();
    UnixStream::connect(path_in(&open_directory(&dir)?, &name.to_string_lossy()))
}

fn open_directory(dir: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, dir.as_path(), flags, Mode::empty())?)
}

/// Returns a short path of `name` in a directory, valid as long as its handle is open.
fn path_in(dir: &OwnedFd, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}
