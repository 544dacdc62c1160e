//! Owns the look at what runs the programs of agents: whether it is there, and which version.

use crate::code_mode::ProgramLanguage;
use crate::path::AbsPath;
use crate::world::diagnostics::probe::{ProbeContext, ProgramReply};

/// What there is of a language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolchainProbe {
    /// No program of its name.
    Missing,
    /// A program, and what it said about its version.
    Found {
        /// Where.
        program: AbsPath,
        /// Its version.
        version: ProgramReply,
    },
}

/// Asks what runs programs in `language` about itself.
pub async fn probe_toolchain(
    language: ProgramLanguage,
    around: ProbeContext<'_>,
) -> ToolchainProbe {
    let question = match language {
        ProgramLanguage::Python => "--version",
        ProgramLanguage::Go => "version",
    };
    let Some(program) = around.find_program(language.program()) else {
        return ToolchainProbe::Missing;
    };
    let version = around.run_program(&program, &[question]).await;
    ToolchainProbe::Found { program, version }
}
