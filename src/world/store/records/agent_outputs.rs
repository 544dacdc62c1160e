//! Writes what agents say: to the readable files `agent_outputs/<id>.txt`, in which no agent's text
//! can look like a line of massgen's, and to the log, for which the many small pieces of a stream
//! are joined into a few events.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::event::{Event, ModelEvent, ReplyTextKind};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::text::escape_text;
use crate::world::store::redact::Redactor;
use crate::world::store::stream_redactor::AgentStreamRedactor;
use crate::world::sys::state_files::file;

/// How much streamed text is joined into one event of the log, in bytes.
const EVENT_BYTES: usize = 4096;
/// The length from which a line is written before it is complete, in bytes.
const LINE_BYTES: usize = 16 * 1024;

/// Escapes `text` with a backslash before each bracket that starts a line, because massgen's own
/// lines about an agent start with one.
pub(crate) fn without_marks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_start_matches([' ', '\t']);
        let (blanks, words) = line.split_at(line.len().saturating_sub(words.len()));
        out.push_str(blanks);
        if words.starts_with('[') {
            out.push('\\');
        }
        out.push_str(words);
    }
    out
}

/// Continues a line that massgen started with `text`, and applies [`without_marks`] to the lines
/// after it.
pub(crate) fn continue_line(text: &str) -> String {
    match text.split_once('\n') {
        Some((line, rest)) => format!("{line}\n{}", without_marks(rest)),
        None => text.to_owned(),
    }
}

/// The streams of all agents in one attempt.
#[derive(Debug)]
pub(crate) struct AgentOutputs {
    dir: AbsPath,
    redactor: Redactor,
    speeches: AgentStreamRedactor,
    unfiled: BTreeMap<AgentId, PendingOutput>,
    /// Events for the log that have not been taken yet.
    ready: Vec<Event>,
}

/// The redacted text of one agent that has not been written yet.
#[derive(Debug)]
struct PendingOutput {
    voice: ReplyTextKind,
    /// Text that is not in the log yet.
    unlogged: String,
    /// Text that is not in the file yet.
    unwritten: String,
}

impl PendingOutput {
    fn new(voice: ReplyTextKind) -> Self {
        Self {
            voice,
            unlogged: String::new(),
            unwritten: String::new(),
        }
    }

    fn add(&mut self, clean: &str) {
        self.unlogged.push_str(clean);
        self.unwritten.push_str(clean);
    }

    /// Takes all complete lines, and an incomplete one if it is long.
    fn take_lines(&mut self) -> String {
        let end = match self.unwritten.rfind('\n') {
            Some(last) => last + 1,
            None if self.unwritten.len() < LINE_BYTES => return String::new(),
            None => self.unwritten.len(),
        };
        let rest = self.unwritten.split_off(end);
        std::mem::replace(&mut self.unwritten, rest)
    }

    fn take_event(&mut self, agent: &AgentId) -> Option<Event> {
        if self.unlogged.is_empty() {
            return None;
        }
        let text = std::mem::take(&mut self.unlogged);
        let agent = agent.clone();
        Some(ModelEvent::from_piece(self.voice, agent, text).into())
    }
}

impl AgentOutputs {
    /// Creates outputs in the existing directory `dir`.
    pub(crate) fn new(dir: AbsPath, redactor: Redactor) -> Self {
        Self {
            dir,
            speeches: AgentStreamRedactor::new(redactor.clone()),
            redactor,
            unfiled: BTreeMap::new(),
            ready: Vec::new(),
        }
    }

    /// Applies the next event: text of agents, or an event that ends it. Complete lines are written
    /// immediately.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<()> {
        let pieces = self.speeches.apply(event);
        let added = self.add_all(&pieces);
        let silent = match event.agent() {
            Some(agent) => vec![agent.clone()],
            None => self.unfiled.keys().cloned().collect(),
        };
        let silent = silent.iter();
        let ended = silent.filter(|agent| !self.speeches.is_speaking(agent));
        let ended: Vec<AgentId> = ended.cloned().collect();
        added.and(self.flush_all(&ended))
    }

    /// Ends the streams of all agents.
    pub(crate) fn end_all(&mut self) -> Result<()> {
        let pieces = self.speeches.end_all();
        let added = self.add_all(&pieces);
        let agents: Vec<AgentId> = self.unfiled.keys().cloned().collect();
        added.and(self.flush_all(&agents))
    }

    /// Adds pieces of text. If one cannot be written, the others still are.
    fn add_all(&mut self, pieces: &[Event]) -> Result<()> {
        let mut added = Ok(());
        for piece in pieces {
            if let Event::Model(ModelEvent::Text { agent, text }) = piece {
                added = added.and(self.add(agent, ReplyTextKind::Text, text));
            } else if let Event::Model(ModelEvent::Reasoning { agent, text }) = piece {
                added = added.and(self.add(agent, ReplyTextKind::Reasoning, text));
            }
        }
        added
    }

    fn add(&mut self, agent: &AgentId, voice: ReplyTextKind, clean: &str) -> Result<()> {
        let before = self.unfiled.get(agent);
        let ended = if before.is_some_and(|before| before.voice != voice) {
            self.flush_agent(agent)
        } else {
            Ok(())
        };
        let unfiled = self.unfiled.entry(agent.clone());
        let unfiled = unfiled.or_insert_with(|| PendingOutput::new(voice));
        unfiled.add(clean);
        if unfiled.unlogged.len() >= EVENT_BYTES {
            self.ready.extend(unfiled.take_event(agent));
        }
        let lines = unfiled.take_lines();
        ended.and(self.write(agent, &without_marks(&lines)))
    }

    fn flush_all(&mut self, agents: &[AgentId]) -> Result<()> {
        let filed: Vec<Result<()>> = agents.iter().map(|agent| self.flush_agent(agent)).collect();
        filed.into_iter().collect()
    }

    /// Writes all that remains of the text of `agent`.
    fn flush_agent(&mut self, agent: &AgentId) -> Result<()> {
        let Some(mut unfiled) = self.unfiled.remove(agent) else {
            return Ok(());
        };
        self.ready.extend(unfiled.take_event(agent));
        let mut last_line = unfiled.unwritten;
        if !last_line.is_empty() {
            last_line.push('\n');
        }
        self.write(agent, &without_marks(&last_line))
    }

    /// Takes the joined pieces that are ready for the log.
    pub(crate) fn take_ready(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.ready)
    }

    /// Appends one line about `agent` to its file.
    pub(crate) fn note(&self, agent: &AgentId, line: &str) -> Result<()> {
        self.write(agent, &format!("{}\n", self.redactor.text(line)))
    }

    /// Appends to the file of `agent`.
    fn write(&self, agent: &AgentId, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let path = self.dir.join(format!("{agent}.txt"));
        file::append(&path, escape_text(text).as_bytes())
    }
}
