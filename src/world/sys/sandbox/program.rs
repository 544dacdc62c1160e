//! The program that a sandbox is built for: its location, and everything that it is started with.

use std::fs;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::process::ioctl_tiocsctty;
use rustix::termios::isatty;

use crate::path::AbsPath;
use crate::sandbox_policy::SandboxPolicy;
use crate::world::sys::process;
use crate::world::sys::sandbox::refusal::{SandboxResult, StepContext};

/// How much sooner its processes are killed than others when the machine is out of memory, as a
/// value of `/proc/self/oom_score_adj`: from -1000 to 1000.
const OOM_SCORE: &str = "500";

/// Makes the OOM killer prefer this process, and all that it starts.
pub(crate) fn prefer_for_oom() -> SandboxResult<()> {
    let write_result = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    write_result.in_step("offering itself when memory is short")
}

/// Makes the terminal that the program reads from the controlling terminal of this session, so that
/// keys become signals to the program. Any other input is left alone.
pub(crate) fn take_terminal(input: Option<&OwnedFd>) -> SandboxResult<()> {
    match input {
        Some(input) if isatty(input) => ioctl_tiocsctty(input).in_step("taking its terminal"),
        _ => Ok(()),
    }
}

/// Returns the program as the user or the model named it.
pub(crate) fn program_name(policy: &SandboxPolicy) -> &str {
    policy.program.first().map_or("", String::as_str)
}

/// Prepares the program to be started. `input` is its standard input.
pub(crate) fn command(policy: &SandboxPolicy, input: Option<OwnedFd>) -> SandboxResult<Command> {
    let name = program_name(policy);
    let program = if name.contains('/') {
        Some(AbsPath::resolve(&policy.dir, name))
    } else {
        let path = policy.env.get("PATH").map_or("", String::as_str);
        process::find_as_sandbox(name, path)
    };
    let program = program
        .ok_or(Errno::NOENT)
        .in_step(format_args!("starting `{name}`"))?;
    let mut command = process::with_environment(&program, &policy.env);
    command
        .args(policy.program.iter().skip(1))
        .stdin(input.map_or_else(Stdio::null, Stdio::from));
    Ok(command)
}
