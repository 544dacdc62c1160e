//! Results that a model reads of an action: bounded text, paths and names, JSON, and errors that
//! end an action early.

use std::ffi::OsStr;
use std::fmt::{Display, Write as _};

use serde_json::{Value, json};

use crate::path::{RealPath, RelPath};
use crate::prompts::untrusted_text::{escape_notes, note};
use crate::text::name_spelling::show_name;
use crate::tools::image::ModelImage;
use crate::world::access::gate::{Gate, ResolvedPath};
use crate::world::access::verdict::{Denial, PermitError};
use crate::world::io::file_change::FileChange;
use crate::world::sys::file_system_error::FileSystemError;

/// The most file content that one call returns, in bytes.
pub(super) const OUTPUT_BYTES_MAX: usize = 256 * 1024;

/// The most names, matches and differences that one call returns, in bytes.
pub(super) const LISTING_BYTES_MAX: usize = 64 * 1024;

/// The result of an action: what the model reads, and what changed on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Whether the action did what was requested.
    pub outcome: ActionOutcome,
    /// What the model reads; bounded in size.
    pub content: String,
    /// Images that belong to the content.
    pub images: Vec<ModelImage>,
    /// Every file that the action created, changed or deleted, or left alone to protect the user's
    /// data.
    pub changes: Vec<FileChange>,
    /// Denials of tool calls that the action itself made, as a program does.
    pub denials: Vec<Denial>,
    /// The exit status of a command or program that exited by itself; file tools have none.
    pub exit_code: Option<i32>,
    /// A one-line version of the content for people, where the content is meant for models only.
    pub summary: Option<String>,
}

impl From<PermitError> for Observation {
    fn from(error: PermitError) -> Self {
        let outcome = match error {
            PermitError::Denied(_) => ActionOutcome::Denied,
            PermitError::Exhausted(_) => ActionOutcome::Failed,
        };
        Self::new(outcome, error.to_string())
    }
}

/// Whether an action did what was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionOutcome {
    /// The action did what was requested.
    Done,
    /// It failed; the content says why.
    Failed,
    /// A rule that needs the state of the disk denies it: for example, a file is unread or was
    /// changed by somebody else, or a directory holds a protected name.
    Denied,
}

/// The result of a tool: an observation, or why it ended early.
pub(super) type ToolResult = Result<Observation, ToolError>;

/// Why an action ended early.
#[derive(Debug)]
pub(super) struct ToolError {
    /// Whether it failed or was denied.
    pub(super) outcome: ActionOutcome,
    /// The message for the model.
    pub(super) message: String,
    /// The changes made before the error.
    pub(super) changes: Vec<FileChange>,
}

impl ToolError {
    /// Creates an error for an action that cannot be carried out.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self {
            outcome: ActionOutcome::Failed,
            message: message.into(),
            changes: Vec::new(),
        }
    }

    /// Creates an error for an action that cannot be carried out at `path`: "cannot `action`
    /// `path`: `reason`".
    pub(super) fn failed_at(
        gate: &Gate,
        action: &str,
        path: &ResolvedPath,
        reason: impl Display,
    ) -> Self {
        let path = display_path(gate, path.real());
        Self::failed(format!("cannot {action} {path}: {reason}"))
    }

    /// Creates a denial by a rule that depends on the state of the disk.
    pub(super) fn denied(gate: &Gate, path: &RealPath, reason: impl Display) -> Self {
        let path = display_path(gate, path);
        Self {
            outcome: ActionOutcome::Denied,
            message: format!("denied: write to {path}: {reason}"),
            changes: Vec::new(),
        }
    }

    /// Returns what the model reads: text from a file tool, and JSON from a workspace tool, which
    /// names its operation.
    pub(super) fn observation(self, json_operation: Option<&str>) -> Observation {
        let message = self.message;
        let content = match (json_operation, self.outcome) {
            (Some(operation), _) => {
                json!({"success": false, "operation": operation, "error": message}).to_string()
            }
            (None, ActionOutcome::Denied) => message,
            (None, ActionOutcome::Done | ActionOutcome::Failed) => format!("error: {message}"),
        };
        Observation::new(self.outcome, content).with_changes(self.changes)
    }

    /// Sets the changes made before the error, in place of those that it has.
    pub(super) fn with_changes(mut self, changes: Vec<FileChange>) -> Self {
        self.changes = changes;
        self
    }
}

impl Observation {
    /// Returns whether the action failed because the file that it is about does not exist.
    pub fn is_missing_file(&self) -> bool {
        let missing_text = FileSystemError::Missing.to_string();
        self.outcome == ActionOutcome::Failed && self.content.trim_end().ends_with(&missing_text)
    }

    /// Creates the observation of an action that succeeded and changed nothing on disk.
    pub(super) fn done(content: impl Into<String>) -> Self {
        Self::new(ActionOutcome::Done, content)
    }

    /// Creates the observation of an action that changed nothing on disk.
    pub fn new(outcome: ActionOutcome, content: impl Into<String>) -> Self {
        Self {
            outcome,
            content: content.into(),
            images: Vec::new(),
            changes: Vec::new(),
            denials: Vec::new(),
            exit_code: None,
            summary: None,
        }
    }

    /// Sets the changes.
    pub(super) fn with_changes(mut self, changes: Vec<FileChange>) -> Self {
        self.changes = changes;
        self
    }
}

/// Lines of text up to a number of bytes. Lines that do not fit are counted.
#[derive(Debug)]
pub(super) struct BoundedText {
    text: String,
    bytes_max: usize,
    omitted_lines: usize,
}

impl BoundedText {
    /// Creates a text that holds up to `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            text: String::new(),
            bytes_max,
            omitted_lines: 0,
        }
    }

    /// Adds a line; once a line does not fit, no further one is added.
    pub(super) fn push(&mut self, line: &str) {
        let line = escape_notes(line);
        if self.omitted_lines > 0 || self.text.len() + line.len() + 1 > self.bytes_max {
            self.omitted_lines += 1;
        } else {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    /// Returns whether a line did not fit.
    pub(super) fn is_full(&self) -> bool {
        self.omitted_lines > 0
    }

    /// Returns the text, with a last line that says what was cut and how to get it, or `empty_text`
    /// if there are no lines at all.
    pub(super) fn finish(mut self, empty_text: &str, remedy: &str) -> String {
        if self.text.is_empty() && self.omitted_lines == 0 {
            return empty_text.to_owned();
        }
        if self.omitted_lines > 0 {
            let cut_note = note(format_args!("cut: {} more; {remedy}", self.omitted_lines));
            let _written = writeln!(self.text, "{cut_note}");
        }
        self.text
    }
}

/// Formats a path so that the model can use it again: relative to the workspace if it lies inside.
pub(super) fn display_path(gate: &Gate, path: &RealPath) -> String {
    match path.below(&gate.policy().base) {
        Some(below) => display_rel(&below),
        None => display_name(path.as_path().as_os_str()),
    }
}

/// Formats a path below a directory as [`display_name`] does; the directory itself is `.`.
pub(super) fn display_rel(rel: &RelPath) -> String {
    if rel.is_root() {
        ".".to_owned()
    } else {
        display_name(rel.as_path().as_os_str())
    }
}

/// Formats a name for a model and for a terminal: invalid UTF-8 and invisible characters are escaped, so that no name can pretend to be two lines or a note of massgen's.
pub(super) fn display_name(name: &OsStr) -> String {
    escape_notes(&show_name(name)).into_owned()
}

/// The most names that one list in a JSON result holds, in bytes.
const NAMES_BYTES_MAX: usize = 16 * 1024;

/// Formats the result of a workspace tool that succeeded.
pub(super) fn json_done(operation: &str, details: &Value) -> String {
    json!({"success": true, "operation": operation, "details": details}).to_string()
}

/// Returns names below a place; if some were cut, a last entry says how many.
pub(super) fn json_names<'r>(rels: impl IntoIterator<Item = &'r RelPath>) -> Value {
    let (mut names, mut left_out_count, mut bytes_left) = (Vec::new(), 0_usize, NAMES_BYTES_MAX);
    for rel in rels {
        let name = display_rel(rel);
        bytes_left = bytes_left.saturating_sub(name.len());
        if bytes_left > 0 {
            names.push(name);
        } else {
            left_out_count += 1;
        }
    }
    if left_out_count > 0 {
        names.push(note(format_args!("cut: {left_out_count} more")));
    }
    names.into()
}

/// Returns the error for a command that could not be started, or was lost while it ran.
pub(super) fn cannot_complete(reason: &dyn std::fmt::Display) -> ToolError {
    ToolError::failed(format!("the command did not run to its end: {reason}"))
}

/// Returns the error that a command could not be run because of `reason`.
pub(super) fn cannot_run(reason: &dyn std::fmt::Display) -> ToolError {
    ToolError::failed(format!("the command was not run: {reason}"))
}
