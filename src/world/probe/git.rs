//! Owns the look at git: whether it is there, and whether the user stands in a repository.

use crate::path::AbsPath;
use crate::world::probe::{Said, Surroundings};

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
pub enum Git {
    /// No program of this name.
    Missing,
    /// A program, and what it said.
    Found {
        /// Where.
        program: AbsPath,
        /// Its version.
        version: Said,
        /// The root of the repository around the current directory, or why there is none.
        repository: Said,
    },
}

/// Asks git about itself and the current directory.
pub async fn git(around: Surroundings<'_>) -> Git {
    let Some(program) = around.find("git") else {
        return Git::Missing;
    };
    let mut question = CAREFULLY.to_vec();
    question.extend(["rev-parse", "--show-toplevel"]);
    let version = around.ask(&program, &["--version"]);
    let repository = around.ask(&program, &question);
    let (version, repository) = tokio::join!(version, repository);
    Git::Found {
        program,
        version,
        repository,
    }
}
