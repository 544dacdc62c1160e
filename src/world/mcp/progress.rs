//! Progress that a server reports about a call, on its way to the caller of massgen that waits for
//! that call.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::ProgressNotificationParam;
use tokio::sync::mpsc;

use crate::text::{escape_line, single_line};

/// Longest message that is passed on, in characters.
const MESSAGE_CHARS_MAX: usize = 200;
/// Number of steps that wait for a slow caller; more are dropped.
const STEPS_MAX: usize = 64;

/// One step of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerProgressStep {
    /// How far the call is.
    pub progress: f64,
    /// How far it will be at its end, if the server knows.
    pub total: Option<f64>,
    /// The server's message, escaped.
    pub message: Option<String>,
}

/// Receives the steps of one call. Clones share it.
#[derive(Clone, Debug)]
pub struct ServerProgressSender(mpsc::Sender<ServerProgressStep>);

impl ServerProgressSender {
    /// Creates a sender, and the receiver of the steps.
    pub fn channel() -> (Self, mpsc::Receiver<ServerProgressStep>) {
        let (sender, steps) = mpsc::channel(STEPS_MAX);
        (Self(sender), steps)
    }
}

/// The calls in progress on one connection.
#[derive(Debug, Default)]
pub(super) struct ProgressRoutes(Mutex<CallsInProgress>);

#[derive(Debug, Default)]
struct CallsInProgress {
    count: usize,
    /// The senders of calls whose callers want to know the steps, by the numbers of the calls.
    senders: Vec<(usize, ServerProgressSender)>,
    next_number: usize,
}

/// One call in progress, which ends on drop.
#[derive(Debug)]
pub(super) struct CallInProgress {
    routes: Arc<ProgressRoutes>,
    number: usize,
}

impl ProgressRoutes {
    /// Registers a call, with the caller that wants to know its steps.
    pub(super) fn register(
        self: &Arc<Self>,
        sender: Option<&ServerProgressSender>,
    ) -> CallInProgress {
        let mut calls = self.0.lock();
        let number = calls.next_number;
        calls.next_number = number.wrapping_add(1);
        calls.count = calls.count.saturating_add(1);
        calls
            .senders
            .extend(sender.map(|sender| (number, sender.clone())));
        CallInProgress {
            routes: Arc::clone(self),
            number,
        }
    }

    /// Passes a step on, if there is only one call that it can be about. A step that the caller is
    /// too slow for is dropped.
    pub(super) fn report(&self, step: &ProgressNotificationParam) {
        let calls = self.0.lock();
        if let (1, [(_, sender)]) = (calls.count, calls.senders.as_slice()) {
            let message = step.message.as_deref();
            let step = ServerProgressStep {
                progress: step.progress,
                total: step.total,
                message: message.map(|text| escape_line(&single_line(text, MESSAGE_CHARS_MAX))),
            };
            drop(sender.0.try_send(step));
        }
    }
}

impl Drop for CallInProgress {
    fn drop(&mut self) {
        let mut calls = self.routes.0.lock();
        calls.count = calls.count.saturating_sub(1);
        calls.senders.retain(|(number, _)| *number != self.number);
    }
}
