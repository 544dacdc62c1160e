//! Owns what a server may ask of massgen, and what it is answered: which directories there are, and
//! otherwise no. Nobody is asked anything and no model is lent.

#![expect(
    deprecated,
    reason = "servers ask for roots all the same, and the newest protocol has nothing in their place"
)]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitationCapability, ErrorData, Implementation,
    ListRootsResult, ProgressNotificationParam, ProtocolVersion, Root, RootsCapabilities,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use tokio::sync::mpsc::WeakSender;
use tokio::time::Instant;
use url::Url;

use crate::event::Event;
use crate::path::AbsPath;
use crate::tools::served::ServerName;
use crate::wording::{one_line, visible};

/// What a server may say of its work is passed on no more often than this.
const WORDS_APART_MIN: Duration = Duration::from_secs(1);
/// How much of it is passed on, in characters.
const WORDS_CHARS_MAX: usize = 200;

/// What answers one server.
#[derive(Debug)]
pub(super) struct Host {
    roots: Vec<Root>,
    listener: Option<Listener>,
    spoke_last: Mutex<Option<Instant>>,
}

/// Who hears what a server says of its work.
#[derive(Clone, Debug)]
pub struct Listener {
    /// The server.
    pub server: ServerName,
    /// The people of the run, as long as it goes on.
    pub events: WeakSender<Event>,
}

impl Listener {
    /// Says how far the server has got; where many events wait already, nobody misses this one.
    pub(super) fn tell(&self, text: &str) {
        if let Some(events) = self.events.upgrade() {
            let told = Event::ServerWorks {
                server: self.server.to_string(),
                text: visible(&one_line(text, WORDS_CHARS_MAX)),
            };
            drop(events.try_send(told));
        }
    }
}

impl Host {
    /// One that knows these directories, and tells `listener` what the server says of its work.
    pub(super) fn new(roots: &[AbsPath], listener: Option<Listener>) -> Self {
        let root = |path: &AbsPath| Url::from_file_path(path.as_path()).ok().map(Root::new);
        Self {
            roots: roots.iter().filter_map(root).collect(),
            listener,
            spoke_last: Mutex::default(),
        }
    }

    /// Whether the server may say something again; then it has.
    fn is_its_turn(&self) -> bool {
        let now = Instant::now();
        let mut last = self
            .spoke_last
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_its_turn = last.is_none_or(|last| now.duration_since(last) >= WORDS_APART_MIN);
        if is_its_turn {
            *last = Some(now);
        }
        is_its_turn
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        // A server that asks a person something is answered that nobody is there, by default.
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.elicitation = Some(ElicitationCapability::new());
        let massgen = Implementation::new("massgen", env!("CARGO_PKG_VERSION"));
        // Newer ones know no such greeting.
        let version = ProtocolVersion::V_2025_11_25;
        ClientConfig::new(capabilities, massgen).with_protocol_version(version)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some(listener) = self.listener.as_ref().filter(|_| self.is_its_turn()) {
            let all = params.total.map(|total| format!(" of {total}"));
            let words = params.message.map(|words| format!(": {words}"));
            let (all, words) = (all.unwrap_or_default(), words.unwrap_or_default());
            listener.tell(&format!("{}{all}{words}", params.progress));
        }
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.roots.clone()))
    }
}
