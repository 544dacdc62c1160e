//! Runs commands in an agent's container: a command that reaches its timeout is killed inside it,
//! with everything that it has started, while other commands continue.

use std::io::{self, pipe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

use bollard::errors::Error as EngineError;
use bollard::query_parameters::StartContainerOptions;
use tokio::time::timeout;

use crate::path::AbsPath;
use crate::world::sandbox::command_run::{OutputPipes, ProcessBounds, ProcessOutput};
use crate::world::sandbox::docker::client::{ContainerUser, command_error, is_missing};
use crate::world::sandbox::docker::command::{
    ContainerCommand, ContainerCommandId, ContainerExec, exit_status, is_stopped,
};
use crate::world::sandbox::docker::container::{AgentContainer, ContainerGuard};
use crate::world::sandbox::docker::instance::REMOVED;
use crate::world::sandbox::docker::mounts::ReachablePaths;
use crate::world::sandbox::docker::process::ContainerProcess;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// Timeout for killing what a command left behind.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(5);
/// What an engine writes in the place of a command's output if it cannot start it.
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

    /// Returns the running commands.
    fn ids(&self) -> Vec<ContainerCommandId> {
        let running = self.running.iter();
        let running = running.filter(|(_, alive)| alive.strong_count() > 0);
        running.map(|(mark, _)| mark.clone()).collect()
    }

    /// Returns the running commands except one.
    fn ids_except(&self, ending: &ContainerCommandId) -> Vec<ContainerCommandId> {
        let mut others = self.ids();
        others.retain(|mark| mark != ending);
        others
    }
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
        let watch = Instant::now();
        let guard = self.lock();
        let failed = self.install_dependencies(&guard);
        let running_command = self.begin();
        let call = ContainerCommand {
            dir: Some(dir.clone()),
            ..self.base_command()
        };
        let call = call.agent_command(command, &running_command.mark);
        let finished = self.execute(&guard, call, &running_command, wait);
        let ended = self.end_leftovers(&guard, &running_command.mark);
        let finished = self.handle_result(guard, ended.and(finished))?;
        let mut finished = CommandOutput {
            elapsed: watch.elapsed(),
            ..finished
        };
        if !failed.is_empty() {
            finished.stderr.text.insert_str(0, &failed);
        }
        Ok(finished)
    }

    /// Runs an agent's command in a directory, alongside others, until it ends or is interrupted,
    /// and passes its output on both streams to `on_output`. It has access to `reachable` only. Blocks,
    /// and must not be called from an event loop.
    pub fn follow(
        &self,
        command: &str,
        dir: &AbsPath,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
        on_output: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<ExitReason> {
        let running_command = self.begin();
        let call = ContainerCommand {
            dir: Some(dir.clone()),
            ..self.base_command()
        };
        let call = call.agent_command(command, &running_command.mark);
        let guard = self.lock_with_paths(reachable, interrupt);
        let guard = guard.map_err(io::Error::other)?;
        let disks = guard.disk_watch(self);
        let exec = match self.start(&guard, call) {
            Ok(exec) => exec,
            Err(error) => return self.handle_result(guard, Err(error)),
        };
        // The container may be recreated from now on, which ends the command.
        drop(guard);
        let (written, stdout) = pipe()?;
        let streams = [stdout.try_clone()?.into(), stdout.into()];
        let mut running = ContainerProcess::follow(self, &running_command, None, exec, streams)?;
        let bounds = ProcessBounds {
            interrupt: Some(interrupt),
            disk: Some(&disks),
            ..ProcessBounds::default()
        };
        let exit_reason =
            running.run_to_end(&mut [ProcessOutput::new(written, on_output)], &bounds);
        let process = running.process_mut();
        let ended =
            exit_reason.map_err(|error| self.describe_failure(process.take_failure(error)))?;
        if process.was_terminated() {
            let ended = self.end_leftovers(&self.lock(), &running_command.mark);
            ended.map_err(|error| self.describe_failure(error))?;
        }
        Ok(ended)
    }

    /// Ends what a command has left behind where it may write to more than the workspace, so that
    /// nothing goes on there while others look at what it did. As long as another command runs there,
    /// which somebody looks at later, only what cannot hide among its processes is ended.
    pub(super) fn end_leftovers(
        &self,
        guard: &ContainerGuard<'_>,
        ending: &ContainerCommandId,
    ) -> Result<(), EngineError> {
        if !guard.can_write_outside(&self.workspace) {
            return Ok(());
        }
        // Prevents new commands from starting meanwhile.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.ids_except(ending).is_empty() {
            return self.end_all(guard);
        }
        drop(live);
        self.sweep(guard, ending);
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
        guard: &ContainerGuard<'_>,
        call: ContainerCommand,
        running_command: &RunningCommand,
        wait: CommandWaitLimits<'_>,
    ) -> Result<CommandOutput, EngineError> {
        let started = Instant::now();
        let exec = self.start(guard, call)?;
        let disks = guard.disk_watch(self);
        let (outputs, streams) = OutputPipes::open()?;
        let mut running =
            ContainerProcess::follow(self, running_command, Some(guard), exec, streams)?;
        let bounds = ProcessBounds {
            until: started.checked_add(wait.time_max),
            interrupt: Some(wait.interrupt),
            disk: Some(&disks),
            network: None,
        };
        let finished = running.capture(outputs, &bounds, wait.output_bytes_max, started);
        let finished = finished.map_err(|error| running.process_mut().take_failure(error))?;
        Ok(refused_if_never_run(finished))
    }

    /// Converts an engine's error to one of a command. If the connection to the engine's machine was lost,
    /// that is the reason, and the command is killed before the next one.
    fn describe_failure(&self, error: EngineError) -> io::Error {
        match self.engine.lost_reason() {
            Some(lost) => {
                self.has_lost_commands.store(true, Ordering::Release);
                io::Error::other(lost)
            }
            None => command_error(error),
        }
    }

    /// What came of a call. If somebody has removed the container, there is another afterwards.
    fn handle_result<T>(
        &self,
        guard: ContainerGuard<'_>,
        ended: Result<T, EngineError>,
    ) -> io::Result<T> {
        match ended {
            Err(error) if is_missing(&error) && guard.is_open() => {
                drop(guard);
                self.recreate().map_err(io::Error::other)?;
                Err(io::Error::other(REMOVED))
            }
            ended => ended.map_err(|error| self.describe_failure(error)),
        }
    }

    /// Starts a call. A container that was stopped from outside, or by its own memory limit, is
    /// started again first.
    pub(super) fn start(
        &self,
        guard: &ContainerGuard<'_>,
        call: ContainerCommand,
    ) -> Result<ContainerExec, EngineError> {
        self.engine.block_on(self.start_async(guard, call))
    }

    /// Starts a call like [`Self::start`], without blocking.
    pub(super) async fn start_async(
        &self,
        guard: &ContainerGuard<'_>,
        call: ContainerCommand,
    ) -> Result<ContainerExec, EngineError> {
        let client = &self.engine.client;
        let started = async {
            match ContainerExec::start(client, guard.id(), call.clone()).await {
                Err(error) if is_stopped(&error) => {
                    let start = client
                        .api
                        .start_container(guard.id(), None::<StartContainerOptions>);
                    start.await?;
                    ContainerExec::start(client, guard.id(), call).await
                }
                started => started,
            }
        };
        let started = timeout(START_TIME_MAX, started).await;
        started.unwrap_or(Err(EngineError::RequestTimeoutError))
    }

    /// Kills everything in the container that belongs to no running command other than `ending`.
    pub(super) fn sweep(&self, guard: &ContainerGuard<'_>, ending: &ContainerCommandId) {
        // Prevents new commands from starting meanwhile: they would not be known yet.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let spared = live.ids_except(ending);
        let own = self.engine.client.container_user();
        let root = self.has_root().then_some(ContainerUser::ROOT);
        for user in [own].into_iter().chain(root) {
            let Ok(sweep) = self.start(guard, ContainerCommand::sweep(user, &spared)) else {
                continue;
            };
            // Whether it has helped shows in the command's own end.
            self.engine.block_on(sweep.drain_output(SWEEP_TIME_MAX));
        }
    }

    /// Kills everything in the container that runs as `user` and belongs to no running command, and
    /// waits until that is done.
    pub(super) fn sweep_user(
        &self,
        guard: &ContainerGuard<'_>,
        user: ContainerUser,
    ) -> Result<(), EngineError> {
        // Prevents new commands from starting meanwhile: they would not be known yet.
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        let sweep = self.start(guard, ContainerCommand::sweep(user, &live.ids()))?;
        let id = sweep.id().to_owned();
        let client = &self.engine.client;
        let ended = self.engine.block_on(async {
            sweep.drain_output(SWEEP_TIME_MAX).await;
            exit_status(client, &id).await
        });
        ended.map(drop)
    }
}

/// Reports a command that the engine could not start as refused.
fn refused_if_never_run(mut finished: CommandOutput) -> CommandOutput {
    let never_ran = matches!(&finished.ended, ExitReason::Exited(code) if NEVER_RAN_STATUS.contains(code))
        && finished.stdout.text.starts_with(NEVER_RAN);
    if never_ran {
        finished.ended = ExitReason::Refused {
            step: "start the command in its container".to_owned(),
            why: finished.stdout.text.trim().to_owned(),
        };
    }
    finished
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_run_are_known_until_they_end() {
        let mut live = RunningCommands::default();
        let first = live.begin();
        let second = live.begin();
        assert_eq!(live.ids(), [first.mark.clone(), second.mark.clone()]);
        assert_eq!(
            live.ids_except(&first.mark),
            std::slice::from_ref(&second.mark)
        );
        drop(second);
        assert_eq!(live.ids_except(&first.mark), []);
        drop(first);
        assert_eq!(live.ids(), []);
    }
}
