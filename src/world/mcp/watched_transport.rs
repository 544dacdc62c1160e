//! Transport that inspects messages in the order of their arrival. A notification that tools have
//! changed takes effect before any later message; a server that sends requests without reading the
//! replies is not read from until it does; and credentials that were sent to it are redacted from
//! its messages.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;

use crate::world::mcp::credentials::Credentials;

/// Limit on unread replies, beyond which a server is not read from: each reply is kept in memory
/// until the server reads it.
const ANSWERS_OWED_MAX: usize = 32;

/// A transport that inspects messages.
pub(super) struct WatchedTransport<T> {
    connection: T,
    changes: Arc<AtomicUsize>,
    credentials: Credentials,
    owed: Arc<PendingReplies>,
}

/// Replies that a server has not received yet.
#[derive(Default)]
struct PendingReplies {
    answers: Mutex<PendingReplyState>,
    /// Notified when one has been sent or dropped.
    gone: Notify,
}

#[derive(Default)]
struct PendingReplyState {
    /// Requests without a reply so far.
    awaited: Vec<RequestId>,
    /// Number of replies that are being sent and that the server has not read.
    sent: usize,
}

impl PendingReplies {
    fn lock(&self) -> MutexGuard<'_, PendingReplyState> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_request(&self, id: RequestId) {
        self.lock().awaited.push(id);
    }

    /// Records that a request was cancelled: no reply will follow, unless it is being sent already.
    fn record_cancellation(&self, id: &RequestId) {
        self.lock().take(id);
        self.gone.notify_one();
    }

    /// Records that a reply is being sent.
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

    /// Waits until the number of pending replies is below the limit.
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
    /// Inspects `connection`: counts in `changes` how often the tools have changed, and redacts
    /// `credentials`.
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
            JsonRpcMessage::Notification(message) => {
                let notification = &message.notification;
                if let ServerNotification::ToolListChangedNotification(_) = notification {
                    self.changes.fetch_add(1, Ordering::Relaxed);
                }
                if let ServerNotification::CancelledNotification(cancelled) = notification {
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
