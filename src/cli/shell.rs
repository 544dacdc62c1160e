//! Owns the commands of single calls (`massgen tool`): what holds them, and the directories that
//! they have as long as the call lasts.

use std::sync::Arc;

use uuid::Uuid;

use crate::cli::conduct::machine;
use crate::cli::grants_file::GrantsFile;
use crate::config::Config;
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
use crate::config::docker::DockerConfig;
use crate::confinement::tier::{Tier, TierChoice};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::layout::RunName;
use crate::orchestrator::shells::{Machine, Runner, container};
use crate::path::AbsPath;
use crate::permissions::grant::Grant;
use crate::world::commands::room::Room;
use crate::world::commands::{Commands, Origin, Place};
use crate::world::docker::container::Container;
use crate::world::sandbox::Sandbox;
use crate::world::store::sandboxes::Sandboxes;

/// Where directories go that last as long as a call, unless `TMPDIR` names another place.
const TEMPORARY: &str = "/tmp";
/// Whoever calls when nobody is named.
const CALLER: &str = "tool";

/// What holds the commands of a call, if the user says it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Hold<'a> {
    /// massgen's own sandbox.
    Sandbox(TierChoice),
    /// A container of this image.
    Container(&'a str),
}

impl Default for Hold<'_> {
    fn default() -> Self {
        Hold::Sandbox(TierChoice::default())
    }
}

impl Hold<'_> {
    /// Has commands of all agents held so, whatever their keys say.
    pub(crate) fn set_in(self, config: &mut Config) {
        let image = match self {
            Hold::Sandbox(choice) => return config.hold_commands(choice),
            Hold::Container(image) => image,
        };
        let agents = config.agents.iter_mut();
        for commands in agents.filter_map(|agent| agent.commands.as_mut()) {
            let mut docker = match &commands.mode {
                ExecutionMode::Docker(docker) => (**docker).clone(),
                ExecutionMode::Local => DockerConfig::default(),
            };
            image.clone_into(&mut docker.image);
            commands.mode = ExecutionMode::Docker(Box::new(docker));
        }
    }
}

/// The commands of one call, whose directories go with this.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) commands: Commands,
    _rooms: Sandboxes,
}

impl Shell {
    /// Commands as a config without any key about them gives them, for an agent with these grants.
    pub(crate) fn open(host: &Host, hold: Hold<'_>, grants: &GrantsFile) -> Result<Self> {
        Self::made(host, |machine, room, temporary| match hold {
            Hold::Sandbox(choice) => sandbox(choice, machine, room, &grants.write_roots()),
            Hold::Container(image) => {
                let workspace = grants.base().to_abs();
                let opened = (grants.grants(), &workspace);
                let container = contained(image, (CALLER, opened), temporary, machine)?;
                Ok(Place::Container(Arc::new(container)))
            }
        })
    }

    /// The same in the strongest sandbox, for whoever has no grants.
    pub(crate) fn of_nobody(host: &Host) -> Result<Self> {
        Self::made(host, |machine, room, _| {
            sandbox(TierChoice::Auto, machine, room, &[])
        })
    }

    /// Commands in the place that `place` makes, with directories of their own.
    fn made(
        host: &Host,
        place: impl FnOnce(&Machine, &Room, &AbsPath) -> Result<Place>,
    ) -> Result<Self> {
        let temporary = host.env("TMPDIR").unwrap_or(TEMPORARY);
        let temporary = AbsPath::resolve(&host.cwd, temporary);
        let rooms = Sandboxes::of_call(&temporary)?;
        let room = Room::prepare(&rooms.caller()?)?;
        let machine = machine(host);
        let place = place(&machine, &room, &temporary)?;
        let commands = Commands::new(Origin {
            config: &CommandLineConfig::default(),
            place,
            executable: &machine.executable,
            room,
            env: &machine.env,
            variables: &machine.variables,
            home: machine.home.as_ref(),
        });
        Ok(Self {
            commands,
            _rooms: rooms,
        })
    }
}

fn sandbox(choice: TierChoice, machine: &Machine, room: &Room, trees: &[AbsPath]) -> Result<Place> {
    let sandbox = Sandbox::open_over(choice, &machine.executable, &room.home(), trees)?;
    if sandbox.tier() == Tier::D {
        return Err(nothing_enforces(sandbox.reasons()));
    }
    Ok(Place::Sandbox(sandbox))
}

/// A container of `image` for a `caller` that is no agent, with its grants and its workspace. What one
/// leaves that breaks off, the next with the same `state` removes.
pub(crate) fn contained(
    image: &str,
    (caller, (grants, workspace)): (&str, (&[Grant], &AbsPath)),
    state: &AbsPath,
    machine: &Machine,
) -> Result<Container> {
    let id = AgentId::parse(caller).map_err(|error| Error::bug(error.to_string()))?;
    let docker = DockerConfig {
        image: image.to_owned(),
        ..DockerConfig::default()
    };
    let runner = Runner {
        id: &id,
        config: &CommandLineConfig::default(),
        grants,
        workspace,
    };
    let run = RunName::new(Uuid::new_v4().as_fields().0);
    container(runner, &docker, (run, state), machine)
}

/// That no command can be run on this machine.
fn nothing_enforces(reasons: &[String]) -> Error {
    let message = format!(
        "nothing on this machine can hold commands to their grants: {}",
        reasons.join("; ")
    );
    Error::new(ErrorKind::Environment, message)
        .hint("see what `massgen doctor` says about the sandbox")
        .hint("or use containers: `command_line_execution_mode: docker`")
}
