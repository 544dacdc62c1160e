//! Owns the start of guests: agents that are programs of their own. One may do what its gate's grants
//! open, in the agent's workspace, as the agent's commands may; it finds a home of its own and the
//! socket by which it reaches the run.

use std::sync::Arc;

use rustix::fd::OwnedFd;

use crate::config::ToolFilter;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::permissions::grant::{GrantScope, Permission};
use crate::sandbox_policy::{AccessiblePath, SandboxPolicy};
use crate::world::access::gate::Gate;
use crate::world::exec::agent_socket::AgentSocket;
use crate::world::exec::command::{compile_policy, sandbox_on_overlay};
use crate::world::mcp::log_to;
use crate::world::sandbox::exec_environment::{CommandSpec, ExecBackend, ExecEnvironment};
use crate::world::sandbox::stdio_process::{StdioPipes, StdioProcess};
use crate::world::store::redact::Redactor;
use crate::world::sys::process;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file::{self, FileDurability};

/// The program that runs, as the kernel names it.
const OURS: &str = "/proc/self/exe";
/// The directory of packages, in which programs of them find each other.
const PACKAGES: &str = "node_modules";
/// Where programs lie that every sandbox shows.
const SHOWN: &[&str] = &["/bin", "/etc", "/lib", "/lib64", "/opt", "/sbin", "/usr"];

/// How the guest of one agent is started in one phase.
#[derive(Clone, Debug)]
pub struct AgentLauncher {
    /// What decides about the agent's calls; its grants hold the guest.
    pub gate: Gate,
    /// What it runs in.
    pub commands: ExecEnvironment,
    /// Which tools its agent is offered.
    pub tools: ToolFilter,
    /// Where what it writes on its standard error goes.
    pub log: AbsPath,
    /// What must not get there.
    pub redactor: Redactor,
}

/// A guest that runs. It ends, with all that it started, when this goes.
#[derive(Debug)]
pub struct AgentProcess {
    program: StdioProcess,
    /// What the guest reads is written here.
    pub input: Option<OwnedFd>,
    /// What it says is read here.
    pub output: Option<OwnedFd>,
}

impl AgentProcess {
    /// How it ended, if it has, and the last that it wrote on its standard error. It blocks for a
    /// moment.
    pub fn exit_report(&self) -> (Option<String>, String) {
        let (ended, errors) = self.program.exit_and_stderr();
        (ended.map(|ended| ended.to_string()), errors)
    }
}

impl AgentLauncher {
    /// The directory that the guest begins in.
    pub fn dir(&self) -> AbsPath {
        self.gate.policy().base.to_abs()
    }

    /// Opens a socket in a directory of its own, which the guest finds and cannot write to.
    pub fn open_socket(&self) -> Result<AgentSocket> {
        let dir = self.commands.directories().new_socket_directory()?;
        AgentSocket::bind(&dir)
    }

    /// massgen's own program as the guest finds it.
    pub fn own_executable() -> Result<AbsPath> {
        let ours = AbsPath::new(OURS).ok_or_else(|| Error::bug("no name for the program"))?;
        dir::resolve(&ours).map(|real| real.to_abs())
    }

    /// Puts a file into the guest's home.
    pub fn write_home_file(&self, path: &str, text: &str) -> Result<()> {
        let path = self.commands.directories().home().join(path);
        if let Some(parent) = path.parent() {
            dir::create_all(&parent, DirectoryAudience::User)?;
        }
        file::replace(&path, text.as_bytes(), FileDurability::Process)
    }

    /// Starts the guest, and waits until it runs. It blocks.
    ///
    /// # Errors
    /// It could not be started, or nothing could be made that holds it.
    pub fn start(
        &self,
        program: Vec<String>,
        door: &AgentSocket,
    ) -> std::result::Result<AgentProcess, String> {
        let ExecBackend::Sandbox(sandbox) = self.commands.backend() else {
            return Err("such a program does not run in a container".to_owned());
        };
        let needed = Self::required_paths(&program, door)?;
        let order = CommandSpec {
            program,
            dir: self.dir(),
            venv: None,
        };
        let (reach, network) = self.commands.network().map_err(|why| why.to_string())?;
        let facts = self.commands.command_context(order, reach);
        let mut confinement =
            compile_policy(&self.gate, &self.commands, facts).map_err(|stop| stop.message)?;
        for (path, scope) in needed {
            open_for_reading(&mut confinement, path, scope);
        }
        let log = log_to(self.log.clone(), self.redactor.clone());
        let sandbox = sandbox_on_overlay(&self.gate, sandbox);
        let network = network.as_ref().map(Arc::clone);
        let started = StdioProcess::start(&sandbox, &confinement, network, log);
        let (program, StdioPipes { input, output }) = started.map_err(|why| why.to_string())?;
        Ok(AgentProcess {
            program,
            input: Some(input),
            output: Some(output),
        })
    }

    /// What the guest has to find beside what is granted.
    fn required_paths(
        program: &[String],
        door: &AgentSocket,
    ) -> std::result::Result<Vec<(AbsPath, GrantScope)>, String> {
        let ours = Self::own_executable().map_err(|why| why.to_string())?;
        let place = program.first().and_then(AbsPath::new).map(package_root);
        let own = [
            (door.dir().clone(), GrantScope::Tree),
            (ours, GrantScope::File),
        ];
        Ok(own.into_iter().chain(place).collect())
    }
}

/// Finds the program that `command` names: by its path, or in the `PATH` of `path`.
///
/// # Errors
/// It is not there; `package` has it, if any has.
pub fn find_program(command: &[String], path: &str, package: Option<&str>) -> Result<Vec<String>> {
    let (name, arguments) = command
        .split_first()
        .ok_or_else(|| Error::bug("no program"))?;
    let place = match AbsPath::new(name) {
        Some(place) => file::is_readable(&place).then_some(place),
        None => process::find(name, path),
    };
    let place = place.and_then(|place| dir::resolve(&place).ok());
    let Some(place) = place else {
        let message = format!("the program `{name}` is not there");
        let error = Error::new(ErrorKind::Environment, message);
        return Err(match package {
            Some(package) => error
                .with_hint(format!("install it: npm install -g {package}"))
                .with_hint("or name it: `command: [/path/of/the/program]`"),
            None => error.with_hint("install it, or name its whole path in `command`"),
        });
    };
    let mut words = vec![place.to_string()];
    words.extend(arguments.iter().cloned());
    Ok(words)
}

/// What has to be open so that a program can be run: the packages that it lies among, or it alone.
fn package_root(program: AbsPath) -> (AbsPath, GrantScope) {
    let mut packages = None;
    let mut above = program.parent();
    while let Some(dir) = above {
        if dir.as_path().ends_with(PACKAGES) {
            packages = Some(dir.clone());
        }
        above = dir.parent();
    }
    match packages {
        Some(packages) => (packages, GrantScope::Tree),
        None => (program, GrantScope::File),
    }
}

/// Opens `path` for reading, unless it is open.
fn open_for_reading(confinement: &mut SandboxPolicy, path: AbsPath, scope: GrantScope) {
    let reaches = |opening: &AccessiblePath| path.is_within(&opening.path);
    let hides = |hidden: &AbsPath| path.is_within(hidden);
    let is_open = confinement.open.iter().any(reaches) && !confinement.hidden.iter().any(hides);
    if is_open || SHOWN.iter().any(|shown| path.as_path().starts_with(shown)) {
        return;
    }
    confinement.open.push(AccessiblePath {
        path,
        permission: Permission::Read,
        scope,
    });
}
