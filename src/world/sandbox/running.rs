//! Runs one process in a sandbox from start to end: reads its output and enforces its bounds. It
//! must never leave anything of the process behind, whatever happens.

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

/// Timeout for a sandbox helper to accept a request, and for a process to start.
const START_TIME_MAX: Duration = Duration::from_secs(20);
/// Timeout for a helper to kill everything once it is told to, and for reading the remaining output
/// after the end of a command.
const END_TIME_MAX: Duration = Duration::from_secs(3);
/// Timeout for the kernel to end a killed process.
const KILL_TIME_MAX: Duration = Duration::from_secs(1);
/// Note about a command that exceeded its memory limit.
const KILLED_FOR_MEMORY: &str = "its limit on memory was met: the kernel ended a process of it";
/// Note about a command that ended before the processes that it had started.
const OTHERS_ENDED: &str = "what it left running was ended with it: what needs a server or \
    another process has to run in the same command";

/// Size of a chunk that is read from a stream, in bytes: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// A process in a sandbox. On drop, it and everything that it started are killed.
#[derive(Debug)]
pub struct SandboxProcess {
    process: ChildProcess,
    /// `None` once the helper has closed its end.
    control: Option<HelperSocket>,
    stage: ProcessStage,
    /// Whether processes that it had started were still running when it ended.
    has_left_others: bool,
    /// Whether it and everything that it had started are gone. The sandbox helper may still exist.
    is_all_gone: bool,
    /// Time of the next disk check.
    next_look: Instant,
    /// Enforces the limits of the process; what is left in it is killed on drop.
    group: CommandCgroup,
    /// Keeps the thread alive that started the process: the kernel kills the process when it ends.
    spawner: HelperSpawner,
}

/// Stage in the life of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ProcessStage {
    /// Its sandbox is being built.
    Building,
    /// It runs.
    Started,
    /// It has ended or was told to; after this time it is killed.
    Ending(ExitReason, Instant),
    /// It was killed; after this time massgen stops waiting for it.
    Killed(ExitReason, Instant),
    /// Nothing of it is left.
    Ended(ExitReason),
}

/// Next action for a process.
#[derive(Clone, Copy, Debug)]
enum NextAction {
    /// Check it again at once, because its stage has changed.
    Poll,
    /// Wait for an event, or until this time.
    Wait(Option<Instant>),
}

/// Reasons to kill a process before it ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ProcessBounds<'a> {
    /// Its deadline.
    pub(super) until: Option<Instant>,
    /// Its interrupt.
    pub(super) interrupt: Option<&'a CommandInterrupt>,
    /// The disks that it must not fill.
    pub(super) disk: Option<&'a DiskWatch>,
    /// Proxy that serves the listener of its sandbox.
    pub(super) network: Option<&'a NetworkProxy>,
}

/// Output stream of a process and its consumer.
pub(super) struct ProcessOutput<'a> {
    /// `None` once all of it has been read.
    pipe: Option<PipeReader>,
    room: Vec<u8>,
    taken: &'a mut dyn FnMut(&[u8]),
}

impl<'a> ProcessOutput<'a> {
    /// Passes everything that is read from `pipe` to `taken`.
    pub(super) fn new(pipe: PipeReader, taken: &'a mut dyn FnMut(&[u8])) -> Self {
        Self {
            pipe: Some(pipe),
            room: vec![0; READ_BYTES],
            taken,
        }
    }

    /// Reads once. The pipe is ready, so this does not block.
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
    /// Starts a process. Whether its sandbox can be built is not known yet.
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
        // From here on the process is killed on drop if anything fails.
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

    /// Waits until the process runs; returns the reason if it never did.
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
            // A short process may have ended already.
            ProcessStage::Building
            | ProcessStage::Started
            | ProcessStage::Ending(..)
            | ProcessStage::Killed(..)
            | ProcessStage::Ended(_) => Ok(None),
        }
    }

    /// Returns how many of its processes the OOM killer killed because together they exceeded the
    /// memory limit.
    pub fn oom_kills(&self) -> u64 {
        self.group.oom_kills()
    }

    /// Returns further remarks about its end.
    pub(super) fn notes(&self) -> Vec<String> {
        let for_memory = (self.oom_kills() > 0).then_some(KILLED_FOR_MEMORY);
        let others = self.has_left_others.then_some(OTHERS_ENDED);
        let notes = for_memory.into_iter().chain(others);
        notes.map(str::to_owned).collect()
    }

    /// Runs the process to its end, reading its output and killing it if it exceeds `bounds`.
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

    /// Waits for the next event and handles it.
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

    /// Returns the interrupt while it can still have an effect.
    fn active_interrupt<'a>(&self, bounds: &ProcessBounds<'a>) -> Option<&'a CommandInterrupt> {
        let is_going = matches!(self.stage, ProcessStage::Building | ProcessStage::Started);
        bounds.interrupt.filter(|_| is_going)
    }

    /// Advances the stage if it is time to.
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

    /// Kills a process that exceeds its bounds.
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

    /// Handles the reports of the sandbox helper.
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

    /// Returns the exit reason when the helper closed the socket without reporting one.
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

    /// Begins to end the process with the reason `ended`, unless it is ending already.
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
