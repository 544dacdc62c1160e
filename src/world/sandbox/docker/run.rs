//! Owns the running of commands in an agent's container: each is ended inside it when its time is
//! out, with all that it has started, and commands beside it go on.

use std::io;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use bollard::errors::Error as EngineError;
use bollard::query_parameters::StartContainerOptions;
use tokio::time::{Instant, timeout};

use crate::path::AbsPath;
use crate::world::io::clock::Stopwatch;
use crate::world::sandbox::docker::client::{command_error, is_missing};
use crate::world::sandbox::docker::command::{
    ContainerCommand, ContainerCommandId, ContainerProcess, ContainerWaitLimits, OutputChunk,
    OutputEnd, is_stopped,
};
use crate::world::sandbox::docker::container::{AgentContainer, ContainerGuard};
use crate::world::sandbox::docker::instance::REMOVED;
use crate::world::sandbox::docker::mounts::ReachablePaths;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::output::HeadAndTail;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// Longer than any run.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// What an engine writes in the place of a command's output if it cannot start it.
const NEVER_RAN: &str = "OCI runtime exec failed";
/// How long an engine may take to start a command.
const START_TIME_MAX: Duration = Duration::from_mins(1);
/// What a command that never ran ends with.
const NEVER_RAN_STATUS: [i32; 2] = [126, 127];

/// The commands that run in a container.
#[derive(Debug, Default)]
pub(super) struct RunningCommands {
    last: u64,
    running: Vec<(ContainerCommandId, Weak<()>)>,
}

/// A command that runs as long as this is there.
#[derive(Debug)]
pub(super) struct RunningCommand {
    pub(super) mark: ContainerCommandId,
    _alive: Arc<()>,
}

impl RunningCommands {
    /// Counts a command in.
    pub(super) fn begin(&mut self) -> RunningCommand {
        self.running.retain(|(_, alive)| alive.strong_count() > 0);
        self.last = self.last.saturating_add(1);
        let alive = Arc::new(());
        let mark = ContainerCommandId::new(self.last);
        self.running.push((mark.clone(), Arc::downgrade(&alive)));
        RunningCommand {
            mark,
            _alive: alive,
        }
    }

    /// The commands that run besides one.
    fn ids_except(&self, ending: &ContainerCommandId) -> Vec<ContainerCommandId> {
        let running = self.running.iter();
        let others = running.filter(|(mark, alive)| mark != ending && alive.strong_count() > 0);
        others.map(|(mark, _)| mark.clone()).collect()
    }
}

/// What is kept of what a command writes.
pub(super) struct OutputCapture {
    stdout: HeadAndTail,
    stderr: HeadAndTail,
}

impl OutputCapture {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            stdout: HeadAndTail::new(bytes_max),
            stderr: HeadAndTail::new(bytes_max),
        }
    }

    fn add(&mut self, written: &OutputChunk<'_>) {
        match written {
            OutputChunk::Out(bytes) => self.stdout.add(bytes),
            OutputChunk::Errors(bytes) => self.stderr.add(bytes),
        }
    }

    pub(super) fn finish(self, ended: ExitReason, elapsed: Duration) -> CommandOutput {
        let stdout = self.stdout.finish();
        let never_ran = matches!(&ended, ExitReason::Exited(code) if NEVER_RAN_STATUS.contains(code))
            && stdout.text.starts_with(NEVER_RAN);
        let ended = if never_ran {
            ExitReason::Refused {
                step: "start the command in its container".to_owned(),
                why: stdout.text.trim().to_owned(),
            }
        } else {
            ended
        };
        CommandOutput {
            ended,
            stdout,
            stderr: self.stderr.finish(),
            elapsed,
            notes: Vec::new(),
        }
    }
}

/// What a call is waited for with.
pub(super) struct ContainerCallLimits<'a> {
    pub(super) time_max: Duration,
    pub(super) interrupt: Option<&'a CommandInterrupt>,
}

impl AgentContainer {
    /// Runs a command of the agent's that begins in `dir`, and waits for its end. It blocks, and must
    /// not be called by part of an event loop.
    pub fn run(
        &self,
        command: &str,
        dir: &AbsPath,
        wait: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput> {
        let watch = Stopwatch::start();
        let held = self.lock();
        let failed = self.install_dependencies(&held);
        let begun = self.begin();
        let call = ContainerCommand {
            dir: Some(dir.clone()),
            ..self.base_command()
        };
        let call = call.agent_command(command, &begun.mark);
        let bounds = ContainerCallLimits {
            time_max: wait.time_max,
            interrupt: Some(wait.interrupt),
        };
        let mut kept = OutputCapture::new(wait.output_bytes_max);
        let ended = self.execute(&held, (call, &begun), &bounds, &mut kept);
        let ended = self.end_leftovers(&held, &begun.mark).and(ended);
        let ended = self.handle_result(held, ended)?;
        let mut finished = kept.finish(ended, watch.elapsed());
        if !failed.is_empty() {
            finished.stderr.text.insert_str(0, &failed);
        }
        Ok(finished)
    }

    /// Runs a command of the agent's that begins in a directory, beside others, until it ends or is
    /// interrupted, and hands on what it writes on both streams. It reaches this and no more. It
    /// blocks, and must not be called by part of an event loop.
    pub fn follow(
        &self,
        (command, dir): (&str, &AbsPath),
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
        taken: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<ExitReason> {
        let begun = self.begin();
        let call = ContainerCommand {
            dir: Some(dir.clone()),
            ..self.base_command()
        };
        let call = call.agent_command(command, &begun.mark);
        let held = self.lock_with_paths(reachable).map_err(io::Error::other)?;
        let disks = held.disk_watch(self);
        let mut running = match self.start(&held, call) {
            Ok(running) => running,
            Err(error) => return self.handle_result(held, Err(error)),
        };
        // It may go on when the container is made anew, and ends by that.
        drop(held);
        let mut listen = |patience: ContainerWaitLimits<'_>| {
            let listening = running.forward_output(&patience, |written| match written {
                OutputChunk::Out(bytes) | OutputChunk::Errors(bytes) => taken(bytes),
            });
            self.engine.block_on(listening).map_err(command_error)
        };
        let stopped = listen(ContainerWaitLimits {
            until: Instant::now() + FOREVER,
            interrupt: Some(interrupt),
            disks: Some(&disks),
        })?;
        if let Some(ended) = stopped.exit_reason() {
            self.sweep(&self.lock(), &begun.mark);
            listen(ContainerWaitLimits::for_cleanup())?;
            let left = self.end_leftovers(&self.lock(), &begun.mark);
            return left.map(|()| ended).map_err(command_error);
        }
        let left = self.end_leftovers(&self.lock(), &begun.mark);
        left.map_err(command_error)?;
        match self
            .engine
            .block_on(running.exit_status(&self.engine.client))
        {
            // The container was made anew, or is closed.
            Err(error) if is_missing(&error) => Ok(ExitReason::Interrupted),
            ended => ended.map_err(command_error),
        }
    }

    /// Ends what a command has left behind where it may write to more than the workspace, so that
    /// nothing goes on there while others look at what it did. As long as another command runs there,
    /// which somebody looks at later, only what cannot hide among its processes is ended.
    fn end_leftovers(
        &self,
        held: &ContainerGuard<'_>,
        ending: &ContainerCommandId,
    ) -> Result<(), EngineError> {
        if !held.can_write_outside(&self.workspace) {
            return Ok(());
        }
        // No command begins meanwhile.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.ids_except(ending).is_empty() {
            return self.end_all(held);
        }
        drop(live);
        self.sweep(held, ending);
        Ok(())
    }

    /// Counts a command in.
    pub(super) fn begin(&self) -> RunningCommand {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.begin()
    }

    /// Runs a call to its end. If it does not end by itself, all that it has started is ended inside
    /// the container; if that does not help, the container is started anew.
    pub(super) fn execute(
        &self,
        held: &ContainerGuard<'_>,
        (call, begun): (ContainerCommand, &RunningCommand),
        bounds: &ContainerCallLimits<'_>,
        kept: &mut OutputCapture,
    ) -> Result<ExitReason, EngineError> {
        let until = Instant::now() + bounds.time_max;
        let mut running = self.start(held, call)?;
        let disks = held.disk_watch(self);
        let mut listen = |patience: ContainerWaitLimits<'_>| {
            let listening = running.forward_output(&patience, |written| kept.add(&written));
            self.engine.block_on(listening)
        };
        let stopped = listen(ContainerWaitLimits {
            until,
            interrupt: bounds.interrupt,
            disks: Some(&disks),
        })?;
        if let Some(ended) = stopped.exit_reason() {
            self.sweep(held, &begun.mark);
            if listen(ContainerWaitLimits::for_cleanup())? != OutputEnd::EndOfStream {
                self.restart(held)?;
                listen(ContainerWaitLimits::for_cleanup())?;
            }
            return Ok(ended);
        }
        self.engine
            .block_on(running.exit_status(&self.engine.client))
    }

    /// What came of a call. If somebody has removed the container, there is another afterwards.
    fn handle_result(
        &self,
        held: ContainerGuard<'_>,
        ended: Result<ExitReason, EngineError>,
    ) -> io::Result<ExitReason> {
        match ended {
            Err(error) if is_missing(&error) && held.is_open() => {
                drop(held);
                self.recreate().map_err(io::Error::other)?;
                Err(io::Error::other(REMOVED))
            }
            ended => ended.map_err(command_error),
        }
    }

    /// Starts a call; a container that was ended from outside, or by its own memory limit, is started
    /// again first.
    pub(super) fn start(
        &self,
        held: &ContainerGuard<'_>,
        call: ContainerCommand,
    ) -> Result<ContainerProcess, EngineError> {
        let client = &self.engine.client;
        let started = async {
            match ContainerProcess::start(client, held.id(), call.clone()).await {
                Err(error) if is_stopped(&error) => {
                    let start = client
                        .api
                        .start_container(held.id(), None::<StartContainerOptions>);
                    start.await?;
                    ContainerProcess::start(client, held.id(), call).await
                }
                started => started,
            }
        };
        let started = self
            .engine
            .block_on(async { timeout(START_TIME_MAX, started).await });
        started.unwrap_or(Err(EngineError::RequestTimeoutError))
    }

    /// Ends everything in the container that belongs to no command besides the one that ends.
    pub(super) fn sweep(&self, held: &ContainerGuard<'_>, ending: &ContainerCommandId) {
        // No command begins meanwhile: it would not be known yet.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = live.ids_except(ending);
        let own = self.engine.client.container_user();
        let root = self.has_root().then_some((0, 0));
        for user in [own].into_iter().chain(root) {
            let Ok(mut sweep) = self.start(held, ContainerCommand::sweep(user, &kept)) else {
                continue;
            };
            // Whether it has helped shows in the command's own end.
            let patience = ContainerWaitLimits::for_cleanup();
            drop(
                self.engine
                    .block_on(sweep.forward_output(&patience, |_| ())),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_run_are_known_until_they_end() {
        let mut live = RunningCommands::default();
        let first = live.begin();
        let second = live.begin();
        assert_eq!(
            live.ids_except(&first.mark),
            std::slice::from_ref(&second.mark)
        );
        drop(second);
        assert_eq!(live.ids_except(&first.mark), []);
    }
}
