//! Paths of the records of one run: `log_<time>/turn_<n>/`, and below it `restart_<n>/` if the
//! coordination may restart. No two runs share a log directory.

use std::path::Path;

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::store::directory_seal::DirectorySeal;
use crate::world::store::naming::new_name_time;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, DirectoryCreation};
use crate::world::sys::state_files::file;

/// Whether the coordination of the run may restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoordinationLayout {
    /// It happens once; its records are in the turn's directory.
    One,
    /// It may restart (`max_orchestration_restarts`); each coordination has its own directory, and
    /// symlinks `status.json` and `final` in the turn's directory point to the latest.
    Several,
}

/// The paths of the records of one run.
#[derive(Clone, Debug)]
pub struct RunRecordPaths {
    name: String,
    log: AbsPath,
    turn: AbsPath,
    layout: CoordinationLayout,
}

impl RunRecordPaths {
    /// Creates a new log directory below `logs` (`.massgen/massgen_logs`), named after the time,
    /// and in it the directory of the turn, whose number in the session is `turn`.
    pub fn create(logs: &AbsPath, layout: CoordinationLayout, turn: u32) -> Result<Self> {
        dir::create_all(logs, DirectoryAudience::User)?;
        let state = logs.parent().unwrap_or_else(AbsPath::root);
        loop {
            let name = format!("log_{}", new_name_time(&state)?);
            let log = logs.join(&name);
            if dir::create(&log)? == DirectoryCreation::Created {
                DirectorySeal::write(&log)?;
                let turn = log.join(format!("{TURN_PREFIX}{turn}"));
                dir::create(&turn)?;
                return Ok(Self {
                    name,
                    log,
                    turn,
                    layout,
                });
            }
        }
    }

    /// Returns the paths of the interrupted run in the directory `log`, in its turn `turn`.
    pub fn for_run(log: &AbsPath, layout: CoordinationLayout, turn: u32) -> Self {
        Self {
            name: log.name_lossy(),
            turn: log.join(format!("{TURN_PREFIX}{turn}")),
            log: log.clone(),
            layout,
        }
    }

    /// Returns the name of the run, which is unique below the same `.massgen`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the directory of the whole run.
    pub fn log(&self) -> &AbsPath {
        &self.log
    }

    /// Returns the directory of the turn.
    pub fn turn(&self) -> &AbsPath {
        &self.turn
    }

    /// Returns the file that automation polls; the path is the same after each restart.
    pub fn status_file(&self) -> AbsPath {
        self.turn.join(STATUS)
    }

    /// Returns the directory of the coordination after `restart` restarts, creating it if needed.
    pub(crate) fn begin_coordination(&self, restart: u32) -> Result<AbsPath> {
        match self.layout {
            CoordinationLayout::One => Ok(self.turn.clone()),
            CoordinationLayout::Several => {
                let name = format!("restart_{restart}");
                let dir = self.turn.join(&name);
                dir::create(&dir)?;
                for shared in [STATUS, FINAL] {
                    let target = Path::new(&name).join(shared);
                    file::replace_link(&self.turn.join(shared), &target)?;
                }
                Ok(dir)
            }
        }
    }
}

/// The name of the event log.
pub(crate) const EVENTS: &str = "events.jsonl";

/// The name of the file that records what was run, with which config and arguments, and where.
pub(crate) const METADATA: &str = "execution_metadata.yaml";

/// The name of the file that records how a run began.
pub(crate) const MANIFEST: &str = "replay.yaml";

/// The name of the directory of recorded replies.
pub(crate) const REPLIES: &str = "replies";

/// The prefix of the name of a turn's directory; its number follows.
pub(crate) const TURN_PREFIX: &str = "turn_";

/// The name of the file that automation polls.
pub(crate) const STATUS: &str = "status.json";

/// The name of the directory that holds the final answer.
pub(crate) const FINAL: &str = "final";
