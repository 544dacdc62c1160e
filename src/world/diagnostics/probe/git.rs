//! Owns the look at git: whether it is there, and whether the user stands in a repository.

use crate::path::AbsPath;
use crate::world::diagnostics::probe::{ProbeContext, ProgramReply};

/// Nothing that a project brings along is run or asked on the way.
const CAREFULLY: &[&str] = &[
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "--no-optional-locks",
];

/// What there is of git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitProbe {
    /// No program of this name.
    Missing,
    /// A program, and what it said.
    Found {
        /// Where.
        program: AbsPath,
        /// Its version.
        version: ProgramReply,
        /// The root of the repository around the current directory, or why there is none.
        repository: ProgramReply,
    },
}

/// Asks git about itself and the current directory.
pub async fn probe_git(around: ProbeContext<'_>) -> GitProbe {
    let Some(program) = around.find_program("git") else {
        return GitProbe::Missing;
    };
    let mut question = CAREFULLY.to_vec();
    question.extend(["rev-parse", "--show-toplevel"]);
    let version = around.run_program(&program, &["--version"]);
    let repository = around.run_program(&program, &question);
    let (version, repository) = tokio::join!(version, repository);
    GitProbe::Found {
        program,
        version,
        repository,
    }
}
