//! Owns which session a run goes on with, and what it takes over from it: the team, and the paths that
//! its prompts opened. A session that came along with the project is refused, and nothing that reaches
//! beyond the project is taken over without being named again.

use crate::cli::session_arguments::SessionArguments;
use crate::cli::team_file::TeamFile;
use crate::config::storage_path::STATE_DIR;
use crate::error::Result;
use crate::host::Host;
use crate::mentions::LookupResult;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::world::io::files::inspect;
use crate::world::io::locate::locate;
use crate::world::store::naming::LAST;
use crate::world::store::sessions::turn::TurnMetadata;
use crate::world::store::sessions::{SessionDir, find};

/// Where sessions lie unless a config says otherwise, below the state directory.
const SESSIONS: &str = "sessions";

/// The session that the flags ask for: an id, the beginning of one, or `last`.
pub(crate) fn requested_session(arguments: &SessionArguments) -> Option<&str> {
    let last = arguments.go_on.then_some(LAST);
    arguments.session_id.as_deref().or(last)
}

/// Where the sessions of the current directory lie, unless a config says otherwise.
pub(crate) fn default_sessions(host: &Host) -> AbsPath {
    host.cwd.join(STATE_DIR).join(SESSIONS)
}

/// A session that a run goes on with.
#[derive(Debug)]
pub(crate) struct ContinuedSession {
    /// Where it is.
    pub place: SessionDir,
    /// Its last turn; none if nothing was saved yet.
    last: Option<TurnMetadata>,
}

impl ContinuedSession {
    /// Finds the session that `wanted` means below `sessions`.
    pub(crate) fn find(wanted: &str, sessions: &AbsPath) -> Result<Self> {
        Self::open(find(wanted, sessions)?)
    }

    /// The session at `place`, which was made there.
    pub(crate) fn open(place: SessionDir) -> Result<Self> {
        place.expect_own()?;
        let last = place.last_turn()?;
        Ok(Self { place, last })
    }

    /// Finds the session that `wanted` means where sessions lie without a config.
    pub(crate) fn find_without_config(wanted: &str, host: &Host) -> Result<Self> {
        Self::find(wanted, &default_sessions(host))
    }

    /// The config of its last turn, if it had one.
    pub(crate) fn team_file(&self, host: &Host) -> Result<Option<TeamFile>> {
        let config = self.last.as_ref().and_then(|last| last.config.as_ref());
        config
            .map(|path| TeamFile::from_session(path, host))
            .transpose()
    }

    /// What its prompts opened and is still there, and what the user should know about the rest.
    pub(crate) fn opened_paths(&self, host: &Host) -> Result<(Vec<OpenedPath>, Vec<String>)> {
        let before = self.last.iter().flat_map(|last| &last.opened);
        filter_open_paths(before, host)
    }
}

/// What of `before` is there and may be open again, and what the user should know about the rest.
pub(crate) fn filter_open_paths<'o>(
    before: impl IntoIterator<Item = &'o OpenedPath>,
    host: &Host,
) -> Result<(Vec<OpenedPath>, Vec<String>)> {
    let project = locate(&host.cwd)?.into_real();
    let (mut opened, mut warnings) = (Vec::new(), Vec::new());
    for known in before {
        let path = &known.path;
        let is_there = matches!(inspect(path), LookupResult::File | LookupResult::Directory);
        if !is_there {
            warnings.push(format!("`{path}` was opened earlier and is gone"));
        } else if locate(path)?.into_real().is_within(&project) {
            opened.push(known.clone());
        } else {
            warnings.push(format!(
                "`{path}` was opened earlier and lies outside this directory: mention it again if \
                 it shall be open"
            ));
        }
    }
    Ok((opened, warnings))
}
