//! massgen as an MCP server: what programs ask over a stream or over HTTP is answered by tools of
//! this process. All servers have one type, so that the code of the protocol is compiled once.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerConfig, Tool,
};
use rmcp::service::{
    NotificationContext, Peer, RequestContext, RunningService, ServerInitializeError,
    serve_server_with_ct,
};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{RoleServer, ServerHandler};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::world::mcp::message_size::BoundedLines;

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
        let reader: Box<dyn AsyncRead + Send + Unpin> = Box::new(reader);
        let writer: Box<dyn AsyncWrite + Send + Unpin> = Box::new(writer);
        let transport = AsyncRwTransport::new_server(BoundedLines::new(reader), writer)
            .with_max_line_length(message_bytes_max);
        Box::pin(serve_server_with_ct(self, transport, stop))
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
