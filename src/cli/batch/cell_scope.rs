//! Refuses a config or a task by which a cell would write outside its own directory: other cells
//! run at the same time, and the user's tree changes only by `massgen batch apply`.

use crate::config::Config;
use crate::error::{Error, ErrorKind, Result};
use crate::layout::RunLayout;
use crate::mentions::opened_paths::OpenedPath;
use crate::path::AbsPath;
use crate::permissions::grant::Permission;
use crate::world::io::locate::resolve_existing;

/// Requires that everything that a run writes to is below `work`, also where symlinks lead.
///
/// # Errors
/// Something is not.
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
    let real_work = resolve_existing(work);
    for path in written.chain(layout.directories()) {
        let real = resolve_existing(path);
        if !real.is_within(&real_work) {
            return Err(outside_error(path, &real));
        }
    }
    Ok(())
}

fn outside_error(path: &AbsPath, real: &AbsPath) -> Error {
    let place = if path == real {
        format!("`{path}`")
    } else {
        format!("`{path}`, which leads to `{real}`")
    };
    let message = format!("a cell of a batch may not write to {place}: it works on a copy");
    Error::new(ErrorKind::Config, message)
        .with_hint("use relative paths in the config: they are in the copy of the task's `project`")
        .with_hint("open other directories for reading only")
}
