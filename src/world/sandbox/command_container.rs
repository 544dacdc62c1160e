//! The interface of what an agent's commands run in apart from this machine's processes: all
//! differences between containers, pods and other engines are behind [`CommandContainer`].

use std::fmt;
use std::io;

use crate::error::Result;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::{CommandOutput, CommandWaitLimits, ExitReason};

/// A container in which commands of one agent run, and nothing else. They see the same paths as in
/// a sandbox of level `namespaces`, and have the network that it was created with.
pub trait CommandContainer: fmt::Debug + Send + Sync {
    /// Returns the isolation of the commands, for people.
    fn isolation(&self) -> ExecutionIsolation;

    /// Returns what of the config is not available.
    fn notes(&self) -> &[String];

    /// Returns that programs, hooks, MCP servers and external agents do not run there, as the rest
    /// of a sentence that begins with them.
    fn refusal_of_programs(&self) -> &'static str;

    /// Opens `reachable` to a background command, as far as a failure is noticed before it starts.
    fn prepare(&self, reachable: &ReachablePaths) -> Result<()>;

    /// Runs a command in the directory `dir`, with access to `reachable` only, and waits for its
    /// end. Blocks, and must not be called from an event loop.
    fn run_with_paths(
        &self,
        command: &str,
        dir: &AbsPath,
        reachable: &ReachablePaths,
        limits: CommandWaitLimits<'_>,
    ) -> io::Result<CommandOutput>;

    /// Runs a command in a directory, alongside others, until it ends or is interrupted, and passes
    /// its output on both streams to `on_output`. It has access to `reachable` only. Blocks, and
    /// must not be called from an event loop.
    fn follow(
        &self,
        command: &str,
        dir: &AbsPath,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
        on_output: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<ExitReason>;

    /// Fetches what commands have changed where they may write, and writes it here as far as the
    /// rules allow it. Returns notes about what was refused. Blocks until a few seconds after an
    /// interrupt: then nothing is written here, and the next call fetches everything. Where paths
    /// are mounted, nothing is fetched.
    fn fetch_changes(
        &self,
        reachable: &ReachablePaths,
        interrupt: &CommandInterrupt,
    ) -> io::Result<Vec<String>>;
}
