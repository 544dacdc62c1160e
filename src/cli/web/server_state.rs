//! What all requests share: who may use the server, its teams, and the directory that it serves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cli::http::origin_guard::OriginGuard;
use crate::cli::http::token::BearerTokens;
use crate::cli::team::ChosenTeam;
use crate::cli::team_file::TeamFile;
use crate::cli::web::browse::FileLookups;
use crate::cli::web::link_codes::LinkCodes;
use crate::cli::web::web_run_registry::WebRunRegistry;
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::host::Host;
use crate::path::AbsPath;
use crate::spending::models::ModelList;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::store::redact::Redactor;
use crate::world::store::sandboxes::SessionSandboxes;

/// The server. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct WebServer(Arc<WebServerState>);

/// The parts of a server.
#[derive(Debug)]
pub(super) struct WebServerState {
    /// The process, and the variables of `.env` files.
    pub(super) host: Host,
    /// The teams that the page can choose.
    pub(super) teams: Vec<NamedTeam>,
    /// The known models, with their prices.
    pub(super) models: ModelList,
    /// The settings of the telemetry export, if it is enabled.
    pub(super) telemetry: Option<TelemetrySettings>,
    /// The secrets that no reply may contain.
    pub(super) redactor: Redactor,
    /// Whether the page only shows.
    pub(super) is_read_only: bool,
    /// The hosts and origins that are accepted.
    pub(super) guard: OriginGuard,
    /// The tokens that are accepted.
    pub(super) tokens: BearerTokens,
    /// The codes in links.
    pub(super) codes: LinkCodes,
    /// The lookups of the file picker.
    pub(super) lookups: FileLookups,
    pub(super) runs: WebRunRegistry,
    /// The session of the newest run, with what that leaves for the next turn.
    pub(super) newest_session: Mutex<Option<(String, SessionSandboxes)>>,
    /// Held while a batch is read: one of many cells takes memory.
    pub(super) batch_lock: tokio::sync::Mutex<()>,
}

/// A team under the name by which the page chooses it.
#[derive(Clone, Debug)]
pub(super) struct NamedTeam {
    /// The name: that of the config as the user gave it.
    pub(super) name: String,
    pub(super) team: ChosenTeam,
}

impl WebServer {
    /// Creates a server of these parts.
    pub(super) fn new(state: WebServerState) -> Self {
        Self(Arc::new(state))
    }

    /// Returns the process.
    pub(super) fn host(&self) -> &Host {
        &self.0.host
    }

    /// Returns the directory of the records of all runs.
    pub(super) fn logs_directory(&self) -> AbsPath {
        self.0.host.state_parent.join(STATE_DIR).join(LOGS)
    }

    /// Returns the teams.
    pub(super) fn teams(&self) -> &[NamedTeam] {
        &self.0.teams
    }

    /// Returns the config files of the teams.
    pub(super) fn config_files(&self) -> Vec<AbsPath> {
        let files = self
            .teams()
            .iter()
            .filter_map(|named| named.team.file.as_ref());
        files.filter_map(TeamFile::path).cloned().collect()
    }

    /// Returns the known models.
    pub(super) fn models(&self) -> &ModelList {
        &self.0.models
    }

    /// Returns the settings of the telemetry export.
    pub(super) fn telemetry(&self) -> Option<&TelemetrySettings> {
        self.0.telemetry.as_ref()
    }

    /// Returns the runs.
    pub(super) fn runs(&self) -> &WebRunRegistry {
        &self.0.runs
    }

    /// Returns what the last turn of `session` has left, if that was the newest run.
    pub(super) fn session_sandboxes(&self, session: Option<&str>) -> SessionSandboxes {
        let newest_session = self.lock_newest_session();
        let mut newest_session = newest_session.iter();
        let found = newest_session.find(|(id, _)| session == Some(id.as_str()));
        found.map_or_else(SessionSandboxes::default, |(_, sandboxes)| {
            sandboxes.clone()
        })
    }

    /// Keeps what the newest run, which is a turn of `session`, leaves.
    pub(super) fn keep_session(&self, session: String, sandboxes: SessionSandboxes) {
        *self.lock_newest_session() = Some((session, sandboxes));
    }

    fn lock_newest_session(&self) -> MutexGuard<'_, Option<(String, SessionSandboxes)>> {
        let newest_session = self.0.newest_session.lock();
        newest_session.unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the secrets that no reply may contain.
    pub(super) fn redactor(&self) -> &Redactor {
        &self.0.redactor
    }

    /// Returns whether the page only shows.
    pub(super) fn is_read_only(&self) -> bool {
        self.0.is_read_only
    }

    /// Returns the hosts and origins that are accepted.
    pub(super) fn guard(&self) -> &OriginGuard {
        &self.0.guard
    }

    /// Returns the tokens that are accepted.
    pub(super) fn tokens(&self) -> &BearerTokens {
        &self.0.tokens
    }

    /// Returns the codes in links.
    pub(super) fn codes(&self) -> &LinkCodes {
        &self.0.codes
    }

    /// Waits until no other batch is read.
    pub(super) async fn lock_batches(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.batch_lock.lock().await
    }

    /// Returns the lookups of the file picker.
    pub(super) fn lookups(&self) -> &FileLookups {
        &self.0.lookups
    }
}
