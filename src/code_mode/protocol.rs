//! Owns what a program and massgen say to each other: one JSON object a line, calls in one direction
//! and answers in the other. A call names a tool and its arguments as a model would.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The longest line that either side sends, in bytes: the arguments of a call may have 4 MiB, and
/// their text grows when it is written as JSON.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A call of a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallFrame {
    /// What tells the call from others of the program.
    pub id: u64,
    /// The tool.
    pub tool: String,
    /// Its arguments, as they were written.
    pub arguments: Box<RawValue>,
}

/// What came of a call.
#[derive(Debug, Serialize)]
pub struct AnswerFrame<'a> {
    /// The call's.
    pub id: u64,
    /// Whether it did what was asked: `done`, `failed` or `denied`.
    pub outcome: &'a str,
    /// What a model would read.
    pub content: &'a str,
}
