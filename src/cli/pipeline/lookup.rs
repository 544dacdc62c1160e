//! Finds a pipeline by the name that the user typed.

use crate::cli::pipeline::run::pipelines_directory;
use crate::config::storage_path::{LOGS, STATE_DIR};
use crate::error::Result;
use crate::host::Host;
use crate::world::store::pipelines::{PipelineDir, find};
use crate::world::store::runs;

/// Finds the pipeline `requested_name` of this directory.
pub(super) fn resolve_pipeline(requested_name: &str, host: &Host) -> Result<PipelineDir> {
    find(requested_name, &pipelines_directory(host)).map_err(|error| {
        let logs = host.state_parent.join(STATE_DIR).join(LOGS);
        match runs::find(requested_name, &logs, &host.cwd) {
            Ok(run) => {
                let name = run.name();
                error.with_hint(format!(
                    "`{name}` is a run without roles: massgen logs show {name}"
                ))
            }
            Err(_) => error,
        }
    })
}
