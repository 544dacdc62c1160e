//! Implements `massgen diff`, `apply` and `undo`: shows, applies and reverts what runs delivered or
//! could deliver. It asks the user; other modules decide what happens to files.

use std::collections::BTreeSet;

use crate::cli::output::CliOutput;
use crate::config::keys::nearest;
use crate::config::storage_path::{DELIVERIES, STATE_DIR};
use crate::delivery::plan::DeliveryPlan;
use crate::error::{Error, ErrorKind, Result};
use crate::host::Host;
use crate::path::AbsPath;
use crate::text::{escape_name, join_with_commas};
use crate::world::delivery::planning::{ConflictBaseline, EarlierFiles, PartialFiles, plan};
use crate::world::delivery::recovery;
use crate::world::delivery::store::{DeliverySource, DeliveryUse, OpenDelivery, find};

pub(crate) mod apply;
pub(crate) mod diff;
pub(crate) mod pipeline;
pub(crate) mod reapplied_files;
pub(crate) mod interactive_review;
pub(crate) mod diff_text;
pub(crate) mod parts;
mod run_answers;
pub(crate) mod tried_answer;
pub(crate) mod undo;

/// Maximum number of paths of a delivery that an error names.
const PATHS_NAMED_MAX: usize = 5;

/// Returns the directory of the deliveries of this directory's runs.
pub(crate) fn deliveries_directory(host: &Host) -> AbsPath {
    host.state_parent.join(STATE_DIR).join(DELIVERIES)
}

/// Completes or rolls back the deliveries that an earlier process left unfinished here, and warns
/// about them.
pub(crate) fn finish_interrupted_deliveries(host: &Host, output: &mut CliOutput<'_>) -> Result<()> {
    for note in recovery::recover(&deliveries_directory(host))? {
        output.warning(&note);
    }
    Ok(())
}

/// Finds the delivery `requested_run` after recovery from an earlier process. Returns the directory
/// of all deliveries and its name.
fn find_delivery(
    requested_run: &str,
    usage: DeliveryUse,
    host: &Host,
    output: &mut CliOutput<'_>,
) -> Result<(AbsPath, String)> {
    finish_interrupted_deliveries(host, output)?;
    let deliveries = deliveries_directory(host);
    let name = find(requested_run, &deliveries, usage)?;
    Ok((deliveries, name))
}

/// Plans what a kept delivery would change now, given the files that were applied before.
pub(crate) fn plan_kept(
    delivery: &OpenDelivery,
    source: &DeliverySource,
    partial: PartialFiles,
    earlier: EarlierFiles,
) -> Result<DeliveryPlan> {
    let baseline = ConflictBaseline {
        began_ns: i128::from(source.began_ns),
        merge_bases: None,
        partial,
        earlier,
    };
    plan(delivery, source, Some(&baseline))
}

/// Resolves the typed paths against the current directory.
pub(crate) fn resolve_paths(paths: &[String], host: &Host) -> Vec<AbsPath> {
    paths.iter().map(|path| host.cwd.join(path)).collect()
}

/// Returns an error if one of `paths` contains none of the `known` paths that `name` delivers: a
/// typo would look like a success.
pub(crate) fn require_known_path(
    paths: &[AbsPath],
    name: &str,
    known_paths: &BTreeSet<AbsPath>,
    cwd: &AbsPath,
) -> Result<()> {
    let is_unknown = |path: &&AbsPath| !known_paths.iter().any(|known| known.is_within(path));
    let Some(unknown_path) = paths.iter().find(is_unknown) else {
        return Ok(());
    };
    let unknown_name = display_path(unknown_path, cwd);
    let message = format!("`{name}` has no changes in `{unknown_name}`");
    let known_names: Vec<String> = known_paths
        .iter()
        .map(|path| display_path(path, cwd))
        .collect();
    let near = nearest(&unknown_name, known_names.iter().map(String::as_str));
    let error = Error::new(ErrorKind::Usage, message);
    Err(match near {
        Some(near) => error.with_hint(format!("did you mean `{near}`?")),
        None => error.with_hint(format!(
            "it has {}{}",
            join_with_commas(known_names.get(..PATHS_NAMED_MAX).unwrap_or(&known_names)),
            match known_names.len().saturating_sub(PATHS_NAMED_MAX) {
                0 => String::new(),
                more => format!(", and {more} more"),
            }
        )),
    })
}

/// Formats a path for a user whose current directory is `cwd`.
pub(crate) fn display_path(path: &AbsPath, cwd: &AbsPath) -> String {
    escape_name(&match path.below(cwd) {
        Some(rel) => rel.to_string(),
        None => path.to_string(),
    })
}
