//! Owns the directories that a run begins in or goes on in, and what its records say of how it began.

use crate::config::Config;
use crate::config::recorded::recorded;
use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::layout::{Layout, Owner};
use crate::orchestrator::grants::{directories_to_make, real};
use crate::path::{AbsPath, RealPath};
use crate::prompt::opened::Opened;
use crate::world::locate::{Located, locate};
use crate::world::store::records::metadata::RunMeta;
use crate::world::store::records::outset::Outset;
use crate::world::store::snapshot::Seed;
use crate::world::store::workspace::{Workspace, make_new};

/// Takes the workspaces that a run was broken off in.
pub(super) fn take_workspaces(layout: &Layout) -> Result<Vec<Workspace>> {
    let workspaces = layout.workspaces.values();
    let taken = workspaces.map(|workspace| match workspace.owner {
        Owner::Massgen => Workspace::go_on(&workspace.path),
        Owner::User => Workspace::take(&workspace.path),
    });
    taken.collect()
}

/// Makes the workspaces. Those of massgen's own begin with what is in `seed`.
pub(super) fn make_workspaces(
    config: &Config,
    layout: &Layout,
    seed: Option<&AbsPath>,
) -> Result<Vec<Workspace>> {
    let seed = seed.map(directory).transpose()?;
    let mut made = Vec::new();
    for workspace in layout.workspaces.values() {
        made.push(match workspace.owner {
            Owner::Massgen => Workspace::make(&workspace.path, seed.as_ref())?,
            Owner::User => Workspace::take(&workspace.path)?,
        });
    }
    for agent in &config.agents {
        let workspace = layout
            .workspaces
            .get(&agent.id)
            .map(|workspace| &workspace.path);
        for path in directories_to_make(agent, workspace) {
            make_new(&path)?;
        }
    }
    make_new(&layout.temp_workspaces)?;
    Ok(made)
}

/// What the workspaces of agents began with, where that is stored.
pub(super) fn seeds(layout: &Layout, workspaces: &mut [Workspace]) -> Vec<(AgentId, Seed)> {
    let agents = layout.workspaces.keys().zip(workspaces);
    let seed = |(agent, workspace): (&AgentId, &mut Workspace)| {
        Some((agent.clone(), workspace.take_seed()?))
    };
    agents.filter_map(seed).collect()
}

/// How the run begins.
pub(super) fn outset(
    meta: &RunMeta,
    layout: &Layout,
    config: &Config,
    opened: &[Opened],
) -> Result<Outset> {
    let workspaces = layout.workspaces.iter();
    let workspaces = workspaces.map(|(agent, workspace)| {
        let spellings = spellings(&workspace.path)?;
        Ok((agent.clone(), spellings))
    });
    Ok(Outset {
        task: meta.query.clone(),
        cwd: meta.cwd.to_string(),
        workspaces: workspaces.collect::<Result<_>>()?,
        temp_workspaces: spellings(&layout.temp_workspaces)?,
        opened: opened.to_vec(),
        team: recorded(config),
    })
}

/// `path` as it is written, and as the kernel knows it where that differs.
fn spellings(path: &AbsPath) -> Result<Vec<String>> {
    let mut spellings = vec![path.to_string(), real(path)?.to_string()];
    spellings.dedup();
    Ok(spellings)
}

/// The directory at `path`, which must be there.
pub(super) fn directory(path: &AbsPath) -> Result<RealPath> {
    match locate(path)? {
        Located::Directory(real) => Ok(real),
        Located::File(_) | Located::Missing(_) => {
            Err(Error::bug(format!("`{path}` should be a directory")))
        }
    }
}
