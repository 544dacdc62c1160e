//! Refuses a config or a task by which a cell would write outside its own directory: other cells
//! run at the same time, and the user's tree changes only by `massgen batch apply`.

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::RunLayout;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;

/// Requires that everything that a run writes to is below `work`.
pub(super) fn require_own_directory(
    config: &Config,
    opened: &[OpenedPath],
    layout: &RunLayout,
    work: &AbsPath,
) -> Result<()> {
    let context = config.orchestrator.context_paths.iter();
    let context = context.map(|path| (&path.path, path.permission));
    let opened = opened.iter().map(|path| (&path.path, path.permission));
    let written = context
        .chain(opened)
        .filter(|(_, permission)| *permission == Permission::Write)
        .map(|(path, _)| path);
    let is_outside = |path: &&AbsPath| !path.is_within(work);
    let Some(path) = written.chain(layout.directories()).find(is_outside) else {
        return Ok(());
    };
    let message = format!("a cell of a batch may not write to `{path}`: it works on a copy");
    Err(Error::new(ErrorKind::Config, message)
        .with_hint("use relative paths in the config: they are in the copy of the task's `project`")
        .with_hint("open other directories for reading only"))
}
