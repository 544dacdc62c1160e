//! One command in a pod, as [`CommandRun`] runs it. Its output is read in the background; a command
//! that must end is killed from inside the pod.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::fd::{BorrowedFd, OwnedFd};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::task::AbortHandle;

use crate::world::sandbox::ExitReason;
use crate::world::sandbox::command_run::{CommandRun, ExecProcess};
use crate::world::sandbox::followed_task::FollowedTask;
use crate::world::sandbox::pod::pod_instance::{PodError, PodInstance};
use crate::world::sandbox::pod::pod_manifest::PodContainer;
use crate::world::sandbox::pod::replaceable_pod::ReplaceablePod;
use crate::world::sandbox::pod::supervised_command::SupervisedCommand;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::running_commands::RunningCommand;

/// The exit status of a command, and notes about how it ended.
type CommandEnd = (i32, Vec<String>);

/// A command in a pod.
#[derive(Debug)]
pub(super) struct PodProcess<'p> {
    pod: &'p ReplaceablePod,
    instance: Arc<PodInstance>,
    running_command: &'p RunningCommand,
    /// Reads its output.
    output_task: FollowedTask<Result<CommandEnd, PodError>>,
    /// Ends that task.
    output_task_handle: AbortHandle,
    was_terminated: bool,
    exit_reason: Option<ExitReason>,
    notes: Vec<String>,
    /// Why it cannot be followed any more, if that is so.
    error: Option<PodError>,
}

impl<'p> PodProcess<'p> {
    /// Starts a command, and copies its output to the two `streams` in the background.
    pub(super) fn follow(
        pod: &'p ReplaceablePod,
        instance: Arc<PodInstance>,
        running_command: &'p RunningCommand,
        command: SupervisedCommand,
        streams: [OwnedFd; 2],
    ) -> io::Result<CommandRun<Self>> {
        let (output_task, copy) = FollowedTask::new(copy_output(command, streams))?;
        let output_task_handle = pod.cluster.spawn(copy);
        Ok(CommandRun::new(Self {
            pod,
            instance,
            running_command,
            output_task,
            output_task_handle,
            was_terminated: false,
            exit_reason: None,
            notes: Vec::new(),
            error: None,
        }))
    }

    /// Returns the error that ended it, or else `error`.
    pub(super) fn take_error(&mut self, error: &io::Error) -> PodError {
        let pod_error = self.error.take();
        pod_error.unwrap_or_else(|| PodError::RemoteFailure(error.to_string()))
    }

    fn fail(&mut self, error: PodError) -> io::Error {
        self.error = Some(error);
        io::Error::other("the command cannot be followed any more")
    }
}

/// Copies the output of a command to the two `streams` until it ends.
async fn copy_output(
    mut command: SupervisedCommand,
    streams: [OwnedFd; 2],
) -> Result<CommandEnd, PodError> {
    let remote_failure = |error: io::Error| PodError::RemoteFailure(error.to_string());
    let [stdout, stderr] = streams;
    let mut stdout = Sender::from_owned_fd(stdout).map_err(remote_failure)?;
    let mut stderr = Sender::from_owned_fd(stderr).map_err(remote_failure)?;
    loop {
        let part = command.read().await?;
        stdout
            .write_all(&part.stdout)
            .await
            .map_err(remote_failure)?;
        stderr
            .write_all(&part.stderr)
            .await
            .map_err(remote_failure)?;
        if let Some(status) = part.status {
            return Ok((status, command.notes()));
        }
    }
}

impl ExecProcess for PodProcess<'_> {
    /// It is started while its output is read.
    const START_TIME_MAX: Duration = Duration::ZERO;
    const END_TIME_MAX: Duration = Duration::from_secs(5);
    const KILL_TIME_MAX: Duration = Duration::from_secs(5);
    /// It ends with the pod.
    const ENDS_WHEN_DROPPED: bool = false;

    fn handles(&self) -> Vec<BorrowedFd<'_>> {
        self.output_task.handles()
    }

    fn poll(&mut self, _network: Option<&NetworkProxy>) -> io::Result<()> {
        let Some(task_result) = self.output_task.take_result() else {
            return Ok(());
        };
        let (status, notes) = task_result.map_err(|error| self.fail(error))?;
        self.notes = notes;
        if !self.was_terminated {
            self.exit_reason = Some(ExitReason::Exited(status));
        }
        Ok(())
    }

    fn has_started(&self) -> bool {
        true
    }

    fn exit_reason(&self) -> Option<&ExitReason> {
        self.exit_reason.as_ref()
    }

    fn is_gone(&self) -> bool {
        self.output_task.is_over()
    }

    /// Kills it there. Its supervisor dies with it, so there is nothing more to read.
    fn terminate(&mut self) {
        self.was_terminated = true;
        self.output_task_handle.abort();
        let sweep_result = self.pod.sweep(
            &self.instance,
            PodContainer::Commands,
            Some(self.running_command),
        );
        if sweep_result.is_err() {
            self.pod.end_processes(&self.instance);
        }
        self.output_task.give_up();
    }

    /// Does nothing: all that is possible was done when it was terminated.
    fn kill(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
