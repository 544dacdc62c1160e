//! Limits the replies to a peer that it has not received: a peer that sends requests without reading
//! the replies is not read from until it reads them.

use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::model::{JsonRpcMessage, RequestId};
use tokio::sync::Notify;

/// Limit on unread replies, beyond which a peer is not read from: each reply is kept in memory
/// until the peer reads it.
const PENDING_REPLIES_MAX: usize = 32;

/// The replies that a peer has not received yet.
#[derive(Debug, Default)]
pub(super) struct PendingReplies {
    state: Mutex<PendingReplyState>,
    /// Notified when one has been sent or dropped.
    changed: Notify,
}

#[derive(Debug, Default)]
struct PendingReplyState {
    /// Requests of the peer that have no reply yet.
    unanswered: Vec<RequestId>,
    /// Number of replies that are being sent and that the peer has not read.
    in_transit: usize,
}

impl PendingReplies {
    /// Records a request of the peer.
    pub(super) fn record_request(&self, id: &RequestId) {
        self.state.lock().unanswered.push(id.clone());
    }

    /// Records that a request was cancelled: no reply will follow, unless it is being sent already.
    pub(super) fn record_cancellation(&self, id: &RequestId) {
        self.state.lock().remove_request(id);
        self.changed.notify_one();
    }

    /// Records that `message` is being sent, if it is a reply, until the result is dropped.
    pub(super) fn record_sending<A, B, C>(
        self: &Arc<Self>,
        message: &JsonRpcMessage<A, B, C>,
    ) -> Option<ReplyInTransit> {
        let id = match message {
            JsonRpcMessage::Response(answer) => Some(&answer.id),
            JsonRpcMessage::Error(error) => error.id.as_ref(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        id.map(|id| {
            let mut state = self.state.lock();
            state.remove_request(id);
            state.in_transit = state.in_transit.saturating_add(1);
            ReplyInTransit(Arc::clone(self))
        })
    }

    /// Waits until the number of pending replies is below the limit.
    pub(super) async fn wait_until_below_limit(&self) {
        loop {
            let change = self.changed.notified();
            let count = self.state.lock().count();
            if count < PENDING_REPLIES_MAX {
                return;
            }
            change.await;
        }
    }
}

/// A reply that is being sent.
#[derive(Debug)]
pub(super) struct ReplyInTransit(Arc<PendingReplies>);

impl Drop for ReplyInTransit {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.in_transit = state.in_transit.saturating_sub(1);
        self.0.changed.notify_one();
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
