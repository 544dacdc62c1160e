//! Handles the signals that end a run or a command: SIGINT, SIGTERM, SIGQUIT, SIGHUP and SIGUSR1.
//! The first asks for a graceful shutdown, which keeps the results so far; the second stops
//! immediately.

use std::num::NonZero;
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{io, thread};

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::host::HangupAction;
use crate::orchestrator::execution::ShutdownSignal;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// Signal that the kernel sends when a file would grow beyond `ulimit -f`; see `signal(7)` of
/// Linux.
const SIGXFSZ: i32 = 25;

/// Installs the signal handlers. SIGHUP is left alone if the process was started to ignore it
/// (`nohup`). A file that would grow beyond `ulimit -f` causes a write error, like a full disk, and
/// does not kill the process.
pub(crate) fn listen(hangup: HangupAction) -> Result<ShutdownSignal> {
    let stop = ShutdownSignal::default();
    let signals = stop.clone();
    handle_signals(hangup, async move |mut listener| {
        for token in [signals.graceful, signals.immediate] {
            listener.next_request().await;
            token.cancel();
        }
    })?;
    Ok(stop)
}

/// Installs the signal handlers of a run that can be parked: SIGTERM, SIGQUIT, SIGHUP and SIGUSR1
/// park it, and SIGINT ends it as usual.
pub(crate) fn listen_for_parking(hangup: HangupAction) -> Result<ShutdownSignal> {
    let stop = ShutdownSignal::default();
    let signals = stop.clone();
    handle_signals(hangup, async move |mut listener| {
        let mut tokens = [signals.graceful, signals.immediate].into_iter();
        loop {
            match listener.next_request().await {
                SignalRequest::End => signals.park.cancel(),
                SignalRequest::Interrupt => match tokens.next() {
                    Some(token) => token.cancel(),
                    None => return,
                },
            }
        }
    })?;
    Ok(stop)
}

/// Installs the signal handlers, and lets `handle` receive the signals on a thread of its own: they
/// count as long as the process exists, whatever else it waits for.
fn handle_signals(
    hangup: HangupAction,
    handle: impl AsyncFnOnce(SignalListener) + Send + 'static,
) -> Result<()> {
    let (ready, result) = channel();
    let work = move || {
        let subscribe = || {
            let runtime = single_thread_runtime()?;
            let guard = runtime.enter();
            let listener = SignalListener::subscribe(hangup)?;
            drop(guard);
            Ok((runtime, listener))
        };
        match subscribe() {
            Ok((runtime, listener)) => {
                drop(ready.send(Ok(())));
                runtime.block_on(handle(listener));
            }
            Err(error) => drop(ready.send(Err(error))),
        }
    };
    let spawn_result = thread::Builder::new()
        .name("signals".to_owned())
        .spawn(work);
    spawn_result.map_err(|error| Error::io("cannot start a thread", error))?;
    result
        .recv()
        .unwrap_or_else(|_| Err(Error::bug("the thread for signals failed")))
}

/// Meaning of a signal for massgen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    /// Ctrl-C, which interrupts what is happening at the moment.
    Interrupt,
    /// The process must end: it is terminated, or its terminal has closed.
    End,
}

/// Receiver of the signals.
#[derive(Debug)]
pub(crate) struct SignalListener {
    interrupt: Signal,
    terminate: Signal,
    quit: Signal,
    /// SIGUSR1, which job queues send before they end a job.
    preemption: Signal,
    /// SIGHUP, unless the process was started to ignore it.
    hangup: Option<Signal>,
}

impl SignalListener {
    /// Installs the signal handlers, as [`listen`] does.
    pub(crate) fn subscribe(hangup: HangupAction) -> Result<Self> {
        // A handler is never removed again, and nothing waits for this signal: the write fails.
        drop(subscribe_signal(SignalKind::from_raw(SIGXFSZ))?);
        Ok(Self {
            interrupt: subscribe_signal(SignalKind::interrupt())?,
            terminate: subscribe_signal(SignalKind::terminate())?,
            // The default actions of these would leave a terminal in the mode of the dashboard.
            quit: subscribe_signal(SignalKind::quit())?,
            preemption: subscribe_signal(SignalKind::user_defined1())?,
            hangup: match hangup {
                HangupAction::Ends => Some(subscribe_signal(SignalKind::hangup())?),
                HangupAction::Ignored => None,
            },
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next_request(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.interrupt.recv() => SignalRequest::Interrupt,
            _ = self.terminate.recv() => SignalRequest::End,
            _ = self.quit.recv() => SignalRequest::End,
            _ = self.preemption.recv() => SignalRequest::End,
            () = wait_for_hangup(self.hangup.as_mut()) => SignalRequest::End,
        }
    }
}

/// Waits for the command of `task`; on a signal that would end massgen, it first ends the command
/// through `interrupt`.
pub(crate) async fn wait_or_interrupt<T>(
    mut task: JoinHandle<T>,
    stop: &ShutdownSignal,
    interrupt: &CommandInterrupt,
) -> Result<T> {
    let joined = tokio::select! {
        joined = &mut task => joined,
        () = stop.graceful.cancelled() => {
            interrupt.raise();
            task.await
        }
    };
    joined.map_err(|error| Error::bug(format!("a command failed: {error}")))
}

fn subscribe_signal(kind: SignalKind) -> Result<Signal> {
    let signal_error = |error| {
        Error::new(ErrorKind::Environment, "cannot receive signals")
            .with_source(error)
            .with_hint("check the limit of open files: `ulimit -n`")
    };
    signal(kind).map_err(signal_error)
}

/// Waits for SIGHUP; forever if it is ignored.
async fn wait_for_hangup(hangups: Option<&mut Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Returns the error of a run that was parked before it began.
pub(crate) fn parked_before_run() -> Error {
    Error::new(ErrorKind::Parked, "parked before the run started")
        .with_hint("no model was called: start it again")
}

/// Returns the error of a run that was interrupted before it began.
pub(crate) fn interrupted_before_run() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted before the run started")
        .with_hint("no model was called")
}

/// Maximum number of worker threads that agents share; file work uses separate threads.
const WORKERS_MAX: usize = 8;

/// Maximum time that the end of a command waits for system calls that still block.
pub(crate) const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

/// Creates the runtime. Agents run in parallel, so that none waits while another's reply is parsed.
pub(crate) fn runtime() -> Result<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let runtime = Builder::new_multi_thread()
        .worker_threads(cores.min(WORKERS_MAX))
        .enable_all()
        .build();
    runtime.map_err(runtime_error)
}

/// Creates a runtime with one thread; blocking work has its own threads.
pub(crate) fn single_thread_runtime() -> Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(runtime_error)
}

fn runtime_error(error: io::Error) -> Error {
    Error::new(ErrorKind::Environment, "cannot start the event loop")
        .with_source(error)
        .with_hint("check the limit of open files: `ulimit -n`")
}
