//! Owns a connection whose messages are looked at in the order in which they come: that the tools of
//! a server have changed is known before whatever the server says after that.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A connection that is watched.
pub(super) struct Watched<T> {
    connection: T,
    changes: Arc<AtomicUsize>,
}

impl<T> Watched<T> {
    /// Watches `connection`, and counts how often the tools have changed.
    pub(super) fn new(connection: T, changes: &Arc<AtomicUsize>) -> Self {
        Self {
            connection,
            changes: Arc::clone(changes),
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Watched<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.connection.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.connection.receive().await;
        if let Some(JsonRpcMessage::Notification(told)) = &message
            && matches!(
                told.notification,
                ServerNotification::ToolListChangedNotification(_)
            )
        {
            self.changes.fetch_add(1, Ordering::Relaxed);
        }
        message
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.connection.close()
    }
}
