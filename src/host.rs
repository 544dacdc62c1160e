//! Owns what `main` reads once about the process and passes down: nothing else asks for the
//! environment, the current directory or the terminal.

use std::collections::BTreeMap;

use crate::path::AbsPath;

/// The process as it was started.
#[derive(Clone, Debug)]
pub struct Host {
    /// The words of the command line after the program's name.
    pub arguments: Vec<String>,
    /// The directory that the user stands in.
    pub cwd: AbsPath,
    /// The user's home directory, if there is one.
    pub home: Option<AbsPath>,
    /// The directory that holds the executable, if it is known.
    pub executable_dir: Option<AbsPath>,
    /// The environment variables whose names and values are text.
    pub env: BTreeMap<String, String>,
    /// What standard output is connected to.
    pub stdout: Stream,
    /// What standard error is connected to.
    pub stderr: Stream,
}

/// What a standard stream is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// A person may be looking.
    Terminal,
    /// A file, a pipe or nothing.
    Plain,
}

impl Host {
    /// The value of an environment variable; an empty one counts as unset.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}
