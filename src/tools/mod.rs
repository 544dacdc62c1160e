//! The tools that models call: each call as a type, the paths that it touches, and how models are
//! offered the tools. A [`call::ToolCall`] describes a request, not whether it is allowed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub mod arguments;
pub mod patch;
pub mod call;
pub mod error;
pub mod external_tools;
pub mod pre_tool_use;
pub mod image;
pub mod task_plan;
pub mod page_url;
pub mod model_file;
pub mod vendor_tool;
pub mod media;
pub mod input;
pub mod tool_selection;
pub mod parse;
pub mod served;
pub mod spec;
pub mod text_calls;
pub mod portable_schema;
pub mod call_text;
pub mod workflow;

#[cfg(test)]
mod tests;

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

/// Maximum size of arguments that cannot be parsed, in bytes. The model only reads them again.
const MALFORMED_BYTES_MAX: usize = 4096;

impl CallRequest {
    /// Returns the call with its arguments cut if they are long and cannot be parsed: a model that
    /// writes such a call again and again would fill the memory.
    #[must_use]
    pub fn cut_if_malformed(mut self) -> Self {
        if self.arguments.len() > MALFORMED_BYTES_MAX
            && serde_json::from_str::<Map<String, Value>>(&self.arguments).is_err()
        {
            let end = self.arguments.floor_char_boundary(MALFORMED_BYTES_MAX);
            self.arguments.truncate(end);
            self.arguments.push('…');
        }
        self
    }

    /// Returns the arguments as text that every server can parse: many reject a whole conversation
    /// for one call whose arguments are not a JSON object.
    pub fn well_formed_arguments(&self) -> String {
        match serde_json::from_str::<Map<String, Value>>(&self.arguments) {
            Ok(_) => self.arguments.clone(),
            Err(_) => json!({"malformed_arguments": self.arguments}).to_string(),
        }
    }
}
