//! The facts about the process that `main` reads once and passes down: no other code reads the
//! environment, the current directory or the terminal state.

use std::collections::BTreeMap;

use crate::config::machine_policy::MachinePolicy;
use crate::dotenv::{ConfigVariables, DotenvVariables};
use crate::path::AbsPath;

/// The process as it was started.
#[derive(Clone, Debug)]
pub struct Host {
    /// The command-line arguments after the program's name.
    pub arguments: Vec<String>,
    /// The user's current directory.
    pub cwd: AbsPath,
    /// The project that the current directory belongs to: it or a directory above it.
    pub project: AbsPath,
    /// The directory in which massgen's state directory is: the project, unless the user chose
    /// another one.
    pub state_parent: AbsPath,
    /// The user's home directory, if there is one.
    pub home: Option<AbsPath>,
    /// The running executable, under a path that stays valid when its file is replaced.
    pub executable: AbsPath,
    /// The directory that holds the executable, if it is known.
    pub executable_dir: Option<AbsPath>,
    /// The environment variables whose names and values are UTF-8. No file adds to them.
    pub env: BTreeMap<String, String>,
    /// The variables of `.env` files, once these have been read.
    pub dotenv: DotenvVariables,
    /// What standard input is connected to.
    pub stdin: StreamTarget,
    /// What standard output is connected to.
    pub stdout: StreamTarget,
    /// What standard error is connected to.
    pub stderr: StreamTarget,
    /// The effect of a hangup.
    pub hangup: HangupAction,
    /// The policy of the machine.
    pub policy: MachinePolicy,
}

/// Target of a standard stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamTarget {
    /// A person may be looking.
    Terminal,
    /// A file, a pipe or nothing.
    Plain,
}

/// Effect of a closed terminal (SIGHUP) on the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HangupAction {
    /// It ends.
    Ends,
    /// It continues: it was started with `nohup` or similar.
    Ignored,
}

impl HangupAction {
    /// Parses `/proc/self/status` of Linux: the lowest bit of the ignored signals is that of the
    /// first signal, SIGHUP.
    pub fn from_status(status: &str) -> Self {
        let mask = status
            .lines()
            .find_map(|line| line.strip_prefix("SigIgn:"))
            .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        match mask {
            Some(mask) if mask & 1 == 1 => HangupAction::Ignored,
            Some(_) | None => HangupAction::Ends,
        }
    }
}

impl Host {
    /// Returns the variables for a config that the user named, and for vendors' keys and settings.
    pub fn config_variables(&self) -> ConfigVariables {
        ConfigVariables::new(&self.env, &self.dotenv)
    }

    /// Returns the value of an environment variable; an empty one counts as unset.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::HangupAction;

    #[test]
    fn a_hangup_is_ignored_if_the_kernel_says_so() {
        let of = |mask: &str| {
            HangupAction::from_status(&format!("Name:\tmassgen\n{mask}\nThreads:\t1\n"))
        };
        assert_eq!(of("SigIgn:\t0000000000001001"), HangupAction::Ignored);
        assert_eq!(of("SigIgn:\t0000000000001000"), HangupAction::Ends);
        assert_eq!(of("SigCgt:\t0000000000000001"), HangupAction::Ends);
        assert_eq!(of("SigIgn:\tnonsense"), HangupAction::Ends);
    }
}
