//! Owns the look at what runs the programs of agents: whether it is there, and which version.

use crate::path::AbsPath;
use crate::programs::Language;
use crate::world::probe::{Said, Surroundings};

/// What there is of a language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// No program of its name.
    Missing,
    /// A program, and what it said about its version.
    Found {
        /// Where.
        program: AbsPath,
        /// Its version.
        version: Said,
    },
}

/// Asks what runs programs in `language` about itself.
pub async fn toolchain(language: Language, around: Surroundings<'_>) -> Toolchain {
    let question = match language {
        Language::Python => "--version",
        Language::Go => "version",
    };
    let Some(program) = around.find(language.program()) else {
        return Toolchain::Missing;
    };
    let version = around.ask(&program, &[question]).await;
    Toolchain::Found { program, version }
}
