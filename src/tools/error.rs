//! Errors of calls that cannot be parsed, worded so that a model learns what to send instead.

use std::fmt::Write as _;

use crate::text::truncate;
use crate::tools::arguments::ARGUMENTS_BYTES_MAX;
use crate::tools::call::InvalidUserPath;
use crate::tools::served::arguments::ArgumentProblem;
use crate::tools::served::is_served_name;
use crate::tools::spec::{ParameterNeed, ToolSpec};

/// The longest part of a model's own text that an error quotes, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// The reason why a call cannot be parsed. The message is for the model that made the call.
#[derive(Debug, thiserror::Error)]
pub enum CallParseError {
    /// No tool has this name.
    #[error("there is no tool `{name}`{}", suggestion(name, *.nearest))]
    UnknownTool {
        /// The name, shortened.
        name: String,
        /// The tool with the most similar name.
        nearest: Option<&'static str>,
    },
    /// The arguments are too long.
    #[error(
        "the arguments have {bytes} bytes: expected at most {ARGUMENTS_BYTES_MAX}; \
         divide the work into several calls"
    )]
    TooLong {
        /// Their length.
        bytes: usize,
    },
    /// The arguments are not JSON, or nested too deeply.
    #[error("the arguments are not valid JSON: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The arguments are JSON, but not an object.
    #[error("the arguments of `{tool}` are no JSON object: expected {}", parameters(.tool))]
    NotAnObject {
        /// The tool.
        tool: &'static ToolSpec,
    },
    /// The tool has no such parameter.
    #[error("`{tool}` has no parameter `{parameter}`: expected {}", parameters(.tool))]
    UnknownParameter {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter, shortened.
        parameter: String,
    },
    /// The input of `apply_patch` is not a patch.
    #[error("the input is not a patch: {0}")]
    Patch(String),
    /// A required parameter is missing.
    #[error("`{tool}` lacks its parameter `{parameter}`: expected {expected}")]
    Missing {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// The expected value.
        expected: &'static str,
    },
    /// A parameter has an invalid value.
    #[error("`{parameter}` of `{tool}` is `{found}`: expected {expected}")]
    InvalidValue {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// Its value, shortened.
        found: String,
        /// The expected value.
        expected: String,
    },
    /// A parameter is not a valid path.
    #[error("`{parameter}` of `{tool}` is not a path: {source}")]
    Path {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// The cause.
        source: InvalidUserPath,
    },
    /// A parameter is not a valid glob.
    #[error("`{parameter}` of `{tool}` is not a glob: {source}")]
    Glob {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// The cause.
        source: globset::Error,
    },
    /// The arguments of a server's tool cannot be passed on.
    #[error("the arguments of `{tool}` {problem}")]
    Served {
        /// The tool.
        tool: String,
        /// The cause.
        problem: ArgumentProblem,
    },
}

fn suggestion(name: &str, nearest: Option<&'static str>) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if is_served_name(name) => {
            "; the tools of servers are those that you were offered".to_owned()
        }
        None => String::new(),
    }
}

fn parameters(tool: &ToolSpec) -> String {
    let mut out = String::new();
    for parameter in tool.parameters {
        let separator = if out.is_empty() { "" } else { ", " };
        let need = match parameter.need {
            ParameterNeed::Required => "",
            ParameterNeed::Optional => " (optional)",
        };
        // Writing to a `String` cannot fail.
        let _ = write!(out, "{separator}`{}`{need}", parameter.name);
    }
    if out.is_empty() {
        out.push_str("no parameters");
    }
    out
}

/// Returns the beginning of `text` for an error message, without control characters.
pub(crate) fn excerpt(text: &str) -> String {
    truncate(text, EXCERPT_CHARS_MAX).replace(char::is_control, " ")
}
