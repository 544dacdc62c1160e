//! Owns the tiers of enforcement and the user's choice among them.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How commands are held to their grants. What each promises stands in `docs/sandbox.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Tier {
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

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Tier::A => "A",
            Tier::B => "B",
            Tier::C => "C",
            Tier::D => "D",
            Tier::Off => "off",
        })
    }
}

/// What a choice of a tier may be, as it is typed.
pub const CHOICES: &[&str] = &["auto", "A", "B", "C", "off"];

impl FromStr for TierChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => TierChoice::Auto,
            "A" => TierChoice::Only(Tier::A),
            "B" => TierChoice::Only(Tier::B),
            "C" => TierChoice::Only(Tier::C),
            "off" => TierChoice::Only(Tier::Off),
            _ => return Err(format!("expected one of {}", CHOICES.join(", "))),
        })
    }
}

/// What the user wants (`command_line_sandbox`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TierChoice {
    /// The strongest that the machine can do.
    #[default]
    Auto,
    /// This one or an error.
    Only(Tier),
}

impl Tier {
    /// What enforces, in a few words.
    pub fn means(self) -> &'static str {
        match self {
            Tier::A => "namespaces, with an overlay on each write path",
            Tier::B => "namespaces",
            Tier::C => "Landlock, seccomp and a supervisor",
            Tier::D => "nothing enforces, so commands are refused",
            Tier::Off => "switched off, so nothing enforces",
        }
    }

    /// What is left open, one thing each; a person should know before relying on it.
    pub fn leaves_open(self) -> &'static [&'static str] {
        match self {
            Tier::A | Tier::B => &[
                "Unix sockets inside the open paths can be connected to, and pipes if they lie in `/tmp`",
                "bugs of the kernel",
            ],
            Tier::C => &[
                "names, sizes, link texts and attributes of closed files can be seen",
                "command lines of other processes can be seen",
                "`/dev/shm` is the machine's: your files there can be read, changed and deleted",
                "commands cannot write the user's paths: delivery goes through the file tools",
                "no private `/tmp`, no loopback, no Unix sockets",
            ],
            Tier::D => &[],
            Tier::Off => &["commands may do whatever you may do"],
        }
    }
}

/// What holds the commands of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Enclosure {
    /// massgen's own sandbox.
    Sandbox {
        /// The tier in force.
        tier: Tier,
        /// Why no stronger one is.
        reasons: Vec<String>,
    },
    /// A container of the agent's own.
    Container {
        /// The image.
        image: String,
    },
}

/// What a container leaves open.
pub const CONTAINER_LEAVES_OPEN: &[&str] = &[
    "Unix sockets and pipes inside the open paths can be connected to and written",
    "whatever the engine, its daemon and the image leave open",
];

impl Enclosure {
    /// What it is called where many things are listed that it holds.
    pub fn name(&self) -> String {
        match self {
            Enclosure::Sandbox { tier, .. } => format!("tier {tier}"),
            Enclosure::Container { image } => format!("containers of `{image}`"),
        }
    }

    /// What is left open, one thing each.
    pub fn leaves_open(&self) -> &'static [&'static str] {
        match self {
            Enclosure::Sandbox { tier, .. } => tier.leaves_open(),
            Enclosure::Container { .. } => CONTAINER_LEAVES_OPEN,
        }
    }
}

impl fmt::Display for Enclosure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Enclosure::Sandbox { tier, .. } => write!(f, "sandbox {tier} ({})", tier.means()),
            Enclosure::Container { image } => write!(f, "a container of `{image}`"),
        }
    }
}
