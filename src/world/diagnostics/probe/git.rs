//! Probes git: its version, and the repository around the current directory.

use crate::path::AbsPath;
use crate::world::diagnostics::probe::{ProbeContext, ProgramReply};

/// Options that keep git from running programs that a repository configures.
const SAFE_OPTIONS: &[&str] = &[
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "--no-optional-locks",
];

/// Result of the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitProbe {
    /// No program named `git`.
    Missing,
    /// The program and its replies.
    Found {
        /// Its path.
        program: AbsPath,
        /// Its version.
        version: ProgramReply,
        /// The root of the repository around the current directory, or why there is none.
        repository: ProgramReply,
    },
}

/// Runs git to determine its version and the repository around the current directory.
pub async fn probe_git(context: ProbeContext<'_>) -> GitProbe {
    let Some(program) = context.find_program("git") else {
        return GitProbe::Missing;
    };
    let mut arguments = SAFE_OPTIONS.to_vec();
    arguments.extend(["rev-parse", "--show-toplevel"]);
    let version = context.run_program(&program, &["--version"]);
    let repository = context.run_program(&program, &arguments);
    let (version, repository) = tokio::join!(version, repository);
    GitProbe::Found {
        program,
        version,
        repository,
    }
}
