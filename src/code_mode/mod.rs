//! Owns the programs that models write instead of single calls (`execute_code`): what is refused
//! before one runs, and the package `workspace_tools` by which it calls tools. Pure: nothing here
//! runs anything, and nothing here gives a right. What a program may do to files is the gate's
//! decision about each of its calls.

pub mod lint;
mod source;
mod go;
mod go_packages;
pub mod language;
mod python;
pub mod protocol;
pub mod package;
pub mod offer;

#[cfg(test)]
mod tests;

use crate::code_mode::language::ProgramDialect;
use crate::code_mode::lint::{LintFinding, LintRefusal};
use crate::tools::tool_selection::CommandOffering;

/// The longest program, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 256 * 1024;

/// The name of the package that programs call tools by.
pub const PACKAGE: &str = "workspace_tools";

/// What programs of an agent are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramLanguage {
    /// Python 3.
    Python,
    /// Go.
    Go,
}

impl ProgramLanguage {
    /// What languages are called in a config.
    pub const NAMES: &'static [&'static str] = &["python", "go"];

    /// The language of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "python" => Some(ProgramLanguage::Python),
            "go" => Some(ProgramLanguage::Go),
            _ => None,
        }
    }

    /// What it is called in a config.
    pub fn name(self) -> &'static str {
        match self {
            ProgramLanguage::Python => "python",
            ProgramLanguage::Go => "go",
        }
    }

    /// The program that runs or builds what is written in it.
    pub fn program(self) -> &'static str {
        match self {
            ProgramLanguage::Python => "python3",
            ProgramLanguage::Go => "go",
        }
    }

    /// What the user can do where it is missing.
    pub fn remedy(self) -> &'static str {
        match self {
            ProgramLanguage::Python => {
                "install `python3`, 3.8 or newer, or write `code_language: go`"
            }
            ProgramLanguage::Go => "install Go, 1.18 or newer, or write `code_language: python`",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            ProgramLanguage::Python => "Python 3",
            ProgramLanguage::Go => "Go",
        }
    }
}

/// Looks for what a program must not do. Commands are recommended to who has them. It is the first of
/// three layers and no wall: the package looks at paths, the gate decides about each call, and the
/// sandbox holds what runs.
///
/// # Errors
/// What was found, with its places.
pub fn lint_program(
    dialect: ProgramDialect,
    program: &str,
    commands: CommandOffering,
) -> Result<(), LintRefusal> {
    let (judged, recommends) = match dialect {
        ProgramDialect::Python(libraries) => (
            python::lint_python(libraries, program),
            python::names::COMMANDS,
        ),
        ProgramDialect::Go => (go::lint_go(program), go::COMMANDS),
    };
    judged.map_err(|mut refusal| {
        let recommending = |finding: &&mut LintFinding| finding.instead == recommends;
        if commands == CommandOffering::NotOffered {
            for finding in refusal.findings.iter_mut().filter(recommending) {
                NO_COMMANDS.clone_into(&mut finding.instead);
            }
        }
        refusal
    })
}

/// What is said instead of things that start processes to who has no commands.
const NO_COMMANDS: &str = "you have no commands: do it in the program itself";
