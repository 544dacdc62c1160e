//! The `massgen memory` commands: list, show and remove the notes that agents keep between
//! sessions.

use serde_json::{Value, json};

use crate::cli::args::memory::MemoryCommand;
use crate::cli::output::{CliOutput, ReportFormat};
use crate::config::front_matter::FrontMatter;
use crate::config::storage_path::STATE_DIR;
use crate::error::{ExitStatus, Result};
use crate::host::Host;
use crate::text::{count_noun, escape_line, escape_text, single_line};
use crate::world::store::memory::{MemoryContent, MemoryNote, MemoryStore, find_note};

/// Maximum length of a description in a list, in characters.
const DESCRIPTION_CHARS_MAX: usize = 100;

/// Runs a `massgen memory` subcommand.
pub(crate) fn run(
    host: &Host,
    command: &MemoryCommand,
    output: &mut CliOutput<'_>,
) -> Result<ExitStatus> {
    let store = MemoryStore::new(&host.state_parent.join(STATE_DIR));
    match command {
        MemoryCommand::Clear { name } => {
            let count = store.clear(name.as_deref())?;
            output.note(&format!("{} removed", count_noun(count, "note")));
        }
        MemoryCommand::List { json } => {
            let MemoryContent { notes, refusals } = readable_notes(&store, output)?;
            for refusal in &refusals {
                output.warning(refusal);
            }
            for note in &notes {
                output.result(&match ReportFormat::from(*json) {
                    ReportFormat::Json => format!("{}\n", to_json(note)),
                    ReportFormat::Text => to_line(note),
                })?;
            }
            if notes.is_empty() {
                output.note(&format!("no notes in `{}`", store.dir()));
            }
        }
        MemoryCommand::Show { name, json } => {
            let notes = readable_notes(&store, output)?.notes;
            let note = find_note(&notes, name)?;
            output.result(&match ReportFormat::from(*json) {
                ReportFormat::Json => {
                    let mut json = to_json(note);
                    if let Value::Object(fields) = &mut json {
                        fields.insert("text".to_owned(), Value::from(note.text.as_str()));
                    }
                    format!("{json}\n")
                }
                ReportFormat::Text => format!("{}\n", escape_text(&note.text).trim_end()),
            })?;
        }
    }
    Ok(ExitStatus::Success)
}

/// Reads the notes, and warns if runs would not give them to agents.
fn readable_notes(store: &MemoryStore, output: &mut CliOutput<'_>) -> Result<MemoryContent> {
    let (content, is_own) = store.read_any()?;
    if !is_own && !content.notes.is_empty() {
        output.warning(&format!(
            "agents are not given these notes: `{}` was not created by massgen in this directory",
            store.dir()
        ));
    }
    Ok(content)
}

fn description(note: &MemoryNote) -> Option<String> {
    let front_matter = FrontMatter::parse(&note.text).ok()?;
    front_matter.text("description").map(str::to_owned)
}

fn to_json(note: &MemoryNote) -> Value {
    json!({
        "name": note.name,
        "size_bytes": note.text.len(),
        "description": description(note),
    })
}

fn to_line(note: &MemoryNote) -> String {
    let size = count_noun(note.text.len(), "byte");
    let description = description(note).unwrap_or_default();
    let description = escape_line(&single_line(&description, DESCRIPTION_CHARS_MAX));
    let line = format!("{}  {size}  {description}", note.name);
    format!("{}\n", line.trim_end())
}
