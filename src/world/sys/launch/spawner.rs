//! Owns the one thread that has processes started which build sandboxes. The kernel kills such a
//! process when the thread ends that counts as its parent, so that thread must last as long as
//! massgen does; a thread of a pool may not.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::fd::OwnedFd;

use crate::path::AbsPath;
use crate::world::sys::launch::process::Process;
use crate::world::sys::launch::staging::Staging;
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
        thread().spawn(move || serve(taken, None, || Stem::start(&executable)))?;
        Ok(Self(orders))
    }

    /// Starts the thread; its processes live in a staged world. That ends with the last of the
    /// clones, or with its stem, and is never made again. The handles are those of [`Stem::stage`].
    pub(crate) fn staged(executable: &AbsPath, order: Staging) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (orders, taken) = channel::<Order>();
        let (ready, made) = channel();
        let executable = executable.clone();
        thread().spawn(move || match Stem::stage(&executable, &order) {
            Ok((stem, handles)) => {
                // Nobody waits for it if massgen ends; then there are no orders either.
                ready.send(Ok(handles)).unwrap_or_default();
                serve(taken, Some(stem), || {
                    Err(io::Error::other("the stage is gone"))
                });
            }
            Err(error) => ready.send(Err(error)).unwrap_or_default(),
        })?;
        let handles = made.recv().map_err(|_| gone())??;
        Ok((Self(orders), handles))
    }

    /// Starts a process that builds a sandbox, with an empty environment.
    pub(crate) fn start(&self, ends: Ends) -> io::Result<Process> {
        let (started, process) = channel();
        self.0.send(Order { ends, started }).map_err(|_| gone())?;
        process.recv().map_err(|_| gone())?
    }
}

fn thread() -> thread::Builder {
    thread::Builder::new().name("spawner".to_owned())
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts processes is gone")
}

/// Carries orders out until there can be no more of them.
fn serve(orders: Receiver<Order>, mut stem: Option<Stem>, again: impl Fn() -> io::Result<Stem>) {
    for Order { ends, started } in orders {
        let process = split_off(&mut stem, &again, &ends);
        drop(ends);
        if let Err(unwanted) = started.send(process) {
            abandon(unwanted.0);
        }
    }
}

/// A process of the stem's. A stem that is not there, or was killed by somebody, is started anew.
fn split_off(
    stem: &mut Option<Stem>,
    again: impl Fn() -> io::Result<Stem>,
    ends: &Ends,
) -> io::Result<Process> {
    if let Some(stem) = stem
        && let Ok(process) = stem.split_off(ends)
    {
        return Ok(process);
    }
    stem.insert(again()?).split_off(ends)
}

/// Ends a process that nobody waits for.
fn abandon(process: io::Result<Process>) {
    if let Ok(mut process) = process {
        process.kill();
        process.wait().unwrap_or_default();
    }
}
