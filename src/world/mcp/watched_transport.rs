//! Transport that inspects messages in the order of their arrival. A notification that tools have
//! changed takes effect before any later message; a server that sends requests without reading the
//! replies is not read from until it reads them; and credentials that were sent to it are redacted
//! from its messages.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::Notify;

use crate::world::mcp::client_transport::{ClientTransport, ClientTransportError};
use crate::world::mcp::credentials::Credentials;

/// Limit on unread replies, beyond which a server is not read from: each reply is kept in memory
/// until the server reads it.
const PENDING_REPLIES_MAX: usize = 32;

/// A transport that inspects the messages of one server.
pub(super) struct WatchedTransport {
    connection: ClientTransport,
    /// How often the server has reported that its tools have changed.
    tool_change_count: Arc<AtomicUsize>,
    credentials: Credentials,
    pending_replies: Arc<PendingReplies>,
}

/// Replies that a server has not received yet.
#[derive(Default)]
struct PendingReplies {
    state: Mutex<PendingReplyState>,
    /// Notified when one has been sent or dropped.
    changed: Notify,
}

#[derive(Default)]
struct PendingReplyState {
    /// Requests of the server that have no reply yet.
    unanswered: Vec<RequestId>,
    /// Number of replies that are being sent and that the server has not read.
    in_transit: usize,
}

impl PendingReplies {
    fn lock(&self) -> MutexGuard<'_, PendingReplyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_request(&self, id: RequestId) {
        self.lock().unanswered.push(id);
    }

    /// Records that a request was cancelled: no reply will follow, unless it is being sent already.
    fn record_cancellation(&self, id: &RequestId) {
        self.lock().remove_request(id);
        self.changed.notify_one();
    }

    /// Records that a reply is being sent.
    fn record_sending(&self, id: &RequestId) {
        let mut state = self.lock();
        state.remove_request(id);
        state.in_transit = state.in_transit.saturating_add(1);
    }

    fn record_sent(&self) {
        let mut state = self.lock();
        state.in_transit = state.in_transit.saturating_sub(1);
        self.changed.notify_one();
    }

    /// Waits until the number of pending replies is below the limit.
    async fn wait_until_below_limit(&self) {
        loop {
            let change = self.changed.notified();
            let count = self.lock().count();
            if count < PENDING_REPLIES_MAX {
                return;
            }
            change.await;
        }
    }
}

impl PendingReplyState {
    /// Removes a request from those without a reply.
    fn remove_request(&mut self, id: &RequestId) {
        let position = self
            .unanswered
            .iter()
            .position(|unanswered| unanswered == id);
        position.map(|position| self.unanswered.swap_remove(position));
    }

    fn count(&self) -> usize {
        self.unanswered.len().saturating_add(self.in_transit)
    }
}

impl WatchedTransport {
    /// Inspects `connection`: counts in `tool_change_count` how often the tools have changed, and
    /// redacts `credentials`.
    pub(super) fn new(
        connection: ClientTransport,
        tool_change_count: &Arc<AtomicUsize>,
        credentials: &Credentials,
    ) -> Self {
        Self {
            connection,
            tool_change_count: Arc::clone(tool_change_count),
            credentials: credentials.clone(),
            pending_replies: Arc::default(),
        }
    }

    fn inspect(&self, message: &RxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => {
                self.pending_replies.record_request(request.id.clone());
            }
            JsonRpcMessage::Notification(message) => {
                let notification = &message.notification;
                if let ServerNotification::ToolListChangedNotification(_) = notification {
                    self.tool_change_count.fetch_add(1, Ordering::Relaxed);
                }
                if let ServerNotification::CancelledNotification(cancelled) = notification {
                    let id = cancelled.params.request_id.as_ref();
                    id.inspect(|id| self.pending_replies.record_cancellation(id));
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}

impl Transport<RoleClient> for WatchedTransport {
    type Error = ClientTransportError;

    fn name() -> Cow<'static, str> {
        "MCP server".into()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), ClientTransportError>> + Send + 'static {
        let answered_id = match &item {
            JsonRpcMessage::Response(answer) => Some(&answer.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let pending_replies = answered_id.map(|id| {
            self.pending_replies.record_sending(id);
            Arc::clone(&self.pending_replies)
        });
        let sending = self.connection.send(item);
        async move {
            let result = sending.await;
            pending_replies.inspect(|replies| replies.record_sent());
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            self.pending_replies.wait_until_below_limit().await;
            let message = self.connection.receive().await?;
            self.inspect(&message);
            if let Some(redacted_message) = self.credentials.redact_message(message) {
                return Some(redacted_message);
            }
            tracing::debug!("dropped a message that contains nothing but credentials");
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), ClientTransportError>> + Send {
        self.connection.close()
    }
}
