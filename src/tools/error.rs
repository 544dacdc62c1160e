//! Owns why a call cannot be understood, in words from which a model can learn what to send instead.

use std::fmt::Write as _;

use crate::text::truncate;
use crate::tools::arguments::ARGUMENTS_BYTES_MAX;
use crate::tools::call::InvalidUserPath;
use crate::tools::served::SERVED_PREFIX;
use crate::tools::served::arguments::ArgumentFault;
use crate::tools::spec::{ParameterNeed, ToolSpec};

/// How much of a model's own words an error repeats, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// Why a call cannot be understood. The text is for the model that made it.
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
    /// There is more than anybody should send.
    #[error(
        "the arguments have {bytes} bytes: expected at most {ARGUMENTS_BYTES_MAX}; \
         divide the work into several calls"
    )]
    TooLong {
        /// Their length.
        bytes: usize,
    },
    /// They are not JSON, or nested too deeply.
    #[error("the arguments are not valid JSON: {0}")]
    Malformed(#[source] serde_json::Error),
    /// They are JSON, but no object.
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
    /// A parameter that the tool needs is not there.
    #[error("`{tool}` lacks its parameter `{parameter}`: expected {expected}")]
    Missing {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// A parameter holds something that it cannot.
    #[error("`{parameter}` of `{tool}` is `{found}`: expected {expected}")]
    Refused {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// What it holds, shortened.
        found: String,
        /// What it takes.
        expected: String,
    },
    /// A path is none.
    #[error("`{parameter}` of `{tool}` is no path: {source}")]
    Path {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// What is wrong with it.
        source: InvalidUserPath,
    },
    /// A glob is none.
    #[error("`{parameter}` of `{tool}` is no glob: {source}")]
    Glob {
        /// The tool.
        tool: &'static ToolSpec,
        /// The parameter.
        parameter: &'static str,
        /// What is wrong with it.
        source: globset::Error,
    },
    /// The arguments of a server's tool cannot be passed on.
    #[error("the arguments of `{tool}` {fault}")]
    Served {
        /// The tool.
        tool: String,
        /// What is wrong with them.
        fault: ArgumentFault,
    },
    /// Two parameters contradict each other.
    #[error("`{first}` and `{second}` of `{tool}` exclude each other: expected one of them")]
    Conflict {
        /// The tool.
        tool: &'static ToolSpec,
        /// The one parameter.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
}

fn suggestion(name: &str, nearest: Option<&'static str>) -> String {
    match nearest {
        Some(nearest) => format!("; did you mean `{nearest}`?"),
        None if name.starts_with(SERVED_PREFIX) => {
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
        // writing into a `String` cannot fail
        let _ = write!(out, "{separator}`{}`{need}", parameter.name);
    }
    if out.is_empty() {
        out.push_str("no parameters");
    }
    out
}

/// The beginning of `text`, for an error, without control characters.
pub(crate) fn excerpt(text: &str) -> String {
    truncate(text, EXCERPT_CHARS_MAX).replace(char::is_control, " ")
}
