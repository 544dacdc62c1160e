//! Owns what a saved turn tells those that follow it: what was asked and answered, what was open, and
//! where its files are.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::id::AgentId;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::world::io::clock::LocalDateTime;
use crate::world::sys::state_files::file;

/// The name of the final answer.
pub(super) const ANSWER: &str = "answer.txt";
/// The name of what a turn was about.
pub(super) const METADATA: &str = "metadata.json";
/// The name of the copy of the winner's workspace.
pub(super) const WORKSPACE: &str = "workspace";
/// The name of the directory that holds our versions of files that the user changed.
pub(super) const CONFLICTS: &str = "conflicts";

/// The largest file of a turn that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A turn that was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousTurn {
    /// What it was about.
    pub metadata: TurnMetadata,
    /// The final answer; paths in it lead to the copy of the workspace.
    pub answer: String,
    /// The copy of the winner's workspace, if there is one.
    pub workspace: Option<AbsPath>,
}

/// What a turn was about, as `metadata.json` holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnMetadata {
    /// Which turn of the session it is, from 1.
    pub turn: u32,
    /// When it ended, in the user's time zone.
    pub timestamp: String,
    /// Who presented.
    pub winning_agent: AgentId,
    /// What the user asked.
    pub task: String,
    /// Its session.
    pub session_id: String,
    /// The directory that the user stood in.
    pub cwd: AbsPath,
    /// The config file, if there was one.
    pub config: Option<AbsPath>,
    /// The directory of its logs.
    pub log_dir: AbsPath,
    /// What the prompts of the session had opened by then.
    pub opened: Vec<OpenedPath>,
}

impl TurnMetadata {
    /// Reads what the turn was about that was saved in `dir`.
    pub(super) fn read(dir: &AbsPath) -> Result<Self> {
        let path = dir.join(METADATA);
        serde_json::from_str(&read_text(&path)?).map_err(|error| {
            let message = format!("`{path}` is damaged");
            Error::new(ErrorKind::Environment, message).with_source(error)
        })
    }

    /// When the turn ended, as a text that sorts by time.
    pub(super) fn ended_at(&self) -> Option<String> {
        LocalDateTime::parse(&self.timestamp).map(|moment| moment.utc_format())
    }
}

impl PreviousTurn {
    /// Reads the turn that was saved in `dir`.
    pub(super) fn read(dir: &AbsPath) -> Result<Self> {
        let workspace = dir.join(WORKSPACE);
        let is_there = file::is_directory(&workspace);
        Ok(Self {
            metadata: TurnMetadata::read(dir)?,
            answer: read_text(&dir.join(ANSWER))?,
            workspace: is_there.then_some(workspace),
        })
    }
}

/// The text of a file of a session. A link is refused: what it leads to would be told to models.
pub(super) fn read_text(path: &AbsPath) -> Result<String> {
    if file::is_link(path) {
        let message = format!("`{path}` is a link, and massgen makes none there");
        return Err(Error::new(ErrorKind::Environment, message)
            .with_hint("remove the session if you did not make it yourself"));
    }
    let bytes = file::read_regular_capped(path, FILE_BYTES_MAX);
    let bytes = bytes.map_err(|error| Error::io(format!("cannot read `{path}`"), error))?;
    let too_long = || {
        let message = format!("`{path}` is longer than {} MiB", FILE_BYTES_MAX >> 20);
        Error::new(ErrorKind::Environment, message)
    };
    Ok(String::from_utf8_lossy(&bytes.ok_or_else(too_long)?).into_owned())
}
