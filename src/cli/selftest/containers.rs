//! Preparation of a self-test in containers or pods: finds the engine, checks that a container of
//! the image starts, and which programs it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cli::call_environment::{CallerAccess, build_call_container, build_call_pod};
use crate::cli::execution::host_environment;
use crate::config::command_line::CommandBounds;
use crate::config::engine_host::SSH_SCHEME;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::world::sandbox::command_container::CommandContainer;
use crate::world::sandbox::interrupt::CommandInterrupt;
use crate::world::sandbox::pod::KUBE_CACHE;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::{CommandWaitLimits, ExitReason};

/// Environment variable with the address of the engine.
const ENGINE_VARIABLE: &str = "DOCKER_HOST";
/// Environment variable with the socket of the user's SSH agent.
const SSH_AGENT_VARIABLE: &str = "SSH_AUTH_SOCK";
/// Environment variable with the paths of the settings of `kubectl`.
const KUBECONFIG_VARIABLE: &str = "KUBECONFIG";
/// The same below the home directory.
const KUBECONFIG_DEFAULT: &str = ".kube/config";
/// The cache of `kubectl` below the home directory.
const KUBE_CACHE_DEFAULT: &str = ".kube/cache";
/// Environment variable with the directories in which the user's `ssh` or `kubectl` is.
const PATH_VARIABLE: &str = "PATH";
/// Caller name of the container that inspects the image.
const CALLER_NAME: &str = "selftest";
/// Working directory of the inspection: every container has it.
const ROOT_DIRECTORY: &str = "/";
/// Timeout of the inspection. The image of a pod may have to be pulled first.
const INSPECTION_TIME_MAX: Duration = Duration::from_mins(10);
/// Shell command that prints the programs that are not found.
const PRINT_MISSING: &str =
    "set -f; for name in $NAMES; do command -v \"$name\" >/dev/null || echo \"$name\"; done";

/// Returns which of these programs a container or a pod lacks.
pub(super) fn missing_programs(
    host: &Host,
    isolation: &ExecutionIsolation,
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
    let interrupt = CommandInterrupt::new().map_err(run_error)?;
    let wait = CommandWaitLimits {
        time_max: INSPECTION_TIME_MAX,
        output_bytes_max: usize::try_from(CommandBounds::default().output_bytes_max)
            .unwrap_or(usize::MAX),
        interrupt: &interrupt,
        network: None,
    };
    let names: Vec<&str> = programs.iter().map(String::as_str).collect();
    let command = format!("NAMES='{}'; {PRINT_MISSING}", names.join(" "));
    let image = isolation.image().unwrap_or_default();
    let run_result = match isolation {
        ExecutionIsolation::Pod { .. } => {
            let pod = build_call_pod(image, access, &host.cwd, &host_environment)?;
            pod.run_with_paths(&command, &root, &ReachablePaths::default(), wait)
        }
        ExecutionIsolation::Container { .. } | ExecutionIsolation::Sandbox { .. } => {
            build_call_container(image, access, &host.cwd, &host_environment)?
                .run(&command, &root, wait)
        }
    };
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

/// Returns the environment of massgen in every case: the address of the user's engine, and how it
/// is reached.
pub(super) fn container_env(
    host: &Host,
    isolation: &ExecutionIsolation,
) -> BTreeMap<String, String> {
    if let ExecutionIsolation::Pod { .. } = isolation {
        return cluster_env(host);
    }
    let engine = isolation.image().and_then(|_| host.env(ENGINE_VARIABLE));
    // An engine on another machine is reached with the user's `ssh` and its agent.
    let agent = engine.and_then(|_| host.env(SSH_AGENT_VARIABLE));
    let ssh_engine = engine.and_then(|_| ssh_engine(host));
    let path = ssh_engine.and_then(|_| host.env(PATH_VARIABLE));
    [
        (ENGINE_VARIABLE, engine),
        (SSH_AGENT_VARIABLE, agent),
        (PATH_VARIABLE, path),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
    .collect()
}

/// Returns the environment in which the user's `kubectl` finds its settings, and writes nothing to
/// the home directory of a case.
fn cluster_env(host: &Host) -> BTreeMap<String, String> {
    let value = |name| host.env(name).map(str::to_owned);
    let in_home = |name| Some(host.home.as_ref()?.join(name).to_string());
    let settings = value(KUBECONFIG_VARIABLE).map(|paths| {
        let paths = paths
            .split(':')
            .filter(|path| !path.is_empty())
            .map(|path| AbsPath::resolve(&host.cwd, path).to_string());
        paths.collect::<Vec<String>>().join(":")
    });
    let variables = [
        (
            KUBECONFIG_VARIABLE,
            settings.or_else(|| in_home(KUBECONFIG_DEFAULT)),
        ),
        (
            KUBE_CACHE,
            value(KUBE_CACHE).or_else(|| in_home(KUBE_CACHE_DEFAULT)),
        ),
        (PATH_VARIABLE, value(PATH_VARIABLE)),
    ];
    variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Returns the address of the user's engine, if it is on another machine.
pub(super) fn ssh_engine(host: &Host) -> Option<&str> {
    let engine = host.env(ENGINE_VARIABLE);
    engine.filter(|engine| engine.starts_with(SSH_SCHEME))
}
