//! massgen as an MCP server: what programs ask over a stream or over HTTP is answered by tools of
//! this process. All servers have one type, so that the code of the protocol is compiled once.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientNotification, ContentBlock,
    ErrorData, JsonRpcMessage, ListToolsResult, PaginatedRequestParams, ServerConfig, Tool,
};
use rmcp::service::{
    NotificationContext, Peer, RequestContext, RunningService, RxJsonRpcMessage,
    ServerInitializeError, TxJsonRpcMessage, serve_server_with_ct,
};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::tools::image::ModelImage;
use crate::world::mcp::message_size::BoundedLines;
use crate::world::mcp::pending_replies::PendingReplies;

/// Tools that a server offers to its clients.
#[async_trait]
pub(crate) trait ToolProvider: Send + Sync {
    /// Returns the name, the capabilities and the instructions of the server.
    fn server_info(&self) -> ServerConfig;

    /// Receives a client to which notifications may be sent from now on.
    fn add_client(&self, _client: Peer<RoleServer>) {}

    /// Returns the current tools.
    async fn list_tools(&self) -> Result<Vec<Tool>, ErrorData>;

    /// Returns a tool whose schema may say which arguments a request repeats in its headers.
    fn find_tool(&self, _name: &str) -> Option<Tool> {
        None
    }

    /// Calls a tool.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData>;
}

/// A server of tools. A clone serves the same.
#[derive(Clone)]
pub(crate) struct ToolServer(Arc<dyn ToolProvider>);

impl ToolServer {
    /// Creates a server of `tools`.
    pub(crate) fn new(tools: impl ToolProvider + 'static) -> Self {
        Self(Arc::new(tools))
    }

    /// Begins to serve the client on a stream, until `stop` is cancelled. Messages of more than
    /// `message_bytes_max` bytes or with too many values are skipped.
    pub(crate) fn serve_stream(
        self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        message_bytes_max: usize,
        stop: CancellationToken,
    ) -> BoxFuture<'static, Result<RunningService<RoleServer, Self>, ServerInitializeError>> {
        let reader: BoxedReader = Box::new(reader);
        let writer: BoxedWriter = Box::new(writer);
        let connection = AsyncRwTransport::new_server(BoundedLines::new(reader), writer)
            .with_max_line_length(message_bytes_max);
        let transport = StreamTransport {
            connection,
            pending_replies: Arc::default(),
        };
        Box::pin(serve_server_with_ct(self, transport, stop))
    }
}

type BoxedReader = Box<dyn AsyncRead + Send + Unpin>;
type BoxedWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// The transport of a client on a stream, which is not read from while it does not read the replies.
struct StreamTransport {
    connection: AsyncRwTransport<RoleServer, BoundedLines<BoxedReader>, BoxedWriter>,
    pending_replies: Arc<PendingReplies>,
}

impl Transport<RoleServer> for StreamTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        let delivery = self.pending_replies.record_sending(&message);
        let sending = self.connection.send(message);
        async move {
            let result = sending.await;
            drop(delivery);
            result
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        self.pending_replies.wait_until_below_limit().await;
        let message = self.connection.receive().await?;
        match &message {
            JsonRpcMessage::Request(request) => self.pending_replies.record_request(&request.id),
            JsonRpcMessage::Notification(message) => {
                if let ClientNotification::CancelledNotification(cancelled) = &message.notification
                {
                    let id = cancelled.params.request_id.as_ref();
                    id.inspect(|id| self.pending_replies.record_cancellation(id));
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> std::io::Result<()> {
        self.connection.close().await
    }
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        self.0.server_info()
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.0.add_client(context.peer);
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.0.list_tools().await?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.find_tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.0.call_tool(request, &context).await.map(Into::into)
    }
}

/// Converts a text and its images to content blocks.
pub(crate) fn content_blocks(text: String, images: &[ModelImage]) -> Vec<ContentBlock> {
    let image_blocks = images.iter().map(|image| {
        let kind = image.kind().to_string();
        ContentBlock::image(image.base64(), kind)
    });
    std::iter::once(ContentBlock::text(text))
        .chain(image_blocks)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex, split};
    use tokio::time::timeout;

    use super::*;

    /// A server without tools.
    struct NoTools;

    #[async_trait]
    impl ToolProvider for NoTools {
        fn server_info(&self) -> ServerConfig {
            ServerConfig::default()
        }

        async fn list_tools(&self) -> Result<Vec<Tool>, ErrorData> {
            Ok(Vec::new())
        }

        async fn call_tool(
            &self,
            _request: CallToolRequestParams,
            _context: &RequestContext<RoleServer>,
        ) -> Result<CallToolResult, ErrorData> {
            Ok(CallToolResult::default())
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_no_replies_is_not_read_from() {
        let (mut client, server) = duplex(4096);
        let (reader, writer) = split(server);
        let stop = CancellationToken::new();
        let service = ToolServer::new(NoTools).serve_stream(reader, writer, 1 << 16, stop);
        let service = tokio::spawn(async { service.await.map(RunningService::waiting) });
        let begin = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\
            \"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\
            \"version\":\"1\"}}}\n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        client.write_all(begin).await.unwrap();
        let ping = b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n".repeat(100);
        let mut sent = 0_usize;
        while let Ok(result) = timeout(Duration::from_secs(1), client.write(&ping)).await {
            sent += result.unwrap();
            assert!(sent < 1 << 20, "the replies are kept");
        }
        // When it reads again, it is read from again.
        let mut replies = vec![0; 1 << 16];
        let mut more = 0;
        while more < 1 << 20 {
            tokio::select! {
                read = client.read(&mut replies) => assert!(read.unwrap() > 0),
                () = tokio::time::sleep(Duration::from_millis(1)) => {}
            }
            if let Ok(result) = timeout(Duration::from_millis(5), client.write(&ping)).await {
                more += result.unwrap();
            }
        }
        service.abort();
    }
}
