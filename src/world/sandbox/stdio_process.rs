//! A server program in a sandbox that answers requests on its standard input and output. A thread
//! follows it to its end; the program is killed on drop.

use std::io::{self, pipe};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::fd::OwnedFd;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::sandbox_policy::SandboxPolicy;
use crate::world::sandbox::command_run::{ProcessBounds, ProcessOutput};
use crate::world::sandbox::disk_watch::DiskWatch;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::output::{OutputRing, complete_characters_len};
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::{ExitReason, ProcessStreams, Sandbox};

/// Size of the end of its standard error that is kept, in bytes.
const KEPT_BYTES_MAX: usize = 4 * 1024;

/// Longest wait for the exit of a program that no longer answers, also on a machine under load:
/// without it, an error cannot say how the program ended.
const END_TIME_MAX: Duration = Duration::from_secs(5);

/// Filter for the standard error of a program: gets each piece, and `None` at its end, and returns
/// what may be reported.
pub(in crate::world) type StderrFilter = Box<dyn FnMut(Option<&str>) -> String + Send>;

/// Runs a program to its end, with its standard error and the interrupt that ends it.
pub(in crate::world::sandbox) type ProgramFollower =
    Box<dyn FnOnce(ProcessOutput<'_>, &CommandInterrupt) -> io::Result<ExitReason> + Send>;

/// A server program.
#[derive(Debug)]
pub(in crate::world) struct StdioProcess {
    interrupt: CommandInterrupt,
    /// The end of its standard error so far.
    errors: Arc<Mutex<OutputRing>>,
    /// How it ended; `None` while it runs.
    exit_reason: watch::Receiver<Option<ExitReason>>,
    thread: Option<JoinHandle<()>>,
}

/// Pipes to the program.
#[derive(Debug)]
pub(in crate::world) struct StdioPipes {
    /// Write end of its standard input.
    pub(in crate::world) input: OwnedFd,
    /// Read end of its standard output.
    pub(in crate::world) output: OwnedFd,
}

impl StdioProcess {
    /// Starts a program in a sandbox and waits until it runs.
    ///
    /// # Errors
    /// It could not be started, or its sandbox could not be built.
    pub(in crate::world) fn start(
        sandbox: &Sandbox,
        policy: &SandboxPolicy,
        network: Option<Arc<NetworkProxy>>,
        stderr_filter: StderrFilter,
    ) -> io::Result<(Self, StdioPipes)> {
        let (stdin, input) = pipe()?;
        let (output, stdout) = pipe()?;
        let (errors, stderr) = pipe()?;
        let streams = ProcessStreams {
            stdin: Some(stdin.into()),
            stdout: stdout.into(),
            stderr: stderr.into(),
        };
        let mut command_run = sandbox.start(policy, streams, network.as_deref())?;
        let disk = DiskWatch::for_policy(policy);
        let run_to_end = move |errors: ProcessOutput<'_>, interrupt: &CommandInterrupt| {
            let bounds = ProcessBounds {
                interrupt: Some(interrupt),
                disk: Some(&disk),
                ..ProcessBounds::default()
            };
            let exit_reason = command_run.run_to_end(&mut [errors], &bounds);
            // The proxy must serve until the program has ended.
            drop(network);
            exit_reason
        };
        let process = Self::follow(errors, stderr_filter, Box::new(run_to_end))?;
        let pipes = StdioPipes {
            input: input.into(),
            output: output.into(),
        };
        Ok((process, pipes))
    }

    /// Follows a program that was started, with a thread that runs `run_to_end`. `errors` is the
    /// read end of its standard error.
    pub(in crate::world::sandbox) fn follow(
        errors: io::PipeReader,
        stderr_filter: StderrFilter,
        run_to_end: ProgramFollower,
    ) -> io::Result<Self> {
        let kept_errors = Arc::new(Mutex::new(OutputRing::new(KEPT_BYTES_MAX)));
        let (exit_sender, exit_reason) = watch::channel(None);
        let interrupt = CommandInterrupt::new()?;
        let worker = StdioProcessWorker {
            run_to_end,
            interrupt: interrupt.clone(),
            errors: Arc::clone(&kept_errors),
            exit_reason: exit_sender,
            stderr_filter,
        };
        let thread = thread::Builder::new().name("server".to_owned());
        let thread = thread.spawn(move || worker.run(errors))?;
        Ok(Self {
            interrupt,
            errors: kept_errors,
            exit_reason,
            thread: Some(thread),
        })
    }

    /// Returns the exit reason, if the program has ended, and the end of its standard error. Waits
    /// for a moment, since a program that no longer answers may be about to exit.
    pub(in crate::world) async fn exit_and_stderr(&self) -> (Option<ExitReason>, String) {
        let mut exit_reason = self.exit_reason.clone();
        let exit = async { exit_reason.wait_for(Option::is_some).await.ok()?.clone() };
        let exit = timeout(END_TIME_MAX, exit).await.ok().flatten();
        let text = lock(&self.errors).part(0, KEPT_BYTES_MAX).text;
        (exit, text)
    }
}

impl Drop for StdioProcess {
    fn drop(&mut self) {
        self.interrupt.raise();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has dropped its program, which kills it.
            thread.join().unwrap_or_default();
        }
    }
}

fn lock(errors: &Mutex<OutputRing>) -> MutexGuard<'_, OutputRing> {
    errors.lock()
}

/// State of the thread that follows a program.
struct StdioProcessWorker {
    run_to_end: ProgramFollower,
    interrupt: CommandInterrupt,
    errors: Arc<Mutex<OutputRing>>,
    exit_reason: watch::Sender<Option<ExitReason>>,
    stderr_filter: StderrFilter,
}

impl StdioProcessWorker {
    fn run(mut self, errors: io::PipeReader) {
        let mut report = |text: Option<&str>| {
            let reported_text = (self.stderr_filter)(text);
            lock(&self.errors).add(reported_text.as_bytes());
        };
        // The beginning of a character whose rest has not been read yet.
        let mut pending = Vec::new();
        let mut on_output = |bytes: &[u8]| {
            pending.extend_from_slice(bytes);
            let rest = pending.split_off(complete_characters_len(&pending));
            report(Some(&String::from_utf8_lossy(&pending)));
            pending = rest;
        };
        let output = ProcessOutput::new(errors, &mut on_output);
        let run_result = (self.run_to_end)(output, &self.interrupt);
        report(Some(&String::from_utf8_lossy(&pending)));
        let exit_reason = run_result.unwrap_or_else(|error| {
            report(Some(&format!("massgen: {error}\n")));
            ExitReason::Interrupted
        });
        report(None);
        self.exit_reason.send_replace(Some(exit_reason));
    }
}
