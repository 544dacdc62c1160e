//! Owns the one thread that starts processes which build sandboxes. The kernel kills such a process
//! when the thread that started it ends, so that thread must last as long as massgen does; a thread
//! of a pool may not.
//!
//! A start must not copy massgen's memory: the standard library uses `posix_spawn` as long as the
//! program is an absolute path and nothing is to be done in the child.

use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::fd::OwnedFd;

use crate::path::AbsPath;
use crate::world::sys::launch::process::Process;

/// The argument that makes massgen the process which builds a sandbox.
pub(crate) const HELPER: &str = "__sandbox";

/// Starts processes. The thread ends with the last of its clones.
#[derive(Clone, Debug)]
pub(crate) struct Spawner(Sender<Order>);

/// What a new process has instead of the standard streams of massgen.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Its standard input.
    pub(crate) stdin: OwnedFd,
    /// Its standard output.
    pub(crate) stdout: OwnedFd,
    /// Its standard error.
    pub(crate) stderr: OwnedFd,
}

#[derive(Debug)]
struct Order {
    executable: AbsPath,
    ends: Ends,
    started: Sender<io::Result<Child>>,
}

impl Spawner {
    /// Starts the thread.
    pub(crate) fn new() -> io::Result<Self> {
        let (orders, taken) = channel::<Order>();
        let thread = thread::Builder::new().name("spawner".to_owned());
        thread.spawn(move || {
            for order in taken {
                let child = start(&order.executable, order.ends);
                if let Err(unwanted) = order.started.send(child) {
                    abandon(unwanted.0);
                }
            }
        })?;
        Ok(Self(orders))
    }

    /// Starts `executable` as the process that builds a sandbox, with an empty environment.
    pub(crate) fn start(&self, executable: &AbsPath, ends: Ends) -> io::Result<Process> {
        let gone = || io::Error::other("the thread that starts processes is gone");
        let (started, child) = channel();
        let order = Order {
            executable: executable.clone(),
            ends,
            started,
        };
        self.0.send(order).map_err(|_| gone())?;
        Process::of(child.recv().map_err(|_| gone())??)
    }
}

fn start(executable: &AbsPath, ends: Ends) -> io::Result<Child> {
    Command::new(executable.as_path())
        .arg(HELPER)
        .env_clear()
        .stdin(Stdio::from(ends.stdin))
        .stdout(Stdio::from(ends.stdout))
        .stderr(Stdio::from(ends.stderr))
        .spawn()
}

/// Ends a process that nobody waits for.
fn abandon(child: io::Result<Child>) {
    if let Ok(mut child) = child {
        child.kill().unwrap_or_default();
        child.wait().map(drop).unwrap_or_default();
    }
}
