//! One open connection to an MCP server: over the pipes of a program in a sandbox, or over the
//! network. It sends requests that were permitted before, and receives the replies.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientRequest, Cursor, CustomResult, GetPromptRequestParams, JsonObject,
    ListToolsRequest, PaginatedRequestParams, ReadResourceRequestParams, ServerResult, Tool,
};
use rmcp::service::{Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::auth::AuthClient;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::config::servers::RemoteServer;
use crate::path::AbsPath;
use crate::text::{escape_line, single_line};
use crate::tools::served::ServerOperation;
use crate::tools::served::offer::{ServerFeature, ServerToolDescription};
use crate::world::mcp::client_handler::{McpClientHandler, ServerListener};
use crate::world::mcp::credentials::{Credentials, has_authorization};
use crate::world::mcp::guarded_http::FailureCause;
use crate::world::mcp::guarded_resolver::guarded_client;
use crate::world::mcp::lifecycle::{self, HandshakeChoice, ListeningTask, listen_for_changes};
use crate::world::mcp::message_size::BoundedLines;
use crate::world::mcp::program_host::PreparedPlace;
use crate::world::mcp::progress::{CallInProgress, ServerProgressSender};
use crate::world::mcp::remote::{self, RemoteConnectError};
use crate::world::mcp::remote_client::{EventStreamState, RemoteHttpClient, RequestAuthorization};
use crate::world::mcp::server_reply::{self, ServerReply};
use crate::world::mcp::sign_in::authorized_manager;
use crate::world::mcp::tokens::ServerTokens;
use crate::world::mcp::watched_transport::{ClientTransport, WatchedTransport};
use crate::world::mcp::{MESSAGE_BYTES_MAX, START_TIME_MAX, ServerLaunch, timeout_message};
use crate::world::sandbox::ExitReason;
use crate::world::sandbox::stdio_process::{StderrFilter, StdioPipes, StdioProcess};
use crate::world::store::redact::{RedactedStream, Redactor};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// Largest number of pages of one list that are requested.
const PAGES_MAX: usize = 32;
/// How often progress of a server renews the timeout of a call.
const PROGRESS_RENEWALS_MAX: u32 = 9;
/// Largest list of tools, in bytes of names, descriptions and schemas.
const LIST_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// Largest log of what one instance of a program writes to its standard error, in bytes.
const LOG_BYTES_MAX: usize = 1024 * 1024;
/// Longest text of a server that an error quotes, in characters; of a log, its end.
const QUOTE_CHARS_MAX: usize = 600;
/// Largest number of lines of instructions that are shown.
const INSTRUCTION_LINES_MAX: usize = 32;

/// One open connection.
#[derive(Debug)]
pub(super) struct McpClient {
    service: RunningService<RoleClient, McpClientHandler>,
    program: Option<StdioProcess>,
    /// The credentials that were sent to the server.
    credentials: Credentials,
    /// How often the server has reported that its tools have changed.
    tool_change_count: Arc<AtomicUsize>,
    /// The stream on which a remote server sends its own requests.
    stream: EventStreamState,
    /// The subscription to changes of the tools, which ends when it is dropped.
    _listening_task: Option<ListeningTask>,
}

/// Why a program cannot be used.
#[derive(Debug)]
pub(super) struct ProgramConnectError {
    /// The reason, with how the program ended and what it wrote last unless it is tried again.
    pub(super) reason: String,
    /// Whether it may know only the older handshake, with which it is tried again.
    pub(super) may_be_older: bool,
    /// Whose fault it is.
    pub(super) cause: FailureCause,
}

/// Why a request failed.
#[derive(Debug)]
pub(super) enum McpClientError {
    /// The server has gone away.
    Gone,
    /// The server requires the user to sign in, perhaps for these scopes.
    SignInRequired(Option<String>),
    /// massgen refused to send the request, for this reason.
    Refused(String),
    /// For another reason.
    Failed(String),
}

impl McpClientError {
    /// Creates the error that a request failed or was not sent for this reason.
    fn new(cause: FailureCause, reason: String) -> Self {
        match cause {
            FailureCause::Server => Self::Failed(reason),
            FailureCause::Refusal => Self::Refused(reason),
        }
    }

    /// Redacts these credentials from the error.
    fn redact(self, credentials: &Credentials) -> Self {
        match self {
            Self::Gone => Self::Gone,
            Self::SignInRequired(missing) => {
                Self::SignInRequired(missing.map(|text| credentials.redact(&text)))
            }
            Self::Refused(reason) => Self::Refused(credentials.redact(&reason)),
            Self::Failed(reason) => Self::Failed(credentials.redact(&reason)),
        }
    }

    /// Returns whose fault it is.
    pub(super) fn cause(&self) -> FailureCause {
        match self {
            Self::Gone | Self::Failed(_) => FailureCause::Server,
            Self::SignInRequired(_) | Self::Refused(_) => FailureCause::Refusal,
        }
    }
}

impl From<ServiceError> for McpClientError {
    fn from(error: ServiceError) -> Self {
        let is_gone = matches!(
            error,
            ServiceError::TransportClosed | ServiceError::TransportSend(_)
        );
        let (missing, refusal) = if let ServiceError::TransportSend(error) = &error {
            (remote::missing_scopes(error), remote::refusal(error))
        } else {
            (None, None)
        };
        if missing.is_some() {
            McpClientError::SignInRequired(missing)
        } else if error.is_authorization_required() {
            McpClientError::SignInRequired(None)
        } else if let Some(reason) = refusal {
            McpClientError::Refused(quote_server(&reason))
        } else if is_gone {
            McpClientError::Gone
        } else if let ServiceError::McpError(error) = error {
            McpClientError::Failed(quote_server(&error.message))
        } else {
            McpClientError::Failed(quote_server(&error.to_string()))
        }
    }
}

impl McpClient {
    /// Starts a program and begins a connection with it.
    pub(super) async fn connect_program(
        launch: &ServerLaunch,
        host: &PreparedPlace<'_>,
        choice: HandshakeChoice,
        log: StderrFilter,
        listener: Option<ServerListener>,
    ) -> Result<Self, ProgramConnectError> {
        let start_result = host.start(log).await;
        let (program, pipes) = start_result.map_err(|error| start_error(&error))?;
        let tool_change_count = Arc::default();
        let handler = McpClientHandler::new(&launch.roots, listener);
        let first_input = launch.first_input.as_deref().unwrap_or_default();
        let connection =
            begin_with_program(pipes, first_input, handler, &tool_change_count, choice);
        let handshake = timeout(START_TIME_MAX, connection).await;
        let mut error = match handshake {
            Ok(Ok(service)) => {
                return Ok(Self {
                    program: Some(program),
                    ..Self::new(service, tool_change_count)
                });
            }
            Ok(Err(error)) => error,
            Err(_) => ProgramConnectError {
                reason: timeout_message(),
                may_be_older: false,
                cause: FailureCause::Server,
            },
        };
        // A program that is tried again need not have ended, so how it ended is not reported.
        if !error.may_be_older {
            let (exit_reason, report) = exit_report(&program).await;
            error.reason.push_str(&report);
            if exit_reason.is_some_and(|reason| !reason.is_failure_of_program()) {
                error.cause = FailureCause::Refusal;
            }
        }
        Err(error)
    }

    fn new(
        service: RunningService<RoleClient, McpClientHandler>,
        tool_change_count: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            _listening_task: listen_for_changes(service.peer()),
            service,
            program: None,
            credentials: Credentials::default(),
            tool_change_count,
            stream: EventStreamState::default(),
        }
    }

    /// Connects to a remote server, with the user's tokens if they have signed in.
    pub(super) async fn connect_remote(
        remote: &RemoteServer,
        tokens: Option<ServerTokens>,
        listener: Option<ServerListener>,
    ) -> Result<Self, McpClientError> {
        let tokens = tokens.filter(|_| !has_authorization(remote));
        let credentials = Credentials::new(remote, tokens.clone());
        let connection = Self::connect_with_credentials(remote, tokens, listener, &credentials);
        connection.await.map_err(|error| error.redact(&credentials))
    }

    async fn connect_with_credentials(
        remote: &RemoteServer,
        tokens: Option<ServerTokens>,
        listener: Option<ServerListener>,
        credentials: &Credentials,
    ) -> Result<Self, McpClientError> {
        let client = guarded_client(remote).map_err(McpClientError::Refused)?;
        // The OAuth manager with the user's tokens, and the client that sends its requests.
        let sign_in = match &tokens {
            Some(tokens) => authorized_manager(remote, tokens)
                .await
                .map_err(|unusable| McpClientError::new(unusable.cause, unusable.reason))?,
            None => None,
        };
        // What a refused request means: a token may have had to be refreshed or replaced.
        let refusal_cause: Box<dyn Fn() -> FailureCause + Send + Sync>;
        let authorization = if let Some((manager, http)) = sign_in {
            refusal_cause = Box::new(move || http.failure_cause());
            RequestAuthorization::User(AuthClient::new(client, manager))
        } else {
            refusal_cause = Box::new(|| FailureCause::Refusal);
            RequestAuthorization::Headers(client)
        };
        let client = RemoteHttpClient::new(authorization);
        let tool_change_count = Arc::default();
        let stream = client.stream.clone();
        let listener = listener.as_ref();
        let handshake =
            remote::initialize_remote(remote, client, listener, &tool_change_count, credentials);
        let service = Box::pin(handshake).await.map_err(|error| match error {
            RemoteConnectError::SignIn { missing_scopes, .. } => {
                McpClientError::SignInRequired(missing_scopes)
            }
            RemoteConnectError::Refused(reason) => {
                McpClientError::new(refusal_cause(), quote_server(&reason))
            }
            RemoteConnectError::Failed(reason) => McpClientError::Failed(quote_server(&reason)),
        })?;
        Ok(Self {
            credentials: credentials.clone(),
            stream,
            ..Self::new(service, tool_change_count)
        })
    }

    /// Redacts the credentials that were sent to the server from `error`.
    pub(super) fn redact_credentials(&self, error: McpClientError) -> McpClientError {
        error.redact(&self.credentials)
    }

    /// Returns whether the connection is still open.
    pub(super) fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// Returns how often the server has reported that its tools have changed.
    pub(super) fn tool_change_count(&self) -> usize {
        self.tool_change_count.load(Ordering::Relaxed)
    }

    /// Waits for `reply` up to a timeout, which starts again if the server asked a person to fill
    /// in a form meanwhile (an elicitation), and [`PROGRESS_RENEWALS_MAX`] times if it reported
    /// progress; `None` on timeout.
    pub(super) async fn with_timeout<T>(
        &self,
        time_max: Duration,
        reply: impl Future<Output = T>,
    ) -> Option<T> {
        let mut reply = pin!(reply);
        let handler = self.service.service();
        let mut forms = handler.form_count();
        let mut reports = handler.progress_count();
        let mut renewals_left = PROGRESS_RENEWALS_MAX;
        loop {
            if let Ok(answer) = timeout(time_max, &mut reply).await {
                return Some(answer);
            }
            handler.wait_until_idle().await;
            let earlier_forms = std::mem::replace(&mut forms, handler.form_count());
            if forms != earlier_forms {
                continue;
            }
            let earlier_reports = std::mem::replace(&mut reports, handler.progress_count());
            if reports == earlier_reports || renewals_left == 0 {
                return None;
            }
            renewals_left = renewals_left.saturating_sub(1);
        }
    }

    /// Registers a call, until the result is dropped; the server's progress goes to `progress`.
    pub(super) fn register_call(&self, progress: Option<&ServerProgressSender>) -> CallInProgress {
        self.service.service().routes().register(progress)
    }

    /// Returns how its program ended and what it wrote last, as the end of a sentence.
    pub(super) async fn exit_report(&self) -> String {
        match &self.program {
            Some(program) => exit_report(program).await.1,
            None => String::new(),
        }
    }

    /// Returns the lines of its instructions. massgen's own host for Python functions writes notes for
    /// the user there; what other servers write there is for models, and massgen does not use it.
    pub(super) fn instructions(&self) -> Vec<String> {
        let info = self.service.peer().peer_info();
        let text = info.as_ref().and_then(|info| info.instructions.as_deref());
        let lines = text.unwrap_or_default().lines().take(INSTRUCTION_LINES_MAX);
        lines.map(quote_server).collect()
    }

    /// Lists the tools of the server, and those that massgen adds for its resources and prompts.
    pub(super) async fn tools(&self) -> Result<Vec<ServerToolDescription>, McpClientError> {
        let peer = self.service.peer();
        let info = peer.peer_info();
        let capabilities = info.as_ref().map(|info| &info.capabilities);
        let has_resources =
            capabilities.is_some_and(|capabilities| capabilities.resources.is_some());
        let has_prompts = capabilities.is_some_and(|capabilities| capabilities.prompts.is_some());
        let mut descriptions = list_tools(peer).await?;
        let features = [
            has_resources.then_some(ServerFeature::Resources),
            has_prompts.then_some(ServerFeature::Prompts),
        ];
        for tool in features
            .into_iter()
            .flatten()
            .flat_map(ServerFeature::tool_descriptions)
        {
            if !descriptions.iter().any(|added| added.name == tool.name) {
                descriptions.push(tool);
            }
        }
        Ok(descriptions)
    }

    /// Sends one request. If the caller stops waiting, the server is notified of the cancellation.
    pub(super) async fn send_request(
        &self,
        operation: ServerOperation,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<ServerReply, McpClientError> {
        // If the call arrived before the request for the stream, what the server asks during the
        // call would be lost.
        self.stream.wait_until_answered().await;
        let (service, peer) = (&self.service, self.service.peer());
        match operation {
            ServerOperation::Tool => {
                let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
                let result = service.call_tool(call).await?;
                Ok(server_reply::tool_reply(&result))
            }
            ServerOperation::ListResources => {
                let rows = list_rows(async |page| {
                    let result = peer.list_resources(page).await?;
                    let rows = result.resources.iter().map(server_reply::resource_row);
                    Ok((rows.collect(), result.next_cursor))
                });
                Ok(server_reply::list_reply(&rows.await?))
            }
            ServerOperation::ReadResource => {
                let parameters = ReadResourceRequestParams::new(string_argument(&arguments, "uri"));
                let result = service.read_resource(parameters).await?;
                Ok(server_reply::contents_reply(&result))
            }
            ServerOperation::ListPrompts => {
                let rows = list_rows(async |page| {
                    let result = peer.list_prompts(page).await?;
                    let rows = result.prompts.iter().map(server_reply::prompt_row);
                    Ok((rows.collect(), result.next_cursor))
                });
                Ok(server_reply::list_reply(&rows.await?))
            }
            ServerOperation::GetPrompt => {
                let mut parameters =
                    GetPromptRequestParams::new(string_argument(&arguments, "name"));
                if let Some(Value::Object(prompt_arguments)) = arguments.get("arguments") {
                    parameters = parameters.with_arguments(prompt_arguments.clone());
                }
                let result = service.get_prompt(parameters).await?;
                Ok(server_reply::prompt_reply(&result))
            }
        }
    }
}

/// Begins a connection with a program. Messages that are too long or have too many values are
/// skipped.
async fn begin_with_program(
    pipes: StdioPipes,
    first_input: &[u8],
    handler: McpClientHandler,
    tool_change_count: &Arc<AtomicUsize>,
    choice: HandshakeChoice,
) -> Result<RunningService<RoleClient, McpClientHandler>, ProgramConnectError> {
    let reader =
        pipe::Receiver::from_owned_fd(pipes.output).map_err(|error| start_error(&error))?;
    let mut writer =
        pipe::Sender::from_owned_fd(pipes.input).map_err(|error| start_error(&error))?;
    // If the program does not read it, it has ended, which the handshake reports.
    writer.write_all(first_input).await.unwrap_or_default();
    let transport = AsyncRwTransport::new_client(BoundedLines::new(reader), writer)
        .with_max_line_length(MESSAGE_BYTES_MAX);
    let connection = ClientTransport::Pipes(transport);
    let transport = WatchedTransport::new(connection, tool_change_count, &Credentials::default());
    let service = lifecycle::begin(handler, transport, choice).await;
    service.map_err(|error| ProgramConnectError {
        reason: quote_server(&error.to_string()),
        may_be_older: choice == HandshakeChoice::Newest
            && (lifecycle::has_ended(&error) || lifecycle::has_misunderstood(&error)),
        cause: FailureCause::Server,
    })
}

/// Lists the tools of a server, up to a limit on the number of pages and on the size.
async fn list_tools(peer: &Peer<RoleClient>) -> Result<Vec<ServerToolDescription>, McpClientError> {
    let mut descriptions: Vec<ServerToolDescription> = Vec::new();
    let (mut cursor, mut total_bytes) = (None, 0_usize);
    for _ in 0..PAGES_MAX {
        let parameters = PaginatedRequestParams::default().with_cursor(cursor);
        let (tools, next_cursor) = list_page(peer, parameters).await?;
        let tool_bytes = tools.iter().map(|tool| {
            let texts = tool.name.len().saturating_add(tool.description.len());
            texts.saturating_add(tool.schema.to_string().len())
        });
        total_bytes = tool_bytes.fold(total_bytes, usize::saturating_add);
        if total_bytes > LIST_BYTES_MAX {
            let reason = format!("its list of tools is longer than {LIST_BYTES_MAX} bytes");
            return Err(McpClientError::Failed(reason));
        }
        let is_known =
            |tool: &ServerToolDescription| descriptions.iter().any(|known| known.name == tool.name);
        // Some servers name a next page after the last one, and send the same tools again.
        let is_repeated = !tools.is_empty() && tools.iter().all(is_known);
        if is_repeated {
            break;
        }
        descriptions.extend(tools);
        cursor = next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    Ok(descriptions)
}

/// Lists the rows of all pages, up to a limit on their number and on the size of the rows. If there
/// are more, the last row says so.
async fn list_rows(
    request_page: impl AsyncFn(
        Option<PaginatedRequestParams>,
    ) -> Result<(Vec<String>, Option<Cursor>), ServiceError>,
) -> Result<Vec<String>, McpClientError> {
    let mut rows: Vec<String> = Vec::new();
    let (mut page, mut total_bytes) = (None, 0_usize);
    for _ in 0..PAGES_MAX {
        let (page_rows, next_cursor) = request_page(page).await?;
        let row_bytes = page_rows.iter().map(String::len);
        total_bytes = row_bytes.fold(total_bytes, usize::saturating_add);
        let is_repeated = !page_rows.is_empty() && page_rows.iter().all(|row| rows.contains(row));
        if is_repeated {
            return Ok(rows);
        }
        rows.extend(page_rows);
        if next_cursor.is_none() {
            return Ok(rows);
        }
        if total_bytes > LIST_BYTES_MAX {
            break;
        }
        page = Some(PaginatedRequestParams::default().with_cursor(next_cursor));
    }
    rows.push("(the server lists more)".to_owned());
    Ok(rows)
}

/// Requests one page of a server's tools; returns them and the cursor of the next page. An invalid
/// tool does not make the others unavailable.
async fn list_page(
    peer: &Peer<RoleClient>,
    parameters: PaginatedRequestParams,
) -> Result<(Vec<ServerToolDescription>, Option<Cursor>), McpClientError> {
    let request = ListToolsRequest::with_param(parameters);
    let request = peer.send_request(ClientRequest::ListToolsRequest(request));
    let answer = request.await?;
    if let ServerResult::ListToolsResult(page) = answer {
        let tools = page.tools.into_iter().map(describe_server_tool);
        return Ok((tools.collect(), page.next_cursor));
    }
    // The library parses a page with an invalid tool as a reply of unknown type.
    if let ServerResult::CustomResult(CustomResult(page)) = answer
        && let Some(Value::Array(tools)) = page.get("tools")
    {
        let tools = tools.iter().filter_map(describe_unparsed_tool);
        let next_cursor = page.get("nextCursor").and_then(Value::as_str);
        return Ok((tools.collect(), next_cursor.map(str::to_owned)));
    }
    let reason = "its reply is not a list of tools";
    Err(McpClientError::Failed(reason.to_owned()))
}

fn describe_server_tool(tool: Tool) -> ServerToolDescription {
    let description = tool.description.or(tool.title.map(Into::into));
    ServerToolDescription {
        name: tool.name.into_owned(),
        description: description.unwrap_or_default().into_owned(),
        schema: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
        operation: ServerOperation::Tool,
    }
}

/// Reads a tool that may not conform to the protocol; `None` if it has no name.
fn describe_unparsed_tool(tool: &Value) -> Option<ServerToolDescription> {
    let text = |key: &str| tool.get(key).and_then(Value::as_str);
    Some(ServerToolDescription {
        name: text("name")?.to_owned(),
        description: text("description")
            .or(text("title"))
            .unwrap_or_default()
            .to_owned(),
        schema: tool.get("inputSchema").cloned().unwrap_or_default(),
        operation: ServerOperation::Tool,
    })
}

/// Returns a string among the arguments of a call; empty if there is none.
fn string_argument(arguments: &JsonObject, name: &str) -> String {
    let text = arguments.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Quotes untrusted text in a single line.
fn quote_server(text: &str) -> String {
    escape_line(&single_line(text, QUOTE_CHARS_MAX))
}

/// Converts the error of a program that did not start: a failure of the server if the program
/// itself failed, and otherwise a refusal, because massgen could not confine the program.
fn start_error(error: &io::Error) -> ProgramConnectError {
    let exit_reason = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<ExitReason>());
    ProgramConnectError {
        reason: error.to_string(),
        may_be_older: false,
        cause: if exit_reason.is_some_and(ExitReason::is_failure_of_program) {
            FailureCause::Server
        } else {
            FailureCause::Refusal
        },
    }
}

/// Returns how a program ended; and the same as the end of a sentence, with what it wrote last.
async fn exit_report(program: &StdioProcess) -> (Option<ExitReason>, String) {
    let (exit_reason, stderr) = program.exit_and_stderr().await;
    let exit_text = exit_reason.as_ref().map(|reason| format!("; {reason}"));
    let char_count = stderr.chars().count();
    let stderr_end: String = stderr
        .chars()
        .skip(char_count.saturating_sub(QUOTE_CHARS_MAX))
        .collect();
    let quote = quote_server(&stderr_end);
    let stderr_text = (!quote.is_empty()).then(|| format!("; it wrote: {quote}"));
    let report = [exit_text, stderr_text].into_iter().flatten().collect();
    (exit_reason, report)
}

/// Returns a filter that appends what a program writes to its standard error to the file `path`, up
/// to a limit and with secrets redacted, and passes on the redacted text. A failure to write does
/// not affect the server.
pub(in crate::world) fn log_filter(path: AbsPath, redactor: Redactor) -> StderrFilter {
    let mut bytes_left = LOG_BYTES_MAX;
    let mut redacted_stream = RedactedStream::default();
    let mut has_dir = false;
    Box::new(move |text: Option<&str>| {
        let text = match text {
            Some(text) => redacted_stream.push(&redactor, text),
            None => redacted_stream.finish(&redactor),
        };
        let end = text.floor_char_boundary(bytes_left);
        let logged_text = text.get(..end).unwrap_or_default();
        bytes_left = if end < text.len() {
            0
        } else {
            bytes_left.saturating_sub(end)
        };
        if !logged_text.is_empty() {
            let create_dir = |dir| dir::create_all(&dir, DirectoryAudience::User).is_ok();
            has_dir = has_dir || path.parent().is_some_and(create_dir);
            if has_dir {
                file::append(&path, logged_text.as_bytes()).unwrap_or_default();
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "a test looks at the logs that it makes"
    )]

    use std::fs;

    use secrecy::SecretString;

    use crate::path::AbsPath;
    use crate::world::mcp::client::{LOG_BYTES_MAX, log_filter};
    use crate::world::store::redact::Redactor;

    #[test]
    fn a_log_has_all_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let log_of = |name: &str, pieces: &[&str]| {
            let path = dir.path().join("servers").join(name);
            let redactor = Redactor::new(vec![SecretString::from("sk-0123456789")]);
            let mut filter = log_filter(AbsPath::new(&path).unwrap(), redactor);
            let mut reported: String = pieces.iter().map(|piece| filter(Some(piece))).collect();
            reported += &filter(None);
            let log = fs::read_to_string(path).unwrap_or_default();
            (log, reported)
        };
        assert_eq!(log_of("silent", &[]), (String::new(), String::new()));
        assert!(!dir.path().join("servers").exists());
        // The end may be the beginning of a secret.
        let expected = "key [redacted], all tasks".to_owned();
        assert_eq!(
            log_of("ended", &["key sk-01234", "56789, all task", "s"]),
            (expected.clone(), expected)
        );
        // Of the piece that reaches the limit, the part before it is kept.
        let text = "ü".repeat(LOG_BYTES_MAX / 2 - 1);
        let (log, reported) = log_of("long", &[&text, ".üü", "more"]);
        assert_eq!(log.len(), LOG_BYTES_MAX - 1);
        assert!(log.ends_with("ü.") && reported.ends_with(".üümore"));
    }
}
