//! The JSON line format of events: the schema version, a sequence number, the time, and then the
//! event's fields. The event log and the event stream for scripts are only written through it, and
//! every line is redacted.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::text::escape_json;
use crate::world::io::clock::LocalDateTime;
use crate::world::store::redact::Redactor;

/// The schema version of lines. It is increased when a field or an event name is removed or changes
/// its meaning, but not when one is added.
pub const SCHEMA_VERSION: u32 = 2;

/// One line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JsonLine<T> {
    /// The schema version of the line.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    pub schema_version: u32,
    /// The number of the line, starting at 1 without gaps.
    #[schemars(range(min = 1))]
    pub seq: u64,
    /// The time of the event, in UTC.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// The number of lines directly before this one that could not be written to the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub lost: Option<u64>,
    /// The event.
    #[serde(flatten)]
    pub event: T,
}

impl JsonLine<Value> {
    /// Creates the line with number `seq` for `event`, redacted.
    pub fn new(
        seq: u64,
        time: &LocalDateTime,
        event: &impl Serialize,
        redactor: &Redactor,
    ) -> Result<Self> {
        let event = serde_json::to_value(event).map_err(Error::unserializable)?;
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            seq,
            time: time.utc_format(),
            lost: None,
            event: redactor.json(event),
        })
    }

    /// Returns the JSON without a line break; invisible characters are escaped.
    pub fn text(&self) -> Result<String> {
        let json = serde_json::to_string(self).map_err(Error::unserializable)?;
        Ok(escape_json(&json).into_owned())
    }
}
