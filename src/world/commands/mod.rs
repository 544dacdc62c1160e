//! Owns where the commands of one agent run and what they are held to beside its grants. It starts
//! nothing: `exec` does, with a permitted call.

pub mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::commands::CommandRules;
use crate::config::command_line::CommandLineConfig;
use crate::confinement::compile::Facts;
use crate::confinement::environment::{Surroundings, environment};
use crate::confinement::network::Reach;
use crate::confinement::tier::{Enclosure, Tier};
use crate::confinement::toolchains::Toolchains;
use crate::path::{AbsPath, RealPath};
use crate::world::commands::room::Room;
use crate::world::sandbox::Sandbox;
use crate::world::sandbox::background::Background;

/// The commands of one agent. A clone is the same, in every phase of a run.
#[derive(Clone, Debug)]
pub struct Commands(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rules: CommandRules,
    config: CommandLineConfig,
    own_env: BTreeMap<String, String>,
    added_env: BTreeMap<String, String>,
    toolchains: Toolchains,
    sandbox: Sandbox,
    room: Room,
    background: Background,
    /// What was already said to have stayed in a layer. Whoever holds it is alone with the layers.
    told: Mutex<BTreeSet<RealPath>>,
}

/// What the commands of an agent are made from.
#[derive(Clone, Debug)]
pub struct Origin<'a> {
    /// What the config says.
    pub config: &'a CommandLineConfig,
    /// What holds them.
    pub sandbox: Sandbox,
    /// The directories that are theirs.
    pub room: Room,
    /// massgen's own environment.
    pub env: &'a BTreeMap<String, String>,
    /// The user's home directory.
    pub home: Option<&'a AbsPath>,
}

/// What one command is.
#[derive(Clone, Debug)]
pub struct Order {
    /// What is given to the shell.
    pub program: Vec<String>,
    /// The directory that it begins in.
    pub dir: AbsPath,
    /// The Python environment that the directory holds, if it does.
    pub venv: Option<AbsPath>,
}

impl Commands {
    /// Puts together what all commands of an agent share.
    pub fn new(origin: Origin<'_>) -> Self {
        let Origin {
            config,
            sandbox,
            room,
            env,
            home,
        } = origin;
        Self(Arc::new(Inner {
            rules: config.rules(sandbox.tier()),
            added_env: config.added_env(env),
            toolchains: Toolchains::of(env, home),
            own_env: env.clone(),
            config: config.clone(),
            background: Background::new(sandbox.clone()),
            sandbox,
            room,
            told: Mutex::default(),
        }))
    }

    /// The rules about their text.
    pub fn rules(&self) -> &CommandRules {
        &self.0.rules
    }

    /// What the config says about them.
    pub fn config(&self) -> &CommandLineConfig {
        &self.0.config
    }

    /// What holds them.
    pub fn sandbox(&self) -> &Sandbox {
        &self.0.sandbox
    }

    /// What holds them, for people.
    pub fn enclosure(&self) -> Enclosure {
        Enclosure::Sandbox {
            tier: self.tier(),
            reasons: self.0.sandbox.reasons().to_vec(),
        }
    }

    /// How they are held.
    pub fn tier(&self) -> Tier {
        self.0.sandbox.tier()
    }

    /// The directories that are theirs.
    pub(super) fn room(&self) -> &Room {
        &self.0.room
    }

    /// Those that go on while the agent works.
    pub(super) fn background(&self) -> &Background {
        &self.0.background
    }

    /// Waits until no other command may write to the layers.
    pub(super) fn alone(&self) -> MutexGuard<'_, BTreeSet<RealPath>> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a command may run that asks for `seconds`.
    pub(super) fn time_max(&self, seconds: Option<u64>) -> Duration {
        Duration::from_secs(seconds.unwrap_or(self.0.config.bounds.timeout_seconds))
    }

    /// How much is kept of each output of a command, in bytes.
    pub(super) fn output_bytes_max(&self) -> usize {
        usize::try_from(self.0.config.bounds.output_bytes_max).unwrap_or(usize::MAX)
    }

    /// What a command is besides the grants; nothing is masked or laid over yet.
    pub(super) fn facts(&self, order: Order, reach: Reach) -> Facts {
        let (home, scratch) = (self.0.room.home(), self.0.room.scratch());
        let env = environment(&Surroundings {
            own: &self.0.own_env,
            toolchains: &self.0.toolchains,
            added: &self.0.added_env,
            home: &home,
            scratch: &scratch,
            venv: order.venv.as_ref(),
            tier: self.tier(),
            reach,
        });
        Facts {
            dir: order.dir,
            home,
            scratch,
            toolchains: self.0.toolchains.places.clone(),
            env,
            limits: self.0.config.limits,
            reach,
            layers: Vec::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            program: order.program,
        }
    }
}
