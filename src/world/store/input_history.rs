//! The input history of a directory: what was typed in earlier sessions, so that it can be
//! recalled. It is a file with one JSON string per line that only the user can read, in a sealed
//! directory: a recalled line may be a shell command, so lines that came with a project are
//! ignored.

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::store::directory_seal::{create_sealed, is_sealed};
use crate::world::store::prepare_state_dir;
use crate::world::sys::state_files::{clear, file, file_error, is_missing};

/// The name of the directory, below the state directory.
const HISTORY_DIR: &str = "prompt_history";
/// The name of the file, in the directory.
const HISTORY_FILE: &str = "prompts.jsonl";
/// The largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// The longest input that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;
/// How many inputs remain when the history is trimmed, which happens at twice as many.
const KEPT_INPUTS: usize = 500;

/// The input history of a directory.
#[derive(Clone, Debug)]
pub struct InputHistory {
    state_dir: AbsPath,
    directory: AbsPath,
}

impl InputHistory {
    /// Returns the input history in the state directory `state_dir`.
    pub fn new(state_dir: AbsPath) -> Self {
        let directory = state_dir.join(HISTORY_DIR);
        Self {
            state_dir,
            directory,
        }
    }

    /// Returns all inputs, oldest first, except those with control characters. A file that is too
    /// long, or that massgen did not create here, counts as empty.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(&self) -> Result<Vec<String>> {
        let is_foreign = file::is_link(&self.state_dir)? || !is_sealed(&self.directory)?;
        let path = self.directory.join(HISTORY_FILE);
        if is_foreign || file::is_link(&path)? {
            return Ok(Vec::new());
        }
        let bytes = match file::read_regular_capped(&path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes.unwrap_or_default(),
            Err(error) if is_missing(error.kind()) => Vec::new(),
            Err(error) => return Err(file_error("read", path.as_path(), error)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let lines = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok(lines
            .filter(|text: &String| !has_control_characters(text))
            .collect())
    }

    /// Appends an input. Occasionally the oldest are removed.
    pub fn add(&self, text: &str) -> Result<()> {
        if text.len() > TEXT_BYTES_MAX || has_control_characters(text) {
            return Ok(());
        }
        prepare_state_dir(&self.state_dir, [&self.directory])?;
        if !is_sealed(&self.directory)? {
            if file::exists(&self.directory)? {
                clear::remove(&self.directory)?;
            }
            create_sealed(&self.directory)?;
        }
        let path = self.directory.join(HISTORY_FILE);
        let mut inputs = self.read()?;
        if inputs.last().is_some_and(|last| last == text) {
            return Ok(());
        }
        if file::exists(&path)? && inputs.len() < KEPT_INPUTS.saturating_mul(2) {
            return file::append(&path, json_line(text)?.as_bytes());
        }
        inputs.push(text.to_owned());
        let newest = inputs.iter().skip(inputs.len().saturating_sub(KEPT_INPUTS));
        let lines = newest
            .map(|text| json_line(text))
            .collect::<Result<String>>()?;
        file::replace(&path, lines.as_bytes())
    }
}

/// Returns whether a terminal would not show `text` as it is.
fn has_control_characters(text: &str) -> bool {
    text.contains(|c: char| c.is_control() && c != '\n' && c != '\t')
}

fn json_line(text: &str) -> Result<String> {
    let json = serde_json::to_string(text).map_err(Error::unserializable)?;
    Ok(format!("{json}\n"))
}
