//! Preparation of a self-test in containers: finds the engine, checks that a container of
//! the image starts, and which programs it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cli::call_environment::{CallerAccess, build_call_container, new_origin};
use crate::cli::run_context::host_environment;
use crate::config::command_line::CommandBounds;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::{CommandWaitLimits, ExitReason};
use crate::world::store::sandboxes::SandboxDirs;

/// Environment variable with the address of the engine.
const ENGINE_VARIABLE: &str = "DOCKER_HOST";
/// Caller name of the container that inspects the image.
const CALLER_NAME: &str = "selftest";
/// Working directory of the inspection: every container has it.
const ROOT_DIRECTORY: &str = "/";
/// Timeout of the inspection.
const INSPECTION_TIME_MAX: Duration = Duration::from_mins(1);
/// Shell command that prints the programs that are not found.
const PRINT_MISSING: &str =
    "set -f; for name in $NAMES; do command -v \"$name\" >/dev/null || echo \"$name\"; done";

/// Returns which of these programs a container of `image` lacks. `parent` is the parent of the cases'
/// directories.
pub(super) fn missing_programs(
    host: &Host,
    image: &str,
    parent: &AbsPath,
    programs: &BTreeSet<String>,
) -> Result<BTreeSet<String>> {
    let root = AbsPath::new(ROOT_DIRECTORY).ok_or_else(|| Error::bug("no root directory"))?;
    let access = CallerAccess {
        caller: CALLER_NAME,
        grants: &[],
        workspace: &root,
    };
    let host_environment = host_environment(host);
    let run_error = |error| Error::io("cannot run a command in a container", error);
    let wait = CommandWaitLimits {
        time_max: INSPECTION_TIME_MAX,
        output_bytes_max: usize::try_from(CommandBounds::default().output_bytes_max)
            .unwrap_or(usize::MAX),
        interrupt: None,
        network: None,
    };
    let names: Vec<&str> = programs.iter().map(String::as_str).collect();
    let command = format!("NAMES='{}'; {PRINT_MISSING}", names.join(" "));
    let directories = SandboxDirs::make_for_call(parent)?;
    let unique_directory = directories.caller()?;
    let origin = new_origin(&host.cwd, &unique_directory);
    let container = build_call_container(image, access, origin, &host_environment)?;
    let run_result = container.run(&command, &root, wait);
    let output = run_result.map_err(run_error)?;
    if let ExitReason::Exited(_) = output.exit_reason {
        Ok(output.stdout.text.lines().map(str::to_owned).collect())
    } else {
        let exit_reason = output.exit_reason;
        let message = format!("a container of `{image}` cannot run commands: {exit_reason}");
        Err(Error::new(ErrorKind::Environment, message)
            .with_hint("use an image with a shell, bash, git and Python"))
    }
}

/// Returns the environment of massgen in every case: the address of the user's engine.
pub(super) fn container_env(
    host: &Host,
    isolation: &ExecutionIsolation,
) -> BTreeMap<String, String> {
    let engine = isolation.image().and_then(|_| host.env(ENGINE_VARIABLE));
    let engine = engine.map(|engine| (ENGINE_VARIABLE.to_owned(), engine.to_owned()));
    engine.into_iter().collect()
}
