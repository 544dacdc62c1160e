//! Runs one command to its end, in any backend: reads its output, watches its limits, and ends it
//! and all its descendants when it exceeds them.

use std::io::{self, PipeReader, Read, pipe};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::world::sandbox::disk_watch::{DiskStatus, DiskWatch};
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::output::{CapturedStream, HeadAndTail};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{CommandOutput, ExitReason};
use crate::world::sys::launch::poll::{WaitInterest, wait_ready};

/// Size of a chunk that is read from a stream, in bytes: the capacity of a pipe.
const READ_BYTES: usize = 64 * 1024;

/// A command in one backend. It decides nothing: [`CommandRun`] determines when it must end.
pub(in crate::world) trait ExecProcess {
    /// Timeout for the start.
    const START_TIME_MAX: Duration;
    /// Timeout for the command to be gone once it is terminated, and for reading the remaining
    /// output after its end.
    const END_TIME_MAX: Duration;
    /// Timeout for the command to be gone once it is killed.
    const KILL_TIME_MAX: Duration;
    /// Whether it is ended on drop.
    const ENDS_WHEN_DROPPED: bool;

    /// Returns the handles that become readable when its state may have changed.
    fn handles(&self) -> Vec<BorrowedFd<'_>>;

    /// Updates its state.
    fn poll(&mut self, network: Option<&NetworkProxy>) -> io::Result<()>;

    /// Returns whether it runs or did.
    fn has_started(&self) -> bool;

    /// Returns the exit reason, unless it was terminated. Its descendants may still exist.
    fn exit_reason(&self) -> Option<&ExitReason>;

    /// Returns whether nothing of it is left.
    fn is_gone(&self) -> bool;

    /// Terminates it and all its descendants.
    fn terminate(&mut self);

    /// Kills it, because it did not end when it was terminated.
    fn kill(&mut self) -> io::Result<()>;

    /// Returns notes about its end.
    fn notes(&self) -> Vec<String>;
}

/// The run of a command, from its start to its end.
#[derive(Debug)]
pub(in crate::world) struct CommandRun<P: ExecProcess> {
    process: P,
    stage: RunStage,
    /// Time of the next disk check.
    next_disk_check: Instant,
}

/// Stage of the run of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RunStage {
    /// It is starting or running.
    Active,
    /// It has ended or was terminated; after this time it is killed.
    Ending(ExitReason, Instant),
    /// It was killed; after this time massgen stops waiting for it.
    Killed(ExitReason, Instant),
    /// Nothing of it is left.
    Ended(ExitReason),
}

/// Next action for a command.
#[derive(Clone, Copy, Debug)]
enum NextAction {
    /// Check it again immediately, because its stage has changed.
    Poll,
    /// Wait for an event, or until this time.
    Wait(Option<Instant>),
}

/// Reasons to end a command before it ends by itself.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::world) struct ProcessBounds<'a> {
    pub(in crate::world) deadline: Option<Instant>,
    pub(in crate::world) interrupt: Option<&'a CommandInterrupt>,
    /// The disks that it must not fill.
    pub(in crate::world) disk: Option<&'a DiskWatch>,
    /// Proxy that serves the listener of its sandbox.
    pub(in crate::world) network: Option<&'a NetworkProxy>,
}

/// Output stream of a command and its consumer.
pub(in crate::world) struct ProcessOutput<'a> {
    /// `None` once all of it has been read.
    pipe: Option<PipeReader>,
    buffer: Vec<u8>,
    on_output: &'a mut dyn FnMut(&[u8]),
}

impl<'a> ProcessOutput<'a> {
    /// Passes everything that is read from `pipe` to `on_output`.
    pub(in crate::world) fn new(pipe: PipeReader, on_output: &'a mut dyn FnMut(&[u8])) -> Self {
        Self {
            pipe: Some(pipe),
            buffer: vec![0; READ_BYTES],
            on_output,
        }
    }

    /// Reads what is in the pipe already: one chunk is as large as the pipe.
    fn read_available(&mut self) -> io::Result<()> {
        let handle = self
            .pipe
            .as_ref()
            .map(PipeReader::as_fd)
            .map(|pipe| (pipe, WaitInterest::Readable));
        if wait_ready(&[handle], Some(Instant::now()))?.contains(&true) {
            self.read()?;
        }
        Ok(())
    }

    /// Reads once. The pipe is ready, so this does not block.
    fn read(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else {
            return Ok(());
        };
        match pipe.read(&mut self.buffer)? {
            0 => self.pipe = None,
            length => (self.on_output)(self.buffer.get(..length).unwrap_or_default()),
        }
        Ok(())
    }
}

/// Read ends of the pipes of a command's standard output and error.
#[derive(Debug)]
pub(in crate::world) struct OutputPipes {
    stdout: PipeReader,
    stderr: PipeReader,
}

impl OutputPipes {
    /// Opens the pipes and returns their write ends: standard output and standard error.
    pub(in crate::world) fn open() -> io::Result<(Self, [OwnedFd; 2])> {
        let (stdout, stdout_end) = pipe()?;
        let (stderr, stderr_end) = pipe()?;
        Ok((
            Self { stdout, stderr },
            [stdout_end.into(), stderr_end.into()],
        ))
    }
}

impl<P: ExecProcess> CommandRun<P> {
    /// Wraps a command that was started. Whether it runs is not known yet.
    pub(in crate::world) fn new(process: P) -> Self {
        Self {
            process,
            stage: RunStage::Active,
            next_disk_check: Instant::now(),
        }
    }

    /// Returns the command in its backend.
    pub(in crate::world) fn process_mut(&mut self) -> &mut P {
        &mut self.process
    }

    /// Returns notes about its end.
    pub(in crate::world) fn notes(&self) -> Vec<String> {
        self.process.notes()
    }

    /// Waits until the command runs; returns the reason if it never did.
    pub(in crate::world) fn wait_until_started(
        &mut self,
        network: Option<&NetworkProxy>,
    ) -> io::Result<Option<ExitReason>> {
        let bounds = ProcessBounds {
            deadline: Some(Instant::now() + P::START_TIME_MAX),
            network,
            ..ProcessBounds::default()
        };
        while self.stage == RunStage::Active && !self.process.has_started() {
            self.poll_once(&mut [], &bounds)?;
        }
        match &self.stage {
            RunStage::Ending(ExitReason::Refused { .. } | ExitReason::TimedOut, _) => {
                self.run_to_end(&mut [], &bounds).map(Some)
            }
            // A short command may have ended already.
            RunStage::Active | RunStage::Ending(..) | RunStage::Killed(..) | RunStage::Ended(_) => {
                Ok(None)
            }
        }
    }

    /// Runs the command to its end, reading its output and ending it if it exceeds `bounds`.
    pub(in crate::world) fn run_to_end(
        &mut self,
        streams: &mut [ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<ExitReason> {
        loop {
            if let RunStage::Ended(exit_reason) = &self.stage {
                return Ok(exit_reason.clone());
            }
            self.poll_once(streams, bounds)?;
        }
    }

    /// Runs the command, which was started at `start_time`, to its end. Keeps at most `bytes_max`
    /// bytes of each output stream.
    pub(in crate::world) fn capture(
        &mut self,
        outputs: OutputPipes,
        bounds: &ProcessBounds<'_>,
        bytes_max: usize,
        start_time: Instant,
    ) -> io::Result<CommandOutput> {
        let mut stdout = HeadAndTail::new(bytes_max);
        let mut stderr = HeadAndTail::new(bytes_max);
        let exit_reason = self.run_to_end(
            &mut [
                ProcessOutput::new(outputs.stdout, &mut |bytes| stdout.add(bytes)),
                ProcessOutput::new(outputs.stderr, &mut |bytes| stderr.add(bytes)),
            ],
            bounds,
        )?;
        Ok(CommandOutput {
            exit_reason,
            stdout: stdout.finish(),
            stderr: stderr.finish(),
            elapsed: start_time.elapsed(),
            notes: self.notes(),
        })
    }

    /// Waits for the next event and handles it.
    fn poll_once(
        &mut self,
        streams: &mut [ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<()> {
        let until = match self.advance(streams, bounds)? {
            NextAction::Poll => return Ok(()),
            NextAction::Wait(until) => until,
        };
        let process_handles = self.process.handles();
        let process_handle_count = process_handles.len();
        let interrupt = bounds
            .interrupt
            .filter(|_| self.stage == RunStage::Active)
            .map(CommandInterrupt::as_fd);
        let pipes = streams
            .iter()
            .map(|stream| stream.pipe.as_ref().map(PipeReader::as_fd));
        let awaited_handles = process_handles.into_iter().map(Some).chain([interrupt]);
        let handles: Vec<_> = awaited_handles
            .chain(pipes)
            .map(|handle| handle.map(|handle| (handle, WaitInterest::Readable)))
            .collect();
        let mut ready = wait_ready(&handles, until)?.into_iter();
        // `count` takes all of them from `ready`; `any` would stop at the first.
        let has_changed = ready
            .by_ref()
            .take(process_handle_count)
            .filter(|ready| *ready)
            .count()
            > 0;
        let is_interrupted = ready.next().unwrap_or_default();
        if has_changed {
            self.update_process(bounds.network)?;
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

    /// Updates the state of the process, if it may have changed.
    fn update_process(&mut self, network: Option<&NetworkProxy>) -> io::Result<()> {
        self.process.poll(network)?;
        if let (RunStage::Active, Some(exit_reason)) = (&self.stage, self.process.exit_reason()) {
            self.stage = RunStage::Ending(exit_reason.clone(), Instant::now() + P::END_TIME_MAX);
        }
        Ok(())
    }

    /// Advances the stage when its time is over. What has happened until then is handled first:
    /// this thread may not have run meanwhile.
    fn advance(
        &mut self,
        streams: &mut [ProcessOutput<'_>],
        bounds: &ProcessBounds<'_>,
    ) -> io::Result<NextAction> {
        let now = Instant::now();
        let is_output_read = streams.iter().all(|stream| stream.pipe.is_none());
        let is_over = self.process.is_gone() && is_output_read;
        match &self.stage {
            RunStage::Active => return self.enforce_bounds(bounds, now),
            RunStage::Ended(_) => {}
            RunStage::Ending(exit_reason, _) | RunStage::Killed(exit_reason, _) if is_over => {
                self.stage = RunStage::Ended(exit_reason.clone());
            }
            RunStage::Ending(_, until) | RunStage::Killed(_, until) if now < *until => {
                return Ok(NextAction::Wait(Some(*until)));
            }
            RunStage::Ending(exit_reason, _) | RunStage::Killed(exit_reason, _) => {
                let exit_reason = exit_reason.clone();
                let was_killed = matches!(self.stage, RunStage::Killed(..));
                self.update_process(bounds.network)?;
                if was_killed || self.process.is_gone() {
                    for stream in streams {
                        stream.read_available()?;
                    }
                    self.stage = RunStage::Ended(exit_reason);
                } else {
                    self.process.kill()?;
                    self.stage = RunStage::Killed(exit_reason, Instant::now() + P::KILL_TIME_MAX);
                }
            }
        }
        Ok(NextAction::Poll)
    }

    /// Ends a command that exceeds its bounds.
    fn enforce_bounds(
        &mut self,
        bounds: &ProcessBounds<'_>,
        now: Instant,
    ) -> io::Result<NextAction> {
        if bounds.deadline.is_some_and(|deadline| deadline <= now) {
            let had_started = self.process.has_started();
            self.update_process(bounds.network)?;
            // A command that started just before its time for the start was over keeps running.
            if had_started || !self.process.has_started() {
                self.terminate(ExitReason::TimedOut);
            }
            return Ok(NextAction::Poll);
        }
        let Some(disk) = bounds.disk else {
            return Ok(NextAction::Wait(bounds.deadline));
        };
        if self.next_disk_check <= now {
            match disk.check() {
                DiskStatus::Full(shortage) => {
                    self.terminate(ExitReason::DiskFull(shortage));
                    return Ok(NextAction::Poll);
                }
                DiskStatus::Free(pause) => self.next_disk_check = now + pause,
            }
        }
        let next_check = bounds.deadline.map_or(self.next_disk_check, |deadline| {
            deadline.min(self.next_disk_check)
        });
        Ok(NextAction::Wait(Some(next_check)))
    }

    /// Begins to end the command with the reason `exit_reason`, unless it is ending already.
    fn terminate(&mut self, exit_reason: ExitReason) {
        if self.stage == RunStage::Active {
            self.process.terminate();
            self.stage = RunStage::Ending(exit_reason, Instant::now() + P::END_TIME_MAX);
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
            // No caller is left that could handle an error.
            self.process.kill().unwrap_or_default();
        }
    }
}

impl CommandOutput {
    /// Returns the output of a command that was interrupted before it was started.
    pub(in crate::world) fn from_interrupt(elapsed: Duration) -> Self {
        Self {
            exit_reason: ExitReason::Interrupted,
            stdout: CapturedStream::default(),
            stderr: CapturedStream::default(),
            elapsed,
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// A process that must do everything in no time. Its start, and its exit, if any, are noticed
    /// when it is polled.
    #[derive(Default)]
    struct LateProcess {
        exits: bool,
        has_started: bool,
        exit_reason: Option<ExitReason>,
    }

    impl ExecProcess for LateProcess {
        const START_TIME_MAX: Duration = Duration::ZERO;
        const END_TIME_MAX: Duration = Duration::ZERO;
        const KILL_TIME_MAX: Duration = Duration::ZERO;
        const ENDS_WHEN_DROPPED: bool = false;

        fn handles(&self) -> Vec<BorrowedFd<'_>> {
            Vec::new()
        }

        fn poll(&mut self, _network: Option<&NetworkProxy>) -> io::Result<()> {
            self.has_started = true;
            self.exit_reason = self.exits.then_some(ExitReason::Exited(0));
            Ok(())
        }

        fn has_started(&self) -> bool {
            self.has_started
        }

        fn exit_reason(&self) -> Option<&ExitReason> {
            self.exit_reason.as_ref()
        }

        fn is_gone(&self) -> bool {
            self.exit_reason.is_some()
        }

        fn terminate(&mut self) {}

        fn kill(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn notes(&self) -> Vec<String> {
            Vec::new()
        }
    }

    #[test]
    fn an_exit_before_the_timeout_counts_even_if_noticed_later() {
        for (exits, expected) in [(true, ExitReason::Exited(0)), (false, ExitReason::TimedOut)] {
            let (output, mut writer) = pipe().unwrap();
            writer.write_all(b"all of it").unwrap();
            let mut bytes_read = Vec::new();
            let mut on_output = |bytes: &[u8]| bytes_read.extend_from_slice(bytes);
            let bounds = ProcessBounds {
                deadline: Some(Instant::now()),
                ..ProcessBounds::default()
            };
            let process = LateProcess {
                exits,
                ..LateProcess::default()
            };
            let mut command_run = CommandRun::new(process);
            assert_eq!(command_run.wait_until_started(None).unwrap(), None);
            let exit_reason = command_run
                .run_to_end(&mut [ProcessOutput::new(output, &mut on_output)], &bounds)
                .unwrap();
            assert_eq!(exit_reason, expected);
            assert_eq!(bytes_read, b"all of it");
        }
    }
}
