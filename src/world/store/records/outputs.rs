//! Owns what agents say while it streams: the readable files `agent_outputs/<id>.txt`, and the
//! joining of a stream's many small pieces into few events for the log. Secrets are taken out here,
//! where a stream is still whole: a secret may lie in two pieces.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::event::{Event, Voice};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::world::store::redact::{RedactedStream, Redactor};
use crate::world::sys::own::file;

/// How much streamed text makes an event of the log.
const EVENT_BYTES: usize = 4096;

/// The streams of all agents of one attempt.
#[derive(Debug)]
pub(crate) struct Outputs {
    dir: AbsPath,
    redactor: Redactor,
    speeches: BTreeMap<AgentId, Speech>,
    /// Events for the log that nobody has taken yet.
    ready: Vec<Event>,
}

/// What one agent is saying.
#[derive(Debug)]
struct Speech {
    voice: Voice,
    stream: RedactedStream,
    /// Clean text that is not in the log yet.
    unlogged: String,
    /// Clean text that is not in the file yet.
    unwritten: String,
}

impl Speech {
    fn new(voice: Voice) -> Self {
        Self {
            voice,
            stream: RedactedStream::default(),
            unlogged: String::new(),
            unwritten: String::new(),
        }
    }

    fn add(&mut self, clean: &str) {
        self.unlogged.push_str(clean);
        self.unwritten.push_str(clean);
    }

    /// All lines that are complete.
    fn take_lines(&mut self) -> String {
        let end = self.unwritten.rfind('\n').map_or(0, |last| last + 1);
        let rest = self.unwritten.split_off(end);
        std::mem::replace(&mut self.unwritten, rest)
    }

    fn take_event(&mut self, agent: &AgentId) -> Option<Event> {
        if self.unlogged.is_empty() {
            return None;
        }
        let text = std::mem::take(&mut self.unlogged);
        let agent = agent.clone();
        Some(match self.voice {
            Voice::Text => Event::Text { agent, text },
            Voice::Reasoning => Event::Reasoning { agent, text },
        })
    }
}

impl Outputs {
    /// Writes into the existing directory `dir`.
    pub(crate) fn new(dir: AbsPath, redactor: Redactor) -> Self {
        Self {
            dir,
            redactor,
            speeches: BTreeMap::new(),
            ready: Vec::new(),
        }
    }

    /// Takes the next piece of what `agent` says. Complete lines go to its file at once.
    pub(crate) fn speak(&mut self, agent: &AgentId, voice: Voice, piece: &str) -> Result<()> {
        let speech = self.speeches.get(agent);
        let ended = if speech.is_some_and(|speech| speech.voice != voice) {
            self.end(agent)
        } else {
            Ok(())
        };
        let speech = self
            .speeches
            .entry(agent.clone())
            .or_insert_with(|| Speech::new(voice));
        let clean = speech.stream.push(&self.redactor, piece);
        speech.add(&clean);
        if speech.unlogged.len() >= EVENT_BYTES {
            self.ready.extend(speech.take_event(agent));
        }
        let lines = speech.take_lines();
        ended.and(self.write(agent, &lines))
    }

    /// Ends what `agent` is saying.
    pub(crate) fn end(&mut self, agent: &AgentId) -> Result<()> {
        let Some(mut speech) = self.speeches.remove(agent) else {
            return Ok(());
        };
        let clean = speech.stream.finish(&self.redactor);
        speech.add(&clean);
        self.ready.extend(speech.take_event(agent));
        let mut last_line = speech.unwritten;
        if !last_line.is_empty() {
            last_line.push('\n');
        }
        self.write(agent, &last_line)
    }

    /// Ends what all agents are saying.
    pub(crate) fn end_all(&mut self) -> Result<()> {
        let speakers: Vec<AgentId> = self.speeches.keys().cloned().collect();
        let ended: Vec<Result<()>> = speakers.iter().map(|agent| self.end(agent)).collect();
        ended.into_iter().collect()
    }

    /// The joined pieces that the log is to have by now.
    pub(crate) fn take_ready(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.ready)
    }

    /// Adds one line about `agent` to its file.
    pub(crate) fn note(&self, agent: &AgentId, line: &str) -> Result<()> {
        self.write(agent, &format!("{}\n", self.redactor.text(line)))
    }

    fn write(&self, agent: &AgentId, text: &str) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let path = self.dir.join(format!("{agent}.txt"));
        file::append(&path, printable(text).as_bytes())
    }
}

/// `text` without what a terminal would obey: control characters but line breaks and tabs, and the
/// marks that turn the direction of writing.
pub(crate) fn printable(text: &str) -> String {
    let obeyed = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars()
        .map(|c| if obeyed(c) { '\u{fffd}' } else { c })
        .collect()
}
