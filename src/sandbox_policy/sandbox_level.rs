//! How commands are isolated: the levels of massgen's sandbox with the user's choice among them,
//! containers and pods, and what each of them leaves open.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the grants of commands are enforced. `docs/sandbox.md` describes what each level promises.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum SandboxLevel {
    /// Private namespaces, with an overlay on each write path.
    Overlay,
    /// Private namespaces; write paths are copied where no overlay can be mounted.
    Namespaces,
    /// Landlock, seccomp and a supervisor; the user's paths are read-only for commands.
    Landlock,
    /// Nothing can enforce the grants: commands are refused.
    Unavailable,
    /// The user switched the sandbox off: commands have the user's own rights.
    Off,
}

impl fmt::Display for SandboxLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SandboxLevel::Overlay => "overlay",
            SandboxLevel::Namespaces => "namespaces",
            SandboxLevel::Landlock => "landlock",
            SandboxLevel::Unavailable => "unavailable",
            SandboxLevel::Off => "off",
        })
    }
}

impl SandboxLevel {
    /// Describes in a few words what enforces it.
    pub fn description(self) -> &'static str {
        match self {
            SandboxLevel::Overlay => "namespaces, with an overlay on each write path",
            SandboxLevel::Namespaces => "namespaces",
            SandboxLevel::Landlock => "Landlock, seccomp and a supervisor",
            SandboxLevel::Unavailable => "no sandbox available, so commands are refused",
            SandboxLevel::Off => "no sandbox",
        }
    }

    /// Returns what it does not protect against and what commands cannot do in it, one item each,
    /// for a person to know before relying on it.
    pub fn leaves_open(self) -> &'static [&'static str] {
        match self {
            SandboxLevel::Overlay | SandboxLevel::Namespaces => &[
                "Unix sockets inside the open paths can be connected to, and pipes if they lie in `/tmp`",
                "bugs of the kernel",
            ],
            SandboxLevel::Landlock => &[
                "names, sizes, link texts and attributes of closed files can be seen",
                "command lines of other processes can be seen",
                "`/dev/shm` is the machine's: your files there can be read, changed and deleted",
                "commands find copies of the paths that they may write at other paths",
                "no private `/tmp`, no loopback, no Unix sockets",
            ],
            SandboxLevel::Unavailable => &[],
            SandboxLevel::Off => &["commands may do whatever you may do"],
        }
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

/// The names of the choices.
pub const CHOICES: &[&str] = &["auto", "overlay", "namespaces", "landlock", "off"];

impl FromStr for SandboxLevelChoice {
    type Err = String;

    /// Parses a choice.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => SandboxLevelChoice::Auto,
            "overlay" => SandboxLevelChoice::Only(SandboxLevel::Overlay),
            "namespaces" => SandboxLevelChoice::Only(SandboxLevel::Namespaces),
            "landlock" => SandboxLevelChoice::Only(SandboxLevel::Landlock),
            "off" => SandboxLevelChoice::Only(SandboxLevel::Off),
            _ => return Err(format!("expected one of {}", CHOICES.join(", "))),
        })
    }
}

/// How the commands of an agent are isolated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ExecutionIsolation {
    /// massgen's sandbox.
    Sandbox {
        /// The level in force.
        level: SandboxLevel,
        /// Why no stronger level is available.
        reasons: Vec<String>,
    },
    /// A container per agent.
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
            ExecutionIsolation::Sandbox { level, .. } => format!("sandbox level `{level}`"),
            ExecutionIsolation::Container { image } => format!("containers of `{image}`"),
        }
    }

    /// Returns the level of massgen's sandbox, if that is used.
    pub fn level(&self) -> Option<SandboxLevel> {
        match self {
            ExecutionIsolation::Sandbox { level, .. } => Some(*level),
            ExecutionIsolation::Container { .. } => None,
        }
    }

    /// Returns the image, if commands run in a container.
    pub fn image(&self) -> Option<&str> {
        match self {
            ExecutionIsolation::Sandbox { .. } => None,
            ExecutionIsolation::Container { image } => Some(image),
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
            ExecutionIsolation::Sandbox { level, .. } => level.leaves_open(),
            ExecutionIsolation::Container { .. } => CONTAINER_LEAVES_OPEN,
        }
    }
}

impl fmt::Display for ExecutionIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecutionIsolation::Sandbox { level, .. } => {
                write!(f, "sandbox level `{level}` ({})", level.description())
            }
            ExecutionIsolation::Container { image } => write!(f, "a container of `{image}`"),
        }
    }
}
