//! The commands that run in a container: everything else in it is killed when one of them ends.

use std::sync::{Arc, Weak};

/// Environment variable that identifies a command and all its descendants.
const MARK: &str = "MASSGEN_COMMAND";
/// Script that kills running processes.
const SWEEP_SCRIPT: &str = include_str!("sweep.sh");

/// Identifies a command among the others in its container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::world::sandbox) struct ContainerCommandId(u64);

impl ContainerCommandId {
    /// Returns the environment variable that its processes must have, and the value.
    pub(in crate::world::sandbox) fn variable(&self) -> (String, String) {
        (MARK.to_owned(), self.text())
    }

    fn text(&self) -> String {
        format!("{:08}", self.0)
    }
}

/// Returns the arguments of a shell that runs `text` with these arguments.
pub(in crate::world::sandbox) fn shell_script(
    text: &str,
    arguments: impl IntoIterator<Item = String>,
) -> Vec<String> {
    let shell = ["/bin/sh", "-c", text, "massgen"].map(str::to_owned);
    shell.into_iter().chain(arguments).collect()
}

/// Returns the program that kills everything its user may kill, except the commands with these ids.
pub(in crate::world::sandbox) fn sweep_program(kept_ids: &[ContainerCommandId]) -> Vec<String> {
    shell_script(SWEEP_SCRIPT, kept_ids.iter().map(ContainerCommandId::text))
}

/// The commands that are running in a container.
#[derive(Debug, Default)]
pub(in crate::world::sandbox) struct RunningCommands {
    last_id: u64,
    commands: Vec<(ContainerCommandId, Weak<()>)>,
}

/// A command that counts as running until this is dropped.
#[derive(Debug)]
pub(in crate::world::sandbox) struct RunningCommand {
    pub(in crate::world::sandbox) id: ContainerCommandId,
    _alive: Arc<()>,
}

impl RunningCommands {
    /// Registers a command.
    pub(in crate::world::sandbox) fn register(&mut self) -> RunningCommand {
        self.commands.retain(|(_, alive)| alive.strong_count() > 0);
        self.last_id = self.last_id.saturating_add(1);
        let alive_token = Arc::new(());
        let id = ContainerCommandId(self.last_id);
        self.commands
            .push((id.clone(), Arc::downgrade(&alive_token)));
        RunningCommand {
            id,
            _alive: alive_token,
        }
    }

    /// Returns the running commands except one.
    pub(in crate::world::sandbox) fn ids_except(
        &self,
        ending_id: &ContainerCommandId,
    ) -> Vec<ContainerCommandId> {
        let other_commands = self
            .commands
            .iter()
            .filter(|(id, alive)| id != ending_id && alive.strong_count() > 0);
        other_commands.map(|(id, _)| id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_run_are_known_until_they_end() {
        let mut commands = RunningCommands::default();
        let first = commands.register();
        let second = commands.register();
        assert_eq!(
            commands.ids_except(&first.id),
            std::slice::from_ref(&second.id)
        );
        assert_eq!(
            commands.ids_except(&second.id),
            std::slice::from_ref(&first.id)
        );
        drop(second);
        assert_eq!(commands.ids_except(&first.id), []);
    }
}
