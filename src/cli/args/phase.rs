//! Defines a phase as a command line argument.

use clap::ValueEnum;

use crate::permissions::grant::Phase;

/// A phase as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PhaseArgument {
    /// The agents work and vote.
    Coordination,
    /// The winner delivers.
    Final,
}

impl From<PhaseArgument> for Phase {
    fn from(phase: PhaseArgument) -> Self {
        match phase {
            PhaseArgument::Coordination => Phase::Coordination,
            PhaseArgument::Final => Phase::Final,
        }
    }
}
