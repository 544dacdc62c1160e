//! What a run inherits and leaves: the notes of earlier sessions, which are read before any model
//! is asked, those that the winner leaves in its workspace, and the earlier turns of the session.

use crate::config::Config;
use crate::config::front_matter::FrontMatter;
use crate::error::Result;
use crate::event::{Event, RunEvent};
use crate::layout::RunLayout;
use crate::orchestrator::team::AgentTeam;
use crate::path::AbsPath;
use crate::prompts::memory::{ListedNote, MemoryPrompt};
use crate::prompts::previous_turns::{self, CommandHome, describe_previous_turns};
use crate::prompts::untrusted_text::UntrustedText;
use crate::world::store::memory::{
    MEMORY, MEMORY_BYTES_MAX, MemoryContent, MemoryNote, MemoryStore, NOTE_BYTES_MAX, NOTES_MAX,
    copy_notes, read_notes,
};
use crate::world::store::redact::Redactor;
use crate::world::store::sessions::turn::PreviousTurn;

/// Maximum size of the notes whose text agents are shown, in bytes.
const SHOWN_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of a description that agents are shown, in characters.
const DESCRIPTION_CHARS_MAX: usize = 300;
/// Maximum number of stored files that are no notes and are named in the warning about them.
const REFUSALS_NAMED_MAX: usize = 3;

/// Origin of the notes that a run reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOrigin {
    /// The project's current notes, which are copied for the run.
    Project,
    /// The copy that the interrupted run made.
    InterruptedRun,
    /// The project's current notes; nothing is written.
    Preview,
}

/// The notes of earlier sessions, as a run reads them.
#[derive(Clone, Debug)]
pub struct StoredMemory {
    /// The notes as the prompts of agents contain them.
    prompt: MemoryPrompt,
    /// Warning about stored files that agents are not given, if there are any.
    warning: Option<String>,
}

/// Returns whether agents of `config` keep notes: without a workspace, none can be left.
pub fn keeps_memory(config: &Config) -> bool {
    config.orchestrator.keeps_memory && config.agents.iter().any(|agent| agent.cwd.is_some())
}

/// Keeps the notes of the winner.
#[derive(Debug)]
pub struct MemoryKeeper {
    store: MemoryStore,
    redactor: Redactor,
    /// The workspace that the workspaces of the run were copied from: notes that are unchanged
    /// since then are not kept again, because the user may have removed them.
    seed: Option<AbsPath>,
}

/// Reads the notes for the run with this layout.
///
/// # Errors
/// The directory of notes came with a project, or it cannot be read or copied.
pub fn read_memory(layout: &RunLayout, origin: MemoryOrigin) -> Result<StoredMemory> {
    let directory = layout.temp_workspaces.join(MEMORY);
    let MemoryContent { notes, refusals } = match origin {
        MemoryOrigin::InterruptedRun => read_notes(&directory)?,
        MemoryOrigin::Project | MemoryOrigin::Preview => MemoryStore::new(&layout.state).read()?,
    };
    if origin == MemoryOrigin::Project {
        copy_notes(&notes, &layout.temp_workspaces)?;
    }
    let mut bytes_left = SHOWN_BYTES_MAX;
    let prompt = MemoryPrompt {
        directory: directory.to_string(),
        notes: notes
            .iter()
            .map(|note| listed_note(note, &mut bytes_left))
            .collect(),
        limits: format!(
            "At most {NOTES_MAX} files of {NOTE_BYTES_MAX} bytes and {MEMORY_BYTES_MAX} bytes \
             together are kept, with names of letters, digits, `-` and `_`."
        ),
    };
    Ok(StoredMemory {
        prompt,
        warning: refusal_warning(&refusals),
    })
}

/// Returns the one warning about stored files that are no notes, if there are any.
fn refusal_warning(refusals: &[String]) -> Option<String> {
    if refusals.is_empty() {
        return None;
    }
    let named_refusals: Vec<&str> = refusals
        .iter()
        .map(String::as_str)
        .take(REFUSALS_NAMED_MAX)
        .collect();
    let more = match refusals.len().saturating_sub(named_refusals.len()) {
        0 => String::new(),
        count => format!("; and {count} more"),
    };
    Some(format!(
        "agents are not given everything in the memory: {}{more} (`massgen memory list`)",
        named_refusals.join("; ")
    ))
}

/// Returns a note as prompts list it: with its text only if it is a short-term note whose text fits
/// into `bytes_left`.
fn listed_note(note: &MemoryNote, bytes_left: &mut usize) -> ListedNote {
    let front_matter = FrontMatter::parse(&note.text).ok();
    let description = front_matter
        .as_ref()
        .and_then(|parsed| parsed.text("description"))
        .map(|text| UntrustedText::from(text).truncate(DESCRIPTION_CHARS_MAX));
    let body = front_matter.map_or(note.text.as_str(), |parsed| parsed.body);
    let bytes_remaining = bytes_left.checked_sub(body.len());
    let text = bytes_remaining
        .filter(|_| note.is_short_term())
        .map(|bytes_remaining| {
            *bytes_left = bytes_remaining;
            UntrustedText::from(body)
        });
    ListedNote {
        name: note.name.clone(),
        size_bytes: note.text.len(),
        description,
        text,
    }
}

impl MemoryKeeper {
    /// Creates a keeper for the run with this layout, whose workspaces start as a copy of `seed`.
    pub fn new(layout: &RunLayout, redactor: Redactor, seed: Option<AbsPath>) -> Self {
        Self {
            store: MemoryStore::new(&layout.state),
            redactor,
            seed,
        }
    }

    /// Keeps the notes in `workspace`, and returns the events that say so. A failure is a warning,
    /// because the answer counts in any case.
    pub fn keep_notes(&self, workspace: &AbsPath) -> Vec<Event> {
        let warning = |message| Event::Run(RunEvent::Warning { message });
        match self.try_keep_notes(workspace) {
            Ok((files, refusals)) => {
                let saved_event = (!files.is_empty()).then(|| {
                    let directory = self.store.dir().to_string();
                    Event::Run(RunEvent::MemorySaved { directory, files })
                });
                saved_event
                    .into_iter()
                    .chain(refusals.into_iter().map(warning))
                    .collect()
            }
            Err(error) => vec![warning(format!("cannot keep notes: {error:#}"))],
        }
    }

    fn try_keep_notes(&self, workspace: &AbsPath) -> Result<(Vec<String>, Vec<String>)> {
        let MemoryContent {
            mut notes,
            mut refusals,
        } = read_notes(&workspace.join(MEMORY))?;
        if let Some(seed) = &self.seed {
            let old_notes = read_notes(&seed.join(MEMORY))?.notes;
            notes.retain(|note| !old_notes.contains(note));
        }
        if notes.is_empty() {
            return Ok((Vec::new(), refusals));
        }
        let (saved_files, save_refusals) = self.store.save(&notes, &self.redactor)?;
        refusals.extend(save_refusals);
        Ok((saved_files, refusals))
    }
}

impl AgentTeam {
    /// Returns the team with these notes.
    #[must_use]
    pub fn with_memory(mut self, memory: Option<StoredMemory>) -> Self {
        if let Some(StoredMemory { prompt, warning }) = memory {
            self.memory = Some(prompt);
            self.memory_warning = warning;
        }
        self
    }

    /// Returns the warning about stored files that agents are not given, if there are any.
    pub fn memory_warning(&self) -> Option<&str> {
        self.memory_warning.as_deref()
    }

    /// Returns the event that tells which notes the agents are given, if there are any.
    pub fn memory_event(&self) -> Option<Event> {
        let memory = self
            .memory
            .as_ref()
            .filter(|memory| !memory.notes.is_empty())?;
        Some(Event::Run(RunEvent::MemoryRead {
            directory: memory.directory.clone(),
            files: memory.notes.iter().map(|note| note.name.clone()).collect(),
        }))
    }

    /// Returns the notes that the agents are given, if the config keeps notes.
    pub fn memory(&self) -> Option<&MemoryPrompt> {
        self.memory.as_ref()
    }
}

/// Maximum number of workspaces of earlier turns that agents may read, the newest first.
const WORKSPACES_MAX: usize = 20;

/// Describes `turns` for agents, and what is left of their commands, if agents have some.
pub fn turn_history(turns: &[PreviousTurn], command_home: Option<CommandHome>) -> String {
    let summary = |turn: &PreviousTurn| previous_turns::PreviousTurnSummary {
        number: turn.metadata.turn,
        task: turn.metadata.task.clone(),
        answer: turn.answer.clone(),
        files: turn.workspace.as_ref().map(ToString::to_string),
    };
    let mut description = describe_previous_turns(&turns.iter().map(summary).collect::<Vec<_>>());
    if let Some(home) = command_home.filter(|_| !turns.is_empty()) {
        description.push_str(home.describe());
    }
    description
}

/// Returns the workspaces of `turns`, the newest first.
pub fn previous_workspaces(turns: &[PreviousTurn]) -> Vec<AbsPath> {
    let workspaces = turns.iter().rev().filter_map(|turn| turn.workspace.clone());
    workspaces.take(WORKSPACES_MAX).collect()
}
