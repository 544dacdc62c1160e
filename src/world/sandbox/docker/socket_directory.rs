//! Private directory of the sockets of a connection. It is removed when it is dropped, by a process
//! that waits for the end of massgen if it ends without that, and otherwise by a later massgen.

use std::io;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use tokio::process::Child;

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process;
use crate::world::sys::state_files::dir::{StagingDirectory, first_names};
use crate::world::sys::state_files::process_directory;

/// Beginning of the names of the directories.
const PREFIX: &str = "massgen-ssh-";
/// The most names that are searched for directories of dead processes.
const NAMES_MAX: usize = 10_000;
/// The most names in a directory that are tried as sockets.
const SOCKETS_MAX: usize = 16;
/// Shell that waits for the end of massgen, which closes its standard input.
const SHELL: &str = "/bin/sh";
/// What it does: everything in the directory is a socket.
const REMOVAL_SCRIPT: &str = "cat >/dev/null; rm -f -- \"$1\"/*; rmdir -- \"$1\"";

/// A directory that no other user can read. It is locked as long as it is in use.
#[derive(Debug)]
pub(super) struct SocketDirectory {
    /// Its standard input closes when massgen ends, however that is. When it is dropped, it is
    /// killed.
    _remover: Option<Child>,
    dir: StagingDirectory,
}

impl SocketDirectory {
    /// Creates an empty directory in `parent`, and removes those of processes that have ended.
    /// `env` is the environment of the process that waits.
    pub(super) fn create(parent: &AbsPath, env: &ProcessEnvironment) -> Result<Self> {
        remove_abandoned(parent);
        let dir = StagingDirectory::with_prefix(parent, PREFIX)?;
        Ok(Self {
            // Without it, a later massgen removes the directory.
            _remover: start_remover(dir.path(), env).ok(),
            dir,
        })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &AbsPath {
        self.dir.path()
    }
}

/// Starts the process that removes `dir` when massgen has ended.
fn start_remover(dir: &AbsPath, env: &ProcessEnvironment) -> io::Result<Child> {
    let shell = AbsPath::new(SHELL).ok_or(io::ErrorKind::InvalidInput)?;
    let dir = dir.to_string();
    let arguments = ["-c", REMOVAL_SCRIPT, "massgen", dir.as_str()];
    process::start_connected(&shell, &arguments, env)
}

/// Removes the user's directories in `parent` that no process uses. What cannot be removed stays.
fn remove_abandoned(parent: &AbsPath) {
    let names = first_names(parent, NAMES_MAX).unwrap_or_default();
    for name in names.iter().filter(|name| name.starts_with(PREFIX)) {
        process_directory::remove_abandoned(&parent.join(name), has_open_socket);
    }
}

/// Returns whether a process accepts connections at a socket in `dir`: an `ssh` of a massgen that
/// holds no lock on it.
fn has_open_socket(dir: &AbsPath) -> bool {
    let names = first_names(dir, SOCKETS_MAX).unwrap_or_default();
    names.iter().any(|name| is_open(&dir.join(name)))
}

/// Returns whether a process accepts connections at `socket`. If its queue is full, one does.
fn is_open(socket: &AbsPath) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let address = SocketAddrUnix::new(socket.as_path());
    let (Ok(client), Ok(address)) = (client, address) else {
        return false;
    };
    matches!(connect(client, &address), Ok(()) | Err(Errno::AGAIN))
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "a test makes its own directories"
)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use crate::path::AbsPath;
    use crate::world::sandbox::docker::socket_directory::{
        NAMES_MAX, SocketDirectory, remove_abandoned, start_remover,
    };
    use crate::world::sys::environment::ProcessEnvironment;
    use crate::world::sys::state_files::dir::first_names;

    fn environment() -> ProcessEnvironment {
        let path = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]);
        ProcessEnvironment::inherit_listed(&path, &["PATH"])
    }

    fn names(parent: &AbsPath) -> Vec<String> {
        let mut names = first_names(parent, NAMES_MAX).unwrap();
        names.sort();
        names
    }

    #[tokio::test]
    async fn directories_of_dead_processes_are_removed_and_no_others() {
        let temporary = tempfile::tempdir().unwrap();
        let parent = AbsPath::new(temporary.path().canonicalize().unwrap()).unwrap();
        for name in ["massgen-ssh-dead", "massgen-ssh-older", "massgen-other"] {
            fs::create_dir(parent.join(name).as_path()).unwrap();
        }
        for name in ["massgen-ssh-dead/engine", "massgen-ssh-file"] {
            fs::write(parent.join(name).as_path(), "").unwrap();
        }
        let older = parent.join("massgen-ssh-older/engine");
        let listener = UnixListener::bind(older.as_path()).unwrap();
        let live = SocketDirectory::create(&parent, &environment()).unwrap();
        let second = SocketDirectory::create(&parent, &environment()).unwrap();
        let other_names = ["massgen-other", "massgen-ssh-file", "massgen-ssh-older"];
        let other_dirs = other_names.map(str::to_owned);
        let used_names = [&live, &second].map(|dir| {
            let name = dir.path().as_path().file_name().unwrap();
            name.to_str().unwrap().to_owned()
        });
        let mut expected: Vec<String> = other_dirs.iter().chain(&used_names).cloned().collect();
        expected.sort();
        assert_eq!(names(&parent), expected);
        drop([live, second]);
        assert_eq!(names(&parent), other_dirs);
        // Its socket is still there, but its process is not.
        drop(listener);
        assert!(older.as_path().exists());
        // A process that another test is starting may have inherited the socket or the lock for a
        // moment.
        for _ in 0..12_000 {
            remove_abandoned(&parent);
            if !older.as_path().exists() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(names(&parent), other_dirs[..2]);
    }

    #[tokio::test]
    async fn a_directory_is_removed_when_its_process_has_ended() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = AbsPath::new(temporary.path()).unwrap().join("sockets");
        fs::create_dir(dir.as_path()).unwrap();
        fs::write(dir.join("control").as_path(), "").unwrap();
        let mut remover = start_remover(&dir, &environment()).unwrap();
        assert!(matches!(remover.try_wait(), Ok(None)));
        // So it closes when massgen ends.
        drop(remover.stdin.take());
        assert!(remover.wait().await.unwrap().success());
        assert!(!dir.as_path().exists());
    }
}
