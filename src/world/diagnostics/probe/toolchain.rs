//! Probes the language toolchains that run agents' programs: whether they are installed, and the
//! version.

use crate::code_mode::ProgramLanguage;
use crate::path::AbsPath;
use crate::world::diagnostics::probe::{ProbeContext, ProgramReply};

/// Result of the probe of a language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolchainProbe {
    /// The language's program is not in `PATH`.
    Missing,
    /// The program and its version reply.
    Found {
        /// Its path.
        program: AbsPath,
        /// Its version.
        version: ProgramReply,
    },
}

/// Runs the executable of `language` to determine its version.
pub async fn probe_toolchain(
    language: ProgramLanguage,
    context: ProbeContext<'_>,
) -> ToolchainProbe {
    let version_argument = match language {
        ProgramLanguage::Python => "--version",
        ProgramLanguage::Go => "version",
    };
    let Some(program) = context.find_program(language.executable()) else {
        return ToolchainProbe::Missing;
    };
    let version = context.run_program(&program, &[version_argument]).await;
    ToolchainProbe::Found { program, version }
}
