//! Owns the looks at what the machine has: each probe does the thing itself, within a time limit,
//! and gives what it saw as a value. It must never judge, and never leave anything behind.

use std::time::Duration;

use crate::path::AbsPath;
use crate::world::sys::environment::ProcessEnvironment;
use crate::world::sys::process::{self, ProgramExit, ProgramInvocation};

pub mod disk;
pub mod endpoint;
pub mod git;
pub mod sandbox;
pub mod terminal;
pub mod toolchain;

/// How much is read of what it says, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 * 1024;
/// How long a program that is asked about itself may take.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(5);

/// Where programs are looked for, and what they are told.
#[derive(Clone, Copy, Debug)]
pub struct ProbeContext<'a> {
    /// The `PATH` of the user.
    pub path: &'a str,
    /// The home directory, whose settings git reads.
    pub home: Option<&'a AbsPath>,
    /// The directory that the user stands in.
    pub cwd: &'a AbsPath,
}

/// What a program said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramReply {
    /// It ended well, with this on its standard output.
    Succeeded(String),
    /// It ended otherwise, or could not be started; the first line of why.
    Failed(String),
}

impl ProbeContext<'_> {
    fn find_program(&self, name: &str) -> Option<AbsPath> {
        process::find(name, self.path)
    }

    /// What the program at `path` says to `arguments`.
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
                        || "a signal ended it".to_owned(),
                        |code| format!("it ended with status {code}"),
                    ),
                })
            }
            Ok(ProgramExit::Killed) => {
                let seconds = PROGRAM_TIME_MAX.as_secs();
                ProgramReply::Failed(format!("it did not end within {seconds} s"))
            }
            Err(error) => ProgramReply::Failed(error.to_string()),
        }
    }
}
