//! Owns the programs that models write instead of single calls (`execute_code`): what is refused
//! before one runs, and the package `workspace_tools` by which it calls tools. Pure: nothing here
//! runs anything, and nothing here gives a right. What a program may do to files is the gate's
//! decision about each of its calls.

pub mod finding;
mod source;
mod go;
mod go_packages;
pub mod dialect;
mod python;
pub mod frame;
pub mod package;
pub mod offer;

#[cfg(test)]
mod tests;

use crate::programs::dialect::Dialect;
use crate::programs::finding::{Finding, Refusal};
use crate::tools::menu::Commands;

/// The longest program, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 256 * 1024;

/// The name of the package that programs call tools by.
pub const PACKAGE: &str = "workspace_tools";

/// What programs of an agent are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Python 3.
    Python,
    /// Go.
    Go,
}

impl Language {
    /// What languages are called in a config.
    pub const NAMES: &'static [&'static str] = &["python", "go"];

    /// The language of this name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "python" => Some(Language::Python),
            "go" => Some(Language::Go),
            _ => None,
        }
    }

    /// What it is called in a config.
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Go => "go",
        }
    }

    /// The program that runs or builds what is written in it.
    pub fn program(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::Go => "go",
        }
    }

    /// What the user can do where it is missing.
    pub fn remedy(self) -> &'static str {
        match self {
            Language::Python => "install `python3`, 3.8 or newer, or write `code_language: go`",
            Language::Go => "install Go, 1.18 or newer, or write `code_language: python`",
        }
    }

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Language::Python => "Python 3",
            Language::Go => "Go",
        }
    }
}

/// Looks for what a program must not do. Commands are recommended to who has them. It is the first of
/// three layers and no wall: the package looks at paths, the gate decides about each call, and the
/// sandbox holds what runs.
///
/// # Errors
/// What was found, with its places.
pub fn judge(dialect: Dialect, program: &str, commands: Commands) -> Result<(), Refusal> {
    let (judged, recommends) = match dialect {
        Dialect::Python(libraries) => (python::judge(libraries, program), python::names::COMMANDS),
        Dialect::Go => (go::judge(program), go::COMMANDS),
    };
    judged.map_err(|mut refusal| {
        let recommending = |finding: &&mut Finding| finding.instead == recommends;
        if commands == Commands::NotOffered {
            for finding in refusal.findings.iter_mut().filter(recommending) {
                NO_COMMANDS.clone_into(&mut finding.instead);
            }
        }
        refusal
    })
}

/// What is said instead of things that start processes to who has no commands.
const NO_COMMANDS: &str = "you have no commands: do it in the program itself";
