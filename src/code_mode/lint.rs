//! Findings about a refused program: each has a place, the problem, and what to write instead.

use std::fmt;

use tree_sitter::Node;

use crate::text::single_line;

/// The maximum number of findings that a refusal shows.
const FINDINGS_SHOWN_MAX: usize = 10;
/// The longest part of a program that a finding quotes, in characters.
const EXCERPT_CHARS_MAX: usize = 60;

/// A place in a program at which it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, in bytes.
    pub column: usize,
    /// What is wrong there.
    pub problem: String,
    /// What to write instead.
    pub advice: String,
}

/// The refusal of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LintRefusal {
    /// The findings in order; never empty in a refusal that is reported.
    pub findings: Vec<LintFinding>,
}

impl LintFinding {
    /// Returns a finding at `node`.
    pub(super) fn at_node(
        node: Node<'_>,
        problem: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        let position = node.start_position();
        Self {
            line: position.row.saturating_add(1),
            column: position.column.saturating_add(1),
            problem: problem.into(),
            advice: advice.into(),
        }
    }

    /// Returns a finding about the whole program.
    pub(super) fn for_whole_program(problem: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            line: 1,
            column: 1,
            problem: problem.into(),
            advice: advice.into(),
        }
    }
}

impl From<LintFinding> for LintRefusal {
    fn from(finding: LintFinding) -> Self {
        Self {
            findings: vec![finding],
        }
    }
}

impl fmt::Display for LintFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LintFinding {
            line,
            column,
            problem,
            advice,
        } = self;
        write!(f, "line {line}, column {column}: {problem}: {advice}")
    }
}

impl fmt::Display for LintRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.findings.iter().take(FINDINGS_SHOWN_MAX).enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            finding.fmt(f)?;
        }
        match self.findings.len().saturating_sub(FINDINGS_SHOWN_MAX) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// Returns a part of a program for a finding, shortened.
pub(super) fn excerpt(text: &str) -> String {
    format!("`{}`", single_line(text, EXCERPT_CHARS_MAX))
}
