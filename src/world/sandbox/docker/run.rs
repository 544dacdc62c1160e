//! Runs commands in an agent's container: a command that reaches its timeout is killed inside it,
//! with everything that it has started, while other commands continue.

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
/// Beginning of the output when an engine cannot start a command.
const NEVER_RAN: &str = "OCI runtime exec failed";
/// Timeout for an engine to start a command.
const START_TIME_MAX: Duration = Duration::from_mins(1);
/// Exit statuses of a command that never ran.
const NEVER_RAN_STATUS: [i32; 2] = [126, 127];

/// The commands that are running in a container.
#[derive(Debug, Default)]
pub(super) struct RunningCommands {
    last: u64,
    running: Vec<(ContainerCommandId, Weak<()>)>,
}

/// A command that counts as running until this is dropped.
#[derive(Debug)]
pub(super) struct RunningCommand {
    pub(super) mark: ContainerCommandId,
    _alive: Arc<()>,
}

impl RunningCommands {
    /// Registers a command.
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

    /// Returns the running commands except one.
    fn ids_except(&self, ending: &ContainerCommandId) -> Vec<ContainerCommandId> {
        let running = self.running.iter();
        let others = running.filter(|(mark, alive)| mark != ending && alive.strong_count() > 0);
        others.map(|(mark, _)| mark.clone()).collect()
    }
}

/// Captured output of a command.
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

/// Limits of a call.
pub(super) struct ContainerCallLimits<'a> {
    pub(super) time_max: Duration,
    pub(super) interrupt: Option<&'a CommandInterrupt>,
}

impl AgentContainer {
    /// Runs an agent's command in the directory `dir` and waits for its end. Blocks, and must not
    /// be called from an event loop.
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

    /// Runs an agent's command in a directory, alongside others, until it ends or is interrupted,
    /// and passes its output on both streams to `taken`. It has access to `reachable` only. Blocks,
    /// and must not be called from an event loop.
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
        // The container may be recreated from now on, which ends the command.
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
            // The container was recreated or closed.
            Err(error) if is_missing(&error) => Ok(ExitReason::Interrupted),
            ended => ended.map_err(command_error),
        }
    }

    /// Kills what a command has left behind if it can write outside the workspace, so that nothing
    /// changes there while its effects are inspected. If another command is still running there,
    /// whose effects are inspected later, processes that can pass as that command's are spared.
    fn end_leftovers(
        &self,
        held: &ContainerGuard<'_>,
        ending: &ContainerCommandId,
    ) -> Result<(), EngineError> {
        if !held.can_write_outside(&self.workspace) {
            return Ok(());
        }
        // Prevents new commands from starting meanwhile.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.ids_except(ending).is_empty() {
            return self.end_all(held);
        }
        drop(live);
        self.sweep(held, ending);
        Ok(())
    }

    /// Registers a command.
    pub(super) fn begin(&self) -> RunningCommand {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        live.begin()
    }

    /// Runs a call to its end. If it does not end by itself, everything that it has started is
    /// killed inside the container; if that does not help, the container is restarted.
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

    /// Converts the result of a call. If the container was removed from outside, it is recreated.
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

    /// Starts a call. A container that was stopped from outside, or by its own memory limit, is
    /// started again first.
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

    /// Kills everything in the container that belongs to no running command other than `ending`.
    pub(super) fn sweep(&self, held: &ContainerGuard<'_>, ending: &ContainerCommandId) {
        // Prevents new commands from starting meanwhile: they would not be known yet.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = live.ids_except(ending);
        let own = self.engine.client.container_user();
        let root = self.has_root().then_some((0, 0));
        for user in [own].into_iter().chain(root) {
            let Ok(mut sweep) = self.start(held, ContainerCommand::sweep(user, &kept)) else {
                continue;
            };
            // Whether it helped shows when the command ends.
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
