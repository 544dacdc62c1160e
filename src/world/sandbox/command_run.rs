//! Owns the wait for one command, whatever executes it: what it writes is read, what is to end it is
//! watched, and one that is beyond its bounds is ended with all that it has started.

use std::io::{self, PipeReader, Read, pipe};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::world::sandbox::disk_watch::{DiskStatus, DiskWatch};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::output::{CapturedStream, HeadAndTail};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, ExitReason};
use crate::world::sys::launch::poll::{WaitInterest, wait_ready};

/// How much of a stream is read at once, in bytes: what a pipe holds.
const READ_BYTES: usize = 64 * 1024;

/// A command as what executes it sees it. It decides nothing: [`CommandRun`] says when it is to end.
pub(in crate::world) trait ExecProcess {
    /// How long it may take until it runs.
    const START_TIME_MAX: Duration;
    /// How long it may take to be gone once it was told to end, and what it has written may take to be
    /// read after its end.
    const END_TIME_MAX: Duration;
    /// How long it may take to be gone once it was killed.
    const KILL_TIME_MAX: Duration;
    /// Whether it ends when nobody waits for it any more.
    const ENDS_WHEN_DROPPED: bool;

    /// What is readable when something has happened to it.
    fn handles(&self) -> Vec<BorrowedFd<'_>>;

    /// Takes what has happened.
    fn poll(&mut self, network: Option<&NetworkProxy>) -> io::Result<()>;

    /// Whether it runs, or did.
    fn has_started(&self) -> bool;

    /// How it ended, if it was not told to. What it has started may still be there.
    fn exit_reason(&self) -> Option<&ExitReason>;

    /// Whether nothing of it is left.
    fn is_gone(&self) -> bool;

    /// Tells it to end, with all that it has started.
    fn terminate(&mut self);

    /// Ends one that did not end when it was told to.
    fn kill(&mut self) -> io::Result<()>;

    /// What is to be said about its end besides how it ended.
    fn notes(&self) -> Vec<String>;
}

/// A command that is waited for.
#[derive(Debug)]
pub(in crate::world) struct CommandRun<P: ExecProcess> {
    process: P,
    stage: RunStage,
    /// When the disks are looked at again.
    next_look: Instant,
}

/// How far a command has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RunStage {
    /// Nothing has ended it yet.
    Going,
    /// It has ended, or was told to; there is patience until the moment.
    Ending(ExitReason, Instant),
    /// It was killed, and there is patience until the moment.
    Killed(ExitReason, Instant),
    /// Nothing of it is left.
    Ended(ExitReason),
}

/// What is to be done next about a command.
#[derive(Clone, Copy, Debug)]
enum NextAction {
    /// Its stage has changed: that is to be looked at again.
    Poll,
    /// Nothing, until something happens or the moment comes.
    Wait(Option<Instant>),
}

/// What may end a command besides itself.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::world) struct ProcessBounds<'a> {
    /// When its time is out.
    pub(in crate::world) until: Option<Instant>,
    /// What interrupts it.
    pub(in crate::world) interrupt: Option<&'a CommandInterrupt>,
    /// The disks that it must not fill.
    pub(in crate::world) disk: Option<&'a DiskWatch>,
    /// What answers at the listener of its sandbox.
    pub(in crate::world) network: Option<&'a NetworkProxy>,
}

/// What a command writes, and where it goes.
pub(in crate::world) struct ProcessOutput<'a> {
    /// `None` once all of it was read.
    pipe: Option<PipeReader>,
    room: Vec<u8>,
    taken: &'a mut dyn FnMut(&[u8]),
}

impl<'a> ProcessOutput<'a> {
    /// Gives `taken` everything that comes out of `pipe`.
    pub(in crate::world) fn new(pipe: PipeReader, taken: &'a mut dyn FnMut(&[u8])) -> Self {
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

/// The ends of two pipes at which is read what a command writes.
#[derive(Debug)]
pub(in crate::world) struct OutputPipes {
    stdout: PipeReader,
    stderr: PipeReader,
}

impl OutputPipes {
    /// Two pipes, and the ends of them that a command writes to: its standard output and error.
    pub(in crate::world) fn open() -> io::Result<(Self, [OwnedFd; 2])> {
        let (stdout, out) = pipe()?;
        let (stderr, err) = pipe()?;
        Ok((Self { stdout, stderr }, [out.into(), err.into()]))
    }
}

impl<P: ExecProcess> CommandRun<P> {
    /// A command that was started. It is not known yet whether it runs.
    pub(in crate::world) fn new(process: P) -> Self {
        Self {
            process,
            stage: RunStage::Going,
            next_look: Instant::now(),
        }
    }

    /// The command as what executes it sees it.
    pub(in crate::world) fn process_mut(&mut self) -> &mut P {
        &mut self.process
    }

    /// What is to be said about its end besides how it ended.
    pub(in crate::world) fn notes(&self) -> Vec<String> {
        self.process.notes()
    }

    /// Waits until it runs; how it ended if it never did.
    pub(in crate::world) fn wait_until_started(
        &mut self,
        network: Option<&NetworkProxy>,
    ) -> io::Result<Option<ExitReason>> {
        let bounds = ProcessBounds {
            until: Some(Instant::now() + P::START_TIME_MAX),
            network,
            ..ProcessBounds::default()
        };
        while self.stage == RunStage::Going && !self.process.has_started() {
            self.poll_once(&mut [], &bounds)?;
        }
        match &self.stage {
            RunStage::Ending(ExitReason::Refused { .. } | ExitReason::TimedOut, _) => {
                self.run_to_end(&mut [], &bounds).map(Some)
            }
            // One that is short may have ended already.
            RunStage::Going | RunStage::Ending(..) | RunStage::Killed(..) | RunStage::Ended(_) => {
                Ok(None)
            }
        }
    }

    /// Leads it to its end, which `bounds` may bring about; reads what it writes.
    pub(in crate::world) fn run_to_end(
        &mut self,
        streams: &mut [ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<ExitReason> {
        loop {
            if let RunStage::Ended(ended) = &self.stage {
                return Ok(ended.clone());
            }
            self.poll_once(streams, bounds)?;
        }
    }

    /// Leads it to its end, and keeps of each of its two outputs so many bytes. `begun` is when it was.
    pub(in crate::world) fn capture(
        &mut self,
        outputs: OutputPipes,
        bounds: &ProcessBounds<'_>,
        (bytes_max, begun): (usize, Instant),
    ) -> io::Result<CommandOutput> {
        let mut stdout = HeadAndTail::new(bytes_max);
        let mut stderr = HeadAndTail::new(bytes_max);
        let ended = self.run_to_end(
            &mut [
                ProcessOutput::new(outputs.stdout, &mut |bytes| stdout.add(bytes)),
                ProcessOutput::new(outputs.stderr, &mut |bytes| stderr.add(bytes)),
            ],
            bounds,
        )?;
        Ok(CommandOutput {
            ended,
            stdout: stdout.finish(),
            stderr: stderr.finish(),
            elapsed: begun.elapsed(),
            notes: self.notes(),
        })
    }

    /// Waits for the next thing to happen.
    fn poll_once(
        &mut self,
        streams: &mut [ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<()> {
        let until = match self.advance(streams, bounds)? {
            NextAction::Poll => return Ok(()),
            NextAction::Wait(until) => until,
        };
        let of_process = self.process.handles();
        let processes = of_process.len();
        let interrupt = bounds
            .interrupt
            .filter(|_| self.stage == RunStage::Going)
            .map(CommandInterrupt::as_fd);
        let pipes = streams.iter();
        let pipes = pipes.map(|stream| stream.pipe.as_ref().map(PipeReader::as_fd));
        let watched = of_process.into_iter().map(Some).chain([interrupt]);
        let handles: Vec<_> = watched
            .chain(pipes)
            .map(|handle| handle.map(|handle| (handle, WaitInterest::Readable)))
            .collect();
        let mut ready = wait_ready(&handles, until)?.into_iter();
        let has_news = ready
            .by_ref()
            .take(processes)
            .filter(|ready| *ready)
            .count()
            > 0;
        let is_interrupted = ready.next().unwrap_or_default();
        if has_news {
            self.process.poll(bounds.network)?;
            if let (RunStage::Going, Some(ended)) = (&self.stage, self.process.exit_reason()) {
                self.stage = RunStage::Ending(ended.clone(), Instant::now() + P::END_TIME_MAX);
            }
        }
        if is_interrupted {
            self.terminate(ExitReason::Interrupted);
        }
        for (stream, ready) in streams.iter_mut().zip(ready) {
            if ready {
                stream.read()?;
            }
        }
        Ok(())
    }

    /// Does what the moment asks for.
    fn advance(
        &mut self,
        streams: &[ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<NextAction> {
        let now = Instant::now();
        let is_silent = streams.iter().all(|stream| stream.pipe.is_none());
        let is_gone = self.process.is_gone() && is_silent;
        match &self.stage {
            RunStage::Going => return Ok(self.enforce_bounds(bounds, now)),
            RunStage::Ended(_) => {}
            RunStage::Ending(ended, _) | RunStage::Killed(ended, _) if is_gone => {
                self.stage = RunStage::Ended(ended.clone());
            }
            RunStage::Ending(_, until) | RunStage::Killed(_, until) if now < *until => {
                return Ok(NextAction::Wait(Some(*until)));
            }
            RunStage::Ending(ended, _) => {
                let ended = ended.clone();
                self.process.kill()?;
                self.stage = RunStage::Killed(ended, Instant::now() + P::KILL_TIME_MAX);
            }
            RunStage::Killed(ended, _) => self.stage = RunStage::Ended(ended.clone()),
        }
        Ok(NextAction::Poll)
    }

    /// Ends a command that is beyond its bounds.
    fn enforce_bounds(&mut self, bounds: &ProcessBounds<'_>, now: Instant) -> NextAction {
        if bounds.until.is_some_and(|until| until <= now) {
            self.terminate(ExitReason::TimedOut);
            return NextAction::Poll;
        }
        let Some(disk) = bounds.disk else {
            return NextAction::Wait(bounds.until);
        };
        if self.next_look <= now {
            match disk.check() {
                DiskStatus::Full(shortage) => {
                    self.terminate(ExitReason::DiskFull(shortage));
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

    /// Lets it end as `ended`, unless it is ending already.
    fn terminate(&mut self, ended: ExitReason) {
        if self.stage == RunStage::Going {
            self.process.terminate();
            self.stage = RunStage::Ending(ended, Instant::now() + P::END_TIME_MAX);
        }
    }
}

impl<P: ExecProcess> Drop for CommandRun<P> {
    fn drop(&mut self) {
        if !P::ENDS_WHEN_DROPPED {
            return;
        }
        self.terminate(ExitReason::Interrupted);
        if self.run_to_end(&mut [], &ProcessBounds::default()).is_err() {
            // It was tried; there is nobody to tell.
            self.process.kill().unwrap_or_default();
        }
    }
}

impl CommandOutput {
    /// That of a command that was interrupted before it was started.
    pub(in crate::world) fn interrupted(elapsed: Duration) -> Self {
        Self {
            ended: ExitReason::Interrupted,
            stdout: CapturedStream::default(),
            stderr: CapturedStream::default(),
            elapsed,
            notes: Vec::new(),
        }
    }
}
