//! Owns the tiers of enforcement and the user's choice among them.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How commands are held to their grants. What each promises stands in `docs/sandbox.md`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Tier {
    /// Namespaces of its own, with an overlay on each write path.
    A,
    /// Namespaces of its own, with masks over protected names and a quarantine for new ones.
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

/// What the user wants (`command_line_sandbox`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TierChoice {
    /// The strongest that the machine can do.
    #[default]
    Auto,
    /// This one or an error.
    Only(Tier),
}
