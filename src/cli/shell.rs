//! Owns the commands of single calls (`massgen tool`): what holds them, and the directories that
//! they have as long as the call lasts.

use std::sync::Arc;

use uuid::Uuid;

use crate::cli::conduct::machine;
use crate::cli::grants_file::GrantsFile;
use crate::config::command_line::{CommandLineConfig, ExecutionMode};
use crate::config::docker::DockerConfig;
use crate::confinement::tier::{Tier, TierChoice};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::id::AgentId;
use crate::layout::RunName;
use crate::orchestrator::shells::{Machine, Runner, container};
use crate::path::AbsPath;
use crate::world::commands::room::Room;
use crate::world::commands::{Commands, Origin, Place};
use crate::world::sandbox::Sandbox;
use crate::world::store::scratch::Scratch;

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
    /// Puts this in the place of what the config says.
    pub(crate) fn set_in(self, config: &mut CommandLineConfig) {
        match self {
            Hold::Sandbox(choice) => config.sandbox = choice,
            Hold::Container(image) => {
                let mut docker = match &config.mode {
                    ExecutionMode::Docker(docker) => (**docker).clone(),
                    ExecutionMode::Local => DockerConfig::default(),
                };
                image.clone_into(&mut docker.image);
                config.mode = ExecutionMode::Docker(Box::new(docker));
            }
        }
    }
}

/// The commands of one call, whose directories go with this.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) commands: Commands,
    _room: Scratch,
}

impl Shell {
    /// Commands as a config without any other key about them gives them.
    pub(crate) fn open(host: &Host, hold: Hold<'_>, grants: &GrantsFile) -> Result<Self> {
        let temporary = host.env("TMPDIR").unwrap_or(TEMPORARY);
        let temporary = AbsPath::resolve(&host.cwd, temporary);
        let room = Scratch::make(&temporary, "massgen_")?;
        let mut config = CommandLineConfig::default();
        hold.set_in(&mut config);
        let machine = machine(host);
        let place = match &config.mode {
            ExecutionMode::Local => sandbox(config.sandbox, &machine, &room)?,
            ExecutionMode::Docker(docker) => {
                let id = AgentId::parse(CALLER).map_err(|error| Error::bug(error.to_string()))?;
                let runner = Runner {
                    id: &id,
                    config: &config,
                    grants: grants.grants(),
                    workspace: &grants.base().to_abs(),
                };
                // What a call leaves that breaks off, the next with the same `TMPDIR` removes.
                let run = RunName::new(Uuid::new_v4().as_fields().0);
                let container = container(runner, docker, (run, &temporary), &machine)?;
                Place::Container(Arc::new(container))
            }
        };
        let commands = Commands::new(Origin {
            config: &config,
            place,
            room: Room::prepare(room.path())?,
            env: &machine.env,
            home: machine.home.as_ref(),
        });
        Ok(Self {
            commands,
            _room: room,
        })
    }
}

fn sandbox(choice: TierChoice, machine: &Machine, room: &Scratch) -> Result<Place> {
    let sandbox = Sandbox::open(choice, &machine.executable, room.path())?;
    if sandbox.tier() == Tier::D {
        return Err(nothing_enforces(sandbox.reasons()));
    }
    Ok(Place::Sandbox(sandbox))
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
