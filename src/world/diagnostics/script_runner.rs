//! Runs the scripts of a self-test with bash in a fresh directory, and cleans up everything that
//! they leave. The scripts run unconfined: they must be massgen's own, never text or programs from
//! an agent.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::read_regular_file;
use crate::world::store::ScratchDir;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};
use crate::world::sys::state_files::file;

/// The program that runs the scripts.
const SHELL: &str = "bash";
/// Timeout for killing leftover processes and emptying the directory.
const CLEAN_UP_TIME_MAX: Duration = Duration::from_mins(1);
/// How much standard output of a script is accepted before the stream is closed, in bytes. All of
/// it is discarded.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;
/// Script that kills and removes everything that other scripts have left in `$ROOT`.
const CLEAN_UP_SCRIPT: &str = include_str!("clean_up.sh");

/// A fresh directory and the environment of the scripts that run in it.
#[derive(Debug)]
pub struct ScriptRunner {
    scratch: ScratchDir,
    shell: AbsPath,
    env: BTreeMap<String, String>,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptOutcome {
    /// With status 0.
    Succeeded,
    /// With another status, or by a signal.
    Failed,
    /// It timed out and was killed.
    TimedOut,
}

/// Finds the program of this name in the directories of a `PATH`.
pub fn find_program(name: &str, path_variable: &str) -> Option<AbsPath> {
    process::find(name, path_variable)
}

impl ScriptRunner {
    /// Creates a directory inside `parent` whose name begins with `prefix`. Scripts get the
    /// environment `env`, in which every `$ROOT` is replaced by the directory, and the variable
    /// `ROOT`.
    ///
    /// # Errors
    /// There is no bash in `PATH` of `env`, or the directory cannot be created.
    pub fn new(parent: &AbsPath, prefix: &str, env: &BTreeMap<String, String>) -> Result<Self> {
        let path_variable = env.get("PATH").map(String::as_str).unwrap_or_default();
        let shell = process::find(SHELL, path_variable).ok_or_else(missing_shell_error)?;
        let scratch = ScratchDir::make(parent, prefix)?;
        let root = scratch.path();
        let expand = |(name, value): (&String, &String)| (name.clone(), expand_root(value, root));
        let mut env: BTreeMap<String, String> = env.iter().map(expand).collect();
        env.insert("ROOT".to_owned(), root.to_string());
        Ok(Self {
            scratch,
            shell,
            env,
        })
    }

    /// Returns the directory.
    pub fn path(&self) -> &AbsPath {
        self.scratch.path()
    }

    /// Replaces `$ROOT` in `text` by the directory.
    pub fn expand(&self, text: &str) -> String {
        expand_root(text, self.path())
    }

    /// Writes the file `name`.
    pub fn write_file(&self, name: &str, text: &str) -> Result<()> {
        file::replace_unsynced(&self.path().join(name), text.as_bytes())
    }

    /// Reads at most `bytes_max` bytes of the file `name`; an empty string if it does not exist.
    pub fn read_file(&self, name: &str, bytes_max: u64) -> Result<String> {
        let bytes = read_regular_file(&self.path().join(name), bytes_max)?;
        Ok(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    }

    /// Runs a script with these arguments (`$0` first) in the directory, with `extra_env` added to
    /// the environment, where `$ROOT` is expanded. Its standard output is discarded. It must write
    /// its output to files: a process that it leaves behind would keep its standard output open.
    pub async fn run(
        &self,
        script: &str,
        arguments: &[&str],
        extra_env: &BTreeMap<String, String>,
        time_max: Duration,
    ) -> Result<ScriptOutcome> {
        let mut env = self.env.clone();
        for (name, value) in extra_env {
            env.insert(name.clone(), self.expand(value));
        }
        let variables = env
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        let shell_arguments: Vec<&str> = ["-c", script].iter().chain(arguments).copied().collect();
        let program = ProgramInvocation {
            path: &self.shell,
            arguments: &shell_arguments,
            env: &ProcessEnvironment::from_variables(variables),
            dir: self.path(),
            input: b"",
            output_bytes_max: OUTPUT_BYTES_MAX,
            time_max,
        };
        match process::run(program).await {
            Ok(ProgramExit::Exited { code: Some(0), .. }) => Ok(ScriptOutcome::Succeeded),
            Ok(ProgramExit::Exited { .. }) => Ok(ScriptOutcome::Failed),
            Ok(ProgramExit::Killed) => Ok(ScriptOutcome::TimedOut),
            Err(error) => Err(Error::io("cannot start bash", error)),
        }
    }

    /// Kills every process that has the directory in its command line or environment, empties the
    /// directory, and removes it, which dropping `self` does.
    ///
    /// # Errors
    /// The directory cannot be emptied, or not in time.
    pub async fn clean_up(self) -> Result<()> {
        let no_env = BTreeMap::new();
        let outcome = self
            .run(CLEAN_UP_SCRIPT, &["clean_up"], &no_env, CLEAN_UP_TIME_MAX)
            .await?;
        let problem = match outcome {
            ScriptOutcome::Succeeded => return Ok(()),
            ScriptOutcome::Failed => "cannot be emptied",
            ScriptOutcome::TimedOut => "was not emptied in time",
        };
        let message = format!(
            "the directory of the self-test, `{}`, {problem}",
            self.path()
        );
        Err(Error::new(ErrorKind::Environment, message)
            .with_hint("end the processes that use it, and remove it"))
    }
}

fn expand_root(text: &str, root: &AbsPath) -> String {
    text.replace("$ROOT", &root.to_string())
}

fn missing_shell_error() -> Error {
    Error::new(ErrorKind::Environment, "`bash` not found in `PATH`")
        .with_hint("install bash, which runs commands")
}
