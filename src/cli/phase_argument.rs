//! Defines a phase as a command line argument.

use clap::ValueEnum;

use crate::permissions::grant::Phase;

/// A phase as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PhaseArgument {
    /// While the agents work and vote.
    Coordination,
    /// While the winner delivers.
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
