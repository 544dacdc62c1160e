//! Runs the commands of a site's queue: here, or on a login node over SSH with the user's own `ssh`
//! and its settings. They get few variables, none of which may be a secret.

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
const FAULT_CHARS_MAX: usize = 500;
/// The variables that the commands of a queue need.
const VARIABLES: &[&str] = &[
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_*",
    "TZ",
    "TMPDIR",
    "SLURM_CONF",
    "SLURM_CLUSTERS",
    "TS_SOCKET",
    "SSH_AUTH_SOCK",
    "KRB5CCNAME",
    "PBS_*",
    "LSF_*",
    "SGE_*",
    "CONDOR_CONFIG",
    "HQ_SERVER_DIR",
];
/// Where programs are if `PATH` is not set.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// Where and how the commands of a queue run.
#[derive(Debug)]
pub struct SiteCommands {
    dir: AbsPath,
    env: ProcessEnvironment,
    /// The login node, if they run there.
    login: Option<String>,
}

impl SiteCommands {
    /// Creates the commands of a site: they run in `dir` with few variables of `env`, or on `login`.
    pub fn new(dir: AbsPath, env: &BTreeMap<String, String>, login: Option<String>) -> Self {
        let env = ProcessEnvironment::inherit_listed(env, VARIABLES);
        let path = env.get("PATH").unwrap_or(PATH_DEFAULT).to_owned();
        Self {
            dir,
            env: env.with("PATH", &path),
            login,
        }
    }

    /// Runs `program` with `input` and returns its output.
    pub async fn run(&self, program: &str, arguments: &[String], input: &[u8]) -> Result<String> {
        let mut words = vec![program.to_owned()];
        words.extend(arguments.iter().cloned());
        if let Some(login) = &self.login {
            let line = shell_line(&words);
            words = ["ssh", "-o", "BatchMode=yes", "--", login, &line]
                .map(str::to_owned)
                .into();
        }
        let (name, arguments) = words
            .split_first()
            .ok_or_else(|| Error::bug("a command of a queue has no name"))?;
        let path = self.env.get("PATH").unwrap_or(PATH_DEFAULT);
        let found = process::find(name, path).ok_or_else(|| {
            Error::new(ErrorKind::Environment, format!("cannot find `{name}`"))
                .with_hint("run this where jobs are submitted, or name that host: `--login HOST`")
        })?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ended = process::run(ProgramInvocation {
            path: &found,
            arguments: &arguments,
            env: &self.env,
            dir: &self.dir,
            input,
            output_bytes_max: OUTPUT_BYTES_MAX,
            time_max: COMMAND_TIME_MAX,
        });
        let failed = |why: &str| {
            let message = format!("`{program}` failed: {}", single_line(why, FAULT_CHARS_MAX));
            Error::new(ErrorKind::Environment, message)
        };
        match ended.await.map_err(|error| failed(&error.to_string()))? {
            ProgramExit::Exited {
                code: Some(0),
                output,
                ..
            } => Ok(String::from_utf8_lossy(&output).into_owned()),
            ProgramExit::Exited { errors, .. } if !errors.trim().is_empty() => {
                Err(failed(errors.trim()))
            }
            ProgramExit::Exited { code, .. } => Err(failed(&code.map_or_else(
                || "a signal ended it".to_owned(),
                |code| format!("exit status {code}"),
            ))),
            ProgramExit::Killed => Err(failed("it took longer than a minute")),
        }
    }
}
