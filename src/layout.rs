//! The paths of everything that belongs to one run. It creates no directory and requires none.

use std::collections::BTreeMap;

use crate::config::Config;
use crate::config::storage_path::{
    DELIVERIES, LOGS, SANDBOXES, SNAPSHOTS, STATE_DIR, StoragePath, TEMP_WORKSPACES,
};
use crate::id::AgentId;
use crate::path::AbsPath;

/// The directories of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLayout {
    /// The name of the run.
    pub run: RunName,
    /// The directory of massgen's whole state: `.massgen` in the project, unless the user chose
    /// another place.
    pub state: AbsPath,
    /// The workspace of each agent that has one.
    pub workspaces: BTreeMap<AgentId, AgentWorkspace>,
    /// The directory of the snapshots that the agents of this run see.
    pub temp_workspaces: AbsPath,
    /// The directory of the latest snapshot of each agent, under its id.
    pub snapshots: AbsPath,
    /// The directory of the sessions.
    pub sessions: AbsPath,
    /// The directory of the logs of all runs.
    pub logs: AbsPath,
    /// The directory for the working directories of agents' commands, while a run is in progress.
    pub sandboxes: AbsPath,
    /// The directory of what was and could be delivered from each run.
    pub deliveries: AbsPath,
}

/// An agent's workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentWorkspace {
    /// Its path.
    pub path: AbsPath,
    /// Who created it.
    pub owner: WorkspaceOwner,
}

/// Creator of a workspace, which decides who may clear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceOwner {
    /// massgen created it for this run.
    Massgen,
    /// The user gave its full path: massgen uses it as it is and never clears it.
    User,
}

/// The unique name of one run: eight lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunName(u32);

impl RunName {
    /// Names a run by a random number.
    pub fn new(random: u32) -> Self {
        Self(random)
    }

    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Self> {
        let random = u32::from_str_radix(text, 16).ok()?;
        Some(Self(random)).filter(|name| name.to_string() == text)
    }
}

impl std::fmt::Display for RunName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl RunLayout {
    /// Returns the layout of a run of `config`, with massgen's state in `base`.
    pub fn plan(config: &Config, base: &AbsPath, run: RunName) -> Self {
        let name = run.to_string();
        let state = base.join(STATE_DIR);
        let workspaces = config.agents.iter().filter_map(|agent| {
            let cwd = agent.cwd.as_ref()?;
            let workspace = AgentWorkspace {
                path: cwd.resolve_workspace(base, &name),
                owner: match cwd {
                    StoragePath::Absolute(_) => WorkspaceOwner::User,
                    StoragePath::Relocated(_) | StoragePath::InState(_) => WorkspaceOwner::Massgen,
                },
            };
            Some((agent.id.clone(), workspace))
        });
        Self {
            run,
            workspaces: workspaces.collect(),
            temp_workspaces: state.join(TEMP_WORKSPACES).join(&name),
            snapshots: state.join(SNAPSHOTS),
            sessions: config.orchestrator.session_storage.resolve(base, None),
            logs: state.join(LOGS),
            sandboxes: state.join(SANDBOXES),
            deliveries: state.join(DELIVERIES),
            state,
        }
    }

    /// Returns all directories that a run writes to.
    pub fn directories(&self) -> impl Iterator<Item = &AbsPath> {
        let run_directories = [
            &self.temp_workspaces,
            &self.snapshots,
            &self.sessions,
            &self.logs,
            &self.sandboxes,
            &self.deliveries,
        ];
        let workspaces = self.workspaces.values();
        run_directories
            .into_iter()
            .chain(workspaces.map(|workspace| &workspace.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::machine_policy::MachinePolicy;
    use crate::config::team::{TeamOptions, WorkspaceMode, team_from_options};
    use crate::dotenv::ConfigVariables;
    use crate::spending::models::ModelList;

    fn plan(edit: impl FnOnce(&mut Config)) -> RunLayout {
        let options = TeamOptions {
            backend: Some("grok"),
            ..TeamOptions::default()
        };
        let known = ModelList::with_user_rows(Vec::new());
        let mut config = team_from_options(
            &options,
            &ConfigVariables::default(),
            &known,
            WorkspaceMode::None,
            &MachinePolicy::default(),
        )
        .unwrap();
        edit(&mut config);
        RunLayout::plan(&config, &AbsPath::new("/p").unwrap(), RunName::new(0xab))
    }

    #[track_caller]
    fn check(cwd: &str, expected: &str, owner: WorkspaceOwner) {
        let layout = plan(|config| config.agents[0].cwd = StoragePath::parse(cwd));
        let workspace = layout.workspaces.values().next().unwrap();
        assert_eq!(workspace.path.to_string(), expected, "{cwd}");
        assert_eq!(workspace.owner, owner, "{cwd}");
    }

    #[test]
    fn workspaces_of_massgen_belong_to_one_run() {
        check(
            "w1",
            "/p/.massgen/workspaces/w1_000000ab",
            WorkspaceOwner::Massgen,
        );
        check(
            "a/b",
            "/p/.massgen/workspaces/a/b_000000ab",
            WorkspaceOwner::Massgen,
        );
        check(
            ".massgen/workspaces/w1",
            "/p/.massgen/workspaces/w1_000000ab",
            WorkspaceOwner::Massgen,
        );
        check(
            ".massgen/own",
            "/p/.massgen/own_000000ab",
            WorkspaceOwner::Massgen,
        );
    }

    #[test]
    fn workspaces_of_the_user_stay_where_they_are() {
        check("/srv/w1", "/srv/w1", WorkspaceOwner::User);
        check(
            "/p/.massgen/workspaces/w1",
            "/p/.massgen/workspaces/w1",
            WorkspaceOwner::User,
        );
    }

    #[test]
    fn storage_lies_below_the_state_directory_unless_it_is_absolute() {
        let layout = plan(|_| {});
        let below = |name: &str| AbsPath::new(format!("/p/.massgen/{name}")).unwrap();
        assert_eq!(layout.workspaces.len(), 0);
        assert_eq!(layout.state, AbsPath::new("/p/.massgen").unwrap());
        assert_eq!(layout.snapshots, below("snapshots"));
        assert_eq!(layout.temp_workspaces, below("temp_workspaces/000000ab"));
        assert_eq!(layout.sessions, below("sessions"));
        assert_eq!(layout.logs, below("massgen_logs"));
        let layout = plan(|config| {
            config.orchestrator.session_storage = StoragePath::parse("/srv/s").unwrap();
        });
        assert_eq!(layout.sessions, AbsPath::new("/srv/s").unwrap());
    }
}
