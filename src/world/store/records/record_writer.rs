//! Writes single records to a coordination's directory. Everything written is redacted here; files
//! are replaced atomically.

use serde_json::Value;

use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::text::escape_json;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::records::record_paths::FINAL;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// The name of the file of one answer.
const ANSWER: &str = "answer.txt";

/// Writes the records of one coordination.
#[derive(Debug)]
pub(crate) struct RecordWriter {
    dir: AbsPath,
    redactor: Redactor,
}

impl RecordWriter {
    /// Creates a writer to the existing directory `dir`.
    pub(crate) fn new(dir: AbsPath, redactor: Redactor) -> Self {
        Self { dir, redactor }
    }

    /// Writes `value` as the file `name`.
    pub(crate) fn write_json(&self, name: &str, value: Value) -> Result<()> {
        let text = serde_json::to_string_pretty(&self.redactor.json(value))
            .map_err(Error::unserializable)?;
        let text = escape_json(&text);
        file::replace_unsynced(&self.dir.join(name), text.as_bytes())
    }

    /// Writes an answer.
    pub(crate) fn write_answer(
        &self,
        agent: &AgentId,
        time: &LocalDateTime,
        content: &str,
    ) -> Result<()> {
        let name = time.name_format();
        self.write_text(&format!("{agent}/{name}"), content)
    }

    /// Writes the final answer. The session and the event log have it, too.
    pub(crate) fn write_final_answer(&self, agent: &AgentId, content: &str) -> Result<()> {
        self.write_text(&format!("{FINAL}/{agent}"), content)
    }

    /// Writes `text` as the answer in the directory `name`.
    fn write_text(&self, name: &str, text: &str) -> Result<()> {
        let dir = self.dir.join(name);
        dir::create_all(&dir, DirectoryAudience::User)?;
        file::replace_unsynced(&dir.join(ANSWER), self.redactor.text(text).as_bytes())
    }
}
