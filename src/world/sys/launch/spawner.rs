//! Owns the one thread that has processes started which build sandboxes. The kernel kills such a
//! process when the thread ends that counts as its parent, so that thread must last as long as
//! massgen does; a thread of a pool may not. It also waits for the end of processes whose work is done.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::path::AbsPath;
use crate::world::sys::cgroup::Group;
use crate::world::sys::launch::process::Process;
use crate::world::sys::launch::staging::Staging;
use crate::world::sys::launch::stem::Stem;

/// How long a process may take to end whose work is done, and how often is looked whether it has.
const END_TIME_MAX: Duration = Duration::from_secs(3);
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// The most file descriptors that massgen wants to have open.
const OPEN_FILES_MAX: u64 = 65_536;

/// Starts processes. The thread ends with the last of its clones; that waits until all whose work is
/// done have ended, and their groups are gone.
#[derive(Clone, Debug)]
pub(crate) struct Spawner(Arc<Line>);

/// What is wished is said here.
#[derive(Debug)]
struct Line(Sender<Wish>);

impl Drop for Line {
    fn drop(&mut self) {
        let (buried, told) = channel();
        if self.0.send(Wish::Rest(buried)).is_ok() {
            // Without a word it has ended, and all that it knew of as well.
            told.recv().unwrap_or_default();
        }
    }
}

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

/// What the thread is asked for.
#[derive(Debug)]
enum Wish {
    /// A process with these ends.
    Start(Ends, Sender<io::Result<Process>>),
    /// That one stands by for the next start.
    Prepare,
    /// That it waits for the end of this one.
    Bury(Remains),
    /// That it says when there is none left of these.
    Rest(Sender<()>),
}

/// A process whose work is done, and the group of what it has started.
#[derive(Debug)]
pub(crate) struct Remains {
    process: Process,
    until: Instant,
    /// Removed after its end.
    _group: Group,
}

impl Remains {
    /// What is left of a command that is over.
    pub(crate) fn new(process: Process, group: Group) -> Self {
        Self {
            process,
            until: Instant::now() + END_TIME_MAX,
            _group: group,
        }
    }

    /// Whether it has not ended yet. One that takes too long is killed.
    fn is_there(&mut self) -> bool {
        let is_there = self.process.look().is_ok() && !self.process.has_ended();
        if is_there && self.until <= Instant::now() {
            self.process.end();
            return false;
        }
        is_there
    }
}

impl Spawner {
    /// Starts the thread. `executable` is massgen itself.
    pub(crate) fn new(executable: &AbsPath) -> io::Result<Self> {
        allow_open_files();
        let (wishes, taken) = channel();
        let executable = executable.clone();
        thread().spawn(move || serve(&taken, None, || Stem::start(&executable)))?;
        Ok(Self(Arc::new(Line(wishes))))
    }

    /// Starts the thread; its processes live in a staged world. That ends with the last of the
    /// clones, or with its stem, and is never made again. The handles are those of [`Stem::stage`].
    pub(crate) fn staged(executable: &AbsPath, order: Staging) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (wishes, taken) = channel();
        let (ready, made) = channel();
        let executable = executable.clone();
        thread().spawn(move || match Stem::stage(&executable, &order) {
            Ok((stem, handles)) => {
                // Nobody waits for it if massgen ends; then there are no wishes either.
                ready.send(Ok(handles)).unwrap_or_default();
                serve(&taken, Some(stem), || {
                    Err(io::Error::other("the stage is gone"))
                });
            }
            Err(error) => ready.send(Err(error)).unwrap_or_default(),
        })?;
        let handles = made.recv().map_err(|_| gone())??;
        Ok((Self(Arc::new(Line(wishes))), handles))
    }

    /// Starts a process that builds a sandbox, with an empty environment.
    pub(crate) fn start(&self, ends: Ends) -> io::Result<Process> {
        let (started, process) = channel();
        let wish = Wish::Start(ends, started);
        self.0.0.send(wish).map_err(|_| gone())?;
        process.recv().map_err(|_| gone())?
    }

    /// Has a process stand by for the next start.
    pub(crate) fn prepare(&self) {
        // Where there is no thread, nothing is started any more.
        self.0.0.send(Wish::Prepare).unwrap_or_default();
    }

    /// Waits for the end of a process, elsewhere.
    pub(crate) fn bury(&self, remains: Remains) {
        if let Err(unheard) = self.0.0.send(Wish::Bury(remains))
            && let Wish::Bury(mut remains) = unheard.0
        {
            remains.process.end();
        }
    }
}

/// Raises massgen's own limit of open files as far as it may. What starts sandboxes is handed its streams
/// over a socket, and the kernel lets no process do that while more of the user's descriptors are on
/// their way than the limit of that process allows open files: commands must not reach that number.
fn allow_open_files() {
    let held = getrlimit(Resource::Nofile);
    let wanted = held.maximum.unwrap_or(OPEN_FILES_MAX).min(OPEN_FILES_MAX);
    if held.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit {
            current: Some(wanted),
            ..held
        };
        // With the limit as it is, massgen works as long as no command does harm.
        setrlimit(Resource::Nofile, raised).unwrap_or_default();
    }
}

fn thread() -> thread::Builder {
    thread::Builder::new().name("spawner".to_owned())
}

fn gone() -> io::Error {
    io::Error::other("the thread that starts processes is gone")
}

/// Does what is wished until there can be no more wishes.
fn serve(wishes: &Receiver<Wish>, mut stem: Option<Stem>, again: impl Fn() -> io::Result<Stem>) {
    let mut dying = Vec::new();
    while let Some(wish) = next(wishes, &mut dying) {
        match wish {
            Wish::Start(ends, started) => {
                let process = split_off(&mut stem, &again, &ends);
                drop(ends);
                if let Err(unwanted) = started.send(process) {
                    abandon(unwanted.0);
                }
            }
            Wish::Prepare => {
                let prepared = stem.as_mut().map(Stem::prepare);
                // A stem that has ended is found out when a process is wanted.
                prepared.unwrap_or(Ok(())).unwrap_or_default();
            }
            Wish::Bury(remains) => dying.push(remains),
            Wish::Rest(buried) => {
                for mut remains in dying.drain(..) {
                    remains.process.end();
                }
                // Whoever wanted to know is there.
                buried.send(()).unwrap_or_default();
            }
        }
    }
}

/// The next wish; `None` if there will be none. Meanwhile is looked who has ended.
fn next(wishes: &Receiver<Wish>, dying: &mut Vec<Remains>) -> Option<Wish> {
    loop {
        dying.retain_mut(Remains::is_there);
        if dying.is_empty() {
            return wishes.recv().ok();
        }
        match wishes.recv_timeout(LOOK_PAUSE) {
            Ok(wish) => return Some(wish),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
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
        process.end();
    }
}
