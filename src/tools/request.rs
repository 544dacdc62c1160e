//! Owns a tool call as a model wrote it. Nothing about it has been checked.

use serde::{Deserialize, Serialize};

/// A tool call as the model wrote it: nothing about it has been checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRequest {
    /// The vendor's id of the call, unique within the conversation.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text; may be malformed.
    pub arguments: String,
}
