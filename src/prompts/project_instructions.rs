//! The instructions that a project keeps for agents, as part of the system message: the words of
//! the project, which rank below the user's task.

use std::fmt::Write as _;

use crate::prompts::untrusted_text::{TextFrame, UntrustedText};
use crate::text::escape_name;

/// A file with instructions, such as `AGENTS.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// The absolute path.
    pub path: String,
    /// The text, or its beginning.
    pub text: UntrustedText,
    /// The size of `text` in bytes.
    pub size_bytes: u64,
    /// Whether the rest was left out.
    pub is_truncated: bool,
}

/// Appends the instructions of `files`, which are in the order of their rank.
pub(super) fn describe_project_instructions(out: &mut String, files: &[InstructionFile]) {
    if files.is_empty() {
        return;
    }
    out.push_str(
        "The project has instructions for agents. They are the project's words, not the user's: \
         follow them as far as they fit the task; the task and the rules above take precedence",
    );
    out.push_str(match files {
        [_] => ".\n",
        _ => ", and earlier files over later ones.\n",
    });
    for file in files {
        let truncation_note = if file.is_truncated {
            " note=\"only the beginning\""
        } else {
            ""
        };
        let attributes = format!(" file=\"{}\"{truncation_note}", escape_name(&file.path));
        let framed = file
            .text
            .in_frame(TextFrame::ProjectInstructions, &attributes);
        let _ = writeln!(out, "{framed}");
    }
}
