//! Probes of the machine's capabilities: each performs the real operation within a time limit and
//! returns what it observed as a value. It must never judge, and never leave anything behind.

use std::time::Duration;

use crate::path::AbsPath;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};

pub mod disk;
pub mod endpoint;
pub mod sandbox;
pub mod terminal;
pub mod toolchain;

/// Largest output of a program that is read, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;
/// Timeout for a program that is queried.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(5);

/// Environment in which programs are found and run.
#[derive(Clone, Copy, Debug)]
pub struct ProbeContext<'a> {
    /// The user's `PATH`.
    pub path: &'a str,
    /// The home directory, whose settings git reads.
    pub home: Option<&'a AbsPath>,
    /// The current directory of the user.
    pub cwd: &'a AbsPath,
}

/// Output of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramReply {
    /// It succeeded, with this on its standard output.
    Succeeded(String),
    /// It failed or could not be started; the first line of the reason.
    Failed(String),
}

impl ProbeContext<'_> {
    fn find_program(&self, name: &str) -> Option<AbsPath> {
        process::find(name, self.path)
    }

    /// Runs the program at `path` with `arguments` and returns its output.
    async fn run_program(&self, path: &AbsPath, arguments: &[&str]) -> ProgramReply {
        let mut env = ProcessEnvironment::from_variables([("PATH", self.path), ("LC_ALL", "C")]);
        if let Some(home) = self.home {
            env = env.with("HOME", &home.to_string());
        }
        let program = ProgramInvocation {
            path,
            arguments,
            env: &env,
            dir: self.cwd,
            input: b"",
            output_bytes_max: OUTPUT_BYTES_MAX,
            time_max: PROGRAM_TIME_MAX,
        };
        match process::run(program).await {
            Ok(ProgramExit::Exited {
                code: Some(0),
                output,
                ..
            }) => ProgramReply::Succeeded(String::from_utf8_lossy(&output).trim().to_owned()),
            Ok(ProgramExit::Exited { code, errors, .. }) => {
                ProgramReply::Failed(match errors.lines().next() {
                    Some(line) => line.trim().to_owned(),
                    None => code.map_or_else(
                        || "killed by a signal".to_owned(),
                        |code| format!("exit status {code}"),
                    ),
                })
            }
            Ok(ProgramExit::Killed) => {
                let seconds = PROGRAM_TIME_MAX.as_secs();
                ProgramReply::Failed(format!("timed out after {seconds} s"))
            }
            Err(error) => ProgramReply::Failed(error.to_string()),
        }
    }
}
