//! MCP servers of one agent in one phase of a run. They are started or connected lazily and stopped
//! on drop; a server that agents share lives until the run ends. This module decides nothing about
//! calls, which are permitted before they come here; what servers send is limited in size and
//! sanitized before it is passed on.

mod server_reply;
pub mod tool_list_cache;
pub mod tokens;
pub mod packages;
mod credentials;
pub mod progress;
mod client_handler;
mod guarded_resolver;
mod guarded_http;
mod issuer_metadata;
pub(crate) mod message_size;
mod pending_replies;
pub(crate) mod tool_server;
mod remote_client;
mod watched_transport;
mod lifecycle;
pub(in crate::world) mod program_host;
mod remote;
pub mod sign_in;
mod client;
pub(in crate::world) mod python_host;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::config::ToolFilter;
use crate::config::custom_tools::{ProgramInterface, ProgramTool};
use crate::config::servers::{ServerConfig, ServerNeed, ServerProgram, ServerTransport};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::sandbox_policy::NetworkPolicy;
use crate::text::list_names;
use crate::tools::served::offer::{ServerToolDescription, offer_tools};
use crate::tools::served::{
    CUSTOM_PREFIX, ServedTool, ServerCall, ServerName, ServerOperation, ToolCatalogue,
};
use crate::tools::tool_selection::is_own_tool;
use crate::world::io::files::first_file;
use crate::world::mcp::client::{McpClient, McpClientError};
use crate::world::mcp::credentials::has_authorization;
use crate::world::mcp::guarded_http::{FailureCause, UnusableServer};
use crate::world::mcp::lifecycle::HandshakeChoice;
use crate::world::mcp::packages::{InstalledProgram, PackageStore};
use crate::world::mcp::program_host::LaunchPlace;
use crate::world::mcp::progress::ServerProgressSender;
use crate::world::mcp::sign_in::scope_options;
use crate::world::mcp::tokens::TokenFile;
use crate::world::mcp::tool_list_cache::ToolListCache;
use crate::world::sandbox::exec_environment::ExecEnvironment;
use crate::world::store::redact::Redactor;

pub use crate::world::mcp::client_handler::ServerListener;

pub(in crate::world) use crate::world::mcp::client::log_filter;
pub(in crate::world) use crate::world::mcp::server_reply::{ReplyStatus, ServerReply};

/// Largest message of a server that is read, in bytes.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Timeout for a server to start and list its tools. A progress message says "within a minute".
const START_TIME_MAX: Duration = Duration::from_mins(1);
/// Timeout for a server whose tools have changed to list them. An agent waits for it, so a server
/// that exceeds it is not asked again.
const LIST_TIME_MAX: Duration = Duration::from_secs(5);
/// Delay after which the user is informed that a server is being started.
const START_NOTICE_DELAY: Duration = Duration::from_secs(1);
/// Replaces the number of reported changes if a server is not asked for its tools any more.
const IGNORED_CHANGES: usize = usize::MAX;
/// Number of times that an agent's instance of a server is started in one phase; one that ends more
/// often is not started again.
const STARTS_MAX: u32 = 3;

/// The servers of one agent in one phase. A clone is the same.
#[derive(Clone, Debug)]
pub struct McpServers(Arc<McpServersState>);

#[derive(Debug)]
struct McpServersState {
    handles: Vec<ServerHandle>,
    filter: ToolFilter,
    side_effects: SideEffectPolicy,
    tool_lists: ToolListCache,
    catalogue: Mutex<Arc<ToolCatalogue>>,
}

/// Whether calls that change something outside the agent's directories may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SideEffectPolicy {
    /// They may be made.
    Open,
    /// They are deferred to the final phase: until then the agents only plan.
    Deferred,
}

/// A server as it is set up for an agent.
#[derive(Clone, Debug)]
pub struct ServerSetup {
    /// Its config.
    pub config: Arc<ServerConfig>,
    /// The agent that it serves first.
    pub agent: AgentId,
    /// All agents of the run that have it.
    pub agents: Vec<AgentId>,
    /// The environment that it runs in, if it is a program.
    pub environment: Option<ExecEnvironment>,
    /// Log file for its standard error.
    pub log: AbsPath,
    /// Redactor for the log.
    pub redactor: Redactor,
    /// The user's token file, if they have a home directory.
    pub tokens: Option<TokenFile>,
    /// The packages that the user has installed, if they have a home directory.
    pub packages: Option<PackageStore>,
    /// Receiver of its progress messages and forms; `None` outside a run.
    pub listener: Option<ServerListener>,
}

/// One server of an agent.
#[derive(Debug)]
struct ServerHandle {
    slot: Arc<ConnectionSlot>,
    /// The number of changes that the server had reported when its tools were last listed.
    seen_changes: AtomicUsize,
}

/// The connections that agents of a run share. Clones share them; they are closed when the last
/// clone is dropped.
#[derive(Clone, Debug, Default)]
pub struct ConnectionPool(Arc<Mutex<Vec<Arc<ConnectionSlot>>>>);

impl ConnectionPool {
    /// Returns the slot of a server: the common one, if the server is shared.
    fn slot(&self, setup: ServerSetup) -> Arc<ConnectionSlot> {
        let mut slots = self.0.lock();
        let config = &setup.config;
        let has_same_config = |slot: &&Arc<ConnectionSlot>| Arc::ptr_eq(&slot.setup.config, config);
        if let Some(slot) = slots.iter().find(has_same_config) {
            return Arc::clone(slot);
        }
        let is_shared = config.is_shared();
        let slot = Arc::new(ConnectionSlot {
            setup,
            client: Mutex::default(),
            starts: tokio::sync::Mutex::default(),
        });
        if is_shared {
            slots.push(Arc::clone(&slot));
        }
        slot
    }
}

/// A connection to one server, of one agent or shared.
#[derive(Debug)]
struct ConnectionSlot {
    setup: ServerSetup,
    /// The connection, if one was opened. Nobody waits for this lock while another is opened.
    client: Mutex<Option<Arc<McpClient>>>,
    /// Locked while a connection is opened.
    starts: tokio::sync::Mutex<StartHistory>,
}

/// How often a server was started, and how that failed last.
#[derive(Debug, Default)]
struct StartHistory {
    count: u32,
    last_failure: Option<FailureCause>,
}

/// Parameters for starting a program.
#[derive(Debug)]
pub(in crate::world) struct ServerLaunch {
    /// Where it is started.
    pub(in crate::world) place: LaunchPlace,
    /// The roots that it is given.
    pub(in crate::world) roots: Vec<AbsPath>,
    /// What is written to it before the protocol begins.
    pub(in crate::world) first_input: Option<Vec<u8>>,
}

/// A request to start a program.
#[derive(Clone, Copy, Debug)]
pub(in crate::world) struct ServerLaunchRequest<'a> {
    pub(in crate::world) program: &'a ServerProgram,
    /// The environment that it runs in, which has its network and its variables.
    pub(in crate::world) environment: &'a ExecEnvironment,
    /// The agent that it serves.
    pub(in crate::world) agent: &'a AgentId,
    /// Its permission in the agent's directories.
    pub(in crate::world) permission: Permission,
    /// The installed program that replaces its command.
    pub(in crate::world) installed: Option<&'a InstalledProgram>,
}

/// Determines the parameters for starting a program, or why it cannot be started.
pub(in crate::world) type ServerLauncher<'a> =
    &'a (dyn Fn(ServerLaunchRequest<'_>) -> Result<ServerLaunch, String> + Sync);

impl McpServers {
    /// Creates the servers without starting any.
    pub fn new(
        setups: Vec<ServerSetup>,
        filter: &ToolFilter,
        side_effects: SideEffectPolicy,
        tool_lists: &ToolListCache,
        pool: &ConnectionPool,
    ) -> Self {
        let handle = |setup| ServerHandle {
            slot: pool.slot(setup),
            seen_changes: AtomicUsize::new(0),
        };
        Self(Arc::new(McpServersState {
            handles: setups.into_iter().map(handle).collect(),
            filter: filter.clone(),
            side_effects,
            tool_lists: tool_lists.clone(),
            catalogue: Mutex::default(),
        }))
    }

    /// Returns the tools that the agent may use, as far as they are known.
    pub fn catalogue(&self) -> Arc<ToolCatalogue> {
        Arc::clone(&self.0.catalogue.lock())
    }

    /// Returns whether calls that change something outside may be made.
    pub(in crate::world) fn side_effect_policy(&self) -> SideEffectPolicy {
        self.0.side_effects
    }

    /// Returns the servers that are left out because they failed.
    pub(in crate::world) fn left_out_servers(&self) -> Vec<ServerName> {
        let configs = self.0.handles.iter();
        let configs = configs.map(|handle| &handle.slot.setup.config);
        let left_out_configs = configs.filter(|config| self.0.tool_lists.is_left_out(config));
        left_out_configs
            .map(|config| config.name().clone())
            .collect()
    }

    /// Tries a server again that is left out. If it fails again, it stays left out; a refusal of
    /// massgen is an error.
    pub(in crate::world) async fn retry(
        &self,
        server: &ServerName,
        launcher: ServerLauncher<'_>,
    ) -> Result<(), String> {
        let mut handles = self.0.handles.iter();
        let handle = handles.find(|handle| handle.slot.setup.config.name() == server);
        let handle = handle.ok_or_else(|| format!("no server `{server}`"))?;
        let list_result = self.list_first(handle, launcher).await;
        // The user has read the notes about it.
        let _notes = self.rebuild_catalogue();
        list_result.map(drop)
    }

    /// Determines the available tools, and returns notes for the user. A server whose tools no
    /// agent has listed yet is started. If it fails, it is left out unless it is required; a
    /// refusal of massgen is an error, except for Python tools that the config does not name.
    pub(in crate::world) async fn connect(
        &self,
        launcher: ServerLauncher<'_>,
    ) -> Result<Vec<String>, String> {
        let handles = self.0.handles.iter();
        let unlisted_handles =
            handles.filter(|handle| self.0.tool_lists.get(&handle.slot.setup.config).is_none());
        let listings = unlisted_handles.map(|handle| self.list_first(handle, launcher));
        let mut notes = try_join_all(listings).await?.concat();
        notes.extend(self.rebuild_catalogue());
        Ok(notes)
    }

    /// Lists the tools of a server for the first time in a run, and returns notes for the user.
    async fn list_first(
        &self,
        handle: &ServerHandle,
        launcher: ServerLauncher<'_>,
    ) -> Result<Vec<String>, String> {
        let config = &handle.slot.setup.config;
        let python_functions = match config.program_interface() {
            None | Some(ProgramInterface::Mcp) => None,
            Some(ProgramInterface::SingleTool(tool)) => {
                self.0
                    .tool_lists
                    .insert(config, &[describe_tool(tool)].into());
                return Ok(missing_program_note(tool).into_iter().collect());
            }
            Some(ProgramInterface::PythonFunctions(functions)) => Some(functions),
        };
        let listing = async {
            let client = handle.slot.connection(launcher).await?;
            self.list_tools(handle, &client, START_TIME_MAX).await?;
            Ok::<_, UnusableServer>(client)
        };
        match (listing.await, python_functions) {
            (Ok(_), None) => Ok(Vec::new()),
            (Ok(client), Some(_)) => Ok(client.instructions()),
            // The config does not say that there have to be any.
            (Err(unusable), Some(functions)) if functions.is_discovery_only() => {
                self.0.tool_lists.insert(config, &Arc::default());
                Ok(vec![unusable.reason])
            }
            (Err(unusable), None)
                if unusable.cause == FailureCause::Server
                    && config.need == ServerNeed::Optional =>
            {
                self.0.tool_lists.leave_out(config);
                handle.slot.close().await;
                Ok(vec![left_out_note(&handle.slot.setup, &unusable.reason)])
            }
            (Err(unusable), _) => Err(unusable.reason),
        }
    }

    /// Returns a server that is a single program for each call, with its environment.
    pub(in crate::world) fn program_tool(
        &self,
        server: &ServerName,
    ) -> Option<(&ServerConfig, &ExecEnvironment)> {
        let setup = &self.slot(server)?.setup;
        let interface = setup.config.program_interface()?;
        let is_single_tool = matches!(interface, ProgramInterface::SingleTool(_));
        setup
            .environment
            .as_ref()
            .filter(|_| is_single_tool)
            .map(|environment| (setup.config.as_ref(), environment))
    }

    /// Lists the tools of those servers again that have reported changes. `None` if none has. Does
    /// not wait for servers that are being started.
    pub(in crate::world) async fn refresh_tools(&self) -> Option<Vec<String>> {
        let mut notes = Vec::new();
        let mut has_changed = false;
        for handle in &self.0.handles {
            let client = handle.slot.client.lock().clone();
            let seen_changes = handle.seen_changes.load(Ordering::Relaxed);
            if let Some(client) = client.filter(|client| {
                client.tool_change_count() != seen_changes && seen_changes != IGNORED_CHANGES
            }) {
                has_changed = true;
                let listing = self.list_tools(handle, &client, LIST_TIME_MAX).await;
                notes.extend(listing.err().map(|unusable| {
                    handle
                        .seen_changes
                        .store(IGNORED_CHANGES, Ordering::Relaxed);
                    format!("{}; its list of tools is unchanged", unusable.reason)
                }));
            }
        }
        has_changed.then(|| {
            notes.extend(self.rebuild_catalogue());
            notes
        })
    }

    /// Opens a connection to a server for a permitted call, unless it is open.
    pub(in crate::world) async fn connection(
        &self,
        server: &ServerName,
        launcher: ServerLauncher<'_>,
    ) -> Result<ServerConnection<'_>, String> {
        let slot = self.slot(server);
        let slot = slot.ok_or_else(|| format!("no server `{server}`"))?;
        let connection = slot.connection(launcher).await;
        let client = connection.map_err(|unusable| unusable.reason)?;
        Ok(ServerConnection { slot, client })
    }

    fn slot(&self, server: &ServerName) -> Option<&ConnectionSlot> {
        let mut slots = self.0.handles.iter().map(|handle| handle.slot.as_ref());
        slots.find(|slot| slot.setup.config.name() == server)
    }

    async fn list_tools(
        &self,
        handle: &ServerHandle,
        client: &McpClient,
        time_max: Duration,
    ) -> Result<(), UnusableServer> {
        let slot = &handle.slot;
        handle
            .seen_changes
            .store(client.tool_change_count(), Ordering::Relaxed);
        let list_result = timeout(time_max, client.tools()).await;
        let seconds = time_max.as_secs();
        let timeout_error =
            || McpClientError::Failed(format!("no list of tools within {seconds} s"));
        let tools = list_result.unwrap_or_else(|_| Err(timeout_error()));
        let tools: Arc<[ServerToolDescription]> = match tools {
            Ok(tools) => tools.into(),
            Err(error) => {
                let cause = error.cause();
                let reason = slot.describe_error(client, error).await;
                return Err(UnusableServer { reason, cause });
            }
        };
        self.0.tool_lists.insert(&slot.setup.config, &tools);
        Ok(())
    }

    /// Rebuilds the catalogue from the known tools, and returns notes on those that are left out.
    fn rebuild_catalogue(&self) -> Vec<String> {
        // Of two that rebuild it at the same time, the later one knows all tools.
        let mut current_catalogue = self.0.catalogue.lock();
        let (mut catalogue, mut notes) = (ToolCatalogue::default(), Vec::new());
        for handle in &self.0.handles {
            let config = &handle.slot.setup.config;
            let descriptions = self.0.tool_lists.get(config).unwrap_or_default();
            let (mut tools, tool_notes) = offer_tools(&config.rules, &descriptions);
            tools.retain(|tool| self.is_selected(tool));
            notes.extend(tool_notes);
            notes.extend(catalogue.add(tools));
        }
        *current_catalogue = Arc::new(catalogue);
        notes
    }

    /// Returns whether the agent's tool lists include a tool, by its full name or by its name at
    /// the server. The name of a tool of massgen's allows no other one.
    fn is_selected(&self, tool: &ServedTool) -> bool {
        let ToolFilter { allowed, excluded } = &self.0.filter;
        let is_massgen_tool = is_own_tool(&tool.name);
        let allows =
            |entry: &String| *entry == tool.offer.name || (*entry == tool.name && !is_massgen_tool);
        let excludes = |entry: &String| *entry == tool.offer.name || *entry == tool.name;
        let is_allowed = allowed.as_ref().is_none_or(|list| list.iter().any(allows));
        is_allowed && !excluded.iter().any(excludes)
    }
}

/// An open connection to a server of an agent.
#[derive(Debug)]
pub(in crate::world) struct ServerConnection<'s> {
    slot: &'s ConnectionSlot,
    client: Arc<McpClient>,
}

impl ServerConnection<'_> {
    /// Makes a permitted call.
    pub(in crate::world) async fn call<P>(
        &self,
        call: &ServerCall<P>,
        progress: Option<&ServerProgressSender>,
    ) -> Result<ServerReply, String> {
        let Self { slot, client } = self;
        let config = &slot.setup.config;
        let _in_progress = client.register_call(progress);
        let request = client.send_request(call.operation, &call.tool, call.arguments.clone());
        let time_max = Duration::from_secs(config.call_seconds);
        let error = match client.with_timeout(time_max, request).await {
            Some(Ok(mut reply)) => {
                if reply.status == ReplyStatus::Failed {
                    reply.text.push_str(config.closed_network_note(&reply.text));
                }
                return Ok(reply);
            }
            Some(Err(error)) => error,
            None => McpClientError::Failed(format!("no answer within {} s", config.call_seconds)),
        };
        Err(slot.describe_error(client, error).await)
    }
}

impl ConnectionSlot {
    /// Returns the request to start the server's program; `None` if it is no program, or has no
    /// environment.
    fn launch_request<'s>(
        &'s self,
        installed: Option<&'s InstalledProgram>,
    ) -> Option<ServerLaunchRequest<'s>> {
        let ServerSetup {
            config,
            agent,
            environment,
            ..
        } = &self.setup;
        let ServerTransport::Program(program) = &config.transport else {
            return None;
        };
        Some(ServerLaunchRequest {
            program,
            environment: environment.as_ref()?,
            agent,
            permission: config.rules.permission,
            installed,
        })
    }

    /// Returns the connection, and opens it if there is none.
    async fn connection(
        &self,
        launcher: ServerLauncher<'_>,
    ) -> Result<Arc<McpClient>, UnusableServer> {
        let mut starts = self.starts.lock().await;
        let known_client = self.client.lock().clone();
        if let Some(client) = known_client.filter(|client| client.is_open()) {
            return Ok(client);
        }
        let name = self.setup.config.name();
        let closed_client = self.client.lock().take();
        if starts.count >= STARTS_MAX {
            let exit_report = match closed_client {
                Some(client) => client.exit_report().await,
                None => String::new(),
            };
            let reason = format!(
                "the server `{name}` was started {STARTS_MAX} times and will not be started \
                 again{exit_report}"
            );
            let cause = starts.last_failure.unwrap_or(FailureCause::Server);
            return Err(UnusableServer { reason, cause });
        }
        drop(closed_client);
        starts.count = starts.count.saturating_add(1);
        let mut open_future = pin!(self.open(launcher));
        let open_result = if let Ok(open_result) =
            timeout(START_NOTICE_DELAY, &mut open_future).await
        {
            open_result
        } else {
            let listener = self.setup.listener.as_ref();
            listener.inspect(|listener| listener.report_progress("is starting, within a minute"));
            open_future.await
        };
        starts.last_failure = open_result.as_ref().err().map(|unusable| unusable.cause);
        let client = Arc::new(open_result?);
        *self.client.lock() = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Closes the connection. A program ends, and its starts are no longer counted.
    async fn close(&self) {
        let mut starts = self.starts.lock().await;
        *starts = StartHistory::default();
        let closed_client = self.client.lock().take();
        drop(closed_client);
    }

    async fn open(&self, launcher: ServerLauncher<'_>) -> Result<McpClient, UnusableServer> {
        let ServerSetup {
            config,
            environment,
            log,
            redactor,
            tokens,
            packages,
            listener,
            ..
        } = &self.setup;
        let listener = listener.clone();
        let unusable_server = |cause, reason: String| UnusableServer {
            reason: unusable_sentence(config, &reason),
            cause,
        };
        let refusal = |reason: String| unusable_server(FailureCause::Refusal, reason);
        match (&config.transport, environment) {
            (ServerTransport::Remote(remote), _) => {
                let tokens = tokens.as_ref().map(|tokens| tokens.for_server(&remote.url));
                let timed_connection = timeout(
                    START_TIME_MAX,
                    McpClient::connect_remote(remote, tokens, listener),
                )
                .await;
                let client = timed_connection
                    .unwrap_or_else(|_| Err(McpClientError::Failed(timeout_message())));
                client.map_err(|error| unusable_server(error.cause(), self.error_reason(error)))
            }
            (ServerTransport::Program(program), Some(_)) => {
                let package = installed_program(program, packages.as_ref()).map_err(refusal)?;
                let launch_request = self.launch_request(package.as_ref());
                let launch_request =
                    launch_request.ok_or_else(|| refusal("it is not a program".to_owned()))?;
                let launch = launcher(launch_request).map_err(refusal)?;
                let host = launch.place.prepare().await.map_err(refusal)?;
                let connect = |choice| {
                    let log = client::log_filter(log.clone(), redactor.clone());
                    let listener = listener.clone();
                    McpClient::connect_program(&launch, &host, choice, log, listener)
                };
                let mut client = connect(HandshakeChoice::Newest).await;
                if client.as_ref().is_err_and(|error| error.may_be_older) {
                    client = connect(HandshakeChoice::Initialize).await;
                }
                let install_hint = missing_package_hint(program).filter(|_| package.is_none());
                client.map_err(|error| {
                    let hint_prefix = install_hint.map(|hint| format!("{hint}; "));
                    let note = config.closed_network_note(&error.reason);
                    let reason =
                        format!("{}{}{note}", hint_prefix.unwrap_or_default(), error.reason);
                    unusable_server(error.cause, reason)
                })
            }
            (ServerTransport::Program(_), None) => {
                Err(refusal("no sandbox is available for it".to_owned()))
            }
        }
    }

    /// Describes a failed call for a model.
    async fn describe_error(&self, client: &McpClient, error: McpClientError) -> String {
        let name = self.setup.config.name();
        match error {
            McpClientError::Gone => {
                let exit_report = client.exit_report().await;
                format!(
                    "the server `{name}` has ended, and the outcome of the call is unknown{exit_report}"
                )
            }
            error @ (McpClientError::SignInRequired(_)
            | McpClientError::Refused(_)
            | McpClientError::Failed(_)) => {
                let reason = self.error_reason(client.redact_credentials(error));
                format!("the server `{name}`: {reason}")
            }
        }
    }

    fn error_reason(&self, error: McpClientError) -> String {
        let name = self.setup.config.name();
        let scopes = match error {
            McpClientError::Refused(reason) | McpClientError::Failed(reason) => return reason,
            McpClientError::Gone => return "it has ended".to_owned(),
            McpClientError::SignInRequired(scopes) => scopes,
        };
        let has_token_in_headers = match &self.setup.config.transport {
            ServerTransport::Remote(remote) => has_authorization(remote),
            ServerTransport::Program(_) => false,
        };
        match scopes {
            _ if has_token_in_headers => "it rejects the credentials in `headers`".to_owned(),
            None => format!(
                "it requires authentication: sign in with `massgen mcp login {name}`, or add its \
                 token to `headers`"
            ),
            Some(scopes) => format!(
                "it requires more scopes: sign in again with `massgen mcp login {name}{}`",
                scope_options(&scopes)
            ),
        }
    }
}

/// Returns the sentence that a server or the user's own tools cannot be used.
fn unusable_sentence(config: &ServerConfig, reason: &str) -> String {
    match config.custom_tools().as_slice() {
        [] => format!("the server `{}` cannot be used: {reason}", config.name()),
        tools => {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            format!("{} cannot be used: {reason}", list_names(&tools, "and"))
        }
    }
}

/// Returns the warning that agents work without a server. What the server wrote is at its end.
fn left_out_note(setup: &ServerSetup, reason: &str) -> String {
    let agents: Vec<&str> = setup.agents.iter().map(AgentId::as_str).collect();
    let verb = if agents.len() == 1 { "works" } else { "work" };
    let (name, agents) = (setup.config.name(), list_names(&agents, "and"));
    // `reason` begins with the sentence that is said here in other words.
    let sentence = unusable_sentence(&setup.config, "");
    let reason = reason.strip_prefix(sentence.as_str()).unwrap_or(reason);
    format!(
        "the server `{name}` cannot be used, so {agents} {verb} without its tools (`required: true` \
         would end the run instead): {reason}"
    )
}

/// Returns the installed program of a server whose command would download a package.
fn installed_program(
    program: &ServerProgram,
    packages: Option<&PackageStore>,
) -> Result<Option<InstalledProgram>, String> {
    let (Some(request), Some(packages)) = (&program.package, packages) else {
        return Ok(None);
    };
    let package = packages.program(&request.package);
    package.map_err(|error| format!("{error}; run `{}`", request.install_command))
}

/// Returns what the user can do about a program whose package is not installed and that has no
/// network to download it.
fn missing_package_hint(program: &ServerProgram) -> Option<String> {
    let request = program.package.as_ref();
    let request = request.filter(|_| program.network == NetworkPolicy::Off)?;
    Some(format!(
        "its package `{}` is not installed: run `{}`",
        request.package.describe(),
        request.install_command
    ))
}

/// Describes a program that is a tool, as a server describes its tools.
fn describe_tool(tool: &ProgramTool) -> ServerToolDescription {
    ServerToolDescription {
        name: tool.name.clone(),
        description: tool.description.clone(),
        schema: tool.schema.clone(),
        operation: ServerOperation::Tool,
    }
}

/// Returns the note that the program of a tool does not exist, if the config names it by its path.
fn missing_program_note(tool: &ProgramTool) -> Option<String> {
    let (_, program) = tool.files.iter().find(|(index, _)| *index == 0)?;
    let is_missing = first_file(&program.candidates).is_none();
    is_missing.then(|| {
        format!(
            "calls of `{CUSTOM_PREFIX}{}` fail: there is no program `{}`: relative paths start in \
             the directory of the config",
            tool.name, program.config_path
        )
    })
}

fn timeout_message() -> String {
    let seconds = START_TIME_MAX.as_secs();
    format!("no answer within {seconds} s")
}
