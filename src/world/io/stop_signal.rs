//! SIGTSTP while a program draws on the whole terminal: the program receives the signal in place of
//! being stopped by it, gives the terminal back, and then stops as it would have been.

use std::sync::OnceLock;

use rustix::process::{Signal, getpid};
use rustix::thread::gettid;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use crate::world::io::terminal_mode::suspend;
use crate::world::sys::sandbox::raw::{SignalAction, signal_thread};

/// The action that receives the signal. The runtime installs it only once in a process.
static RECEIVING_ACTION: OnceLock<SignalAction> = OnceLock::new();

/// Receives SIGTSTP. On drop, the signal stops the process again.
#[derive(Debug)]
pub struct StopSignals {
    signals: SignalStream,
    receiving_action: SignalAction,
}

impl StopSignals {
    /// Starts to receive the signal; `None` if the process ignores it, or it cannot be received.
    pub fn subscribe() -> Option<Self> {
        if SignalAction::current(Signal::TSTP).ok()?.is_ignored() {
            return None;
        }
        let signals = signal(SignalKind::from_raw(Signal::TSTP.as_raw())).ok()?;
        let installed_action = SignalAction::current(Signal::TSTP).ok()?;
        let receiving_action = *RECEIVING_ACTION.get_or_init(|| installed_action);
        receiving_action.install(Signal::TSTP).ok()?;
        Some(Self {
            signals,
            receiving_action,
        })
    }

    /// Waits for the next signal. Is cancel safe.
    pub async fn wait(&mut self) {
        self.signals.recv().await;
    }

    /// Stops this process, as the signal does by default, until it is continued. A process group
    /// without a shell is not stopped.
    pub fn stop_process(&self) {
        set_action(SignalAction::default_action());
        // A signal to its own thread stops the process before the call returns.
        let (process, thread) = (getpid().as_raw_nonzero(), gettid().as_raw_nonzero());
        signal_thread(process.get(), thread.get(), Signal::TSTP.as_raw()).unwrap_or_default();
        set_action(self.receiving_action);
    }

    /// Stops the process group of this process, as Ctrl-Z does, until it is continued.
    pub fn stop_group(&self) {
        // This process is the last one, so that it does not receive the signal for the others.
        set_action(SignalAction::ignored());
        suspend();
        self.stop_process();
    }
}

impl Drop for StopSignals {
    fn drop(&mut self) {
        set_action(SignalAction::default_action());
    }
}

fn set_action(action: SignalAction) {
    // The call fails only for a signal that does not exist.
    action.install(Signal::TSTP).unwrap_or_default();
}

/// Makes the kernel keep the children of this process, and of those that it starts, until they are
/// waited for. Must be called before any is started.
pub fn keep_exited_children() {
    let action = SignalAction::default_action();
    // The call fails only for a signal that does not exist.
    action.install(Signal::CHILD).unwrap_or_default();
}
