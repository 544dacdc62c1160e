//! Owns the one thread that has processes started which build sandboxes. The kernel kills such a
//! process when the thread ends that counts as its parent, so that thread must last as long as
//! massgen does; a thread of a pool may not.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::fd::OwnedFd;

use crate::path::AbsPath;
use crate::world::sys::launch::process::Process;
use crate::world::sys::launch::stem::Stem;

/// Starts processes. The thread ends with the last of its clones.
#[derive(Clone, Debug)]
pub(crate) struct Spawner(Sender<Order>);

/// What a new process gets.
#[derive(Debug)]
pub(crate) struct Ends {
    /// Its standard input.
    pub(crate) stdin: OwnedFd,
    /// Its standard output.
    pub(crate) stdout: OwnedFd,
    /// Its standard error.
    pub(crate) stderr: OwnedFd,
    /// By what it enters the groups that hold it to its limits, before anything else.
    pub(crate) doors: Vec<OwnedFd>,
}

#[derive(Debug)]
struct Order {
    ends: Ends,
    started: Sender<io::Result<Process>>,
}

impl Spawner {
    /// Starts the thread. `executable` is massgen itself.
    pub(crate) fn new(executable: &AbsPath) -> io::Result<Self> {
        let (orders, taken) = channel::<Order>();
        let executable = executable.clone();
        let thread = thread::Builder::new().name("spawner".to_owned());
        thread.spawn(move || {
            let mut stem = None;
            for Order { ends, started } in taken {
                let process = split_off(&mut stem, &executable, &ends);
                drop(ends);
                if let Err(unwanted) = started.send(process) {
                    abandon(unwanted.0);
                }
            }
        })?;
        Ok(Self(orders))
    }

    /// Starts a process that builds a sandbox, with an empty environment.
    pub(crate) fn start(&self, ends: Ends) -> io::Result<Process> {
        let gone = || io::Error::other("the thread that starts processes is gone");
        let (started, process) = channel();
        self.0.send(Order { ends, started }).map_err(|_| gone())?;
        process.recv().map_err(|_| gone())?
    }
}

/// A process of the stem's. A stem that is not there, or was killed by somebody, is started anew.
fn split_off(stem: &mut Option<Stem>, executable: &AbsPath, ends: &Ends) -> io::Result<Process> {
    if let Some(stem) = stem
        && let Ok(process) = stem.split_off(ends)
    {
        return Ok(process);
    }
    stem.insert(Stem::start(executable)?).split_off(ends)
}

/// Ends a process that nobody waits for.
fn abandon(process: io::Result<Process>) {
    if let Ok(mut process) = process {
        process.kill();
        process.wait().unwrap_or_default();
    }
}
