//! Refuses a config or a task by which a cell would write outside its own directory: other cells
//! run at the same time, and the user's tree changes only by `massgen batch apply`.

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::RunLayout;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::io::locate::resolve_existing;

/// Requires that everything that a run writes to is below `work`, also where symlinks lead, and
/// that the config records no replies in a file of its own.
///
/// # Errors
/// Something is elsewhere, or the config has `record`.
pub(super) fn require_own_directory(
    config: &Config,
    opened_paths: &[OpenedPath],
    layout: &RunLayout,
    work: &AbsPath,
) -> Result<()> {
    let mut agents = config.agents.iter();
    if let Some(path) = agents.find_map(|agent| agent.record.as_ref()) {
        let message = format!("the cells of a batch would overwrite each other's `{path}`");
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("remove `record` from the config: the log of each cell has all replies"));
    }
    let opened_for_writing = opened_paths
        .iter()
        .filter(|path| path.permission == Permission::Write)
        .map(|path| &path.path);
    let guarded_paths = guarded_write_paths(config, layout);
    let write_paths = config
        .write_paths()
        .chain(opened_for_writing)
        .chain(&guarded_paths);
    let real_work = resolve_existing(work);
    for path in write_paths.chain(layout.directories()) {
        let real_path = resolve_existing(path);
        if !real_path.is_within(&real_work) {
            return Err(outside_error(path, &real_path));
        }
    }
    Ok(())
}

/// Returns the directories to which the folder guards of `config` let agents write.
fn guarded_write_paths(config: &Config, layout: &RunLayout) -> Vec<AbsPath> {
    let mut paths = Vec::new();
    for agent in &config.agents {
        let workspace = layout
            .workspaces
            .get(&agent.id)
            .map(|workspace| &workspace.path);
        let Some(guard) = agent.folder_guard.resolve(workspace) else {
            continue;
        };
        let downloads = guard
            .downloads
            .into_iter()
            .filter(|(_, permission)| *permission == Permission::Write);
        paths.extend(guard.write);
        paths.extend(downloads.map(|(path, _)| path));
    }
    paths
}

fn outside_error(path: &AbsPath, real_path: &AbsPath) -> Error {
    let shown_path = if path == real_path {
        format!("`{path}`")
    } else {
        format!("`{path}`, which leads to `{real_path}`")
    };
    let message = format!("a cell of a batch may not write to {shown_path}: it works on a copy");
    Error::new(ErrorKind::Config, message)
        .with_hint("use relative paths in the config: they are in the copy of the task's `project`")
        .with_hint("open other directories for reading only")
}
