//! Programs that models write instead of single calls (`execute_code`): the checks before one runs,
//! and the package `workspace_tools` through which it calls tools. Nothing here runs anything
//! or grants any access. The gate decides about each call that a program makes.

pub mod lint;
mod source;
mod go;
pub mod language;
mod python;
pub mod package;
pub mod offer;

#[cfg(test)]
mod tests;

use crate::code_mode::language::ProgramDialect;
use crate::code_mode::lint::{LintFinding, LintRefusal};
use crate::tools::tool_selection::CommandOffering;

/// The longest program, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 256 * 1024;

/// The name of the package through which programs call tools.
pub const TOOLS_PACKAGE: &str = "workspace_tools";

/// The language of an agent's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramLanguage {
    /// Python 3.
    Python,
    /// Go.
    Go,
}

impl ProgramLanguage {
    /// The names of languages in a config.
    pub const NAMES: &'static [&'static str] = &["python", "go"];

    /// Returns the language of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "python" => Some(ProgramLanguage::Python),
            "go" => Some(ProgramLanguage::Go),
            _ => None,
        }
    }

    /// Returns its name in a config.
    pub fn name(self) -> &'static str {
        match self {
            ProgramLanguage::Python => "python",
            ProgramLanguage::Go => "go",
        }
    }

    /// Returns the executable that runs or builds programs in it.
    pub fn executable(self) -> &'static str {
        match self {
            ProgramLanguage::Python => "python3",
            ProgramLanguage::Go => "go",
        }
    }

    /// Returns what the user can do if the executable is missing.
    pub fn remedy(self) -> &'static str {
        match self {
            ProgramLanguage::Python => {
                "install `python3`, 3.8 or newer, or write `code_language: go`"
            }
            ProgramLanguage::Go => "install Go, 1.18 or newer, or write `code_language: python`",
        }
    }

    /// Returns its name for people.
    pub fn title(self) -> &'static str {
        match self {
            ProgramLanguage::Python => "Python 3",
            ProgramLanguage::Go => "Go",
        }
    }
}

/// Checks a program for what it must not do, such as importing other libraries than those of
/// `dialect`. Suggests commands only to agents that can run them. This is no security boundary: the
/// gate decides about each call of the program, and the sandbox confines the process.
///
/// # Errors
/// The findings, with their places.
pub fn lint_program(
    dialect: ProgramDialect,
    program: &str,
    commands: CommandOffering,
) -> Result<(), LintRefusal> {
    let (lint_result, command_advice) = match dialect {
        ProgramDialect::Python(libraries) => (
            python::lint_python(libraries, program),
            python::forbidden_names::COMMAND_ADVICE,
        ),
        ProgramDialect::Go => (go::lint_go(program), go::COMMAND_ADVICE),
    };
    lint_result.map_err(|mut refusal| {
        // The findings about starting processes are those with this advice.
        let suggests_command = |finding: &&mut LintFinding| finding.advice == command_advice;
        if commands == CommandOffering::NotOffered {
            for finding in refusal.findings.iter_mut().filter(suggests_command) {
                NO_COMMANDS_ADVICE.clone_into(&mut finding.advice);
            }
        }
        refusal
    })
}

/// The advice for anything that starts processes, for agents without commands.
const NO_COMMANDS_ADVICE: &str = "you have no commands: do it in the program itself";
