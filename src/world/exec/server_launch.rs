//! How the program of a server is started for an agent: it may do what the gate's grants open, and
//! no more than the config allows it.

use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;

use crate::config::custom_tools::{NamedFile, ProgramInterface};
use crate::config::servers::{CWD_PLACEHOLDER, InstanceSharing, ServerDirectory, ServerProgram};
use crate::path::{AbsPath, possible_paths};
use crate::permissions::grant::{GrantScope, Permission};
use crate::sandbox_policy::NetworkPolicy;
use crate::sandbox_policy::SandboxPolicy;
use crate::sandbox_policy::compile::CommandContext;
use crate::sandbox_policy::sandbox_level::SandboxLevel;
use crate::world::access::gate::Gate;
use crate::world::exec::agent_launcher::open_for_reading;
use crate::world::exec::command::compile_policy;
use crate::world::exec::command_sync::reopen_gate;
use crate::world::exec::inventory::user_trees;
use crate::world::io::files::{find_in_search_path, first_file};
use crate::world::io::locate::{locate, resolve_path};
use crate::world::mcp::program_host::{ContainerLaunch, LaunchPlace, SandboxLaunch};
use crate::world::mcp::python_host::{self, ToolContext};
use crate::world::mcp::{ServerLaunch, ServerLaunchRequest};
use crate::world::sandbox::docker::server_container::{ContainerProgram, ServerContainers};
use crate::world::sandbox::exec_backend::ExecBackend;
use crate::world::sandbox::exec_environment::{CommandSpec, ExecEnvironment};
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::proxy::NetworkProxy;
use crate::world::sandbox::reachable_paths::ReachablePaths;

/// The variable that names the workspace to a program that does not start there.
const WORKSPACE_VARIABLE: &str = "MASSGEN_WORKSPACE";

/// Returns how to launch a server program for this agent: its sandbox policy, network and roots.
pub(super) fn launch(
    gate: &Gate,
    request: ServerLaunchRequest<'_>,
) -> Result<ServerLaunch, String> {
    let ServerLaunchRequest {
        program,
        environment,
        agent,
        permission,
        installed,
    } = request;
    let gate = match program.instances {
        InstanceSharing::PerAgent => gate,
        InstanceSharing::One => {
            let shared_gate = gate.shared_servers();
            shared_gate.ok_or("the common grants of all agents are unknown")?
        }
    };
    let dir = working_directory(gate, program, environment)?;
    let trees = gate.trees().into_iter();
    let roots: Vec<AbsPath> = trees.map(|tree| tree.real().to_abs()).collect();
    let (arguments, first_input) = match &program.interface {
        ProgramInterface::Mcp | ProgramInterface::SingleTool(_) => (Vec::new(), None),
        ProgramInterface::PythonFunctions(functions) => {
            let context = ToolContext {
                agent: agent.to_string(),
                directory: dir.clone(),
                roots: roots.clone(),
            };
            let input = python_host::setup_line(functions, &context)?;
            (python_host::arguments().to_vec(), Some(input))
        }
    };
    let command = installed.map_or(&program.command, |installed| &installed.command);
    let command = command
        .iter()
        .map(|word| word.replace(CWD_PLACEHOLDER, &dir.to_string()))
        .chain(arguments)
        .collect();
    let ConfinedProgram {
        mut policy,
        network,
        gate,
    } = confine(gate, program, command, environment, &dir, permission)?;
    if let Some(package) = installed {
        open_for_reading(&mut policy, package.directory.clone(), GrantScope::Tree);
    }
    let place = if let ExecBackend::Server(containers) = environment.backend() {
        LaunchPlace::Container(container_launch(containers, &gate, policy))
    } else {
        let sandbox = environment
            .backend()
            .local_sandbox()
            .map_err(|reason| format!("servers {reason}"))?;
        LaunchPlace::Sandbox(SandboxLaunch {
            policy,
            sandbox: sandbox.on_overlay(gate.overlay()),
            network,
        })
    };
    Ok(ServerLaunch {
        place,
        roots,
        first_input,
    })
}

/// Returns how to launch the program of `policy` in a container. It gets none of the variables of
/// this machine.
fn container_launch(
    containers: &ServerContainers,
    gate: &Gate,
    policy: SandboxPolicy,
) -> ContainerLaunch {
    let mut env: BTreeMap<String, String> = safe_import_path(&policy.program).into_iter().collect();
    if !containers.has_network() {
        env.extend(offline_variables());
    }
    ContainerLaunch {
        containers: containers.clone(),
        reachable: ReachablePaths::on_overlay(&policy, gate.overlay()),
        program: ContainerProgram {
            command: policy.program,
            env,
            // A container has no private directories of this machine.
            dir: if policy.dir.is_within(&policy.home) {
                temporary_directory()
            } else {
                policy.dir
            },
        },
    }
}

/// How a program is confined.
#[derive(Debug)]
pub(super) struct ConfinedProgram {
    /// Its sandbox policy.
    pub(super) policy: SandboxPolicy,
    /// Its proxy, if it may reach some domains only.
    pub(super) network: Option<Arc<NetworkProxy>>,
    /// The gate whose overlay it sees, if there is one.
    pub(super) gate: Gate,
}

/// Returns how a program with this command line is confined, whose working directory is `dir`. Files
/// that the command line names are opened for reading in addition to what the agent's grants open.
pub(super) fn confine(
    gate: &Gate,
    program: &ServerProgram,
    mut command: Vec<String>,
    environment: &ExecEnvironment,
    dir: &AbsPath,
    permission: Permission,
) -> Result<ConfinedProgram, String> {
    let mut file_paths = Vec::new();
    if let ProgramInterface::SingleTool(tool) = &program.interface {
        for (index, file) in &tool.files {
            if let (Some(path), Some(word)) = (existing_file(file), command.get_mut(*index)) {
                *word = path.to_string();
                file_paths.push(path);
            }
        }
    }
    let safe_import_path = safe_import_path(&command);
    let starts_apart = starts_apart(program);
    let spec = CommandSpec {
        program: command,
        dir: if starts_apart {
            private_directory(gate, environment)?
        } else {
            dir.clone()
        },
        venv: None,
    };
    let (network_access, network) = environment.network().map_err(|error| error.to_string())?;
    let mut command_context = environment.command_context(spec, network_access);
    if program.network == NetworkPolicy::Off {
        command_context.env.extend(offline_variables());
    }
    command_context.env.extend(safe_import_path);
    if starts_apart {
        let name = WORKSPACE_VARIABLE.to_owned();
        command_context.env.insert(name, dir.to_string());
    }
    let gate = match gate.overlay() {
        Some(overlay)
            if program.is_privileged() && is_led_into(overlay, program, &command_context) =>
        {
            // The user's own trees, which are read-only.
            reopen_gate(gate, None).map_err(|error| error.to_string())?
        }
        _ => gate.clone(),
    };
    let compiled_policy = compile_policy(&gate, environment, command_context)
        .map_err(|tool_error| tool_error.message)?;
    let mut policy = restrict_writes(compiled_policy, permission);
    for path in file_paths {
        open_for_reading(&mut policy, path, GrantScope::File);
    }
    Ok(ConfinedProgram {
        policy,
        network,
        gate,
    })
}

/// Returns whether a program starts where no agent writes, although agents know it to work in the
/// workspace: many programs, and what they start, run what they find in the directory in which they
/// start. Functions are made to work there, and Python imports nothing from it.
fn starts_apart(program: &ServerProgram) -> bool {
    let is_function = matches!(program.interface, ProgramInterface::PythonFunctions(_));
    let is_in_workspace = program.directory == ServerDirectory::Workspace
        && program.instances == InstanceSharing::PerAgent;
    program.is_privileged() && is_in_workspace && !is_function
}

/// Returns a directory in which no agent writes. In it, many programs also use what they find in the
/// directories above: where these may change during a call, it is one that has none.
fn private_directory(gate: &Gate, environment: &ExecEnvironment) -> Result<AbsPath, String> {
    let directory = environment.directories().make_working_directory();
    let directory = directory.map_err(|error| error.to_string())?;
    let mut changed_trees = user_trees(gate).into_iter();
    let may_change = gate.overlay().is_none()
        && changed_trees.any(|tree| directory.is_within(&tree.real().to_abs()));
    Ok(match environment.sandbox_level() {
        SandboxLevel::Overlay | SandboxLevel::Namespaces if may_change => temporary_directory(),
        SandboxLevel::Overlay
        | SandboxLevel::Namespaces
        | SandboxLevel::Landlock
        | SandboxLevel::Unavailable
        | SandboxLevel::Off => directory,
    })
}

/// Returns the directory for temporary files of a container, and of a sandbox that has its own.
fn temporary_directory() -> AbsPath {
    AbsPath::root().join("tmp")
}

/// Returns whether what starts a program leads into a tree of the user's that is overlaid, where the
/// agent's commands may have changed any name: its start directory, the program that is found, a
/// file of functions, a word of its command line, or a variable.
fn is_led_into(overlay: &WriteOverlay, program: &ServerProgram, context: &CommandContext) -> bool {
    let is_overlaid = |path: AbsPath| {
        let real = resolve_path(&path);
        real.is_some_and(|real| overlay.trees().any(|tree| real.is_within(tree.root)))
    };
    let search_path = context.env.get("PATH").map_or("", String::as_str);
    let executable = context.program.first();
    let executable = executable.and_then(|name| find_in_search_path(name, search_path));
    let (words, function_files) = match &program.interface {
        ProgramInterface::Mcp | ProgramInterface::SingleTool(_) => (&*context.program, Vec::new()),
        // The arguments are massgen's own.
        ProgramInterface::PythonFunctions(python) => {
            let files = python.functions.iter().filter_map(|function| {
                let file = function.file.as_ref()?;
                first_file(&file.candidates).cloned()
            });
            (&*program.command, files.collect())
        }
    };
    // The private directories of a program are its own, wherever they are.
    let is_private = |text: &str| {
        let path = AbsPath::new(text);
        path.is_some_and(|path| path.is_within(&context.home) || path == context.scratch)
    };
    let variables = context.env.iter();
    let variables =
        variables.filter(|(name, value)| *name != WORKSPACE_VARIABLE && !is_private(value));
    let texts = words.iter().chain(variables.map(|(_, value)| value));
    let named_paths = texts
        .flat_map(|text| possible_paths(text))
        .map(|path| AbsPath::resolve(&context.dir, path));
    let mut paths = iter::once(context.dir.clone())
        .chain(executable)
        .chain(function_files)
        .chain(named_paths);
    paths.any(is_overlaid)
}

/// Returns the variables with which programs that download packages fail immediately, instead of
/// trying to reach a registry.
fn offline_variables() -> impl Iterator<Item = (String, String)> {
    let variables = [
        ("npm_config_offline", "true"),
        ("npm_config_yes", "true"),
        ("npm_config_update_notifier", "false"),
        ("UV_OFFLINE", "1"),
        ("PIP_NO_INDEX", "1"),
    ];
    let owned_pair = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    variables.into_iter().map(owned_pair)
}

/// Returns the variable that stops Python from importing modules from the directory in which it
/// starts, where agents may write, if `command` may start a module (`-m`) or code (`-c`). A script
/// still finds its own modules. Python older than 3.11 ignores the variable.
fn safe_import_path(command: &[String]) -> Option<(String, String)> {
    let starts_module_or_code = |word: &String| word.starts_with("-m") || word.starts_with("-c");
    let may_import_from_dir = command.iter().any(starts_module_or_code);
    may_import_from_dir.then(|| ("PYTHONSAFEPATH".to_owned(), "1".to_owned()))
}

/// Returns the path of a file that the config names, without symlinks; `None` if there is no such
/// file.
fn existing_file(file: &NamedFile) -> Option<AbsPath> {
    let candidate = first_file(&file.candidates)?;
    Some(locate(candidate).ok()?.into_real().to_abs())
}

/// Returns the directory that the agent and the user know as the working directory of a program.
pub(super) fn working_directory(
    gate: &Gate,
    program: &ServerProgram,
    environment: &ExecEnvironment,
) -> Result<AbsPath, String> {
    Ok(match (&program.directory, program.instances) {
        (ServerDirectory::Named(dir), _) => dir.clone(),
        (ServerDirectory::Private, InstanceSharing::PerAgent) => {
            let working_dir = environment.directories().make_working_directory();
            working_dir.map_err(|error| error.to_string())?
        }
        (ServerDirectory::Workspace, InstanceSharing::PerAgent) => default_directory(gate)?,
        // A shared server belongs to no single agent's workspace.
        (ServerDirectory::Workspace | ServerDirectory::Private, InstanceSharing::One) => {
            environment.directories().home()
        }
    })
}

/// Returns the default working directory of one agent's server: the agent's workspace, or if that
/// is closed the first directory that is open.
fn default_directory(gate: &Gate) -> Result<AbsPath, String> {
    let base = &gate.policy().base;
    if gate.allows(base, Permission::Read) {
        return Ok(base.to_abs());
    }
    let first_directory = gate
        .first_readable_directory()
        .and_then(|dir| AbsPath::new(dir.as_str()));
    first_directory.ok_or_else(|| "no directory is open to the agent".to_owned())
}

/// Makes every directory of the agent read-only for a server that only reads.
fn restrict_writes(mut policy: SandboxPolicy, permission: Permission) -> SandboxPolicy {
    for open_path in &mut policy.open {
        open_path.permission = open_path.permission.min(permission);
    }
    policy
}
