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
    #[serde(alias = "A")]
    Overlay,
    /// Private namespaces; write paths are copied where no overlay can be mounted.
    #[serde(alias = "B")]
    Namespaces,
    /// Landlock, seccomp and a supervisor; the user's paths are read-only for commands.
    #[serde(alias = "C")]
    Landlock,
    /// Nothing can enforce the grants: commands are refused.
    #[serde(alias = "D")]
    Unavailable,
    /// The user switched the sandbox off: commands have the user's own rights.
    #[serde(alias = "Off")]
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
                "commands cannot write the user's paths: delivery goes through the file tools",
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

/// The names of the choices; the former names that are still accepted are left out.
pub const CHOICES: &[&str] = &["auto", "overlay", "namespaces", "landlock", "off"];

impl FromStr for SandboxLevelChoice {
    type Err = String;

    /// Parses a choice. `A`, `B` and `C` are the former names of the levels.
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "auto" => SandboxLevelChoice::Auto,
            "overlay" | "A" => SandboxLevelChoice::Only(SandboxLevel::Overlay),
            "namespaces" | "B" => SandboxLevelChoice::Only(SandboxLevel::Namespaces),
            "landlock" | "C" => SandboxLevelChoice::Only(SandboxLevel::Landlock),
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
        #[serde(alias = "tier")]
        level: SandboxLevel,
        /// Why no stronger level is available.
        reasons: Vec<String>,
    },
    /// A container per agent.
    Container {
        /// The image.
        image: String,
        /// The machine of its engine, if it is another one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// A pod of a Kubernetes cluster per agent.
    Pod {
        /// The image.
        image: String,
        /// The container runtime, if the config names one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runtime_class: Option<String>,
    },
}

/// What a container does not protect against.
pub const CONTAINER_LEAVES_OPEN: &[&str] = &[
    "Unix sockets and pipes inside the open paths can be connected to and written",
    "whatever the engine, its daemon and the image leave open",
];

/// What a pod does not protect against.
pub const POD_LEAVES_OPEN: &[&str] = &[
    "whatever the cluster, its nodes, its container runtime and the image leave open",
    "a command's own user can read and change what other commands of its agent leave in the pod",
];

impl ExecutionIsolation {
    /// Returns its short name for lists.
    pub fn label(&self) -> String {
        match self {
            ExecutionIsolation::Sandbox { level, .. } => format!("sandbox level `{level}`"),
            ExecutionIsolation::Container { image, host } => {
                format!("containers of `{image}`{}", on_host(host.as_ref()))
            }
            ExecutionIsolation::Pod {
                image,
                runtime_class,
            } => format!("pods of `{image}`{}", by_runtime(runtime_class.as_ref())),
        }
    }

    /// Returns the level of massgen's sandbox, if that is used.
    pub fn level(&self) -> Option<SandboxLevel> {
        match self {
            ExecutionIsolation::Sandbox { level, .. } => Some(*level),
            ExecutionIsolation::Container { .. } | ExecutionIsolation::Pod { .. } => None,
        }
    }

    /// Returns the image, if commands run in a container or a pod.
    pub fn image(&self) -> Option<&str> {
        match self {
            ExecutionIsolation::Sandbox { .. } => None,
            ExecutionIsolation::Container { image, .. } | ExecutionIsolation::Pod { image, .. } => {
                Some(image)
            }
        }
    }

    /// Returns whether the commands run on another machine, to which files are sent.
    pub fn is_remote(&self) -> bool {
        match self {
            ExecutionIsolation::Sandbox { .. } => false,
            ExecutionIsolation::Container { host, .. } => host.is_some(),
            ExecutionIsolation::Pod { .. } => true,
        }
    }

    /// Returns why no stronger isolation is used.
    pub fn reasons(&self) -> &[String] {
        match self {
            ExecutionIsolation::Sandbox { reasons, .. } => reasons,
            ExecutionIsolation::Container { .. } | ExecutionIsolation::Pod { .. } => &[],
        }
    }

    /// Returns what it does not protect against, one item each.
    pub fn leaves_open(&self) -> &'static [&'static str] {
        match self {
            ExecutionIsolation::Sandbox { level, .. } => level.leaves_open(),
            ExecutionIsolation::Container { .. } => CONTAINER_LEAVES_OPEN,
            ExecutionIsolation::Pod { .. } => POD_LEAVES_OPEN,
        }
    }
}

fn on_host(host: Option<&String>) -> String {
    host.map_or_else(String::new, |host| format!(" on `{host}`"))
}

fn by_runtime(class: Option<&String>) -> String {
    class.map_or_else(String::new, |class| {
        format!(" with runtime class `{class}`")
    })
}

impl fmt::Display for ExecutionIsolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExecutionIsolation::Sandbox { level, .. } => {
                write!(f, "sandbox level `{level}` ({})", level.description())
            }
            ExecutionIsolation::Container { image, host } => {
                write!(f, "a container of `{image}`{}", on_host(host.as_ref()))
            }
            ExecutionIsolation::Pod {
                image,
                runtime_class,
            } => write!(
                f,
                "a pod of `{image}`{}",
                by_runtime(runtime_class.as_ref())
            ),
        }
    }
}
