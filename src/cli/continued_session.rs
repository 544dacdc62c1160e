//! The session that a run continues, and what it inherits from it: the team, and the paths that its
//! prompts opened. A session that came with the project is refused, and no path outside the project
//! is inherited without being named again.

use crate::cli::args::session::SessionArguments;
use crate::cli::team_file::TeamFile;
use crate::config::storage_path::{SESSIONS, STATE_DIR};
use crate::error::Result;
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::world::io::files::inspect;
use crate::world::io::locate::locate;
use crate::world::store::naming::LAST;
use crate::world::store::sessions::turn::TurnMetadata;
use crate::world::store::sessions::{self, SessionDir};

/// Returns the session that the flags ask for: an id, an id prefix, or `last`.
pub(crate) fn requested_session(arguments: &SessionArguments) -> Option<&str> {
    let last_session = arguments.continue_last.then_some(LAST);
    arguments.session_id.as_deref().or(last_session)
}

/// Returns the directory of sessions for the current directory, unless a config sets another one.
pub(crate) fn default_sessions(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(SESSIONS)
}

/// A session that a run continues.
#[derive(Debug)]
pub(crate) struct ContinuedSession {
    /// Its directory.
    pub session_dir: SessionDir,
    /// Its last turn; `None` if nothing has been saved yet.
    last_turn: Option<TurnMetadata>,
}

impl ContinuedSession {
    /// Finds the session `name` below `sessions_directory`.
    pub(crate) fn find(name: &str, sessions_directory: &AbsPath) -> Result<Self> {
        Self::open(sessions::find(name, sessions_directory)?)
    }

    /// Opens the session at `session_dir`, which must have been created there.
    pub(crate) fn open(session_dir: SessionDir) -> Result<Self> {
        session_dir.expect_own()?;
        let last_turn = session_dir.last_turn()?;
        Ok(Self {
            session_dir,
            last_turn,
        })
    }

    /// Finds the session `name` in the default directory, for a caller without a config: the
    /// session tells which config to use, so that config cannot tell where the session is.
    pub(crate) fn find_without_config(name: &str, host: &Host) -> Result<Self> {
        Self::find(name, &default_sessions(host))
    }

    /// Returns the config of its last turn, if it had one.
    pub(crate) fn team_file(&self, host: &Host) -> Result<Option<TeamFile>> {
        let config = self
            .last_turn
            .as_ref()
            .and_then(|last_turn| last_turn.config.as_ref());
        config
            .map(|path| TeamFile::from_session(path, host))
            .transpose()
    }

    /// Returns the name of the last turn's run; `None` if nothing has been saved yet.
    pub(crate) fn last_run(&self) -> Option<String> {
        let log_dir = &self.last_turn.as_ref()?.log_dir;
        let name = log_dir.as_path().file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// Returns the paths that its prompts opened and that still exist, and warnings about the
    /// others.
    pub(crate) fn opened_paths(&self, host: &Host) -> Result<(Vec<OpenedPath>, Vec<String>)> {
        let earlier_paths = self
            .last_turn
            .iter()
            .flat_map(|last_turn| &last_turn.opened);
        filter_open_paths(earlier_paths, host)
    }
}

/// Returns those of `earlier_paths` that exist and may be opened again, and warnings about the
/// others.
pub(crate) fn filter_open_paths<'o>(
    earlier_paths: impl IntoIterator<Item = &'o OpenedPath>,
    host: &Host,
) -> Result<(Vec<OpenedPath>, Vec<String>)> {
    let project = locate(&host.cwd)?.into_real();
    let (mut opened_paths, mut warnings) = (Vec::new(), Vec::new());
    for earlier_path in earlier_paths {
        let path = &earlier_path.path;
        let is_there = matches!(inspect(path), LookupResult::File | LookupResult::Directory);
        if !is_there {
            warnings.push(format!(
                "`{path}` was opened in an earlier turn but no longer exists"
            ));
        } else if locate(path)?.into_real().is_within(&project) {
            opened_paths.push(earlier_path.clone());
        } else {
            warnings.push(format!(
                "`{path}` was opened in an earlier turn but is outside this directory: mention it \
                 again to open it"
            ));
        }
    }
    Ok((opened_paths, warnings))
}
