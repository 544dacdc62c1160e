//! Starts external agents, which are programs of their own. Such a program is restricted to what
//! the gate's grants open, runs in the agent's workspace like the agent's commands, and gets a
//! private home directory and a socket through which it reaches the run.

use std::sync::Arc;

use rustix::fd::OwnedFd;

use crate::config::ToolFilter;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::sandbox_policy::{AccessiblePath, SandboxPolicy};
use crate::world::access::gate::Gate;
use crate::world::exec::agent_socket::AgentSocket;
use crate::world::exec::command::compile_policy;
use crate::world::mcp::log_filter;
use crate::world::sandbox::exec_environment::{CommandSpec, ExecEnvironment};
use crate::world::sandbox::stdio_process::{StdioPipes, StdioProcess};
use crate::world::store::redact::Redactor;
use crate::world::sys::process;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// Path of the running massgen executable, as the kernel exposes it.
const OWN_EXECUTABLE: &str = "/proc/self/exe";
/// The directory of npm packages, in which packages resolve each other.
const PACKAGES_DIR: &str = "node_modules";
/// Directories of the system that every sandbox exposes.
const SYSTEM_DIRS: &[&str] = &["/bin", "/etc", "/lib", "/lib64", "/opt", "/sbin", "/usr"];

/// Starts the external agent of one agent in one phase.
#[derive(Clone, Debug)]
pub struct AgentLauncher {
    /// Decides about the agent's calls; its grants confine the external agent.
    pub gate: Gate,
    /// The environment that the external agent runs in.
    pub commands: ExecEnvironment,
    /// The tools that are offered to the agent.
    pub tools: ToolFilter,
    /// The file that its standard error is logged to.
    pub log: AbsPath,
    /// Redacts secrets from that log.
    pub redactor: Redactor,
}

/// The launcher and the command of an external agent in one phase.
#[derive(Clone, Debug)]
pub struct AgentLaunchSetup {
    /// Starts its processes in the agent's sandbox.
    pub launcher: AgentLauncher,
    /// Its program and the first arguments.
    pub command: Vec<String>,
}

impl AgentLaunchSetup {
    /// Returns the setup of the same program as a subagent whose calls `gate` decides about.
    ///
    /// # Errors
    /// Nothing confines each process by itself, or the directories cannot be created.
    pub fn for_subagent(&self, gate: Gate) -> Result<Self> {
        Ok(Self {
            launcher: self.launcher.for_subagent(gate)?,
            command: self.command.clone(),
        })
    }
}

/// A running external agent. Dropping it ends the process and all that it started.
#[derive(Debug)]
pub struct AgentProcess {
    program: StdioProcess,
    /// Write end of the agent's standard input.
    pub input: Option<OwnedFd>,
    /// Read end of the agent's standard output.
    pub output: Option<OwnedFd>,
}

impl AgentProcess {
    /// Returns how the process ended, if it has, and the end of its standard error. Waits for a
    /// moment.
    pub async fn exit_report(&self) -> (Option<String>, String) {
        let (exit_reason, stderr) = self.program.exit_and_stderr().await;
        (exit_reason.map(|reason| reason.to_string()), stderr)
    }
}

impl AgentLauncher {
    /// Returns what starts the same program as a subagent: `gate` decides about its calls and
    /// confines it, and its private directories are its own.
    ///
    /// # Errors
    /// Nothing confines each process by itself, or the directories cannot be created.
    pub fn for_subagent(&self, gate: Gate) -> Result<Self> {
        let commands = self.commands.for_subagent()?.ok_or_else(|| {
            let message = "without a sandbox, no program works as a subagent";
            Error::new(ErrorKind::Environment, message)
        })?;
        Ok(Self {
            gate,
            commands,
            ..self.clone()
        })
    }

    /// Returns the directory that the external agent starts in.
    pub fn dir(&self) -> AbsPath {
        self.gate.policy().base.to_abs()
    }

    /// Returns the directories that the grants open in addition to its own: for a granted file the
    /// one that contains it.
    pub fn open_directories(&self) -> Vec<AbsPath> {
        let own_dir = self.dir();
        let open_paths =
            self.gate
                .manager()
                .grants()
                .iter()
                .filter_map(|grant| match grant.scope {
                    GrantScope::Tree => Some(grant.root.to_abs()),
                    GrantScope::File => grant.root.to_abs().parent(),
                });
        let mut directories: Vec<AbsPath> = open_paths.filter(|dir| *dir != own_dir).collect();
        directories.sort_unstable();
        directories.dedup();
        directories
    }

    /// Opens a socket in a new directory that the external agent can read but not write to.
    pub fn open_socket(&self) -> Result<AgentSocket> {
        let dir = self.commands.directories().new_socket_directory()?;
        AgentSocket::bind(&dir)
    }

    /// Returns the path of massgen's executable as the external agent sees it.
    pub fn own_executable() -> Result<AbsPath> {
        let link = AbsPath::new(OWN_EXECUTABLE)
            .ok_or_else(|| Error::bug("cannot name the program's executable"))?;
        dir::resolve(&link).map(|real| real.to_abs())
    }

    /// Writes a file to the external agent's home directory.
    pub fn write_home_file(&self, path: &str, text: &str) -> Result<()> {
        let path = self.commands.directories().home().join(path);
        if let Some(parent) = path.parent() {
            dir::create_all(&parent, DirectoryAudience::User)?;
        }
        file::replace_unsynced(&path, text.as_bytes())
    }

    /// Starts the external agent and waits until it runs. Blocks.
    ///
    /// # Errors
    /// The program could not be started, or its sandbox could not be built.
    pub fn start(
        &self,
        program: Vec<String>,
        socket: &AgentSocket,
    ) -> std::result::Result<AgentProcess, String> {
        let sandbox = self
            .commands
            .backend()
            .local_sandbox()
            .map_err(|reason| format!("external agents {reason}"))?;
        let required_paths = Self::required_paths(&program, socket)?;
        let spec = CommandSpec {
            program,
            dir: self.dir(),
            venv: None,
        };
        let (network_access, network) =
            self.commands.network().map_err(|error| error.to_string())?;
        let command_context = self.commands.command_context(spec, network_access);
        let mut policy = compile_policy(&self.gate, &self.commands, command_context)
            .map_err(|tool_error| tool_error.message)?;
        for (path, scope) in required_paths {
            open_for_reading(&mut policy, path, scope);
        }
        let log = log_filter(self.log.clone(), self.redactor.clone());
        let sandbox = sandbox.on_overlay(self.gate.overlay());
        let network = network.as_ref().map(Arc::clone);
        let start_result = StdioProcess::start(&sandbox, &policy, network, log);
        let (program, StdioPipes { input, output }) =
            start_result.map_err(|error| error.to_string())?;
        Ok(AgentProcess {
            program,
            input: Some(input),
            output: Some(output),
        })
    }

    /// Returns the paths that the external agent needs in addition to its grants.
    fn required_paths(
        program: &[String],
        socket: &AgentSocket,
    ) -> std::result::Result<Vec<(AbsPath, GrantScope)>, String> {
        let ours = Self::own_executable().map_err(|error| error.to_string())?;
        let package = program.first().and_then(AbsPath::new).map(package_root);
        let own_paths = [
            (socket.dir().clone(), GrantScope::Tree),
            (ours, GrantScope::File),
        ];
        Ok(own_paths.into_iter().chain(package).collect())
    }
}

/// What to do about a program that does not exist.
pub const MISSING_PROGRAM_HINT: &str = "install it, or set its absolute path in `command`";

/// Finds the program that `command` names as a sandbox does: by its path, or in the search path
/// `path` and the directories of the system.
///
/// # Errors
/// The program does not exist; the hint names `package`, which provides it, if there is one.
pub fn find_program(command: &[String], path: &str, package: Option<&str>) -> Result<Vec<String>> {
    let (name, arguments) = command
        .split_first()
        .ok_or_else(|| Error::bug("no program"))?;
    let executable = match AbsPath::new(name) {
        Some(executable) => file::is_readable(&executable).then_some(executable),
        None => process::find_as_sandbox(name, path),
    };
    let executable = executable.and_then(|executable| dir::resolve(&executable).ok());
    let Some(executable) = executable else {
        let message = format!("program `{name}` not found");
        let error = Error::new(ErrorKind::Environment, message);
        return Err(match package {
            Some(package) => error
                .with_hint(format!("install it: npm install -g {package}"))
                .with_hint("or set its path: `command: [/path/of/the/program]`"),
            None => error.with_hint(MISSING_PROGRAM_HINT),
        });
    };
    let mut command_line = vec![executable.to_string()];
    command_line.extend(arguments.iter().cloned());
    Ok(command_line)
}

/// Returns what must be readable to run a program: the outermost directory of npm packages that
/// contains it, because its packages may need those of any level, or the program alone.
fn package_root(program: AbsPath) -> (AbsPath, GrantScope) {
    let mut packages_dir = None;
    let mut ancestor = program.parent();
    while let Some(dir) = ancestor {
        if dir.as_path().ends_with(PACKAGES_DIR) {
            packages_dir = Some(dir.clone());
        }
        ancestor = dir.parent();
    }
    match packages_dir {
        Some(packages_dir) => (packages_dir, GrantScope::Tree),
        None => (program, GrantScope::File),
    }
}

/// Opens `path` for reading unless it is open already.
pub(super) fn open_for_reading(policy: &mut SandboxPolicy, path: AbsPath, scope: GrantScope) {
    let reaches = |open_path: &AccessiblePath| path.is_within(&open_path.path);
    let hides = |hidden: &AbsPath| path.is_within(hidden);
    let is_open = policy.open.iter().any(reaches) && !policy.hidden.iter().any(hides);
    if is_open
        || SYSTEM_DIRS
            .iter()
            .any(|system_dir| path.as_path().starts_with(system_dir))
    {
        return;
    }
    policy.open.push(AccessiblePath {
        path,
        permission: Permission::Read,
        scope,
    });
}
