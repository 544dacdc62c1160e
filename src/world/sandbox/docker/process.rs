//! One command in a container, as [`CommandRun`] runs it. A command that must end is killed from
//! inside the container, because an engine does not kill it when its client disconnects.

use std::io::{self, PipeReader, pipe};
use std::time::{Duration, Instant};

use bollard::errors::Error as EngineError;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use tokio::task::JoinHandle;

use crate::world::sandbox::command_run::{CommandRun, ExecProcess, OutputPipes, ProcessBounds};
use crate::world::sandbox::docker::command::{
    ContainerCommand, ContainerExec, START_FAILURE_PREFIX, exit_status,
};
use crate::world::sandbox::docker::engine_error::is_missing;
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::running_commands::RunningCommand;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// Exit statuses of a command that never ran.
const START_FAILURE_STATUSES: [i32; 2] = [126, 127];

/// A command in a container.
pub(super) struct ContainerProcess<'c> {
    container: &'c ReplaceableContainer,
    running_command: &'c RunningCommand,
    /// The lock that keeps the container from being replaced, if the caller holds it while the
    /// command runs.
    guard: Option<&'c ContainerGuard<'c>>,
    exec_id: String,
    /// What copies the output in the background, and a handle that becomes readable at its end.
    copy_task: Option<(JoinHandle<Result<(), EngineError>>, PipeReader)>,
    was_terminated: bool,
    /// Whether nothing else runs in the container, which ends with it.
    is_alone: bool,
    exit_reason: Option<ExitReason>,
    /// Error of the engine, if one occurred.
    failure: Option<EngineError>,
}

impl<'c> ContainerProcess<'c> {
    /// Starts to copy the output of a command to the two `streams`, in the background.
    pub(super) fn follow(
        container: &'c ReplaceableContainer,
        running_command: &'c RunningCommand,
        guard: Option<&'c ContainerGuard<'c>>,
        exec: ContainerExec,
        streams: [OwnedFd; 2],
    ) -> io::Result<CommandRun<Self>> {
        let exec_id = exec.id().to_owned();
        let (end, end_signal) = pipe()?;
        let copy_task = container.engine.spawn(async move {
            let copy_result = exec.forward_output(streams).await;
            drop(end_signal);
            copy_result
        });
        Ok(CommandRun::new(Self {
            container,
            running_command,
            guard,
            exec_id,
            copy_task: Some((copy_task, end)),
            was_terminated: false,
            is_alone: false,
            exit_reason: None,
            failure: None,
        }))
    }

    /// Ends the container when it must end, because nothing else runs there.
    pub(super) fn end_with_container(&mut self) {
        self.is_alone = true;
    }

    /// Returns the engine's error if one occurred, or else `error`.
    pub(super) fn take_failure(&mut self, error: io::Error) -> EngineError {
        self.failure
            .take()
            .unwrap_or_else(|| EngineError::from(error))
    }

    /// Returns whether it was terminated.
    pub(super) fn was_terminated(&self) -> bool {
        self.was_terminated
    }

    /// Determines the exit reason after the end of the output.
    fn determine_exit_reason(&mut self) -> Result<(), EngineError> {
        if self.was_terminated {
            // Then `CommandRun` knows the reason.
            return Ok(());
        }
        let engine = &self.container.engine;
        let status = || engine.block_on(exit_status(engine, &self.exec_id));
        let exit_reason = if self.guard.is_some() {
            status()?
        } else {
            // A caller that holds the lock kills what the command has left behind; without one,
            // that happens here.
            self.container
                .end_leftovers(&self.container.lock(), &self.running_command.id)?;
            match status() {
                // The container was recreated or is closed.
                Err(error) if is_missing(&error) => ExitReason::Interrupted,
                status => status?,
            }
        };
        self.exit_reason = Some(exit_reason);
        Ok(())
    }

    /// Stores an error of the engine for [`Self::take_failure`].
    fn fail(&mut self, error: EngineError) -> io::Error {
        self.failure = Some(error);
        io::Error::other("the engine ended the connection")
    }
}

impl ExecProcess for ContainerProcess<'_> {
    /// The engine has started it already.
    const START_TIME_MAX: Duration = Duration::ZERO;
    const END_TIME_MAX: Duration = Duration::from_secs(5);
    const KILL_TIME_MAX: Duration = Duration::from_secs(5);
    /// It ends with the container.
    const ENDS_WHEN_DROPPED: bool = false;

    fn handles(&self) -> Vec<BorrowedFd<'_>> {
        let copy_task = self.copy_task.iter();
        copy_task.map(|(_, end)| end.as_fd()).collect()
    }

    fn poll(&mut self, _network: Option<&NetworkProxy>) -> io::Result<()> {
        let Some((copy_task, _)) = self.copy_task.take_if(|(task, _)| task.is_finished()) else {
            return Ok(());
        };
        let copy_result = self.container.engine.block_on(copy_task);
        let copy_result = copy_result.unwrap_or_else(|error| Err(io::Error::from(error).into()));
        copy_result
            .and_then(|()| self.determine_exit_reason())
            .map_err(|error| self.fail(error))
    }

    fn has_started(&self) -> bool {
        true
    }

    fn exit_reason(&self) -> Option<&ExitReason> {
        self.exit_reason.as_ref()
    }

    fn is_gone(&self) -> bool {
        self.copy_task.is_none()
    }

    /// Kills it in the container, with what it has left behind.
    fn terminate(&mut self) {
        self.was_terminated = true;
        if self.is_alone {
            self.container.end_all_in_time(Self::KILL_TIME_MAX);
            return;
        }
        match self.guard {
            Some(guard) => self.container.sweep(guard, &self.running_command.id),
            None => self
                .container
                .sweep(&self.container.lock(), &self.running_command.id),
        }
    }

    /// Restarts the container if the caller holds the lock. Without the lock, other commands may
    /// run there.
    fn kill(&mut self) -> io::Result<()> {
        match self.guard.map(|guard| self.container.restart(guard)) {
            Some(Err(error)) => Err(self.fail(error)),
            Some(Ok(())) => Ok(()),
            // Only the wait for its output ends.
            None => {
                self.copy_task = None;
                Ok(())
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

impl ReplaceableContainer {
    /// Runs a command to its end. If it does not end by itself, everything that it has started is
    /// killed inside the container; if that does not help, the container is restarted.
    pub(super) fn execute(
        &self,
        guard: &ContainerGuard<'_>,
        container_command: ContainerCommand,
        running_command: &RunningCommand,
        limits: CommandWaitLimits<'_>,
    ) -> Result<CommandOutput, EngineError> {
        let start_time = Instant::now();
        let exec = self.start(guard, container_command)?;
        let disks = guard.disk_watch(self);
        let (outputs, streams) = OutputPipes::open()?;
        let mut command_run =
            ContainerProcess::follow(self, running_command, Some(guard), exec, streams)?;
        let bounds = ProcessBounds {
            deadline: start_time.checked_add(limits.time_max),
            interrupt: limits.interrupt,
            disk: Some(&disks),
            network: None,
        };
        let output = command_run
            .capture(outputs, &bounds, limits.output_bytes_max, start_time)
            .map_err(|error| command_run.process_mut().take_failure(error))?;
        Ok(refuse_failed_start(output))
    }
}

/// Reports a command that the engine could not start as refused.
fn refuse_failed_start(mut output: CommandOutput) -> CommandOutput {
    let has_status = matches!(
        &output.exit_reason,
        ExitReason::Exited(code) if START_FAILURE_STATUSES.contains(code)
    );
    let is_start_failure = has_status && output.stdout.text.starts_with(START_FAILURE_PREFIX);
    if is_start_failure {
        output.exit_reason = ExitReason::Refused {
            step: "start the command in its container".to_owned(),
            reason: output.stdout.text.trim().to_owned(),
        };
    }
    output
}
