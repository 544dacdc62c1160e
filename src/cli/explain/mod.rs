//! Implements `massgen explain path`, `command` and `calls`: reports what the gate would decide, by
//! which grant and rule, without carrying anything out.

pub mod calls;
pub mod command;
pub mod path;

use crate::id::AgentId;
use crate::permissions::grant::Phase;
use crate::world::access::gate::Gate;

/// The name in place of a rule when no rule denies.
const GRANTED: &str = "granted";

/// The gates of one agent, opened once for all that is to be explained.
#[derive(Debug)]
pub struct AgentGates {
    /// The agent; `None` for grants that belong to the caller.
    pub agent: Option<AgentId>,
    /// The phase in which it works in a run.
    pub working_phase: Phase,
    /// Its gate while all agents work.
    pub coordination: Gate,
    /// Its gate if it delivers.
    pub delivery: Gate,
}

impl AgentGates {
    /// Returns the gate of a phase.
    pub fn gate(&self, phase: Phase) -> &Gate {
        match phase {
            Phase::Coordination => &self.coordination,
            Phase::Attempt | Phase::Final => &self.delivery,
        }
    }
}
