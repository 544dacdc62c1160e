//! Runs the commands of a site's queue: here, or on a login node over SSH with the user's own `ssh`
//! and its settings. They get few variables, none of which may be a secret. The client of a
//! cluster, such as `kubectl`, also runs here, with all variables of the user.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::text::shell_words::shell_line;
use crate::text::single_line;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};

/// Timeout of a command.
const COMMAND_TIME_MAX: Duration = Duration::from_mins(1);
/// Maximum size of the output that is read, in bytes: enough for a line about each of 100,000 jobs.
const OUTPUT_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Maximum length of the reason why a command failed, in characters.
const ERROR_CHARS_MAX: usize = 500;
/// Options of `ssh` for a command on a login node: it asks nothing, and the node gets no way back
/// to this machine or its agent, whatever the user's settings give to other sessions.
const LOGIN_OPTIONS: &[&str] = &[
    "BatchMode=yes",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
];
/// The variables that the commands of a queue need, in addition to those of every login.
const VARIABLES: &[&str] = &[
    "TZ",
    "TMPDIR",
    "SLURM_CONF",
    "SLURM_CLUSTERS",
    "TS_SOCKET",
    "PBS_*",
    "LSF_*",
    "SGE_*",
    "CONDOR_CONFIG",
    "HQ_SERVER_DIR",
];

/// Where and how the commands of a queue run.
#[derive(Debug)]
pub struct SiteCommands {
    dir: AbsPath,
    env: ProcessEnvironment,
    /// The login node, if they run there.
    login: Option<String>,
    /// What to do if a command does not exist.
    missing_hint: &'static str,
}

/// How a command of a site ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SiteCommandEnd {
    /// It succeeded, and printed this.
    Output(String),
    /// It failed: its error output, or another reason.
    Failure(String),
}

impl SiteCommands {
    /// Creates the commands of a site: they run in `dir` with few variables of `env`, or on
    /// `login`.
    pub fn new(dir: AbsPath, env: &BTreeMap<String, String>, login: Option<String>) -> Self {
        let env = if login.is_some() {
            ProcessEnvironment::inherit_for_ssh(env, VARIABLES)
        } else {
            ProcessEnvironment::inherit_for_login(env, VARIABLES)
        };
        Self {
            dir,
            env,
            login,
            missing_hint: "run this where jobs are submitted, or name that host: `--login HOST`",
        }
    }

    /// Creates the commands of a client of a cluster: it runs here, as the user would start it,
    /// with all variables of `env`, because the programs that log it in may need any of them.
    pub fn of_client(
        dir: AbsPath,
        env: &BTreeMap<String, String>,
        missing_hint: &'static str,
    ) -> Self {
        let env = ProcessEnvironment::inherit_except(env, &[]);
        Self {
            dir,
            env,
            login: None,
            missing_hint,
        }
    }

    /// Runs `program` with `input` and returns its output.
    pub async fn run(&self, program: &str, arguments: &[String], input: &[u8]) -> Result<String> {
        match self.run_to_end(program, arguments, input).await? {
            SiteCommandEnd::Output(output) => Ok(output),
            SiteCommandEnd::Failure(reason) => {
                let reason = single_line(&reason, ERROR_CHARS_MAX);
                let message = format!("`{program}` failed: {reason}");
                Err(Error::new(ErrorKind::Environment, message))
            }
        }
    }

    /// Runs `program` with `input` and returns how it ended.
    ///
    /// # Errors
    /// It does not exist.
    pub async fn run_to_end(
        &self,
        program: &str,
        arguments: &[String],
        input: &[u8],
    ) -> Result<SiteCommandEnd> {
        let mut words = vec![program.to_owned()];
        words.extend(arguments.iter().cloned());
        if let Some(login) = &self.login {
            words = login_words(login, &shell_line(&words));
        }
        let (name, arguments) = words
            .split_first()
            .ok_or_else(|| Error::bug("a command of a queue has no name"))?;
        let program = process::find(name, self.env.program_path()).ok_or_else(|| {
            Error::new(ErrorKind::Environment, format!("cannot find `{name}`"))
                .with_hint(self.missing_hint)
        })?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let exit_future = process::run(ProgramInvocation {
            path: &program,
            arguments: &arguments,
            env: &self.env,
            dir: &self.dir,
            input,
            output_bytes_max: OUTPUT_BYTES_MAX,
            time_max: COMMAND_TIME_MAX,
        });
        let output = match exit_future.await {
            Ok(output) => output,
            Err(error) => return Ok(SiteCommandEnd::Failure(error.to_string())),
        };
        Ok(match output {
            ProgramExit::Exited {
                code: Some(0),
                output,
                ..
            } => SiteCommandEnd::Output(String::from_utf8_lossy(&output).into_owned()),
            ProgramExit::Exited { errors, .. } if !errors.trim().is_empty() => {
                SiteCommandEnd::Failure(errors.trim().to_owned())
            }
            ProgramExit::Exited { code, .. } => SiteCommandEnd::Failure(code.map_or_else(
                || "a signal ended it".to_owned(),
                |code| format!("exit status {code}"),
            )),
            ProgramExit::Killed => {
                SiteCommandEnd::Failure("it took longer than a minute".to_owned())
            }
        })
    }
}

/// Returns the words of a command that runs a line of a shell on a login node.
fn login_words(login: &str, line: &str) -> Vec<String> {
    let options = LOGIN_OPTIONS.iter().flat_map(|&option| ["-o", option]);
    let words = ["ssh"]
        .into_iter()
        .chain(options)
        .chain(["--", login, line]);
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_node_gets_nothing_of_this_machine() {
        let words = login_words("-oProxyCommand=x", "squeue --me");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(words.ends_with(&["--", "-oProxyCommand=x", "squeue --me"]));
        for option in ["BatchMode=yes", "ForwardAgent=no", "ForwardX11=no"] {
            assert!(
                words.windows(2).any(|pair| pair == ["-o", option]),
                "{option}"
            );
        }
    }
}
