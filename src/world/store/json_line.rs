//! Owns the shape of a line of JSON that tells what happened: which version of the shape it is, its
//! number, the time, and then what it tells. The event log and the stream for scripts are written
//! here and nowhere else, and every line passes the redactor.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::error::{Error, Result};
use crate::text::escape_json;
use crate::world::clock::LocalDateTime;
use crate::world::store::redact::Redactor;

/// The version of the shape of lines. It rises when a field or a name of an event goes or changes its
/// meaning; that one is added is no new version.
pub const SCHEMA_VERSION: u32 = 2;

/// One line.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JsonLine<T> {
    /// The version of the shape of the line.
    #[schemars(extend("const" = SCHEMA_VERSION))]
    pub schema_version: u32,
    /// Its number, from 1; each line has the next one.
    #[schemars(range(min = 1))]
    pub seq: u64,
    /// When it happened, in UTC.
    #[schemars(extend("format" = "date-time"))]
    pub time: String,
    /// How many lines just before this one could not be written to the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64", range(min = 1))]
    pub lost: Option<u64>,
    /// What happened.
    #[serde(flatten)]
    pub told: T,
}

impl JsonLine<Value> {
    /// The line number `seq`, about `told` without secrets.
    pub fn new(
        seq: u64,
        at: &LocalDateTime,
        told: &impl Serialize,
        redactor: &Redactor,
    ) -> Result<Self> {
        let told = serde_json::to_value(told).map_err(unwritable)?;
        Ok(Self {
            schema_version: SCHEMA_VERSION,
            seq,
            time: at.utc_format(),
            lost: None,
            told: redactor.json(told),
        })
    }

    /// Its JSON, without a line break; what is not seen is escaped in it.
    pub fn text(&self) -> Result<String> {
        let json = serde_json::to_string(self).map_err(unwritable)?;
        Ok(escape_json(&json).into_owned())
    }
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::bug("what happened has no JSON form").with_source(error)
}
