//! Probes git, the repository around the current directory, and the language toolchains that run
//! agents' programs: whether they are installed, and the version.

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

/// The user's Python.
const PYTHON: &str = "python3";
/// Prints the directory of the package that the first argument names, or an empty line. As in a
/// run, the current directory contains no packages.
const SEARCH: &str = "\
import sys
sys.path[:] = [place for place in sys.path if place]
import importlib.machinery
found = importlib.machinery.PathFinder.find_spec(sys.argv[1])
places = list(found.submodule_search_locations or []) if found else []
print(places[0] if places else '')
";

/// Result of the probe of a package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PythonPackageProbe {
    /// Python is not in `PATH`.
    NoPython,
    /// Python does not work, for this reason.
    Broken(String),
    /// The package is not installed.
    Missing,
    /// The package is installed in this directory.
    Found(String),
}

/// Looks for the package `name`.
pub async fn probe_python_package(name: &str, context: ProbeContext<'_>) -> PythonPackageProbe {
    let Some(python) = context.find_program(PYTHON) else {
        return PythonPackageProbe::NoPython;
    };
    let arguments = ["-X", "utf8", "-c", SEARCH, name];
    match context.run_program(&python, &arguments).await {
        ProgramReply::Succeeded(directory) if directory.is_empty() => PythonPackageProbe::Missing,
        ProgramReply::Succeeded(directory) => PythonPackageProbe::Found(directory),
        ProgramReply::Failed(reason) => PythonPackageProbe::Broken(reason),
    }
}

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
