//! The tools that models call: each call as a type, the paths that it touches, and how models are
//! offered the tools. A [`call::ToolCall`] describes a request, not whether it is allowed.

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
pub mod request;
pub mod served;
pub mod spec;
pub mod text_calls;
pub mod portable_schema;
pub mod aliases;
pub mod call_text;
pub mod workflow;

#[cfg(test)]
mod tests;
