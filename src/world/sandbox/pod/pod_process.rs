//! One command in a pod, as [`CommandRun`] runs it. Its output is read in the background; a command that
//! must end is killed from inside the pod.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::task::AbortHandle;

use crate::world::sandbox::ExitReason;
use crate::world::sandbox::command_run::{CommandRun, ExecProcess};
use crate::world::sandbox::pod::pod_instance::{PodFault, PodInstance};
use crate::world::sandbox::pod::pod_manifest::PodContainer;
use crate::world::sandbox::pod::replaceable_pod::{ReplaceablePod, RunningMark};
use crate::world::sandbox::pod::supervised_command::SupervisedCommand;
use crate::world::sandbox::proxy::NetworkProxy;

/// The exit status of a command, and remarks about how it ended.
type FollowedEnd = (i32, Vec<String>);

/// A command in a pod.
#[derive(Debug)]
pub(super) struct PodProcess<'p> {
    pod: &'p ReplaceablePod,
    instance: Arc<PodInstance>,
    mark: &'p RunningMark<'p>,
    /// Receives the end of the command; `has_news` becomes readable then.
    ends: Receiver<Result<FollowedEnd, PodFault>>,
    has_news: OwnedFd,
    /// The task that reads its output.
    reading: AbortHandle,
    is_silent: bool,
    was_terminated: bool,
    exit_reason: Option<ExitReason>,
    notes: Vec<String>,
    /// Why it cannot be followed any more, if that is so.
    fault: Option<PodFault>,
}

impl<'p> PodProcess<'p> {
    /// Starts a command, and copies its output to the two `streams` in the background.
    pub(super) fn follow(
        pod: &'p ReplaceablePod,
        instance: Arc<PodInstance>,
        mark: &'p RunningMark<'p>,
        command: SupervisedCommand,
        streams: [OwnedFd; 2],
    ) -> io::Result<CommandRun<Self>> {
        let has_news = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let (done, ends) = sync_channel(1);
        let signal = has_news.try_clone()?;
        let reading = pod.cluster.spawn(async move {
            let followed = copy_output(command, streams).await;
            // The receiver is gone if the command is no longer waited for.
            if done.send(followed).is_ok() {
                rustix::io::write(&signal, &1_u64.to_ne_bytes()).unwrap_or_default();
            }
        });
        Ok(CommandRun::new(Self {
            pod,
            instance,
            mark,
            ends,
            has_news,
            reading,
            is_silent: false,
            was_terminated: false,
            exit_reason: None,
            notes: Vec::new(),
            fault: None,
        }))
    }

    /// Returns the fault that ended it, or else `error`.
    pub(super) fn take_fault(&mut self, error: &io::Error) -> PodFault {
        let fault = self.fault.take();
        fault.unwrap_or_else(|| PodFault::Remote(error.to_string()))
    }

    fn fail(&mut self, fault: PodFault) -> io::Error {
        self.fault = Some(fault);
        io::Error::other("the command cannot be followed any more")
    }
}

/// Copies the output of a command to the two `streams` until it ends.
async fn copy_output(
    mut command: SupervisedCommand,
    streams: [OwnedFd; 2],
) -> Result<FollowedEnd, PodFault> {
    let failed = |error: io::Error| PodFault::Remote(error.to_string());
    let [stdout, stderr] = streams;
    let mut stdout = Sender::from_owned_fd(stdout).map_err(failed)?;
    let mut stderr = Sender::from_owned_fd(stderr).map_err(failed)?;
    loop {
        let part = command.read().await?;
        stdout.write_all(&part.stdout).await.map_err(failed)?;
        stderr.write_all(&part.stderr).await.map_err(failed)?;
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
        let waits = !self.is_silent;
        waits.then(|| self.has_news.as_fd()).into_iter().collect()
    }

    fn poll(&mut self, _network: Option<&NetworkProxy>) -> io::Result<()> {
        let Ok(followed) = self.ends.try_recv() else {
            return Ok(());
        };
        self.is_silent = true;
        let (status, notes) = followed.map_err(|fault| self.fail(fault))?;
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
        self.is_silent
    }

    /// Kills it there. Its supervisor dies with it, so there is nothing more to read.
    fn terminate(&mut self) {
        self.was_terminated = true;
        self.reading.abort();
        let swept = self
            .pod
            .sweep(&self.instance, PodContainer::Commands, Some(self.mark));
        if swept.is_err() {
            self.pod.end_processes(&self.instance);
        }
        self.is_silent = true;
    }

    /// Does nothing: all that is possible was done when it was terminated.
    fn kill(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
