//! Reads the process once into a `Host` and ends with the exit status that `massgen` decides on.
//! Nothing is set up here: no runtime, no logging, no network.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{IsTerminal, stderr, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use massgen::cli;
use massgen::dotenv::DotenvVariables;
use massgen::error::{Error, ErrorKind, Result};
use massgen::host::{HangupAction, Host, StreamTarget};
use massgen::path::AbsPath;
use massgen::world::sandbox;
use massgen::world::store::project_directory::{ProjectDirectory, STATE_DIR_VARIABLE};

/// The argument with which massgen starts itself as a sandbox helper.
const SANDBOX_ARGUMENT: &str = "__sandbox";
/// The argument for the fork server, from which sandbox helpers are forked.
const FORK_SERVER_ARGUMENT: &str = "__fork_server";

fn main() -> ExitCode {
    match env::args_os().nth(1) {
        Some(word) if word == SANDBOX_ARGUMENT => return ExitCode::from(sandbox::helper_main()),
        Some(word) if word == FORK_SERVER_ARGUMENT => {
            return ExitCode::from(sandbox::fork_server_main());
        }
        Some(_) | None => {}
    }
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let status = match read_host(&words) {
        Ok(host) => cli::run(&host),
        Err(error) => {
            let words = words.iter().map(|word| word.to_string_lossy().into_owned());
            cli::report_start_error(error, &words.collect::<Vec<_>>())
        }
    };
    ExitCode::from(status)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the process"
)]
fn read_host(words: &[OsString]) -> Result<Host> {
    let arguments = words
        .iter()
        .map(|word| {
            word.to_str().map(str::to_owned).ok_or_else(|| {
                let message = format!("the argument `{}` is not UTF-8", word.to_string_lossy());
                Error::new(ErrorKind::Usage, message)
                    .with_hint("give paths and tasks as UTF-8 text")
            })
        })
        .collect::<Result<Vec<String>>>()?;
    let executable = env::current_exe().ok().and_then(AbsPath::new);
    let utf8_variable = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    let cwd = current_dir()?;
    let home = env::var_os("HOME").and_then(|home| AbsPath::new(Path::new(&home)));
    let chosen_state_dir = env::var(STATE_DIR_VARIABLE).ok();
    let chosen_state_dir = chosen_state_dir.as_deref().filter(|dir| !dir.is_empty());
    let ProjectDirectory {
        project,
        state_parent,
    } = ProjectDirectory::find(&cwd, home.as_ref(), chosen_state_dir);
    Ok(Host {
        arguments,
        cwd,
        project,
        state_parent,
        home,
        executable: AbsPath::new("/proc/self/exe")
            .ok_or_else(|| Error::bug("cannot name the program's executable"))?,
        executable_dir: executable.and_then(|path| path.parent()),
        env: env::vars_os().filter_map(utf8_variable).collect(),
        dotenv: DotenvVariables::default(),
        stdin: stream_target(&stdin()),
        stdout: stream_target(&stdout()),
        stderr: stream_target(&stderr()),
        policy: cli::read_machine_policy()?,
        hangup: HangupAction::from_status(
            &fs::read_to_string("/proc/self/status").unwrap_or_default(),
        ),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the process"
)]
fn current_dir() -> Result<AbsPath> {
    let process_dir = env::current_dir().map_err(anyhow::Error::from);
    let absolute_dir = process_dir.and_then(|path| {
        let shown_path = path.display().to_string();
        AbsPath::new(path).with_context(|| format!("`{shown_path}` is not an absolute path"))
    });
    absolute_dir.map_err(|cause| {
        Error::new(ErrorKind::Environment, "cannot use the current directory")
            .with_source(cause)
            .with_hint("change to an existing directory")
    })
}

fn stream_target(handle: &impl IsTerminal) -> StreamTarget {
    if handle.is_terminal() {
        StreamTarget::Terminal
    } else {
        StreamTarget::Plain
    }
}
