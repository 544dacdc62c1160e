//! The data of a saved turn for the turns that follow it: its question and answer, the opened
//! paths, and where its files are.

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::id::AgentId;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::world::sys::state_files::{damaged_error, file};

/// The name of the final answer's file.
pub(super) const ANSWER: &str = "answer.txt";
/// The name of the metadata file.
pub(super) const METADATA: &str = "metadata.json";
/// The name of the copy of the winner's workspace.
pub(super) const WORKSPACE: &str = "workspace";
/// The name of the directory for the agents' versions of files that the user changed.
pub(super) const CONFLICTS: &str = "conflicts";

/// The largest file of a turn that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A saved turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviousTurn {
    /// Its metadata.
    pub metadata: TurnMetadata,
    /// The final answer; paths in it point to the copy of the workspace.
    pub answer: String,
    /// The copy of the winner's workspace, if there is one.
    pub workspace: Option<AbsPath>,
}

/// The metadata of a turn, as stored in `metadata.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnMetadata {
    /// The number of the turn in the session, from 1.
    pub turn: u32,
    /// When it ended, in the user's time zone.
    pub timestamp: String,
    /// The agent that presented.
    pub winning_agent: AgentId,
    /// What the user asked.
    pub task: String,
    /// Its session.
    pub session_id: String,
    /// The user's working directory.
    pub cwd: AbsPath,
    /// The config file, if there was one.
    pub config: Option<AbsPath>,
    /// The directory of its logs.
    pub log_dir: AbsPath,
    /// The paths that the prompts of the session had opened by the end of the turn.
    pub opened: Vec<OpenedPath>,
}

impl TurnMetadata {
    /// Reads the metadata of the turn saved in `dir`.
    pub(super) fn read(dir: &AbsPath) -> Result<Self> {
        let path = dir.join(METADATA);
        serde_json::from_str(&read_text(&path)?)
            .map_err(|error| damaged_error(&path).with_source(error))
    }
}

impl PreviousTurn {
    /// Reads the turn saved in `dir`.
    pub(super) fn read(dir: &AbsPath) -> Result<Self> {
        let workspace = dir.join(WORKSPACE);
        let is_there = file::is_directory(&workspace)?;
        Ok(Self {
            metadata: TurnMetadata::read(dir)?,
            answer: read_text(&dir.join(ANSWER))?,
            workspace: is_there.then_some(workspace),
        })
    }
}

/// Reads a file of a session as text. A symlink is refused, because the content of its target would
/// be sent to models.
pub(super) fn read_text(path: &AbsPath) -> Result<String> {
    if file::is_link(path)? {
        let message = format!("`{path}` is a symlink, which massgen never creates there");
        return Err(Error::new(ErrorKind::Environment, message)
            .with_hint("remove the session if you did not create it"));
    }
    let bytes = file::read_regular_capped(path, FILE_BYTES_MAX)
        .map_err(|error| Error::io(format!("cannot read `{path}`"), error))?;
    let too_long = || {
        let message = format!("`{path}` is longer than {} MiB", FILE_BYTES_MAX >> 20);
        Error::new(ErrorKind::Environment, message)
    };
    Ok(String::from_utf8_lossy(&bytes.ok_or_else(too_long)?).into_owned())
}
