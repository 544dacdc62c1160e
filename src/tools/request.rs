//! A tool call as a model wrote it, entirely unchecked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A tool call as the model wrote it: nothing about it has been checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallRequest {
    /// The vendor's id of the call, unique within the conversation.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as JSON text; may be malformed.
    pub arguments: String,
}

impl CallRequest {
    /// Returns the arguments as text that every server can parse: many reject a whole conversation
    /// for one call whose arguments are not a JSON object.
    pub fn well_formed_arguments(&self) -> String {
        match serde_json::from_str::<Map<String, Value>>(&self.arguments) {
            Ok(_) => self.arguments.clone(),
            Err(_) => json!({"malformed_arguments": self.arguments}).to_string(),
        }
    }
}
