//! Owns a connection whose messages are looked at in the order in which they come: that the tools of
//! a server have changed is known before whatever the server says after that, a server that asks and
//! does not read the answers is not heard until it does, and what it is sent so that it knows who asks
//! is taken out of all that it says.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;

use crate::world::mcp::credentials::Credentials;

/// How many answers a server may be owed before it is not heard any more: each waits in memory until
/// the server reads it.
const ANSWERS_OWED_MAX: usize = 32;

/// A connection that is watched.
pub(super) struct WatchedTransport<T> {
    connection: T,
    changes: Arc<AtomicUsize>,
    credentials: Credentials,
    owed: Arc<PendingReplies>,
}

/// The answers that a server is owed.
#[derive(Default)]
struct PendingReplies {
    answers: Mutex<PendingReplyState>,
    /// Tells that one has gone.
    gone: Notify,
}

#[derive(Default)]
struct PendingReplyState {
    /// To these nothing is said yet.
    awaited: Vec<RequestId>,
    /// These are on their way, and the server has not read them.
    sent: usize,
}

impl PendingReplies {
    fn lock(&self) -> MutexGuard<'_, PendingReplyState> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_request(&self, id: RequestId) {
        self.lock().awaited.push(id);
    }

    /// Nobody answers any more, unless the answer is on its way.
    fn record_cancellation(&self, id: &RequestId) {
        self.lock().take(id);
        self.gone.notify_one();
    }

    /// An answer is on its way.
    fn record_sending(&self, id: &RequestId) {
        let mut answers = self.lock();
        answers.take(id);
        answers.sent = answers.sent.saturating_add(1);
    }

    fn record_sent(&self) {
        let mut answers = self.lock();
        answers.sent = answers.sent.saturating_sub(1);
        self.gone.notify_one();
    }

    /// Waits until the server is owed few answers.
    async fn wait_until_few(&self) {
        loop {
            let gone = self.gone.notified();
            let answers = self.lock().count();
            if answers < ANSWERS_OWED_MAX {
                return;
            }
            gone.await;
        }
    }
}

impl PendingReplyState {
    fn take(&mut self, id: &RequestId) {
        let place = self.awaited.iter().position(|awaited| awaited == id);
        place.map(|place| self.awaited.swap_remove(place));
    }

    fn count(&self) -> usize {
        self.awaited.len().saturating_add(self.sent)
    }
}

impl<T> WatchedTransport<T> {
    /// Watches `connection`, counts how often the tools have changed, and takes out `credentials`.
    pub(super) fn new(
        connection: T,
        changes: &Arc<AtomicUsize>,
        credentials: &Credentials,
    ) -> Self {
        Self {
            connection,
            changes: Arc::clone(changes),
            credentials: credentials.clone(),
            owed: Arc::default(),
        }
    }

    fn inspect(&self, message: &RxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(asked) => self.owed.record_request(asked.id.clone()),
            JsonRpcMessage::Notification(told) => {
                let told = &told.notification;
                if let ServerNotification::ToolListChangedNotification(_) = told {
                    self.changes.fetch_add(1, Ordering::Relaxed);
                }
                if let ServerNotification::CancelledNotification(cancelled) = told {
                    let id = cancelled.params.request_id.as_ref();
                    id.inspect(|id| self.owed.record_cancellation(id));
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for WatchedTransport<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(answer) => Some(&answer.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let owed = answered.map(|id| {
            self.owed.record_sending(id);
            Arc::clone(&self.owed)
        });
        let sending = self.connection.send(item);
        async move {
            let sent = sending.await;
            owed.inspect(|owed| owed.record_sent());
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.owed.wait_until_few().await;
            let message = self.connection.receive().await?;
            self.inspect(&message);
            if let Some(clean) = self.credentials.hide_in(message) {
                return Some(clean);
            }
            tracing::debug!("a message is none without what the server was sent");
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.connection.close()
    }
}
