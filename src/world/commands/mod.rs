//! Owns where the commands of one agent run and what they are held to beside its grants. It starts
//! nothing: `exec` does, with a permitted call.

pub mod room;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::commands::CommandRules;
use crate::config::command_line::{CommandLineConfig, TIMEOUT_SECONDS_MAX};
use crate::confinement::compile::{Facts, Written};
use crate::confinement::environment::{Surroundings, environment};
use crate::confinement::network::{Network, Reach};
use crate::confinement::tier::{Enclosure, Tier};
use crate::confinement::toolchains::Toolchains;
use crate::dotenv::ConfigVariables;
use crate::path::{AbsPath, RealPath};
use crate::world::change::{Change, LateChanges};
use crate::world::commands::room::Room;
use crate::world::docker::container::Container;
use crate::world::sandbox::Sandbox;
use crate::world::sandbox::background::Background;
use crate::world::sandbox::proxy::Proxy;
use crate::world::stage::{Stage, WeakStage};

/// The port of the proxy on the loopback of a sandbox of its own.
const PROXY_PORT: u16 = 3128;

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
    place: Place,
    executable: AbsPath,
    room: Room,
    background: Background,
    trees: Trees,
    late: LateChanges,
}

/// The user's trees, as the commands of one agent share them. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Trees(Arc<Mutex<TreesState>>);

/// What the commands of one agent know of the user's trees.
#[derive(Debug, Default)]
pub(super) struct TreesState {
    /// What was already said to have stayed on a stage.
    pub(super) told: BTreeSet<RealPath>,
    /// The stage that the agent's container shows, while a command works on it.
    pub(super) shown: WeakStage,
}

impl Trees {
    /// Waits until nobody else looks at them or carries something there.
    pub(super) fn alone(&self) -> MutexGuard<'_, TreesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where commands run.
#[derive(Debug)]
pub enum Place {
    /// In massgen's sandbox.
    Sandbox(Sandbox),
    /// In a container of the agent's own.
    Container(Arc<Container>),
}

/// What the commands of an agent are made from.
#[derive(Debug)]
pub struct Origin<'a> {
    /// What the config says.
    pub config: &'a CommandLineConfig,
    /// Where they run.
    pub place: Place,
    /// massgen itself, which is started as the stem of stages.
    pub executable: &'a AbsPath,
    /// The directories that are theirs.
    pub room: Room,
    /// massgen's own environment.
    pub env: &'a BTreeMap<String, String>,
    /// The variables that the config may pass on.
    pub variables: &'a ConfigVariables,
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
            place,
            executable,
            room,
            env,
            variables,
            home,
        } = origin;
        Self(Arc::new(Inner {
            rules: config.rules(place.tier()),
            added_env: config.added_env(variables),
            toolchains: Toolchains::of(env, home),
            own_env: env.clone(),
            config: config.clone(),
            background: Background::default(),
            place,
            executable: executable.clone(),
            room,
            trees: Trees::default(),
            late: LateChanges::default(),
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

    /// What holds them, for people.
    pub fn enclosure(&self) -> Enclosure {
        match &self.0.place {
            Place::Sandbox(sandbox) => Enclosure::Sandbox {
                tier: sandbox.tier(),
                reasons: sandbox.reasons().to_vec(),
            },
            Place::Container(container) => Enclosure::Container {
                image: container.image().to_owned(),
            },
        }
    }

    /// What of the config could not be had, and what it exposes.
    pub fn notes(&self) -> &[String] {
        match &self.0.place {
            Place::Sandbox(_) => &[],
            Place::Container(container) => container.notes(),
        }
    }

    /// How they are held. What a container reaches is what a sandbox of tier B would.
    pub fn tier(&self) -> Tier {
        self.0.place.tier()
    }

    /// Where they run.
    pub(super) fn place(&self) -> &Place {
        &self.0.place
    }

    /// massgen itself.
    pub(super) fn executable(&self) -> &AbsPath {
        &self.0.executable
    }

    /// The directories that are theirs.
    pub(super) fn room(&self) -> &Room {
        &self.0.room
    }

    /// Those that go on while the agent works.
    pub(super) fn background(&self) -> &Background {
        &self.0.background
    }

    /// The user's trees.
    pub(super) fn trees(&self) -> &Trees {
        &self.0.trees
    }

    /// What commands changed that nobody waited for.
    pub(super) fn late(&self) -> &LateChanges {
        &self.0.late
    }

    /// Ends those that go on, and takes what they and others changed that nobody waited for. It
    /// blocks.
    pub fn end_background(&self) -> Vec<Change> {
        self.0.background.stop_all();
        self.0.late.take()
    }

    /// How long a command may run that asks for `seconds`.
    pub(super) fn time_max(&self, seconds: Option<u64>) -> Duration {
        let usual = self.0.config.bounds.timeout_seconds;
        let most = usual.max(TIMEOUT_SECONDS_MAX);
        Duration::from_secs(seconds.map_or(usual, |seconds| seconds.min(most)))
    }

    /// How much is kept of each output of a command, in bytes.
    pub(super) fn output_bytes_max(&self) -> usize {
        usize::try_from(self.0.config.bounds.output_bytes_max).unwrap_or(usize::MAX)
    }

    /// What one command reaches of the network, with what answers there. A container has the
    /// network that it was made with.
    pub(super) fn network(&self) -> io::Result<(Reach, Option<Arc<Proxy>>)> {
        self.reaching(&self.0.config.network)
    }

    /// The same for one that reaches this of the network.
    pub(super) fn reaching(&self, network: &Network) -> io::Result<(Reach, Option<Arc<Proxy>>)> {
        if let Place::Container(_) = self.0.place {
            return Ok((Reach::None, None));
        }
        let domains = match network {
            Network::Off => return Ok((Reach::None, None)),
            Network::On => return Ok((Reach::Host, None)),
            Network::Domains(domains) => domains,
        };
        let proxy = Proxy::new(domains)?;
        let port = match self.tier() {
            Tier::A | Tier::B => PROXY_PORT,
            Tier::C | Tier::D | Tier::Off => proxy.serve_on_loopback()?,
        };
        Ok((Reach::Proxy { port }, Some(Arc::new(proxy))))
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
            written: Written::ToLayers(Vec::new()),
            identities: BTreeMap::new(),
            masked: Vec::new(),
            hidden: Vec::new(),
            program: order.program,
        }
    }
}

impl Place {
    /// Whether commands find at `path` what they may change there: what no stage holds, or what this
    /// stage shows them.
    pub(super) fn shows(&self, stage: &Stage, path: &AbsPath) -> bool {
        match self {
            Place::Sandbox(_) => !stage.is_unseen(path),
            Place::Container(_) => !stage.is_unseen(path) || stage.copies().contains_key(path),
        }
    }

    fn tier(&self) -> Tier {
        match self {
            Place::Sandbox(sandbox) => sandbox.tier(),
            Place::Container(_) => Tier::B,
        }
    }
}
