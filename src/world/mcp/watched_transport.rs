//! Transport that inspects messages in the order of their arrival. A notification that tools have
//! changed takes effect before any later message; a server that sends requests without reading the
//! replies is not read from until it reads them; and credentials that were sent to it are redacted
//! from its messages.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::TryFutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::model::{JsonRpcMessage, ServerNotification};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::net::unix::pipe;

use crate::world::mcp::credentials::Credentials;
use crate::world::mcp::message_size::BoundedLines;
use crate::world::mcp::pending_replies::PendingReplies;
use crate::world::mcp::remote_client::{RemoteHttpClient, RemoteHttpError};

/// A transport that inspects the messages of one server.
pub(super) struct WatchedTransport {
    connection: ClientTransport,
    /// How often the server has reported that its tools have changed.
    tool_change_count: Arc<AtomicUsize>,
    credentials: Credentials,
    pending_replies: Arc<PendingReplies>,
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
            JsonRpcMessage::Request(request) => self.pending_replies.record_request(&request.id),
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
        let delivery = self.pending_replies.record_sending(&item);
        let sending = self.connection.send(item);
        async move {
            let result = sending.await;
            drop(delivery);
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

/// A connection with a server.
pub(super) enum ClientTransport {
    /// Over the pipes of a program.
    Pipes(AsyncRwTransport<RoleClient, BoundedLines<pipe::Receiver>, pipe::Sender>),
    /// Over Streamable HTTP.
    Http(StreamableHttpClientTransport<RemoteHttpClient>),
}

/// Why a message could not be sent to a server. The causes are those of the inner error, which is
/// not one of them.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClientTransportError {
    /// A pipe failed.
    #[error(transparent)]
    Pipes(#[from] io::Error),
    /// A request failed.
    #[error(transparent)]
    Http(#[from] RemoteHttpError),
}

impl Transport<RoleClient> for ClientTransport {
    type Error = ClientTransportError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), ClientTransportError>> + Send + 'static {
        let sending: BoxFuture<'static, _> = match self {
            Self::Pipes(pipes) => Box::pin(pipes.send(message).err_into()),
            Self::Http(http) => Box::pin(http.send(message).err_into()),
        };
        sending
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        match self {
            Self::Pipes(pipes) => pipes.receive().await,
            Self::Http(http) => http.receive().await,
        }
    }

    async fn close(&mut self) -> Result<(), ClientTransportError> {
        match self {
            Self::Pipes(pipes) => pipes.close().await?,
            Self::Http(http) => http.close().await?,
        }
        Ok(())
    }
}
