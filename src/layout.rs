//! Owns where everything of one run lies on the disk. It makes no directory and asks for none.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::config::place::{LOGS, Place, STATE_DIR};
use crate::id::AgentId;
use crate::path::AbsPath;

/// The directories of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// All state of massgen's: `.massgen` in the directory that it was started in.
    pub state: AbsPath,
    /// The workspace of each agent that has one.
    pub workspaces: BTreeMap<AgentId, Workspace>,
    /// Where the agents of this run see each other's snapshots.
    pub temp_workspaces: AbsPath,
    /// Where the latest snapshot of each agent is found, under its id.
    pub snapshots: AbsPath,
    /// Where sessions are kept.
    pub sessions: AbsPath,
    /// Where the logs of all runs lie.
    pub logs: AbsPath,
}

/// An agent's workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    /// Where it is.
    pub path: AbsPath,
    /// Who made it.
    pub owner: Owner,
}

/// Who made a workspace, and with that who may clear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// massgen made it for this run.
    Massgen,
    /// The user named it in full: massgen uses it as it is and never clears it.
    User,
}

/// The name of one run: eight lower-case hexadecimal digits that no other run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunName(u32);

impl RunName {
    /// Names a run by a random number.
    pub fn new(random: u32) -> Self {
        Self(random)
    }
}

impl std::fmt::Display for RunName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl Layout {
    /// Lays out a run of `config` by a user who stands in `base`.
    pub fn plan(config: &Config, base: &AbsPath, run: RunName) -> Self {
        let run = run.to_string();
        let state = base.join(STATE_DIR);
        let orchestrator = &config.orchestrator;
        let storage = |place: &Place| place.resolve(base, None);
        let workspaces = config.agents.iter().filter_map(|agent| {
            let place = agent.cwd.as_ref()?;
            let workspace = Workspace {
                path: place.resolve_workspace(base, &run),
                owner: match place {
                    Place::Absolute(_) => Owner::User,
                    Place::Relocated(_) | Place::InState(_) => Owner::Massgen,
                },
            };
            Some((agent.id.clone(), workspace))
        });
        Self {
            workspaces: workspaces.collect(),
            temp_workspaces: storage(&orchestrator.agent_temporary_workspace).join(&run),
            snapshots: storage(&orchestrator.snapshot_storage),
            sessions: storage(&orchestrator.session_storage),
            logs: state.join(LOGS),
            state,
        }
    }
}
