//! Reads the JSON of one line of an event log: its head and its event, in one pass.

use std::fmt;

use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::event::Event;

/// A line that was read.
#[derive(Debug)]
pub(super) struct LogLine {
    pub(super) head: LogLineHead,
    /// Its event; `None` if this version does not know it.
    pub(super) event: Option<Event>,
}

/// The fields that lines of all events have.
#[derive(Debug, Deserialize)]
pub(super) struct LogLineHead {
    /// The number of the line.
    pub(super) seq: u64,
    /// The time of the event.
    pub(super) time: String,
    /// The number of lines directly before this one that could not be written.
    pub(super) lost: Option<u64>,
}

impl LogLine {
    /// Reads a line. It is an error if its head cannot be read.
    pub(super) fn read(json: &str) -> serde_json::Result<Self> {
        if let Ok(KnownLine { head, event }) = serde_json::from_str(json) {
            let event = Some(event);
            return Ok(Self { head, event });
        }
        // The fields are in another order, or the event is unknown.
        Ok(Self {
            head: serde_json::from_str(json)?,
            event: Event::from_json(json).ok(),
        })
    }
}

/// A line whose head comes first, with an event that this version knows.
struct KnownLine {
    head: LogLineHead,
    event: Event,
}

/// A field of a line up to the name of the event.
#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum LineField {
    SchemaVersion,
    Seq,
    Time,
    Lost,
    Type,
}

impl<'de> Deserialize<'de> for KnownLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(KnownLineVisitor)
    }
}

struct KnownLineVisitor;

impl<'de> Visitor<'de> for KnownLineVisitor {
    type Value = KnownLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a line of an event log")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<KnownLine, A::Error> {
        let (mut seq, mut time, mut lost) = (None, None, None);
        while let Some(field) = fields.next_key()? {
            match field {
                LineField::SchemaVersion => {
                    let IgnoredAny = fields.next_value()?;
                }
                LineField::Seq => seq = Some(fields.next_value()?),
                LineField::Time => time = Some(fields.next_value()?),
                LineField::Lost => lost = fields.next_value()?,
                LineField::Type => {
                    let name: String = fields.next_value()?;
                    let event = Event::from_fields(&name, fields)?;
                    let seq = seq.ok_or_else(|| A::Error::missing_field("seq"))?;
                    let time = time.ok_or_else(|| A::Error::missing_field("time"))?;
                    let head = LogLineHead { seq, time, lost };
                    return Ok(KnownLine { head, event });
                }
            }
        }
        Err(A::Error::missing_field("type"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_in_any_order_and_with_an_unknown_event() {
        let warning = r#""type":"warning","message":"a \"b\"","later":[{"x":1}]"#;
        let head = r#""schema_version":2,"seq":7,"time":"t""#;
        let unknown = r#""type":"dreamt","of":"sheep""#;
        let voted = r#""type":"voted""#;
        for (json, lost, is_known) in [
            (format!("{{{head},{warning}}}"), None, true),
            (format!("{{{head},\"lost\":3,{warning}}}"), Some(3), true),
            (format!("{{{warning},{head}}}"), None, true),
            (format!("{{{head},{unknown}}}"), None, false),
            (format!("{{{head},{voted}}}"), None, false),
            (format!("{{{head}}}"), None, false),
        ] {
            let line = LogLine::read(&json).unwrap();
            assert_eq!(
                (line.head.seq, line.head.time.as_str(), line.head.lost),
                (7, "t", lost),
                "{json}"
            );
            assert_eq!(line.event, Event::from_json(&json).ok(), "{json}");
            assert_eq!(line.event.is_some(), is_known, "{json}");
        }
        for json in [
            r#"{"seq":7,"type":"warning","message":"m"}"#,
            "{}",
            "[]",
            "",
        ] {
            assert!(LogLine::read(json).is_err(), "{json}");
        }
    }
}
