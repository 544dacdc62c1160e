//! Kills what commands leave behind in a container, without harming the commands that still run
//! there.

use std::sync::PoisonError;
use std::time::Duration;

use bollard::errors::Error as EngineError;

use crate::world::sandbox::docker::client::ContainerUser;
use crate::world::sandbox::docker::command::ContainerCommand;
use crate::world::sandbox::docker::replaceable_container::{ContainerGuard, ReplaceableContainer};
use crate::world::sandbox::running_commands::ContainerCommandId;

/// Timeout for killing what a command left behind.
const SWEEP_TIME_MAX: Duration = Duration::from_secs(5);

impl ReplaceableContainer {
    /// Kills what a command has left behind if it may write to more than the workspace, so that
    /// nothing changes while its effects are inspected. As long as another command runs in the
    /// container, whose effects are inspected later, only what cannot hide among its processes is
    /// killed.
    pub(super) fn end_leftovers(
        &self,
        guard: &ContainerGuard<'_>,
        ending_id: &ContainerCommandId,
    ) -> Result<(), EngineError> {
        if !guard.can_write_outside(&self.workspace) {
            return Ok(());
        }
        // Prevents new commands from starting meanwhile.
        let running_commands = self
            .running_commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if running_commands.ids_except(ending_id).is_empty() {
            return self.end_all(guard);
        }
        drop(running_commands);
        self.sweep(guard, ending_id);
        Ok(())
    }

    /// Kills everything in the container that belongs to no running command other than `ending_id`.
    pub(super) fn sweep(&self, guard: &ContainerGuard<'_>, ending_id: &ContainerCommandId) {
        // Prevents new commands from starting meanwhile: they would not be known yet.
        let running_commands = self
            .running_commands
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let kept_ids = running_commands.ids_except(ending_id);
        let own_user = self.engine.client.container_user();
        let root = self.has_root().then_some(ContainerUser::ROOT);
        for user in [own_user].into_iter().chain(root) {
            let Ok(sweep) = self.start(guard, ContainerCommand::sweep(user, &kept_ids)) else {
                continue;
            };
            // Whether it has helped shows in the command's own end.
            self.engine.block_on(sweep.drain_output(SWEEP_TIME_MAX));
        }
    }
}
