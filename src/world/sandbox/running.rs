//! Owns one process in a sandbox from its start to its end: what it writes is read, what is to end
//! it is watched, and whatever happens, nothing of it is left.

use std::io::{self, PipeReader, Read};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Signal;

use crate::confinement::Confinement;
use crate::confinement::report::Report;
use crate::world::sandbox::disk_watch::{DiskWatch, Look};
use crate::world::sandbox::interrupt::Interrupt;
use crate::world::sandbox::proxy::Proxy;
use crate::world::sandbox::{Ended, Streams};
use crate::world::sys::cgroup::Group;
use crate::world::sys::launch::control::{Control, Heard};
use crate::world::sys::launch::process::Process;
use crate::world::sys::launch::spawner::{Ends, Remains, Spawner};
use crate::world::sys::launch::waiting::{Until, wait};

/// How long the process that builds a sandbox may take to listen.
const START_TIME_MAX: Duration = Duration::from_secs(20);
/// How long it may take to kill everything once it is told to, and what a command has written may
/// take to be read after its end.
const END_TIME_MAX: Duration = Duration::from_secs(3);
/// How long the kernel may take to end what was killed.
const KILL_TIME_MAX: Duration = Duration::from_secs(1);
/// What is said of a command for which there was not enough memory.
const KILLED_FOR_MEMORY: &str = "its limit on memory was met: the kernel ended a process of it";
/// What is said of a command that ended before what it had started.
const OTHERS_ENDED: &str = "what it left running was ended with it: what needs a server or \
    another process has to run in the same command";

/// How much of a stream is read at once, in bytes: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// A process in a sandbox. When this goes, everything that the process has started is killed.
#[derive(Debug)]
pub struct Running {
    process: Process,
    /// `None` once nothing more comes from there.
    control: Option<Control>,
    stage: Stage,
    /// Whether something that it had started was left when it ended.
    has_left_others: bool,
    /// Whether all that it had started is gone, and it as well. What built its sandbox may still be there.
    is_all_gone: bool,
    /// When the disks are looked at again.
    next_look: Instant,
    /// Holds the process to its limits; what is left in it when this goes is killed.
    group: Group,
    /// The kernel kills the process when the thread that started it ends.
    spawner: Spawner,
}

/// How far a process has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Its sandbox is being built.
    Building,
    /// It runs.
    Started,
    /// It has ended, or was told to; there is patience until the moment.
    Ending(Ended, Instant),
    /// It was killed, and there is patience until the moment.
    Killed(Ended, Instant),
    /// Nothing of it is left.
    Over(Ended),
}

/// What is to be done next about a process.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Its stage has changed: that is to be looked at again.
    Look,
    /// Nothing, until something happens or the moment comes.
    Wait(Option<Instant>),
}

/// What may end a process besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds<'a> {
    /// When its time is out.
    pub(super) until: Option<Instant>,
    /// What interrupts it.
    pub(super) interrupt: Option<&'a Interrupt>,
    /// The disks that it must not fill.
    pub(super) disk: Option<&'a DiskWatch>,
    /// What answers at the listener of its sandbox.
    pub(super) network: Option<&'a Proxy>,
}

/// What a process writes, and where it goes.
pub(super) struct Stream<'a> {
    /// `None` once all of it was read.
    pipe: Option<PipeReader>,
    room: Vec<u8>,
    taken: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Stream<'a> {
    /// Gives `taken` everything that comes out of `pipe`.
    pub(super) fn new(pipe: PipeReader, taken: &'a mut dyn FnMut(&[u8])) -> Self {
        Self {
            pipe: Some(pipe),
            room: vec![0; READ_BYTES],
            taken,
        }
    }

    /// Reads once. It is ready, so this does not wait.
    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        match pipe.read(&mut self.room)? {
            0 => self.pipe = None,
            length => (self.taken)(self.room.get(..length).unwrap_or_default()),
        }
        Ok(())
    }
}

impl Running {
    /// Starts a process. It is not known yet whether its sandbox can be built.
    pub(super) fn start(
        spawner: &Spawner,
        confinement: &Confinement,
        (streams, group): (Streams, Group),
    ) -> io::Result<Self> {
        let (control, theirs) = Control::pair()?;
        let ends = Ends {
            stdin: theirs,
            stdout: streams.stdout,
            stderr: streams.stderr,
            doors: group.doors()?,
        };
        let begun = Instant::now();
        // From here on its end is seen to, whatever fails.
        let running = Self {
            process: spawner.start(ends)?,
            control: Some(control),
            stage: Stage::Building,
            has_left_others: false,
            is_all_gone: false,
            next_look: begun,
            group,
            spawner: spawner.clone(),
        };
        let input = streams.stdin.as_ref().map(OwnedFd::as_fd);
        if let Some(control) = &running.control {
            control.order(confinement, input, begun + START_TIME_MAX)?;
        }
        Ok(running)
    }

    /// Waits until the process runs; how it ended if it never did.
    pub(super) fn begin(&mut self, network: Option<&Proxy>) -> io::Result<Option<Ended>> {
        let bounds = Bounds {
            until: Some(Instant::now() + START_TIME_MAX),
            network,
            ..Bounds::default()
        };
        while self.stage == Stage::Building {
            self.step(&mut [], &bounds)?;
        }
        match &self.stage {
            Stage::Ending(Ended::Refused { .. } | Ended::OutOfTime, _) => {
                self.conduct(&mut [], &bounds).map(Some)
            }
            // One that is short may have ended already.
            Stage::Building
            | Stage::Started
            | Stage::Ending(..)
            | Stage::Killed(..)
            | Stage::Over(_) => Ok(None),
        }
    }

    /// How many of its processes were killed because together they took more memory than they may.
    pub fn killed_for_memory(&self) -> u64 {
        self.group.killed_for_memory()
    }

    /// What is to be said about its end besides how it ended.
    pub(super) fn notes(&self) -> Vec<String> {
        let for_memory = (self.killed_for_memory() > 0).then_some(KILLED_FOR_MEMORY);
        let others = self.has_left_others.then_some(OTHERS_ENDED);
        let notes = for_memory.into_iter().chain(others);
        notes.map(str::to_owned).collect()
    }

    /// Leads it to its end, which `bounds` may bring about; reads what it writes.
    pub(super) fn conduct(
        &mut self,
        streams: &mut [Stream<'_>],
        bounds: &Bounds<'_>,
    ) -> io::Result<Ended> {
        loop {
            if let Stage::Over(ended) = &self.stage {
                return Ok(ended.clone());
            }
            self.step(streams, bounds)?;
        }
    }

    /// Waits for the next thing to happen.
    fn step(&mut self, streams: &mut [Stream<'_>], bounds: &Bounds<'_>) -> io::Result<()> {
        let until = match self.turn(streams, bounds) {
            Next::Look => return Ok(()),
            Next::Wait(until) => until,
        };
        let mut handles = vec![
            self.control
                .as_ref()
                .map(|control| readable(control.as_fd())),
            (!self.process.has_ended()).then(|| readable(self.process.as_fd())),
            self.watched(bounds)
                .map(|interrupt| readable(interrupt.as_fd())),
        ];
        let pipes = streams.iter().map(|stream| stream.pipe.as_ref());
        handles.extend(pipes.map(|pipe| pipe.map(|pipe| readable(pipe.as_fd()))));
        let ready = wait(&handles, until)?;
        let mut ready = ready.into_iter();
        let control = ready.next().unwrap_or_default();
        let process = ready.next().unwrap_or_default();
        if control || process {
            self.process.look()?;
            self.hear(bounds)?;
        }
        if ready.next().unwrap_or_default() {
            self.end(Ended::Interrupted);
        }
        for (stream, ready) in streams.iter_mut().zip(ready) {
            if ready {
                stream.read()?;
            }
        }
        Ok(())
    }

    /// The interrupt, as long as it can still change anything.
    fn watched<'a>(&self, bounds: &Bounds<'a>) -> Option<&'a Interrupt> {
        let is_going = matches!(self.stage, Stage::Building | Stage::Started);
        bounds.interrupt.filter(|_| is_going)
    }

    /// Does what the moment asks for.
    fn turn(&mut self, streams: &[Stream<'_>], bounds: &Bounds<'_>) -> Next {
        let now = Instant::now();
        let is_silent = streams.iter().all(|stream| stream.pipe.is_none());
        let is_gone = (self.is_all_gone || self.process.has_ended()) && is_silent;
        match &self.stage {
            Stage::Building | Stage::Started => return self.judge(bounds, now),
            Stage::Over(_) => {}
            Stage::Ending(ended, _) | Stage::Killed(ended, _) if is_gone => {
                self.stage = Stage::Over(ended.clone());
            }
            Stage::Ending(_, until) | Stage::Killed(_, until) if now < *until => {
                return Next::Wait(Some(*until));
            }
            Stage::Ending(ended, _) => {
                self.process.kill();
                self.stage = Stage::Killed(ended.clone(), now + KILL_TIME_MAX);
            }
            Stage::Killed(ended, _) => self.stage = Stage::Over(ended.clone()),
        }
        Next::Look
    }

    /// Ends a process that is beyond its bounds.
    fn judge(&mut self, bounds: &Bounds<'_>, now: Instant) -> Next {
        if bounds.until.is_some_and(|until| until <= now) {
            self.end(Ended::OutOfTime);
            return Next::Look;
        }
        let Some(disk) = bounds.disk else {
            return Next::Wait(bounds.until);
        };
        if self.next_look <= now {
            match disk.look() {
                Look::Full(shortage) => {
                    self.end(Ended::DiskFull(shortage));
                    return Next::Look;
                }
                Look::Free(pause) => self.next_look = now + pause,
            }
        }
        let until = bounds
            .until
            .map_or(self.next_look, |until| until.min(self.next_look));
        Next::Wait(Some(until))
    }

    /// Takes what the process that builds the sandbox tells.
    fn hear(&mut self, bounds: &Bounds<'_>) -> io::Result<()> {
        while let Some(control) = &mut self.control {
            match control.hear()? {
                Heard::Nothing => break,
                Heard::Listening(listener) => {
                    bounds
                        .network
                        .map_or(Ok(()), |proxy| proxy.serve(listener))?;
                }
                Heard::Told(Report::Started) if self.stage == Stage::Building => {
                    self.stage = Stage::Started;
                    self.spawner.prepare();
                }
                Heard::Told(Report::Refused { step, why }) => {
                    self.end(Ended::Refused { step, why });
                }
                Heard::Told(Report::LeftBehind) => {
                    self.has_left_others = self.stage == Stage::Started;
                }
                Heard::Told(Report::Ended { code, signal }) => {
                    self.is_all_gone = true;
                    self.end(ended(code, signal));
                }
                Heard::Told(Report::Listening | Report::Started) => {}
                Heard::End => {
                    self.end(self.lost());
                    self.control = None;
                }
            }
        }
        Ok(())
    }

    /// How a process has ended of which nobody told the end.
    fn lost(&self) -> Ended {
        match self.stage {
            Stage::Building => Ended::Refused {
                step: "starting".to_owned(),
                why: "the process that builds the sandbox ended without a word".to_owned(),
            },
            Stage::Started | Stage::Ending(..) | Stage::Killed(..) | Stage::Over(_) => {
                Ended::Signalled(Signal::KILL.as_raw())
            }
        }
    }

    /// Lets it end as `ended`, unless it is ending already.
    fn end(&mut self, ended: Ended) {
        if matches!(self.stage, Stage::Building | Stage::Started) {
            self.control
                .as_ref()
                .map(Control::close)
                .unwrap_or_default();
            self.spawner.prepare();
            self.stage = Stage::Ending(ended, Instant::now() + END_TIME_MAX);
        }
    }
}

fn readable(handle: BorrowedFd<'_>) -> (BorrowedFd<'_>, Until) {
    (handle, Until::Readable)
}

fn ended(code: Option<i32>, signal: Option<i32>) -> Ended {
    match (code, signal) {
        (Some(code), _) => Ended::Exited(code),
        (None, Some(signal)) => Ended::Signalled(signal),
        (None, None) => Ended::Signalled(Signal::KILL.as_raw()),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(Ended::Interrupted);
        if self.conduct(&mut [], &Bounds::default()).is_err() {
            self.process.kill();
        }
        if self.process.has_ended() {
            return;
        }
        match self.process.hand_over() {
            Ok(process) => {
                let group = std::mem::take(&mut self.group);
                self.spawner.bury(Remains::new(process, group));
            }
            Err(_) => self.process.wait().unwrap_or_default(),
        }
    }
}
