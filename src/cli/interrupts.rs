//! Owns the signals that end a run or a command: SIGINT, SIGTERM and SIGHUP. The first asks it to end
//! with what it has; the second gives it up.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;

use crate::error::{Error, ErrorKind, Result};
use crate::host::Hangup;
use crate::orchestrator::conduct::Stop;
use crate::world::sandbox::interrupt::Interrupt;

/// What the kernel sends when a file would grow beyond `ulimit -f`, as `signal(7)` of Linux has it.
const SIGXFSZ: i32 = 25;

/// Takes the signals from now on. A hangup that the process was started to ignore (`nohup`) is left
/// alone. A file that would grow beyond `ulimit -f` is an error where it is written, as on a full
/// disk, and no longer ends the process.
pub(crate) fn listen(hangup: Hangup) -> Result<Stop> {
    let mut interrupts = Interrupts::receive(hangup)?;
    let stop = Stop::default();
    let asked = stop.clone();
    tokio::spawn(async move {
        for stop in [asked.soon, asked.at_once] {
            interrupts.next().await;
            stop.cancel();
        }
    });
    Ok(stop)
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The user typed Ctrl-C, which means what goes on at the moment.
    Interrupt,
    /// The process is to end: it is terminated, or its terminal has gone.
    End,
}

/// The signals that end what goes on.
#[derive(Debug)]
pub(crate) struct Interrupts {
    typed: Signal,
    terminated: Signal,
    hung_up: Option<Signal>,
}

impl Interrupts {
    /// Takes the signals from now on, as [`listen`] does.
    pub(crate) fn receive(hangup: Hangup) -> Result<Self> {
        drop(receive(SignalKind::from_raw(SIGXFSZ))?);
        Ok(Self {
            typed: receive(SignalKind::interrupt())?,
            terminated: receive(SignalKind::terminate())?,
            hung_up: match hangup {
                Hangup::Ends => Some(receive(SignalKind::hangup())?),
                Hangup::Ignored => None,
            },
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.typed.recv() => Asked::Interrupt,
            _ = self.terminated.recv() => Asked::End,
            () = hung_up(self.hung_up.as_mut()) => Asked::End,
        }
    }
}

/// Waits for a command that `running` waits for; a signal that would end massgen ends the command
/// first, by its `interrupt`.
pub(crate) async fn ended<T>(
    mut running: JoinHandle<T>,
    stop: &Stop,
    interrupt: &Interrupt,
) -> Result<T> {
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = stop.soon.cancelled() => {
            interrupt.raise();
            running.await
        }
    };
    ended.map_err(|error| Error::bug(format!("a command broke off: {error}")))
}

fn receive(kind: SignalKind) -> Result<Signal> {
    let failed = |error| {
        Error::new(ErrorKind::Environment, "signals cannot be received")
            .caused_by(error)
            .hint("see whether the limit of open files is met: `ulimit -n`")
    };
    signal(kind).map_err(failed)
}

async fn hung_up(hangups: Option<&mut Signal>) {
    match hangups {
        Some(hangups) => {
            hangups.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// The error of a run that was ended before it began.
pub(crate) fn before_the_run() -> Error {
    Error::new(ErrorKind::Interrupted, "interrupted before the run began")
        .hint("nothing was asked of any model")
}
