//! Owns one open connection to a server: over the pipes of a program in a sandbox, or over the
//! network. It asks and hears; what is asked has been permitted before.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientRequest, Cursor, CustomResult,
    GetPromptRequestParams, GetPromptResponse, JsonObject, ListToolsRequest,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerResult, Tool,
};
use rmcp::service::{Peer, RoleClient, RunningService, ServiceError, serve_client};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::auth::AuthClient;
use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use crate::config::servers::RemoteServer;
use crate::path::AbsPath;
use crate::tools::served::Asks;
use crate::tools::served::offer::{Described, Shelf};
use crate::wording::{one_line, visible};
use crate::world::mcp::answer::{self, Answered};
use crate::world::mcp::credentials::Credentials;
use crate::world::mcp::host::{Host, Listener};
use crate::world::mcp::remote::Refusal;
use crate::world::mcp::sign_in::signed_in;
use crate::world::mcp::tokens::ServerTokens;
use crate::world::mcp::watched::Watched;
use crate::world::mcp::{Launch, MESSAGE_BYTES_MAX, remote};
use crate::world::sandbox::server::{Answering, Log, Pipes};
use crate::world::store::redact::{RedactedStream, Redactor};
use crate::world::sys::own::dir::{self, Audience};
use crate::world::sys::own::file;

/// The most pages of one list that are asked for.
const PAGES_MAX: usize = 32;
/// The longest list of tools, in bytes of names, descriptions and schemas.
const LIST_BYTES_MAX: usize = MESSAGE_BYTES_MAX;
/// The most that is kept on disk of what one instance of a program writes on its standard error, in
/// bytes.
const LOG_BYTES_MAX: usize = 1024 * 1024;
/// How much of the end of that is told with a fault, in characters.
const LAST_WORDS_CHARS_MAX: usize = 600;

/// One open connection.
#[derive(Debug)]
pub(super) struct Link {
    service: RunningService<RoleClient, Host>,
    program: Option<Answering>,
    /// What the server was sent so that it knows who asks.
    credentials: Credentials,
    changes: Arc<AtomicUsize>,
}

/// Why a question came to nothing.
#[derive(Debug)]
pub(super) enum Fault {
    /// Nobody is there any more.
    Gone,
    /// The server wants the user to sign in, perhaps for more rights.
    Closed(Option<String>),
    /// For this reason.
    Failed(String),
}

impl Fault {
    /// The same without what a server was sent so that it knows who asks.
    fn without(self, credentials: &Credentials) -> Self {
        match self {
            Self::Gone => Self::Gone,
            Self::Closed(missing) => Self::Closed(missing.map(|text| credentials.hide(&text))),
            Self::Failed(why) => Self::Failed(credentials.hide(&why)),
        }
    }
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Self {
        let is_gone = matches!(
            error,
            ServiceError::TransportClosed | ServiceError::TransportSend(_)
        );
        let missing = if let ServiceError::TransportSend(error) = &error {
            remote::missing_scopes(error)
        } else {
            None
        };
        if missing.is_some() {
            Fault::Closed(missing)
        } else if error.is_authorization_required() {
            Fault::Closed(None)
        } else if is_gone {
            Fault::Gone
        } else if let ServiceError::McpError(error) = error {
            Fault::Failed(said(&error.message))
        } else {
            Fault::Failed(said(&error.to_string()))
        }
    }
}

impl Link {
    /// Starts a program and speaks with it.
    pub(super) async fn to_program(
        launch: Launch,
        (log, listener): (Log, Option<Listener>),
        time_max: Duration,
    ) -> Result<Self, String> {
        let Launch {
            confinement,
            sandbox,
            network,
            roots,
        } = launch;
        let started = Answering::start(&sandbox, &confinement, network, log);
        let (program, pipes) = started.map_err(|error| error.to_string())?;
        let changes = Arc::default();
        let greeted = greet(pipes, Host::new(&roots, listener), &changes);
        let opened = timeout(time_max, greeted).await;
        let fault = match opened {
            Ok(Ok(service)) => {
                return Ok(Self {
                    service,
                    program: Some(program),
                    credentials: Credentials::default(),
                    changes,
                });
            }
            Ok(Err(why)) => why,
            Err(_) => format!("it did not answer in {} s", time_max.as_secs()),
        };
        Err(format!("{fault}{}", last_words(&program)))
    }

    /// Connects to a server on the network, as the user who has signed in if they have.
    pub(super) async fn to_remote(
        remote: &RemoteServer,
        tokens: Option<ServerTokens>,
        listener: Option<Listener>,
    ) -> Result<Self, Fault> {
        let tokens = tokens.filter(|_| !remote::says_who(remote));
        let credentials = Credentials::of(remote, tokens.clone());
        let connected = Self::connected(remote, tokens, listener, &credentials);
        let connected = connected.await;
        connected.map_err(|fault| fault.without(&credentials))
    }

    async fn connected(
        remote: &RemoteServer,
        tokens: Option<ServerTokens>,
        listener: Option<Listener>,
        credentials: &Credentials,
    ) -> Result<Self, Fault> {
        let client = remote::client(remote).map_err(Fault::Failed)?;
        let changes = Arc::default();
        let signed_in = match &tokens {
            Some(tokens) => signed_in(remote, tokens).await.map_err(Fault::Failed)?,
            None => None,
        };
        let listener = listener.as_ref();
        let service = if let Some(manager) = signed_in {
            let client = AuthClient::new(client, manager);
            Box::pin(remote::greeted(
                (remote, client),
                listener,
                &changes,
                credentials,
            ))
            .await
        } else {
            Box::pin(remote::greeted(
                (remote, client),
                listener,
                &changes,
                credentials,
            ))
            .await
        };
        let service = service.map_err(|refusal| match refusal {
            Refusal::SignIn { missing, .. } => Fault::Closed(missing),
            Refusal::Failed(why) => Fault::Failed(said(&why)),
        })?;
        Ok(Self {
            service,
            program: None,
            credentials: credentials.clone(),
            changes,
        })
    }

    /// `fault` without what the server was sent so that it knows who asks.
    pub(super) fn without_credentials(&self, fault: Fault) -> Fault {
        fault.without(&self.credentials)
    }

    /// Whether somebody is still there.
    pub(super) fn is_open(&self) -> bool {
        !self.service.is_closed() && !self.service.peer().is_transport_closed()
    }

    /// How often the server has said that its tools are others now.
    pub(super) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// Waits so long for `asked`, and again after each question to a person that was answered meanwhile;
    /// `None` when the time is over.
    pub(super) async fn within<T>(
        &self,
        time_max: Duration,
        asked: impl Future<Output = T>,
    ) -> Option<T> {
        let mut asked = pin!(asked);
        let host = self.service.service();
        let mut forms = host.forms();
        loop {
            if let Ok(answered) = timeout(time_max, &mut asked).await {
                return Some(answered);
            }
            host.quiet().await;
            let before = std::mem::replace(&mut forms, host.forms());
            if forms == before {
                return None;
            }
        }
    }

    /// How its program ended and what it wrote last, as the end of a sentence.
    pub(super) fn last_words(&self) -> String {
        self.program.as_ref().map(last_words).unwrap_or_default()
    }

    /// The tools of the server, and what massgen offers of it besides.
    pub(super) async fn tools(&self) -> Result<Vec<Described>, Fault> {
        let peer = self.service.peer();
        let info = peer.peer_info();
        let capabilities = info.as_ref().map(|info| &info.capabilities);
        let has_resources = capabilities.is_some_and(|can| can.resources.is_some());
        let has_prompts = capabilities.is_some_and(|can| can.prompts.is_some());
        let mut described = listed(peer).await?;
        let shelves = [
            has_resources.then_some(Shelf::Resources),
            has_prompts.then_some(Shelf::Prompts),
        ];
        for tool in shelves.into_iter().flatten().flat_map(Shelf::described) {
            if !described.iter().any(|own| own.name == tool.name) {
                described.push(tool);
            }
        }
        Ok(described)
    }

    /// Asks for one thing. When nobody waits any more, the server is told so.
    pub(super) async fn ask(
        &self,
        asks: Asks,
        tool: &str,
        arguments: JsonObject,
    ) -> Result<Answered, Fault> {
        let peer = self.service.peer();
        match asks {
            Asks::Tool => {
                let call = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
                let answer = peer.call_tool_once(call).await?;
                let CallToolResponse::Complete(result) = answer else {
                    return Err(wants_input());
                };
                Ok(answer::of_tool(&result))
            }
            Asks::ListResources => {
                let page = peer.list_resources(None).await?;
                Ok(answer::of_resources(&page.resources))
            }
            Asks::ReadResource => {
                let wanted = ReadResourceRequestParams::new(text(&arguments, "uri"));
                let answer = peer.read_resource_once(wanted).await?;
                let ReadResourceResponse::Complete(result) = answer else {
                    return Err(wants_input());
                };
                Ok(answer::of_contents(&result))
            }
            Asks::ListPrompts => {
                let page = peer.list_prompts(None).await?;
                Ok(answer::of_prompts(&page.prompts))
            }
            Asks::GetPrompt => {
                let mut wanted = GetPromptRequestParams::new(text(&arguments, "name"));
                if let Some(Value::Object(given)) = arguments.get("arguments") {
                    wanted = wanted.with_arguments(given.clone());
                }
                let answer = peer.get_prompt_once(wanted).await?;
                let GetPromptResponse::Complete(result) = answer else {
                    return Err(wants_input());
                };
                Ok(answer::of_prompt(&result))
            }
        }
    }
}

/// That a server wants to know something in the middle of a call.
fn wants_input() -> Fault {
    Fault::Failed("it asks for something that nobody is here to give".to_owned())
}

/// Greets a program. Messages of it that are too long are passed over.
async fn greet(
    pipes: Pipes,
    host: Host,
    changes: &Arc<AtomicUsize>,
) -> Result<RunningService<RoleClient, Host>, String> {
    let reader = pipe::Receiver::from_owned_fd(pipes.output).map_err(|error| error.to_string())?;
    let writer = pipe::Sender::from_owned_fd(pipes.input).map_err(|error| error.to_string())?;
    let transport =
        AsyncRwTransport::new_client(reader, writer).with_max_line_length(MESSAGE_BYTES_MAX);
    let service = serve_client(
        host,
        Watched::new(transport, changes, &Credentials::default()),
    )
    .await;
    service.map_err(|error| said(&error.to_string()))
}

/// All tools of a server that it lists in a bounded number of pages.
async fn listed(peer: &Peer<RoleClient>) -> Result<Vec<Described>, Fault> {
    let mut described = Vec::new();
    let (mut cursor, mut bytes) = (None, 0_usize);
    for _ in 0..PAGES_MAX {
        let asked = PaginatedRequestParams::default().with_cursor(cursor);
        let (tools, next) = page(peer, asked).await?;
        let read = tools.iter().map(|tool| {
            let texts = tool.name.len().saturating_add(tool.description.len());
            texts.saturating_add(tool.schema.to_string().len())
        });
        bytes = read.fold(bytes, usize::saturating_add);
        if bytes > LIST_BYTES_MAX {
            let why = format!("its list of tools is longer than {LIST_BYTES_MAX} bytes");
            return Err(Fault::Failed(why));
        }
        described.extend(tools);
        cursor = next;
        if cursor.is_none() {
            return Ok(described);
        }
    }
    Err(Fault::Failed(format!(
        "its list of tools has more than {PAGES_MAX} pages"
    )))
}

/// One page of a server's tools, and what asks for the next one. A tool that is not what the protocol
/// wants keeps no other one away.
async fn page(
    peer: &Peer<RoleClient>,
    asked: PaginatedRequestParams,
) -> Result<(Vec<Described>, Option<Cursor>), Fault> {
    let request = ListToolsRequest::with_param(asked);
    let answer = peer.send_request(ClientRequest::ListToolsRequest(request));
    let answer = answer.await?;
    if let ServerResult::ListToolsResult(page) = answer {
        let tools = page.tools.into_iter().map(as_described);
        return Ok((tools.collect(), page.next_cursor));
    }
    if let ServerResult::CustomResult(CustomResult(page)) = answer
        && let Some(Value::Array(tools)) = page.get("tools")
    {
        let tools = tools.iter().filter_map(odd);
        let next = page.get("nextCursor").and_then(Value::as_str);
        return Ok((tools.collect(), next.map(str::to_owned)));
    }
    let why = "what it says of its tools is no list of tools";
    Err(Fault::Failed(why.to_owned()))
}

fn as_described(tool: Tool) -> Described {
    let description = tool.description.or(tool.title.map(Into::into));
    Described {
        name: tool.name.into_owned(),
        description: description.unwrap_or_default().into_owned(),
        schema: Value::Object(Arc::unwrap_or_clone(tool.input_schema)),
        asks: Asks::Tool,
    }
}

/// A tool of a list that is not what the protocol wants; one without a name is none.
fn odd(tool: &Value) -> Option<Described> {
    let said = |key: &str| tool.get(key).and_then(Value::as_str);
    Some(Described {
        name: said("name")?.to_owned(),
        description: said("description")
            .or(said("title"))
            .unwrap_or_default()
            .to_owned(),
        schema: tool.get("inputSchema").cloned().unwrap_or_default(),
        asks: Asks::Tool,
    })
}

fn text(arguments: &JsonObject, name: &str) -> String {
    let text = arguments.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// A stranger's words in a line.
fn said(text: &str) -> String {
    visible(&one_line(text, LAST_WORDS_CHARS_MAX))
}

/// How a program ended and what it wrote last, as the end of a sentence.
fn last_words(program: &Answering) -> String {
    let (ended, errors) = program.last_words();
    let ended = ended.map(|ended| format!("; {ended}"));
    let chars = errors.chars().count();
    let end: String = errors
        .chars()
        .skip(chars.saturating_sub(LAST_WORDS_CHARS_MAX))
        .collect();
    let words = said(&end);
    let words = (!words.is_empty()).then(|| format!("; it wrote: {words}"));
    [ended, words].into_iter().flatten().collect()
}

/// Appends what a program writes on its standard error to the file `path`, up to a limit and without
/// secrets. A disk that does not take it keeps no server from working.
pub(in crate::world) fn log_to(path: AbsPath, redactor: Redactor) -> Log {
    let mut left = LOG_BYTES_MAX;
    let mut clean = RedactedStream::default();
    let mut is_made = false;
    Box::new(move |bytes| {
        let text = clean.push(&redactor, &String::from_utf8_lossy(bytes));
        let rest = left.checked_sub(text.len());
        left = rest.unwrap_or_default();
        let make = |dir| dir::create_all(&dir, Audience::User).is_ok();
        is_made = is_made || path.parent().is_some_and(make);
        if is_made && rest.is_some() {
            file::append(&path, text.as_bytes()).unwrap_or_default();
        }
        text
    })
}
