//! Beginning of a connection: the protocol of 2026-07-28, which has no handshake, or an older one
//! with the `initialize` handshake.

use rmcp::model::{ProtocolVersion, SubscriptionFilter};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, Peer, RoleClient, RunningService,
    serve_client_with_lifecycle,
};
use rmcp::transport::DynamicTransportError;
use tokio::task::AbortHandle;

use crate::world::mcp::client_handler::McpClientHandler;
use crate::world::mcp::watched_transport::WatchedTransport;

/// Which beginnings a server is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HandshakeChoice {
    /// The newest protocol; an older one if the server does not know it.
    Newest,
    /// Only the `initialize` handshake.
    Initialize,
}

/// Begins a connection with a server.
pub(super) async fn begin(
    handler: McpClientHandler,
    transport: WatchedTransport,
    choice: HandshakeChoice,
) -> Result<RunningService<RoleClient, McpClientHandler>, ClientInitializeError> {
    let mode = match choice {
        HandshakeChoice::Newest => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        },
        HandshakeChoice::Initialize => ClientLifecycleMode::Initialize,
    };
    serve_client_with_lifecycle(handler, transport, mode).await
}

/// Returns the error with which the last beginning failed: if both did, that of the older one.
fn last_failure(error: &ClientInitializeError) -> &ClientInitializeError {
    let mut last_error = error;
    while let ClientInitializeError::LegacyFallbackFailed { fallback, .. } = last_error {
        last_error = fallback;
    }
    last_error
}

/// Returns the error of the transport with which a beginning failed.
pub(super) fn transport_error(error: &ClientInitializeError) -> Option<&DynamicTransportError> {
    if let ClientInitializeError::TransportError { error, .. } = last_failure(error) {
        Some(error)
    } else {
        None
    }
}

/// Returns whether a server may know only the older handshake, although it did not say so: it
/// answered the first message with something else, as if it understood.
pub(super) fn has_misunderstood(error: &ClientInitializeError) -> bool {
    matches!(
        last_failure(error),
        ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. }
            | ClientInitializeError::NoCompatibleProtocolVersion { .. }
    )
}

/// Returns whether a program has ended instead of answering: some do when the first message is not
/// `initialize`.
pub(super) fn has_ended(error: &ClientInitializeError) -> bool {
    matches!(
        last_failure(error),
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    )
}

/// A task that ends with its connection.
#[derive(Debug)]
pub(super) struct ListeningTask(AbortHandle);

impl Drop for ListeningTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Subscribes to changes of the tools at a server of the newest protocol; in older ones, servers
/// send them unasked. The transport counts them.
pub(super) fn listen_for_changes(peer: &Peer<RoleClient>) -> Option<ListeningTask> {
    let info = peer.peer_info()?;
    let tools = info.capabilities.tools.as_ref()?;
    if info.protocol_version.has_initialize() || tools.list_changed != Some(true) {
        return None;
    }
    let peer = peer.clone();
    let task = tokio::spawn(async move {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        if let Ok(mut subscription) = peer.listen(filter).await {
            while let Ok(Some(_)) = subscription.next().await {}
        }
    });
    Some(ListeningTask(task.abort_handle()))
}
