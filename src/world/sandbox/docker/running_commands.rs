//! The commands that run in a container: everything else in it is killed when one of them ends.

use std::sync::{Arc, Weak};

use crate::world::sandbox::docker::command::ContainerCommandId;

/// The commands that are running in a container.
#[derive(Debug, Default)]
pub(super) struct RunningCommands {
    last: u64,
    running: Vec<(ContainerCommandId, Weak<()>)>,
}

/// A command that counts as running until this is dropped.
#[derive(Debug)]
pub(super) struct RunningCommand {
    pub(super) id: ContainerCommandId,
    _alive: Arc<()>,
}

impl RunningCommands {
    /// Registers a command.
    pub(super) fn begin(&mut self) -> RunningCommand {
        self.running.retain(|(_, alive)| alive.strong_count() > 0);
        self.last = self.last.saturating_add(1);
        let alive = Arc::new(());
        let id = ContainerCommandId::new(self.last);
        self.running.push((id.clone(), Arc::downgrade(&alive)));
        RunningCommand { id, _alive: alive }
    }

    /// Returns the running commands.
    pub(super) fn ids(&self) -> Vec<ContainerCommandId> {
        let running = self.running.iter();
        let running = running.filter(|(_, alive)| alive.strong_count() > 0);
        running.map(|(id, _)| id.clone()).collect()
    }

    /// Returns the running commands except one.
    pub(super) fn ids_except(&self, ending: &ContainerCommandId) -> Vec<ContainerCommandId> {
        let mut others = self.ids();
        others.retain(|id| id != ending);
        others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_run_are_known_until_they_end() {
        let mut commands = RunningCommands::default();
        let first = commands.begin();
        let second = commands.begin();
        assert_eq!(commands.ids(), [first.id.clone(), second.id.clone()]);
        assert_eq!(
            commands.ids_except(&first.id),
            std::slice::from_ref(&second.id)
        );
        drop(second);
        assert_eq!(commands.ids_except(&first.id), []);
        drop(first);
        assert_eq!(commands.ids(), []);
    }
}
