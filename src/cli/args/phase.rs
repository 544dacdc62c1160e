//! Defines a phase as a command line argument, and the option for the phase of a call.

use clap::{Args, ValueEnum};

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

// The phase in which a call is decided about.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PhaseArguments {
    /// The phase. Default: coordination.
    #[arg(
        long,
        value_name = "PHASE",
        default_value = "coordination",
        hide_default_value = true
    )]
    phase: PhaseArgument,
}

impl From<PhaseArguments> for Phase {
    fn from(arguments: PhaseArguments) -> Self {
        arguments.phase.into()
    }
}
