//! Owns one process in a sandbox from its start to its end: what it writes is read, what is to end
//! it is watched, and whatever happens, nothing of it is left.

use std::io::{self, PipeReader, Read};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::Signal;

use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::helper_protocol::HelperReport;
use crate::world::sandbox::disk_watch::{DiskStatus, DiskWatch};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{ExitReason, ProcessStreams};
use crate::world::sys::cgroup::CommandCgroup;
use crate::world::sys::launch::control::{HelperMessage, HelperSocket};
use crate::world::sys::launch::poll::{WaitInterest, wait_ready};
use crate::world::sys::launch::process::ChildProcess;
use crate::world::sys::launch::spawner::{HelperSpawner, HelperStreams, ReapableProcess};

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
pub struct SandboxProcess {
    process: ChildProcess,
    /// `None` once nothing more comes from there.
    control: Option<HelperSocket>,
    stage: ProcessStage,
    /// Whether something that it had started was left when it ended.
    has_left_others: bool,
    /// Whether all that it had started is gone, and it as well. What built its sandbox may still be there.
    is_all_gone: bool,
    /// When the disks are looked at again.
    next_look: Instant,
    /// Holds the process to its limits; what is left in it when this goes is killed.
    group: CommandCgroup,
    /// The kernel kills the process when the thread that started it ends.
    spawner: HelperSpawner,
}

/// How far a process has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProcessStage {
    /// Its sandbox is being built.
    Building,
    /// It runs.
    Started,
    /// It has ended, or was told to; there is patience until the moment.
    Ending(ExitReason, Instant),
    /// It was killed, and there is patience until the moment.
    Killed(ExitReason, Instant),
    /// Nothing of it is left.
    Ended(ExitReason),
}

/// What is to be done next about a process.
#[derive(Clone, Copy, Debug)]
enum NextAction {
    /// Its stage has changed: that is to be looked at again.
    Poll,
    /// Nothing, until something happens or the moment comes.
    Wait(Option<Instant>),
}

/// What may end a process besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessBounds<'a> {
    /// When its time is out.
    pub(super) until: Option<Instant>,
    /// What interrupts it.
    pub(super) interrupt: Option<&'a CommandInterrupt>,
    /// The disks that it must not fill.
    pub(super) disk: Option<&'a DiskWatch>,
    /// What answers at the listener of its sandbox.
    pub(super) network: Option<&'a NetworkProxy>,
}

/// What a process writes, and where it goes.
pub(super) struct ProcessOutput<'a> {
    /// `None` once all of it was read.
    pipe: Option<PipeReader>,
    room: Vec<u8>,
    taken: &'a mut dyn FnMut(&[u8]),
}

impl<'a> ProcessOutput<'a> {
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

impl SandboxProcess {
    /// Starts a process. It is not known yet whether its sandbox can be built.
    pub(super) fn start(
        spawner: &HelperSpawner,
        confinement: &SandboxPolicy,
        (streams, group): (ProcessStreams, CommandCgroup),
    ) -> io::Result<Self> {
        let (control, theirs) = HelperSocket::pair()?;
        let ends = HelperStreams {
            stdin: theirs,
            stdout: streams.stdout,
            stderr: streams.stderr,
            cgroup_handles: group.join_handles()?,
        };
        let begun = Instant::now();
        // From here on its end is seen to, whatever fails.
        let running = Self {
            process: spawner.start(ends)?,
            control: Some(control),
            stage: ProcessStage::Building,
            has_left_others: false,
            is_all_gone: false,
            next_look: begun,
            group,
            spawner: spawner.clone(),
        };
        let input = streams.stdin.as_ref().map(OwnedFd::as_fd);
        if let Some(control) = &running.control {
            control.send_request(confinement, input, begun + START_TIME_MAX)?;
        }
        Ok(running)
    }

    /// Waits until the process runs; how it ended if it never did.
    pub(super) fn wait_until_started(
        &mut self,
        network: Option<&NetworkProxy>,
    ) -> io::Result<Option<ExitReason>> {
        let bounds = ProcessBounds {
            until: Some(Instant::now() + START_TIME_MAX),
            network,
            ..ProcessBounds::default()
        };
        while self.stage == ProcessStage::Building {
            self.poll_once(&mut [], &bounds)?;
        }
        match &self.stage {
            ProcessStage::Ending(ExitReason::Refused { .. } | ExitReason::TimedOut, _) => {
                self.run_to_end(&mut [], &bounds).map(Some)
            }
            // One that is short may have ended already.
            ProcessStage::Building
            | ProcessStage::Started
            | ProcessStage::Ending(..)
            | ProcessStage::Killed(..)
            | ProcessStage::Ended(_) => Ok(None),
        }
    }

    /// How many of its processes were killed because together they took more memory than they may.
    pub fn oom_kills(&self) -> u64 {
        self.group.oom_kills()
    }

    /// What is to be said about its end besides how it ended.
    pub(super) fn notes(&self) -> Vec<String> {
        let for_memory = (self.oom_kills() > 0).then_some(KILLED_FOR_MEMORY);
        let others = self.has_left_others.then_some(OTHERS_ENDED);
        let notes = for_memory.into_iter().chain(others);
        notes.map(str::to_owned).collect()
    }

    /// Leads it to its end, which `bounds` may bring about; reads what it writes.
    pub(super) fn run_to_end(
        &mut self,
        streams: &mut [ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<ExitReason> {
        loop {
            if let ProcessStage::Ended(ended) = &self.stage {
                return Ok(ended.clone());
            }
            self.poll_once(streams, bounds)?;
        }
    }

    /// Waits for the next thing to happen.
    fn poll_once(
        &mut self,
        streams: &mut [ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<()> {
        let until = match self.advance(streams, bounds) {
            NextAction::Poll => return Ok(()),
            NextAction::Wait(until) => until,
        };
        let mut handles = vec![
            self.control
                .as_ref()
                .map(|control| wait_readable(control.as_fd())),
            (!self.process.has_ended()).then(|| wait_readable(self.process.as_fd())),
            self.active_interrupt(bounds)
                .map(|interrupt| wait_readable(interrupt.as_fd())),
        ];
        let pipes = streams.iter().map(|stream| stream.pipe.as_ref());
        handles.extend(pipes.map(|pipe| pipe.map(|pipe| wait_readable(pipe.as_fd()))));
        let ready = wait_ready(&handles, until)?;
        let mut ready = ready.into_iter();
        let control = ready.next().unwrap_or_default();
        let process = ready.next().unwrap_or_default();
        if control || process {
            self.process.poll_exit()?;
            self.receive_reports(bounds)?;
        }
        if ready.next().unwrap_or_default() {
            self.set_exit_reason(ExitReason::Interrupted);
        }
        for (stream, ready) in streams.iter_mut().zip(ready) {
            if ready {
                stream.read()?;
            }
        }
        Ok(())
    }

    /// The interrupt, as long as it can still change anything.
    fn active_interrupt<'a>(&self, bounds: &ProcessBounds<'a>) -> Option<&'a CommandInterrupt> {
        let is_going = matches!(self.stage, ProcessStage::Building | ProcessStage::Started);
        bounds.interrupt.filter(|_| is_going)
    }

    /// Does what the moment asks for.
    fn advance(&mut self, streams: &[ProcessOutput<'_>], bounds: &ProcessBounds<'_>) -> NextAction {
        let now = Instant::now();
        let is_silent = streams.iter().all(|stream| stream.pipe.is_none());
        let is_gone = (self.is_all_gone || self.process.has_ended()) && is_silent;
        match &self.stage {
            ProcessStage::Building | ProcessStage::Started => {
                return self.enforce_bounds(bounds, now);
            }
            ProcessStage::Ended(_) => {}
            ProcessStage::Ending(ended, _) | ProcessStage::Killed(ended, _) if is_gone => {
                self.stage = ProcessStage::Ended(ended.clone());
            }
            ProcessStage::Ending(_, until) | ProcessStage::Killed(_, until) if now < *until => {
                return NextAction::Wait(Some(*until));
            }
            ProcessStage::Ending(ended, _) => {
                self.process.kill();
                self.stage = ProcessStage::Killed(ended.clone(), now + KILL_TIME_MAX);
            }
            ProcessStage::Killed(ended, _) => self.stage = ProcessStage::Ended(ended.clone()),
        }
        NextAction::Poll
    }

    /// Ends a process that is beyond its bounds.
    fn enforce_bounds(&mut self, bounds: &ProcessBounds<'_>, now: Instant) -> NextAction {
        if bounds.until.is_some_and(|until| until <= now) {
            self.set_exit_reason(ExitReason::TimedOut);
            return NextAction::Poll;
        }
        let Some(disk) = bounds.disk else {
            return NextAction::Wait(bounds.until);
        };
        if self.next_look <= now {
            match disk.check() {
                DiskStatus::Full(shortage) => {
                    self.set_exit_reason(ExitReason::DiskFull(shortage));
                    return NextAction::Poll;
                }
                DiskStatus::Free(pause) => self.next_look = now + pause,
            }
        }
        let until = bounds
            .until
            .map_or(self.next_look, |until| until.min(self.next_look));
        NextAction::Wait(Some(until))
    }

    /// Takes what the process that builds the sandbox tells.
    fn receive_reports(&mut self, bounds: &ProcessBounds<'_>) -> io::Result<()> {
        while let Some(control) = &mut self.control {
            match control.receive_message()? {
                HelperMessage::NotReady => break,
                HelperMessage::ProxyListener(listener) => {
                    bounds
                        .network
                        .map_or(Ok(()), |proxy| proxy.serve(listener))?;
                }
                HelperMessage::Report(HelperReport::Started)
                    if self.stage == ProcessStage::Building =>
                {
                    self.stage = ProcessStage::Started;
                    self.spawner.prepare();
                }
                HelperMessage::Report(HelperReport::Refused { step, why }) => {
                    self.set_exit_reason(ExitReason::Refused { step, why });
                }
                HelperMessage::Report(HelperReport::LeftBehind) => {
                    self.has_left_others = self.stage == ProcessStage::Started;
                }
                HelperMessage::Report(HelperReport::Ended { code, signal }) => {
                    self.is_all_gone = true;
                    self.set_exit_reason(exit_reason(code, signal));
                }
                HelperMessage::Report(HelperReport::Listening | HelperReport::Started) => {}
                HelperMessage::Closed => {
                    self.set_exit_reason(self.exit_reason_without_report());
                    self.control = None;
                }
            }
        }
        Ok(())
    }

    /// How a process has ended of which nobody told the end.
    fn exit_reason_without_report(&self) -> ExitReason {
        match self.stage {
            ProcessStage::Building => ExitReason::Refused {
                step: "starting".to_owned(),
                why: "the process that builds the sandbox ended without a word".to_owned(),
            },
            ProcessStage::Started
            | ProcessStage::Ending(..)
            | ProcessStage::Killed(..)
            | ProcessStage::Ended(_) => ExitReason::Signalled(Signal::KILL.as_raw()),
        }
    }

    /// Lets it end as `ended`, unless it is ending already.
    fn set_exit_reason(&mut self, ended: ExitReason) {
        if matches!(self.stage, ProcessStage::Building | ProcessStage::Started) {
            self.control
                .as_ref()
                .map(HelperSocket::close)
                .unwrap_or_default();
            self.spawner.prepare();
            self.stage = ProcessStage::Ending(ended, Instant::now() + END_TIME_MAX);
        }
    }
}

fn wait_readable(handle: BorrowedFd<'_>) -> (BorrowedFd<'_>, WaitInterest) {
    (handle, WaitInterest::Readable)
}

fn exit_reason(code: Option<i32>, signal: Option<i32>) -> ExitReason {
    match (code, signal) {
        (Some(code), _) => ExitReason::Exited(code),
        (None, Some(signal)) => ExitReason::Signalled(signal),
        (None, None) => ExitReason::Signalled(Signal::KILL.as_raw()),
    }
}

impl Drop for SandboxProcess {
    fn drop(&mut self) {
        self.set_exit_reason(ExitReason::Interrupted);
        if self.run_to_end(&mut [], &ProcessBounds::default()).is_err() {
            self.process.kill();
        }
        if self.process.has_ended() {
            return;
        }
        match self.process.hand_over() {
            Ok(process) => {
                let group = std::mem::take(&mut self.group);
                self.spawner
                    .reap_later(ReapableProcess::new(process, group));
            }
            Err(_) => self.process.wait().unwrap_or_default(),
        }
    }
}
