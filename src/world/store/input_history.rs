//! The input history of a directory: what was typed in earlier sessions, so that it can be
//! recalled. It is a file with one JSON string per line that only the user can read, and holds
//! nothing else.

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::store::prepare_state_dir;
use crate::world::sys::state_files::file::{self, FileDurability};

/// The name of the file, below the state directory.
const FILE: &str = "prompt_history.jsonl";
/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The longest input that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// How many inputs remain when the history is trimmed, which happens at twice as many.
const KEPT: usize = 500;

/// The input history of a directory.
#[derive(Clone, Debug)]
pub struct InputHistory {
    state: AbsPath,
}

impl InputHistory {
    /// Returns the input history in the state directory `state`.
    pub fn new(state: AbsPath) -> Self {
        Self { state }
    }

    /// Returns all inputs, oldest first. An unreadable file counts as empty.
    pub fn read(&self) -> Vec<String> {
        let path = self.state.join(FILE);
        if file::is_link(&self.state) || file::is_link(&path) {
            return Vec::new();
        }
        let bytes = file::read_regular_capped(&path, FILE_BYTES_MAX);
        let bytes = bytes.ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.collect()
    }

    /// Appends an input. Occasionally the oldest are removed.
    pub fn add(&self, text: &str) -> Result<()> {
        if text.len() > TEXT_BYTES_MAX {
            return Ok(());
        }
        let path = self.state.join(FILE);
        prepare_state_dir(&self.state, [&path])?;
        let mut entries = self.read();
        if entries.last().is_some_and(|last| last == text) {
            return Ok(());
        }
        if file::kind(&path).is_ok() && entries.len() < KEPT.saturating_mul(2) {
            return file::append(&path, line(text)?.as_bytes());
        }
        entries.push(text.to_owned());
        let newest = entries.iter().skip(entries.len().saturating_sub(KEPT));
        let lines = newest.map(|text| line(text)).collect::<Result<String>>()?;
        file::replace(&path, lines.as_bytes(), FileDurability::Process)
    }
}

fn line(text: &str) -> Result<String> {
    let json = serde_json::to_string(text);
    let json = json.map_err(|error| Error::bug("a text has no JSON form").with_source(error))?;
    Ok(format!("{json}\n"))
}
