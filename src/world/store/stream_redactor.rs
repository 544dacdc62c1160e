//! Redacts streams: what agents stream, and what passes through a writer. Each stream is redacted
//! as a whole, because a secret may span two pieces.

use std::collections::BTreeMap;
use std::io::{Result, Write};

use crate::event::{Event, ModelEvent, ReplyTextKind, RunEvent};
use crate::id::AgentId;
use crate::world::store::redact::{RedactedStream, Redactor};

/// The streams of all agents.
#[derive(Debug, Default)]
pub(crate) struct AgentStreamRedactor {
    redactor: Redactor,
    by_agent: BTreeMap<AgentId, (ReplyTextKind, RedactedStream)>,
}

impl AgentStreamRedactor {
    /// Creates one without streams that redacts what `redactor` knows.
    pub(crate) fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            by_agent: BTreeMap::new(),
        }
    }

    /// Returns the pieces of text that can be emitted after `event`. A piece that may be the
    /// beginning of a secret is held back until the next one; an event that is not a piece ends its
    /// agent's stream and is not returned itself.
    pub(crate) fn apply(&mut self, event: &Event) -> Vec<Event> {
        if let Event::Model(ModelEvent::Text { agent, text }) = event {
            self.push(agent, ReplyTextKind::Text, text)
        } else if let Event::Model(ModelEvent::Reasoning { agent, text }) = event {
            self.push(agent, ReplyTextKind::Reasoning, text)
        } else if let Some(agent) = event.agent() {
            self.end(agent).into_iter().collect()
        } else if let Event::Run(
            RunEvent::RunEnded { .. } | RunEvent::CoordinationRestarted { .. },
        ) = event
        {
            self.end_all()
        } else {
            Vec::new()
        }
    }

    /// Returns whether `agent` is in the middle of a stream.
    pub(crate) fn is_streaming(&self, agent: &AgentId) -> bool {
        self.by_agent.contains_key(agent)
    }

    /// Ends all streams and returns what was held back.
    pub(crate) fn end_all(&mut self) -> Vec<Event> {
        let agents: Vec<AgentId> = self.by_agent.keys().cloned().collect();
        let ends = agents.iter().filter_map(|agent| self.end(agent));
        ends.collect()
    }

    fn push(&mut self, agent: &AgentId, kind: ReplyTextKind, text: &str) -> Vec<Event> {
        let current = self.by_agent.get(agent);
        let is_other_kind = current.is_some_and(|(current_kind, _)| *current_kind != kind);
        let end = if is_other_kind { self.end(agent) } else { None };
        let entry = self.by_agent.entry(agent.clone());
        let (_, stream) = entry.or_insert_with(|| (kind, RedactedStream::default()));
        let redacted = stream.push(&self.redactor, text);
        end.into_iter()
            .chain(piece_event(agent, kind, redacted))
            .collect()
    }

    fn end(&mut self, agent: &AgentId) -> Option<Event> {
        let (kind, mut stream) = self.by_agent.remove(agent)?;
        piece_event(agent, kind, stream.finish(&self.redactor))
    }
}

/// Returns a piece of text as an event, unless it is empty.
fn piece_event(agent: &AgentId, kind: ReplyTextKind, text: String) -> Option<Event> {
    (!text.is_empty()).then(|| ModelEvent::from_piece(kind, agent.clone(), text).into())
}

/// A writer of text without secrets. What may be the beginning of a secret is held back until more
/// arrives, or the writer is dropped.
#[derive(Debug)]
pub(crate) struct RedactedWriter<W: Write> {
    inner: W,
    redactor: Redactor,
    stream: RedactedStream,
}

impl<W: Write> RedactedWriter<W> {
    /// Creates a writer to `inner`.
    pub(crate) fn new(inner: W, redactor: Redactor) -> Self {
        Self {
            inner,
            redactor,
            stream: RedactedStream::default(),
        }
    }
}

impl<W: Write> Write for RedactedWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let redacted = self.stream.push(&self.redactor, &text);
        self.inner.write_all(redacted.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for RedactedWriter<W> {
    fn drop(&mut self) {
        let rest = self.stream.finish(&self.redactor);
        // `drop` cannot report an error.
        self.inner.write_all(rest.as_bytes()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::event::DeliveryEvent;

    const SECRET: &str = "sk-0123456789abcdef";

    fn stream_piece(kind: ReplyTextKind, id: &str, text: &str) -> Event {
        piece_event(&AgentId::parse(id).unwrap(), kind, text.to_owned()).unwrap()
    }

    fn describe_event(event: &Event) -> String {
        match (event.agent(), event) {
            (Some(agent), Event::Model(ModelEvent::Text { text, .. })) => {
                format!("{agent}: {text}")
            }
            (Some(agent), Event::Model(ModelEvent::Reasoning { text, .. })) => {
                format!("{agent} thinks: {text}")
            }
            _ => format!("{event:?}"),
        }
    }

    #[track_caller]
    fn check(events: &[Event], expected: &[&str]) {
        let mut streams = AgentStreamRedactor::new(Redactor::new(vec![SecretString::from(SECRET)]));
        let mut redacted: Vec<Event> = events.iter().flat_map(|e| streams.apply(e)).collect();
        redacted.extend(streams.end_all());
        let lines: Vec<String> = redacted.iter().map(describe_event).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn pieces_are_emitted_as_they_arrive() {
        let (text, thought) = (ReplyTextKind::Text, ReplyTextKind::Reasoning);
        check(
            &[
                stream_piece(text, "a", "one "),
                stream_piece(text, "b", "two"),
                stream_piece(thought, "a", "hm"),
            ],
            &["a: one ", "b: two", "a thinks: hm"],
        );
    }

    #[test]
    fn a_secret_in_two_pieces_is_taken_out() {
        let (head, tail) = SECRET.split_at(6);
        let pieces = [
            stream_piece(ReplyTextKind::Text, "a", &format!("key {head}")),
            stream_piece(ReplyTextKind::Text, "b", head),
            stream_piece(ReplyTextKind::Text, "a", tail),
            stream_piece(ReplyTextKind::Reasoning, "b", tail),
        ];
        check(
            &pieces,
            &[
                "a: key ",
                "a: [redacted]",
                "b: sk-012",
                "b thinks: 3456789abcdef",
            ],
        );
    }

    #[test]
    fn an_action_of_an_agent_flushes_its_stream() {
        let agent = AgentId::parse("a").unwrap();
        let pieces = [
            stream_piece(ReplyTextKind::Text, "a", "sk-"),
            stream_piece(ReplyTextKind::Text, "b", "sk-"),
            Event::Delivery(DeliveryEvent::FinalStarted { agent }),
        ];
        check(&pieces, &["a: sk-", "b: sk-"]);
    }

    #[test]
    fn a_secret_in_two_writes_is_redacted() {
        let mut written = Vec::new();
        let redactor = Redactor::new(vec![SecretString::from("sk-0123456789abcdef")]);
        let mut writer = RedactedWriter::new(&mut written, redactor);
        writer.write_all(b"the key is sk-01234").unwrap();
        writer.write_all(b"56789abcdef, and sk-0").unwrap();
        drop(writer);
        let text = String::from_utf8(written).unwrap();
        assert!(!text.contains("sk-0123456789abcdef"), "{text}");
        assert!(
            text.starts_with("the key is ") && text.ends_with(", and sk-0"),
            "{text}"
        );
    }
}
