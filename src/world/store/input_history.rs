//! Owns what was typed in earlier sessions of a directory, so that it can be called up again: one line
//! of JSON each in a file that only its user can read. It holds what was typed and nothing else.

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::store::prepare_state_dir;
use crate::world::sys::state_files::file::{self, FileDurability};

/// The name of the file, below the state directory.
const FILE: &str = "prompt_history.jsonl";
/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The longest text that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// How many texts are kept when there are more than twice as many.
const KEPT: usize = 500;

/// What was typed in a directory.
#[derive(Clone, Debug)]
pub struct InputHistory {
    state: AbsPath,
}

impl InputHistory {
    /// What was typed where `state` is the state directory.
    pub fn new(state: AbsPath) -> Self {
        Self { state }
    }

    /// All that is kept, the oldest first. What cannot be read is none.
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

    /// Adds what was typed. Now and then the oldest go.
    pub fn add(&self, text: &str) -> Result<()> {
        if text.len() > TEXT_BYTES_MAX {
            return Ok(());
        }
        let path = self.state.join(FILE);
        prepare_state_dir(&self.state, [&path])?;
        let mut kept = self.read();
        if kept.last().is_some_and(|last| last == text) {
            return Ok(());
        }
        if file::kind(&path).is_ok() && kept.len() < KEPT.saturating_mul(2) {
            return file::append(&path, line(text)?.as_bytes());
        }
        kept.push(text.to_owned());
        let newest = kept.iter().skip(kept.len().saturating_sub(KEPT));
        let lines = newest.map(|text| line(text)).collect::<Result<String>>()?;
        file::replace(&path, lines.as_bytes(), FileDurability::Process)
    }
}

fn line(text: &str) -> Result<String> {
    let json = serde_json::to_string(text);
    let json = json.map_err(|error| Error::bug("a text has no JSON form").with_source(error))?;
    Ok(format!("{json}\n"))
}
