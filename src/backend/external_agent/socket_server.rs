//! The run's end of the agent socket. Receives an external agent's calls of massgen's tools and of
//! those of servers over the Model Context Protocol, and the requests of its hooks, which ask
//! whether a native tool may be used. A call waits for its answer; the gate answers a hook request.
//! A request that cannot be parsed is denied; one that cannot be read gets no answer, and then the
//! hook denies.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ErrorData, Implementation,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{Peer, RequestContext, RoleServer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::backend::NativeToolCall;
use crate::backend::external_agent::protocol::{SERVER, is_massgen_tool, native_tool_call};
use crate::path::AbsPath;
use crate::prompts::external_agents::{RUN_NOT_WAITING, TOO_MANY_CALLS, no_such_tool};
use crate::text::json_value_count::has_too_many_values;
use crate::tools::arguments::ARGUMENTS_BYTES_MAX;
use crate::tools::image::ModelImage;
use crate::tools::pre_tool_use::{PreToolUseRequest, encode_response};
use crate::tools::spec::ToolOffer;
use crate::world::access::external_call::ExternalCaller;
use crate::world::exec::agent_socket::{AgentSocket, ConnectionPurpose};
use crate::world::mcp::tool_server::{ToolProvider, ToolServer, content_blocks};

/// Maximum number of connections at the same time; further ones are closed.
const CONNECTIONS_MAX: usize = 32;
/// Maximum number of messages that the run has not taken yet; further calls are rejected.
const CALLS_MAX: usize = 32;
/// Maximum length of a message and of a hook request, in bytes: the arguments of a call and their
/// envelope.
const MESSAGE_BYTES_MAX: usize = ARGUMENTS_BYTES_MAX + 64 * 1024;
/// Maximum size of the hook requests that are parsed and decided at the same time, in bytes: a
/// parsed request may take 40 times as much memory as its text. Further ones wait.
const HOOK_REQUEST_BYTES_AT_ONCE: usize = 2 * MESSAGE_BYTES_MAX;
/// Maximum time to receive the first byte of a connection, and the rest of a hook request.
const HOOK_REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum time for which a peer that does not read is notified.
const NOTIFY_TIME_MAX: Duration = Duration::from_secs(1);

/// Message that arrived over the agent socket.
#[derive(Debug)]
pub(super) enum AgentSocketMessage {
    /// A call that waits for its answer.
    Call {
        /// The tool.
        name: String,
        /// Its arguments, as JSON.
        arguments: String,
        /// Where the answer goes.
        answer: AnswerSender,
    },
    /// A hook request about one of the agent's own tools was refused.
    Refused(NativeToolCall),
}

/// Sends the answer to an agent, or the reason why there is none.
pub(super) type AnswerSender = oneshot::Sender<Result<ToolCallAnswer, String>>;

/// Answer to a tool call of an external agent.
#[derive(Debug)]
pub(super) struct ToolCallAnswer {
    /// The text that its model reads.
    pub(super) text: String,
    /// The images that its model sees.
    pub(super) images: Vec<ModelImage>,
}

impl ToolCallAnswer {
    /// Creates an answer without images.
    pub(super) fn from_text(text: String) -> Self {
        let images = Vec::new();
        Self { text, images }
    }
}

/// The agent socket of one external agent.
#[derive(Debug)]
pub(super) struct AgentSocketServer {
    /// The messages that have arrived.
    pub(super) incoming: mpsc::Receiver<AgentSocketMessage>,
    socket: AbsPath,
    handler: AgentSocketHandler,
    accept_task: JoinHandle<()>,
    /// The socket exists for the agent as long as this is held.
    pub(super) agent_socket: Arc<AgentSocket>,
}

impl Drop for AgentSocketServer {
    fn drop(&mut self) {
        self.accept_task.abort();
    }
}

/// State that all connections share. Clones share it too.
#[derive(Clone, Debug)]
struct AgentSocketHandler(Arc<AgentSocketState>);

#[derive(Debug)]
struct AgentSocketState {
    tools: Mutex<Vec<Tool>>,
    peers: Mutex<Vec<Peer<RoleServer>>>,
    incoming: mpsc::Sender<AgentSocketMessage>,
    caller: ExternalCaller,
    connections: Semaphore,
    /// A permit for each byte of a hook request that is being decided.
    hook_request_bytes: Semaphore,
}

impl AgentSocketServer {
    /// Serves the connections to `agent_socket`; `caller` decides about hook requests.
    pub(super) fn open(agent_socket: AgentSocket, caller: ExternalCaller) -> Self {
        let (sender, incoming) = mpsc::channel(CALLS_MAX);
        let handler = AgentSocketHandler(Arc::new(AgentSocketState {
            tools: Mutex::default(),
            peers: Mutex::default(),
            incoming: sender,
            caller,
            connections: Semaphore::new(CONNECTIONS_MAX),
            hook_request_bytes: Semaphore::new(HOOK_REQUEST_BYTES_AT_ONCE),
        }));
        let socket = agent_socket.path();
        let agent_socket = Arc::new(agent_socket);
        let accept_task = tokio::spawn(serve(Arc::clone(&agent_socket), handler.clone()));
        Self {
            incoming,
            socket,
            handler,
            accept_task,
            agent_socket,
        }
    }

    /// Returns the path of the socket.
    pub(super) fn socket(&self) -> &AbsPath {
        &self.socket
    }

    /// Replaces the tools that are offered.
    pub(super) async fn offer(&self, offers: &[&ToolOffer]) {
        let tool = |offer: &&ToolOffer| {
            let schema = offer.parameters.as_object().cloned().unwrap_or_default();
            Tool::new(offer.name.clone(), offer.description.clone(), schema)
        };
        let tools: Vec<Tool> = offers.iter().map(tool).collect();
        let is_new = {
            let mut offered_tools = self.handler.tools();
            let is_new = *offered_tools != tools;
            *offered_tools = tools;
            is_new
        };
        if is_new {
            let peers = self.handler.peers().clone();
            for peer in peers {
                // A peer that has disconnected, or does not read, needs no notification.
                let _result = timeout(NOTIFY_TIME_MAX, peer.notify_tool_list_changed()).await;
            }
        }
    }
}

async fn serve(agent_socket: Arc<AgentSocket>, handler: AgentSocketHandler) {
    let mut connections = JoinSet::new();
    while let Ok(stream) = agent_socket.accept().await {
        while connections.try_join_next().is_some() {}
        let handler = handler.clone();
        connections.spawn(async move {
            let shared = Arc::clone(&handler.0);
            if let Ok(_permit) = shared.connections.try_acquire() {
                serve_connection(stream, handler).await;
            }
        });
    }
}

/// Serves one connection.
async fn serve_connection(mut stream: UnixStream, handler: AgentSocketHandler) {
    let first_byte = timeout(HOOK_REQUEST_TIME_MAX, stream.read_u8()).await;
    match first_byte
        .ok()
        .and_then(Result::ok)
        .and_then(ConnectionPurpose::from_byte)
    {
        Some(ConnectionPurpose::Protocol) => {
            let (reader, writer) = stream.into_split();
            let server = ToolServer::new(handler);
            let stop = CancellationToken::new();
            let service = server.serve_stream(reader, writer, MESSAGE_BYTES_MAX, stop);
            if let Ok(service) = service.await {
                // However it ends, the peer is gone.
                let _quit_reason = service.waiting().await;
            }
        }
        Some(ConnectionPurpose::HookRequest) => {
            // Without an answer, the hook denies.
            let request = timeout(HOOK_REQUEST_TIME_MAX, read_hook_request(&mut stream)).await;
            if let Ok(Ok(text)) = request
                && !has_too_many_values(text.as_bytes())
            {
                let answer = handler.answer_hook_request(text).await;
                let _result = stream.write_all(answer.to_string().as_bytes()).await;
            }
        }
        None => {}
    }
}

async fn read_hook_request(stream: &mut UnixStream) -> std::io::Result<String> {
    let mut text = String::new();
    let bytes_max = u64::try_from(MESSAGE_BYTES_MAX).unwrap_or(u64::MAX);
    // A longer request is truncated, so that it does not parse.
    stream.take(bytes_max).read_to_string(&mut text).await?;
    Ok(text)
}

impl AgentSocketHandler {
    fn tools(&self) -> MutexGuard<'_, Vec<Tool>> {
        self.0.tools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peers(&self) -> MutexGuard<'_, Vec<Peer<RoleServer>>> {
        self.0.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer to a hook request.
    async fn answer_hook_request(&self, text: String) -> Value {
        let bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        let permit = self.0.hook_request_bytes.acquire_many(bytes).await;
        let Ok(_permit) = permit else {
            return encode_response(Err("denied: massgen has a bug".to_owned()));
        };
        let caller = self.0.caller.clone();
        let decide = move || {
            let request = PreToolUseRequest::parse(&text)?;
            let mut call = native_tool_call(&request.tool, &request.input);
            let decision = decide_hook_request(&caller, &request);
            call.denied = decision.clone().err();
            Ok::<_, String>((decision, call))
        };
        let decision_result = spawn_blocking(decide).await;
        let failure = || Err("denied: massgen has a bug".to_owned());
        let decision = match decision_result.unwrap_or_else(|_| failure()) {
            Ok((decision, call)) => {
                if call.denied.is_some() {
                    // If the queue is full, this refusal is not shown to the user.
                    let _result = self.0.incoming.try_send(AgentSocketMessage::Refused(call));
                }
                decision
            }
            Err(reason) => Err(reason),
        };
        encode_response(decision)
    }

    async fn call(&self, request: CallToolRequestParams) -> Result<ToolCallAnswer, String> {
        let is_offered = self.tools().iter().any(|tool| tool.name == request.name);
        if !is_offered {
            return Err(no_such_tool(&request.name));
        }
        let (answer, reply) = oneshot::channel();
        let call = AgentSocketMessage::Call {
            name: request.name.into_owned(),
            arguments: Value::Object(request.arguments.unwrap_or_default()).to_string(),
            answer,
        };
        self.0
            .incoming
            .try_send(call)
            .map_err(|_| TOO_MANY_CALLS.to_owned())?;
        reply
            .await
            .unwrap_or_else(|_| Err(RUN_NOT_WAITING.to_owned()))
    }
}

fn decide_hook_request(caller: &ExternalCaller, request: &PreToolUseRequest) -> Result<(), String> {
    if is_massgen_tool(&request.tool) {
        return Ok(());
    }
    caller.decide(&request.tool, request.tool_action()?)
}

#[async_trait]
impl ToolProvider for AgentSocketHandler {
    fn server_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(SERVER, env!("CARGO_PKG_VERSION")))
    }

    fn add_client(&self, client: Peer<RoleServer>) {
        let mut peers = self.peers();
        peers.retain(|peer| !peer.is_transport_closed());
        // A client can say more than once that it is ready.
        if peers.len() < CONNECTIONS_MAX {
            peers.push(client);
        }
    }

    async fn list_tools(&self) -> Result<Vec<Tool>, ErrorData> {
        Ok(self.tools().clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        Ok(match self.call(request).await {
            Ok(ToolCallAnswer { text, images }) => {
                CallToolResult::success(content_blocks(text, &images))
            }
            Err(reason) => CallToolResult::error(vec![ContentBlock::text(reason)]),
        })
    }
}
