//! Background commands of one agent, which run while it works. Each has a thread that reads its
//! output; all of them are killed on drop.

use std::collections::BTreeMap;
use std::io::{self, pipe};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use thiserror::Error;

use crate::sandbox_policy::SandboxPolicy;
use crate::tools::call::BackgroundCommandId;
use crate::world::sandbox::command_run::{ProcessBounds, ProcessOutput};
use crate::world::sandbox::disk_watch::DiskWatch;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::output::{OutputPart, OutputRing};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{ExitReason, ProcessStreams, Sandbox};

/// Largest number of background commands that run at the same time.
pub const RUNNING_MAX: usize = 10;
/// Number of ended commands that are remembered with their output.
const ENDED_MAX: usize = 10;
/// Size of the end of each command's output that is kept, in bytes as the command wrote them.
const KEPT_BYTES_MAX: usize = 1024 * 1024;

/// The background commands of one agent.
#[derive(Debug, Default)]
pub struct BackgroundCommands {
    commands: Mutex<BTreeMap<BackgroundCommandId, BackgroundEntry>>,
}

/// Status of a background command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundStatus {
    /// Its id.
    pub id: BackgroundCommandId,
    /// The command as the agent wrote it.
    pub command: String,
    /// How it ended; `None` while it runs.
    pub exit_reason: Option<ExitReason>,
    /// Notes: why it can no longer be watched, what happened to its changes.
    pub notes: Vec<String>,
    /// Its running time so far, or in total.
    pub elapsed: Duration,
    /// Length of its output so far, in bytes.
    pub output_bytes: u64,
}

/// Why a command was not started.
#[derive(Debug, Error)]
pub enum BackgroundStartError {
    /// Too many are running already.
    #[error("{RUNNING_MAX} background commands are running already")]
    TooMany,
    /// It could not be started, or its sandbox could not be built.
    #[error(transparent)]
    Failed(#[from] io::Error),
}

/// Runs when a command has ended, before its end is reported; returns notes about it.
pub(in crate::world) type CompletionHook = Box<dyn FnOnce() -> Vec<String> + Send>;

/// How a command ended, with notes about its end.
type ExitWithNotes = (ExitReason, Vec<String>);

/// Follows a started command to its end: passes its output on, and kills it when it is interrupted.
pub(in crate::world) type OutputFollower = Box<
    dyn FnOnce(&CommandInterrupt, &mut (dyn FnMut(&[u8]) + Send)) -> io::Result<ExitWithNotes>
        + Send,
>;

/// A background command that is remembered, running or ended.
#[derive(Debug)]
struct BackgroundEntry {
    command: String,
    start_time: Instant,
    interrupt: CommandInterrupt,
    progress: Arc<Mutex<BackgroundProgress>>,
    thread: Option<JoinHandle<()>>,
}

/// State that the thread of a command shares.
#[derive(Debug)]
struct BackgroundProgress {
    output: OutputRing,
    end: Option<BackgroundExit>,
}

/// How a command ended, and after what time.
#[derive(Clone, Debug)]
struct BackgroundExit {
    exit_reason: ExitReason,
    notes: Vec<String>,
    elapsed: Duration,
}

impl BackgroundCommands {
    /// Starts a command in a sandbox, with its standard error merged into its standard output, and
    /// waits until it runs.
    ///
    /// # Errors
    /// See [`BackgroundStartError`].
    pub fn start(
        &self,
        sandbox: &Sandbox,
        command: &str,
        policy: &SandboxPolicy,
        network: Option<Arc<NetworkProxy>>,
    ) -> Result<BackgroundCommandId, BackgroundStartError> {
        let start = || follow_in_sandbox(sandbox, policy, network);
        self.start_with(command, start, Box::new(Vec::new))
    }

    /// Registers a command that `start` starts, in whatever backend, and follows it on a thread.
    ///
    /// # Errors
    /// See [`BackgroundStartError`].
    pub(in crate::world) fn start_with(
        &self,
        command: &str,
        start: impl FnOnce() -> io::Result<OutputFollower>,
        on_completion: CompletionHook,
    ) -> Result<BackgroundCommandId, BackgroundStartError> {
        // Locked until the command is listed, so that parallel starts cannot exceed the maximum.
        let mut commands = self.commands.lock();
        let running_count = commands.values().filter(|entry| !entry.has_ended()).count();
        if running_count >= RUNNING_MAX {
            return Err(BackgroundStartError::TooMany);
        }
        let start_time = Instant::now();
        let follow = start()?;
        let interrupt = CommandInterrupt::new()?;
        let progress = Arc::new(Mutex::new(BackgroundProgress {
            output: OutputRing::new(KEPT_BYTES_MAX),
            end: None,
        }));
        let worker = BackgroundWorker {
            interrupt: interrupt.clone(),
            progress: Arc::clone(&progress),
            start_time,
        };
        let thread = thread::Builder::new().name("background".to_owned());
        let thread = thread.spawn(move || worker.follow(follow, on_completion))?;
        let id = commands
            .keys()
            .next_back()
            .map_or(1, |last| last.0.saturating_add(1));
        let entry = BackgroundEntry {
            command: command.to_owned(),
            start_time,
            interrupt,
            progress,
            thread: Some(thread),
        };
        commands.insert(BackgroundCommandId(id), entry);
        remove_oldest_ended(&mut commands);
        Ok(BackgroundCommandId(id))
    }

    /// Returns at most `bytes_max` bytes of a command's output from `offset` on; `None` if
    /// there is no such command.
    pub fn output(
        &self,
        id: BackgroundCommandId,
        offset: u64,
        bytes_max: usize,
    ) -> Option<OutputPart> {
        let commands = self.commands.lock();
        let mut progress = commands.get(&id)?.progress.lock();
        Some(progress.output.part(offset, bytes_max))
    }

    /// Returns the status of a command; `None` if there is no such command.
    pub fn status(&self, id: BackgroundCommandId) -> Option<BackgroundStatus> {
        self.commands.lock().get(&id).map(|entry| entry.status(id))
    }

    /// Kills a command and everything that it started; `None` if there is no such command.
    pub fn stop(&self, id: BackgroundCommandId) -> Option<BackgroundStatus> {
        let mut commands = self.commands.lock();
        let entry = commands.get_mut(&id)?;
        entry.stop();
        Some(entry.status(id))
    }

    /// Kills all commands in parallel.
    pub fn stop_all(&self) {
        let mut commands = self.commands.lock();
        for entry in commands.values() {
            entry.interrupt.raise();
        }
        commands.values_mut().for_each(BackgroundEntry::stop);
    }

    /// Lists all commands that are remembered, oldest first.
    pub fn list(&self) -> Vec<BackgroundStatus> {
        let commands = self.commands.lock();
        commands
            .iter()
            .map(|(id, entry)| entry.status(*id))
            .collect()
    }
}

impl Drop for BackgroundCommands {
    fn drop(&mut self) {
        self.stop_all();
    }
}

/// Starts a command in a sandbox, with one pipe for its standard output and error, and waits until
/// it runs.
///
/// # Errors
/// The command could not be started, or its sandbox could not be built.
pub(in crate::world) fn follow_in_sandbox(
    sandbox: &Sandbox,
    policy: &SandboxPolicy,
    network: Option<Arc<NetworkProxy>>,
) -> io::Result<OutputFollower> {
    let (reader, writer) = pipe()?;
    let streams = ProcessStreams {
        stdin: None,
        stderr: writer.try_clone()?.into(),
        stdout: writer.into(),
    };
    let mut command_run = sandbox.start(policy, streams, network.as_deref())?;
    let disk = DiskWatch::for_policy(policy);
    let follow: OutputFollower = Box::new(move |interrupt, on_output| {
        let bounds = ProcessBounds {
            interrupt: Some(interrupt),
            disk: Some(&disk),
            ..ProcessBounds::default()
        };
        let exit_reason =
            command_run.run_to_end(&mut [ProcessOutput::new(reader, on_output)], &bounds);
        // The proxy must serve until the command has ended.
        drop(network);
        Ok((exit_reason?, command_run.notes()))
    });
    Ok(follow)
}

fn remove_oldest_ended(commands: &mut BTreeMap<BackgroundCommandId, BackgroundEntry>) {
    let ended_ids: Vec<BackgroundCommandId> = commands
        .iter()
        .filter(|(_, entry)| entry.has_ended())
        .map(|(id, _)| *id)
        .collect();
    let excess = ended_ids.len().saturating_sub(ENDED_MAX);
    for id in ended_ids.into_iter().take(excess) {
        commands.remove(&id);
    }
}

impl BackgroundEntry {
    fn has_ended(&self) -> bool {
        self.progress.lock().end.is_some()
    }

    fn status(&self, id: BackgroundCommandId) -> BackgroundStatus {
        let progress = self.progress.lock();
        let end = progress.end.clone();
        BackgroundStatus {
            id,
            command: self.command.clone(),
            elapsed: end
                .as_ref()
                .map_or_else(|| self.start_time.elapsed(), |end| end.elapsed),
            output_bytes: progress.output.total_bytes(),
            notes: end.as_ref().map_or_else(Vec::new, |end| end.notes.clone()),
            exit_reason: end.map(|end| end.exit_reason),
        }
    }

    /// Kills the command and waits for its thread.
    fn stop(&mut self) {
        self.interrupt.raise();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has dropped its command, which kills it.
            thread.join().unwrap_or_default();
        }
    }
}

/// State of the thread that follows a command.
struct BackgroundWorker {
    interrupt: CommandInterrupt,
    progress: Arc<Mutex<BackgroundProgress>>,
    start_time: Instant,
}

impl BackgroundWorker {
    /// Reads the command's output until it has ended.
    fn follow(self, follow: OutputFollower, on_completion: CompletionHook) {
        let progress = &self.progress;
        let lock = || progress.lock();
        let mut on_output = |bytes: &[u8]| lock().output.add(bytes);
        let (exit_reason, mut notes) = match follow(&self.interrupt, &mut on_output) {
            Ok(exit) => exit,
            // It can no longer be followed; the note says why.
            Err(error) => (ExitReason::Interrupted, vec![error.to_string()]),
        };
        let elapsed = self.start_time.elapsed();
        notes.extend(on_completion());
        lock().end = Some(BackgroundExit {
            exit_reason,
            notes,
            elapsed,
        });
    }
}
