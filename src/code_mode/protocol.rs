//! The protocol between a program and massgen: one JSON object per line, calls in one direction and
//! results in the other. A call names a tool and its arguments as a model would.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The longest line in either direction, in bytes: the arguments of a call may have 4 MiB, and grow
/// when they are encoded as JSON.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A tool call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallFrame {
    /// Identifies the call within the program.
    pub id: u64,
    /// The tool.
    pub tool: String,
    /// Its arguments, as written.
    pub arguments: Box<RawValue>,
}

/// The result of a call.
#[derive(Debug, Serialize)]
pub struct AnswerFrame<'a> {
    /// The id of the call.
    pub id: u64,
    /// The outcome: `done`, `failed` or `denied`.
    pub outcome: &'a str,
    /// What a model would read.
    pub content: &'a str,
}
