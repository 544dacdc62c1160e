//! Handler for what an MCP server sends of its own accord: returns the roots, passes elicitation
//! forms to a person at the terminal, and progress messages to the run; any other request is
//! declined. Sampling from a model is not offered.

#![expect(
    deprecated,
    reason = "servers ask for roots all the same, and the newest protocol has nothing in their place"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, Implementation, ListRootsResult, ProgressNotificationParam,
    ProtocolVersion, Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;
use tokio::sync::mpsc::WeakSender;
use tokio::time::Instant;
use url::Url;

use crate::event::{Event, ToolEvent};
use crate::path::AbsPath;
use crate::text::{escape_line, single_line};
use crate::tools::served::ServerName;
use crate::tools::served::elicitation_form::ElicitationForm;
use crate::world::approval::ElicitationResponder;
use crate::world::io::event_sink::QueuedEvent;
use crate::world::mcp::progress::ProgressRoutes;

/// Shortest interval between two progress messages of a server that are passed on.
const PROGRESS_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Longest progress message that is passed on, in characters.
const PROGRESS_CHARS_MAX: usize = 200;

/// Largest number of forms of one connection that a person is asked to fill in.
const FORMS_MAX: u32 = 16;
/// Number of retries for an answer that is not valid for its field.
const RETRIES_MAX: u32 = 2;
/// Longest part of a question that is shown, in characters.
const QUESTION_CHARS_MAX: usize = 1000;

/// Handler for the requests of one server.
#[derive(Debug)]
pub(super) struct McpClientHandler {
    roots: Vec<Root>,
    listener: Option<ServerListener>,
    /// The calls in progress, with the receivers of their progress.
    routes: Arc<ProgressRoutes>,
    /// The number of progress messages so far.
    progress_count: AtomicUsize,
    /// When the last progress message was passed on.
    last_progress: Mutex<Option<Instant>>,
    /// Number of forms that a person was asked to fill in.
    form_count: AtomicU32,
    /// Locked while a person fills in a form.
    form_lock: AsyncMutex<()>,
}

/// Receiver of progress messages and forms of a server.
#[derive(Clone, Debug)]
pub struct ServerListener {
    /// The server.
    pub server: ServerName,
    /// The event channel of the run, while the run exists.
    pub events: WeakSender<QueuedEvent>,
    /// Answers elicitation requests, if there is a person who can.
    pub person: Option<Arc<dyn ElicitationResponder>>,
}

impl ServerListener {
    /// Sends a progress message. It is dropped if the event channel is full.
    pub(super) fn report_progress(&self, text: &str) {
        if let Some(events) = self.events.upgrade() {
            let progress = Event::Tool(ToolEvent::ServerProgress {
                server: self.server.to_string(),
                text: escape_line(&single_line(text, PROGRESS_CHARS_MAX)),
            });
            drop(events.try_send(progress.into()));
        }
    }
}

impl McpClientHandler {
    /// Creates a handler with these roots that sends progress messages to `listener`.
    pub(super) fn new(roots: &[AbsPath], listener: Option<ServerListener>) -> Self {
        let root = |path: &AbsPath| Url::from_file_path(path.as_path()).ok().map(Root::new);
        Self {
            roots: roots.iter().filter_map(root).collect(),
            listener,
            routes: Arc::default(),
            progress_count: AtomicUsize::default(),
            last_progress: Mutex::default(),
            form_count: AtomicU32::default(),
            form_lock: AsyncMutex::default(),
        }
    }

    /// Returns how many progress messages the server has sent.
    pub(super) fn progress_count(&self) -> usize {
        self.progress_count.load(Ordering::Relaxed)
    }

    /// Returns the calls in progress.
    pub(super) fn routes(&self) -> &Arc<ProgressRoutes> {
        &self.routes
    }

    /// Returns the number of forms that a person was asked to fill in.
    pub(super) fn form_count(&self) -> u32 {
        self.form_count.load(Ordering::Relaxed)
    }

    /// Waits until no form is being filled in.
    pub(super) async fn wait_until_idle(&self) {
        drop(self.form_lock.lock().await);
    }

    /// Lets a person fill in a form; `None` if there is no person, or they give no valid answer.
    async fn fill_form(&self, message: &str, form: &ElicitationForm) -> Option<Map<String, Value>> {
        let ServerListener { server, person, .. } = self.listener.as_ref()?;
        let person = person.as_ref()?;
        let _lock = self.form_lock.lock().await;
        if self.form_count.fetch_add(1, Ordering::Relaxed) >= FORMS_MAX {
            return None;
        }
        let message = escape_line(&single_line(message, QUESTION_CHARS_MAX));
        let mut answers = Map::new();
        for field in form.fields() {
            let mut requirement = String::new();
            let mut retries = 0;
            loop {
                let question = field.question();
                let question =
                    format!("the server `{server}` asks: {message} {question}{requirement}");
                let reply = person.elicit(question, field.describe_default()).await?;
                match field.fill(&reply, &mut answers) {
                    Ok(()) => break,
                    Err(Some(expected)) if retries < RETRIES_MAX => {
                        requirement = format!("; write {expected}");
                    }
                    Err(_) => return None,
                }
                retries += 1;
            }
        }
        Some(answers)
    }

    /// Returns whether another progress message may be passed on now; if so, counts it.
    fn allow_message(&self) -> bool {
        let now = Instant::now();
        let mut last_time = self.last_progress.lock();
        let is_due = last_time.is_none_or(|last| now.duration_since(last) >= PROGRESS_INTERVAL_MIN);
        if is_due {
            *last_time = Some(now);
        }
        is_due
    }
}

impl ClientHandler for McpClientHandler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.elicitation = Some(ElicitationCapability::new());
        let massgen = Implementation::new("massgen", env!("CARGO_PKG_VERSION"));
        // The newest version with a handshake; `lifecycle` offers the one without.
        let version = ProtocolVersion::V_2025_11_25;
        ClientConfig::new(capabilities, massgen).with_protocol_version(version)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress_count.fetch_add(1, Ordering::Relaxed);
        self.routes.report(&params);
        if let Some(listener) = self.listener.as_ref().filter(|_| self.allow_message()) {
            let total = params.total.map(|total| format!(" of {total}"));
            let message = params.message.map(|message| format!(": {message}"));
            let (total, message) = (total.unwrap_or_default(), message.unwrap_or_default());
            listener.report_progress(&format!("{}{total}{message}", params.progress));
        }
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let declined = ElicitResult::new(ElicitationAction::Decline);
        // A URL from a server, which is not trusted, is never shown.
        let ElicitRequestParams::FormElicitationParams {
            message,
            requested_schema,
            ..
        } = request
        else {
            return Ok(declined);
        };
        let order = requested_schema.property_order.clone().unwrap_or_default();
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        let Some(form) = ElicitationForm::parse(&schema, &order) else {
            return Ok(declined);
        };
        let answers = tokio::select! {
            answers = self.fill_form(&message, &form) => answers,
            () = context.ct.cancelled() => None,
        };
        Ok(match answers {
            Some(answers) => {
                ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(answers))
            }
            None => declined,
        })
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.clone()))
    }
}
