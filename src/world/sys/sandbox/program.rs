//! Owns the program that a sandbox is built for: where it is, and all that it is started with.

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

/// How much sooner than others its processes are ended when the machine has no memory left, as
/// `/proc/self/oom_score_adj` counts it: from -1000 to 1000.
const OOM_SCORE: &str = "500";

/// Where programs are looked for after what the environment's `PATH` names: a shell is found also
/// where that names none.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Lets this process, and all that it starts, be ended before others when memory is short.
pub(crate) fn prefer_for_oom() -> SandboxResult<()> {
    let score = fs::write("/proc/self/oom_score_adj", OOM_SCORE);
    score.in_step("offering itself when memory is short")
}

/// Makes the terminal that the program is to read from that of this session, so that keys become
/// signals to the program. Anything else is left alone.
pub(crate) fn take_terminal(input: Option<&OwnedFd>) -> SandboxResult<()> {
    match input {
        Some(input) if isatty(input) => ioctl_tiocsctty(input).in_step("taking its terminal"),
        _ => Ok(()),
    }
}

/// The program as the user or the model names it.
pub(crate) fn program_name(confinement: &SandboxPolicy) -> &str {
    confinement.program.first().map_or("", String::as_str)
}

/// The program, ready to be started. `input` is what it reads as its standard input.
pub(crate) fn command(
    confinement: &SandboxPolicy,
    input: Option<OwnedFd>,
) -> SandboxResult<Command> {
    let name = program_name(confinement);
    let program = if name.contains('/') {
        Some(AbsPath::resolve(&confinement.dir, name))
    } else {
        let path = confinement.env.get("PATH").map_or("", String::as_str);
        process::find(name, path).or_else(|| process::find(name, USUAL_PATH))
    };
    let program = program
        .ok_or(Errno::NOENT)
        .in_step(format_args!("starting `{name}`"))?;
    let mut command = process::with_environment(&program, &confinement.env);
    command
        .args(confinement.program.iter().skip(1))
        .stdin(input.map_or_else(Stdio::null, Stdio::from));
    Ok(command)
}
