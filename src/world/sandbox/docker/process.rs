//! One command in a container, as [`CommandRun`] runs it. A command that must end is killed from
//! inside the container, because an engine does not kill it when its client disconnects.

use std::io;
use std::time::Duration;

use bollard::errors::Error as EngineError;
use rustix::fd::{BorrowedFd, OwnedFd};

use crate::world::sandbox::ExitReason;
use crate::world::sandbox::command_run::{CommandRun, ExecProcess};
use crate::world::sandbox::docker::client::is_missing;
use crate::world::sandbox::docker::command::{ContainerExec, exit_status};
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::followed_task::FollowedTask;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::running_commands::RunningCommand;

/// A command in a container.
pub(super) struct ContainerProcess<'c> {
    container: &'c ReplaceableContainer,
    running_command: &'c RunningCommand,
    /// The lock that keeps the container from being replaced, if the caller holds it while the
    /// command runs.
    guard: Option<&'c ContainerGuard<'c>>,
    exec_id: String,
    /// Copies the output in the background.
    copy_task: FollowedTask<Result<(), EngineError>>,
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
        let (copy_task, copy) = FollowedTask::new(exec.forward_output(streams))?;
        container.engine.spawn(copy);
        Ok(CommandRun::new(Self {
            container,
            running_command,
            guard,
            exec_id,
            copy_task,
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
        let status = || engine.block_on(exit_status(&engine.client, &self.exec_id));
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
        self.copy_task.handles()
    }

    fn poll(&mut self, _network: Option<&NetworkProxy>) -> io::Result<()> {
        let Some(copy_result) = self.copy_task.take_result() else {
            return Ok(());
        };
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
        self.copy_task.is_over()
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
                self.copy_task.give_up();
                Ok(())
            }
        }
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
