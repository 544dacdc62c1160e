//! Owns the commands of single calls (`massgen tool`): what holds them, and the directories that
//! they have as long as the call lasts. What was taken out of the user's trees stays.

use crate::cli::conduct::machine;
use crate::config::command_line::CommandLineConfig;
use crate::confinement::tier::{Tier, TierChoice};
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::orchestrator::shells::Machine;
use crate::path::AbsPath;
use crate::world::commands::room::Room;
use crate::world::commands::{Commands, Origin, Place};
use crate::world::sandbox::Sandbox;
use crate::world::store::sandboxes::CallSandbox;

/// Where directories go that last as long as a call, unless `TMPDIR` names another place.
const TEMPORARY: &str = "/tmp";

/// The commands of one call, whose directories go with this but for their quarantine.
#[derive(Debug)]
pub(crate) struct Shell {
    pub(crate) commands: Commands,
    _room: CallSandbox,
}

impl Shell {
    /// Commands as a config without any key about them gives them, which may write to `trees` of the
    /// user's in the final phase.
    pub(crate) fn open(host: &Host, choice: TierChoice, trees: &[AbsPath]) -> Result<Self> {
        let temporary = host.env("TMPDIR").unwrap_or(TEMPORARY);
        let room = CallSandbox::make(&AbsPath::resolve(&host.cwd, temporary), "massgen_")?;
        let Machine {
            executable,
            env,
            home,
        } = machine(host);
        let sandbox = Sandbox::open_over(choice, &executable, room.path(), trees)?;
        if sandbox.tier() == Tier::D {
            return Err(nothing_enforces(sandbox.reasons()));
        }
        let commands = Commands::new(Origin {
            config: &CommandLineConfig::default(),
            place: Place::Sandbox(sandbox),
            room: Room::prepare(room.path())?,
            env: &env,
            home: home.as_ref(),
        });
        Ok(Self {
            commands,
            _room: room,
        })
    }
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
