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
const EVENT_BYTES_MIN: usize = 4096;
/// The length from which a line is written before it is complete, in bytes.
const PARTIAL_LINE_BYTES_MIN: usize = 16 * 1024;

/// Escapes `text` with a backslash before each bracket that starts a line, because massgen's own
/// lines about an agent start with one.
pub(crate) fn escape_brackets(text: &str) -> String {
    let mut escaped_text = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let trimmed_line = line.trim_start_matches([' ', '\t']);
        let (indent, trimmed_line) = line.split_at(line.len().saturating_sub(trimmed_line.len()));
        escaped_text.push_str(indent);
        if trimmed_line.starts_with('[') {
            escaped_text.push('\\');
        }
        escaped_text.push_str(trimmed_line);
    }
    escaped_text
}

/// Continues a line that massgen started with `text`, and applies [`escape_brackets`] to the lines
/// after it.
pub(crate) fn continue_line(text: &str) -> String {
    match text.split_once('\n') {
        Some((line, rest)) => format!("{line}\n{}", escape_brackets(rest)),
        None => text.to_owned(),
    }
}

/// The streams of all agents in one coordination.
#[derive(Debug)]
pub(crate) struct AgentOutputs {
    dir: AbsPath,
    redactor: Redactor,
    redacted_streams: AgentStreamRedactor,
    pending: BTreeMap<AgentId, PendingOutput>,
    /// Events for the log that have not been taken yet.
    ready_events: Vec<Event>,
}

/// The redacted text of one agent that has not been written yet.
#[derive(Debug)]
struct PendingOutput {
    kind: ReplyTextKind,
    /// Text that is not in the log yet.
    unlogged: String,
    /// Text that is not in the file yet.
    unwritten: String,
}

impl PendingOutput {
    fn new(kind: ReplyTextKind) -> Self {
        Self {
            kind,
            unlogged: String::new(),
            unwritten: String::new(),
        }
    }

    fn add(&mut self, text: &str) {
        self.unlogged.push_str(text);
        self.unwritten.push_str(text);
    }

    /// Takes all complete lines, and an incomplete one if it is long.
    fn take_lines(&mut self) -> String {
        let end = match self.unwritten.rfind('\n') {
            Some(last) => last + 1,
            None if self.unwritten.len() < PARTIAL_LINE_BYTES_MIN => return String::new(),
            None => self.unwritten.len(),
        };
        let partial_line = self.unwritten.split_off(end);
        std::mem::replace(&mut self.unwritten, partial_line)
    }

    fn take_event(&mut self, agent: &AgentId) -> Option<Event> {
        if self.unlogged.is_empty() {
            return None;
        }
        let text = std::mem::take(&mut self.unlogged);
        let agent = agent.clone();
        Some(ModelEvent::from_piece(self.kind, agent, text).into())
    }
}

impl AgentOutputs {
    /// Creates outputs in the existing directory `dir`.
    pub(crate) fn new(dir: AbsPath, redactor: Redactor) -> Self {
        Self {
            dir,
            redacted_streams: AgentStreamRedactor::new(redactor.clone()),
            redactor,
            pending: BTreeMap::new(),
            ready_events: Vec::new(),
        }
    }

    /// Applies the next event: text of agents, or an event that ends a stream. Complete lines are
    /// written immediately.
    pub(crate) fn apply(&mut self, event: &Event) -> Result<()> {
        let pieces = self.redacted_streams.apply(event);
        let add_result = self.add_all(&pieces);
        let agents = match event.agent() {
            Some(agent) => vec![agent.clone()],
            None => self.pending.keys().cloned().collect(),
        };
        let agents = agents.iter();
        let ended_agents: Vec<AgentId> = agents
            .filter(|agent| !self.redacted_streams.is_streaming(agent))
            .cloned()
            .collect();
        add_result.and(self.flush_all(&ended_agents))
    }

    /// Ends the streams of all agents.
    pub(crate) fn end_all(&mut self) -> Result<()> {
        let pieces = self.redacted_streams.end_all();
        let add_result = self.add_all(&pieces);
        let agents: Vec<AgentId> = self.pending.keys().cloned().collect();
        add_result.and(self.flush_all(&agents))
    }

    /// Adds pieces of text. If one cannot be written, the others still are.
    fn add_all(&mut self, pieces: &[Event]) -> Result<()> {
        let mut add_result = Ok(());
        for piece in pieces {
            if let Event::Model(ModelEvent::Text { agent, text }) = piece {
                add_result = add_result.and(self.add(agent, ReplyTextKind::Text, text));
            } else if let Event::Model(ModelEvent::Reasoning { agent, text }) = piece {
                add_result = add_result.and(self.add(agent, ReplyTextKind::Reasoning, text));
            }
        }
        add_result
    }

    fn add(&mut self, agent: &AgentId, kind: ReplyTextKind, text: &str) -> Result<()> {
        let current_output = self.pending.get(agent);
        let flush_result = if current_output.is_some_and(|output| output.kind != kind) {
            self.flush_agent(agent)
        } else {
            Ok(())
        };
        let entry = self.pending.entry(agent.clone());
        let pending_output = entry.or_insert_with(|| PendingOutput::new(kind));
        pending_output.add(text);
        if pending_output.unlogged.len() >= EVENT_BYTES_MIN {
            self.ready_events.extend(pending_output.take_event(agent));
        }
        let lines = pending_output.take_lines();
        flush_result.and(self.write(agent, &escape_brackets(&lines)))
    }

    fn flush_all(&mut self, agents: &[AgentId]) -> Result<()> {
        // All are flushed, even if one fails.
        let results: Vec<Result<()>> = agents.iter().map(|agent| self.flush_agent(agent)).collect();
        results.into_iter().collect()
    }

    /// Writes all that remains of the text of `agent`.
    fn flush_agent(&mut self, agent: &AgentId) -> Result<()> {
        let Some(mut pending_output) = self.pending.remove(agent) else {
            return Ok(());
        };
        self.ready_events.extend(pending_output.take_event(agent));
        let mut last_line = pending_output.unwritten;
        if !last_line.is_empty() {
            last_line.push('\n');
        }
        self.write(agent, &escape_brackets(&last_line))
    }

    /// Takes the joined pieces that are ready for the log.
    pub(crate) fn take_ready(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.ready_events)
    }

    /// Appends one line about `agent` to its file.
    pub(crate) fn write_line(&self, agent: &AgentId, line: &str) -> Result<()> {
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
