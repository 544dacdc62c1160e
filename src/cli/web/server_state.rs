//! What all requests share: who may use the server, its teams, and the directory that it serves.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cli::http::origin_guard::OriginGuard;
use crate::cli::http::token::BearerTokens;
use crate::cli::run_context::RunTeam;
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

/// The server.
#[derive(Debug)]
pub(super) struct WebServer {
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
    /// Returns the directory of the records of all runs.
    pub(super) fn logs_directory(&self) -> AbsPath {
        self.host.state_parent.join(STATE_DIR).join(LOGS)
    }

    /// Returns `team` with what its runs have in common; no agent may change the configs of others.
    pub(super) fn run_team(&self, team: &ChosenTeam) -> RunTeam {
        let files = self
            .teams
            .iter()
            .filter_map(|named| named.team.file.as_ref());
        RunTeam {
            host: self.host.clone(),
            config: team.config.clone(),
            file: team.file.clone(),
            other_files: files.filter_map(TeamFile::path).cloned().collect(),
            models: self.models.clone(),
            telemetry: self.telemetry.clone(),
        }
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
        let newest_session = self.newest_session.lock();
        newest_session.unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other batch is read.
    pub(super) async fn lock_batches(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.batch_lock.lock().await
    }
}
