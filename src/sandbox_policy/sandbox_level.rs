//! The levels (tiers) of sandbox enforcement, and the user's choice among them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How commands are held to their grants. What each promises stands in `docs/sandbox.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum SandboxLevel {
    /// Namespaces of its own, with an overlay on each write path.
    A,
    /// Namespaces of its own; write paths are copied where no overlay can be laid.
    B,
    /// Landlock, seccomp and a supervisor; the user's paths are read-only for commands.
    C,
    /// Nothing can enforce: commands are refused.
    D,
    /// The user switched the sandbox off in words: commands run as massgen itself does.
    Off,
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SandboxLevel::A => "A",
            SandboxLevel::B => "B",
            SandboxLevel::C => "C",
            SandboxLevel::D => "D",
            SandboxLevel::Off => "off",
        })
    }
}

/// The choices of a tier, as the user types them.
pub const CHOICES: &[&str] = &["auto", "A", "B", "C", "off"];

impl FromStr for SandboxLevelChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => SandboxLevelChoice::Auto,
            "A" => SandboxLevelChoice::Only(SandboxLevel::A),
            "B" => SandboxLevelChoice::Only(SandboxLevel::B),
            "C" => SandboxLevelChoice::Only(SandboxLevel::C),
            "off" => SandboxLevelChoice::Only(SandboxLevel::Off),
            _ => return Err(format!("expected one of {}", CHOICES.join(", "))),
        })
    }
}

/// The user's choice (`command_line_sandbox`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxLevelChoice {
    /// The strongest level that the machine supports.
    #[default]
    Auto,
    /// This level, or an error.
    Only(SandboxLevel),
}

impl SandboxLevel {
    /// Describes in a few words what enforces it.
    pub fn description(self) -> &'static str {
        match self {
            SandboxLevel::A => "namespaces, with an overlay on each write path",
            SandboxLevel::B => "namespaces",
            SandboxLevel::C => "Landlock, seccomp and a supervisor",
            SandboxLevel::D => "nothing enforces, so commands are refused",
            SandboxLevel::Off => "switched off, so nothing enforces",
        }
    }

    /// Returns what it does not protect against, one item each, for a person to know before relying
    /// on it.
    pub fn leaves_open(self) -> &'static [&'static str] {
        match self {
            SandboxLevel::A | SandboxLevel::B => &[
                "Unix sockets inside the open paths can be connected to, and pipes if they lie in `/tmp`",
                "bugs of the kernel",
            ],
            SandboxLevel::C => &[
                "names, sizes, link texts and attributes of closed files can be seen",
                "command lines of other processes can be seen",
                "`/dev/shm` is the machine's: your files there can be read, changed and deleted",
                "commands cannot write the user's paths: delivery goes through the file tools",
                "no private `/tmp`, no loopback, no Unix sockets",
            ],
            SandboxLevel::D => &[],
            SandboxLevel::Off => &["commands may do whatever you may do"],
        }
    }
}

/// What holds the commands of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExecutionIsolation {
    /// massgen's own sandbox.
    Sandbox {
        /// The tier in force.
        tier: SandboxLevel,
        /// Why no stronger one is.
        reasons: Vec<String>,
    },
    /// A container of the agent's own.
    Container {
        /// The image.
        image: String,
    },
}

/// What a container does not protect against.
pub const CONTAINER_LEAVES_OPEN: &[&str] = &[
    "Unix sockets and pipes inside the open paths can be connected to and written",
    "whatever the engine, its daemon and the image leave open",
];

impl ExecutionIsolation {
    /// Returns its short name for lists.
    pub fn label(&self) -> String {
        match self {
            ExecutionIsolation::Sandbox { tier, .. } => format!("tier {tier}"),
            ExecutionIsolation::Container { image } => format!("containers of `{image}`"),
        }
    }

    /// Returns the level of massgen's sandbox, if that is used.
    pub fn level(&self) -> Option<SandboxLevel> {
        match self {
            ExecutionIsolation::Sandbox { tier, .. } => Some(*tier),
            ExecutionIsolation::Container { .. } => None,
        }
    }

    /// Returns why no stronger isolation is used.
    pub fn reasons(&self) -> &[String] {
        match self {
            ExecutionIsolation::Sandbox { reasons, .. } => reasons,
            ExecutionIsolation::Container { .. } => &[],
        }
    }

    /// Returns what it does not protect against, one item each.
    pub fn leaves_open(&self) -> &'static [&'static str] {
        match self {
            ExecutionIsolation::Sandbox { tier, .. } => tier.leaves_open(),
            ExecutionIsolation::Container { .. } => CONTAINER_LEAVES_OPEN,
        }
    }
}

impl fmt::Display for ExecutionIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecutionIsolation::Sandbox { tier, .. } => {
                write!(f, "sandbox {tier} ({})", tier.description())
            }
            ExecutionIsolation::Container { image } => write!(f, "a container of `{image}`"),
        }
    }
}
