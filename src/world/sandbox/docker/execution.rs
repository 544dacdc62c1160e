//! Runs one command in a container to its end: one that reaches its timeout is killed inside it,
//! with everything that it has started, while other commands continue.

use std::time::Instant;

use bollard::errors::Error as EngineError;

use crate::world::sandbox::command_run::{OutputPipes, ProcessBounds};
use crate::world::sandbox::docker::command::{ContainerCommand, START_FAILURE_PREFIX};
use crate::world::sandbox::docker::process::ContainerProcess;
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::running_commands::RunningCommand;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// Exit statuses of a command that never ran.
const START_FAILURE_STATUSES: [i32; 2] = [126, 127];

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
            interrupt: Some(limits.interrupt),
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
