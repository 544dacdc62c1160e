//! The directories in which a run starts or resumes, and the manifest that records how it started.

use crate::config::Config;
use crate::config::recorded::recorded_config;
use crate::error::{Error, Result};
use crate::id::AgentId;
use crate::layout::{RunLayout, WorkspaceOwner};
use crate::mentions::opened_paths::OpenedPath;
use crate::orchestrator::grants::{directories_to_create, real_path};
use crate::path::{AbsPath, RealPath};
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::store::records::metadata::{ReplayManifest, RunMetadata};
use crate::world::store::snapshot::WorkspaceSeed;
use crate::world::store::workspace::{RunWorkspace, make_new};

/// Reopens the workspaces of an interrupted run.
pub(super) fn reopen_workspaces(layout: &RunLayout) -> Result<Vec<RunWorkspace>> {
    let workspaces = layout.workspaces.values();
    let run_workspaces = workspaces.map(|workspace| match workspace.owner {
        WorkspaceOwner::Massgen => RunWorkspace::reopen(&workspace.path),
        WorkspaceOwner::User => RunWorkspace::lock(&workspace.path),
    });
    run_workspaces.collect()
}

/// Creates the workspaces. Those that massgen owns are initialized from `seed`, the workspace of an
/// earlier turn.
pub(super) fn create_workspaces(
    config: &Config,
    layout: &RunLayout,
    seed: Option<&AbsPath>,
) -> Result<Vec<RunWorkspace>> {
    let seed = seed.map(existing_directory).transpose()?;
    let mut workspaces = Vec::new();
    for workspace in layout.workspaces.values() {
        workspaces.push(match workspace.owner {
            WorkspaceOwner::Massgen => RunWorkspace::make(&workspace.path, seed.as_ref())?,
            WorkspaceOwner::User => RunWorkspace::lock(&workspace.path)?,
        });
    }
    for agent in &config.agents {
        let workspace = layout
            .workspaces
            .get(&agent.id)
            .map(|workspace| &workspace.path);
        // A gate can open only what exists.
        for path in directories_to_create(agent, workspace) {
            make_new(&path)?;
        }
    }
    make_new(&layout.temp_workspaces)?;
    Ok(workspaces)
}

/// Takes the seeds of the workspaces that were initialized from an earlier turn. Snapshots share
/// unchanged files with them.
pub(super) fn workspace_seeds(
    layout: &RunLayout,
    workspaces: &mut [RunWorkspace],
) -> Vec<(AgentId, WorkspaceSeed)> {
    let agents = layout.workspaces.keys().zip(workspaces);
    let seed = |(agent, workspace): (&AgentId, &mut RunWorkspace)| {
        Some((agent.clone(), workspace.take_seed()?))
    };
    agents.filter_map(seed).collect()
}

/// Returns the manifest that records how the run starts.
pub(super) fn replay_manifest(
    meta: &RunMetadata,
    layout: &RunLayout,
    config: &Config,
    opened: &[OpenedPath],
) -> Result<ReplayManifest> {
    let workspace_entries = layout.workspaces.iter();
    let workspaces = workspace_entries.map(|(agent, workspace)| {
        let spellings = spellings(&workspace.path)?;
        Ok((agent.clone(), spellings))
    });
    Ok(ReplayManifest {
        task: meta.query.clone(),
        cwd: meta.cwd.to_string(),
        workspaces: workspaces.collect::<Result<_>>()?,
        temp_workspaces: spellings(&layout.temp_workspaces)?,
        opened: opened.to_vec(),
        team: recorded_config(config),
    })
}

/// Returns the spellings of `path`: as written, and as resolved if that differs.
fn spellings(path: &AbsPath) -> Result<Vec<String>> {
    let mut spellings = vec![path.to_string(), real_path(path)?.to_string()];
    spellings.dedup();
    Ok(spellings)
}

/// Returns the directory at `path`, which massgen has created.
pub(super) fn existing_directory(path: &AbsPath) -> Result<RealPath> {
    match locate(path)? {
        LocatedPath::Directory(real) => Ok(real),
        LocatedPath::File(_) | LocatedPath::Missing(_) => {
            Err(Error::bug(format!("`{path}` is not a directory")))
        }
    }
}
