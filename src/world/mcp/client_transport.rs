//! The transport of a connection with a server, over the pipes of a program or over HTTP. All
//! connections have this one type, so that the code of the protocol is compiled once.

use std::io;

use futures_util::TryFutureExt as _;
use futures_util::future::BoxFuture;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use tokio::net::unix::pipe;

use crate::world::mcp::message_size::BoundedLines;
use crate::world::mcp::remote_client::{RemoteHttpClient, RemoteHttpError};

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
