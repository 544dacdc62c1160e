//! Owns the signals that end a run or a command: SIGINT, SIGTERM and SIGHUP. The first asks it to end
//! with what it has; the second gives it up.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::host::HangupAction;
use crate::orchestrator::execution::ShutdownSignal;
use crate::world::sandbox::interrupt::CommandInterrupt;

/// What the kernel sends when a file would grow beyond `ulimit -f`, as `signal(7)` of Linux has it.
const SIGXFSZ: i32 = 25;

/// Takes the signals from now on. A hangup that the process was started to ignore (`nohup`) is left
/// alone. A file that would grow beyond `ulimit -f` is an error where it is written, as on a full
/// disk, and no longer ends the process.
pub(crate) fn listen(hangup: HangupAction) -> Result<ShutdownSignal> {
    let mut interrupts = SignalListener::subscribe(hangup)?;
    let stop = ShutdownSignal::default();
    let asked = stop.clone();
    tokio::spawn(async move {
        for stop in [asked.graceful, asked.immediate] {
            interrupts.next_request().await;
            stop.cancel();
        }
    });
    Ok(stop)
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignalRequest {
    /// The user typed Ctrl-C, which means what goes on at the moment.
    Interrupt,
    /// The process is to end: it is terminated, or its terminal has gone.
    End,
}

/// The signals that end what goes on.
#[derive(Debug)]
pub(crate) struct SignalListener {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
}

impl SignalListener {
    /// Takes the signals from now on, as [`listen`] does.
    pub(crate) fn subscribe(hangup: HangupAction) -> Result<Self> {
        drop(subscribe_signal(SignalKind::from_raw(SIGXFSZ))?);
        Ok(Self {
            interrupt: subscribe_signal(SignalKind::interrupt())?,
            terminate: subscribe_signal(SignalKind::terminate())?,
            hangup: match hangup {
                HangupAction::Ends => Some(subscribe_signal(SignalKind::hangup())?),
                HangupAction::Ignored => None,
            },
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next_request(&mut self) -> SignalRequest {
        tokio::select! {
            _ = self.interrupt.recv() => SignalRequest::Interrupt,
            _ = self.terminate.recv() => SignalRequest::End,
            () = wait_for_hangup(self.hangup.as_mut()) => SignalRequest::End,
        }
    }
}

/// Waits for a command that `running` waits for; a signal that would end massgen ends the command
/// first, by its `interrupt`.
pub(crate) async fn wait_or_interrupt<T>(
    mut running: JoinHandle<T>,
    stop: &ShutdownSignal,
    interrupt: &CommandInterrupt,
) -> Result<T> {
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = stop.graceful.cancelled() => {
            interrupt.raise();
            running.await
        }
    };
    ended.map_err(|error| Error::bug(format!("a command broke off: {error}")))
}

fn subscribe_signal(kind: SignalKind) -> Result<Signal> {
    let failed = |error| {
        Error::new(ErrorKind::Environment, "signals cannot be received")
            .with_source(error)
            .with_hint("see whether the limit of open files is met: `ulimit -n`")
    };
    signal(kind).map_err(failed)
}

async fn wait_for_hangup(hangups: Option<&mut Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The error of a run that was ended before it began.
pub(crate) fn interrupted_before_run() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted before the run began")
        .with_hint("nothing was asked of any model")
}
