//! Owns `massgen diff`, `apply` and `undo`: what runs delivered or could deliver is shown, applied and
//! taken back. It asks; what happens to files is decided elsewhere.

use crate::cli::output::Output;
use crate::config::place::{DELIVERIES, STATE_DIR};
use crate::error::Result;
use crate::host::Host;
use crate::path::AbsPath;
use crate::wording::spelled;
use crate::world::delivery::recovery;
use crate::world::delivery::store::{Use, find};

pub(crate) mod apply;
pub(crate) mod diff;
pub(crate) mod review;
mod show;
pub(crate) mod undo;

/// Where what the runs of this directory delivered is kept.
fn deliveries(host: &Host) -> AbsPath {
    host.cwd.join(STATE_DIR).join(DELIVERIES)
}

/// Completes or takes back what an earlier process left open here, and says so.
pub(crate) fn recover(host: &Host, output: &mut Output<'_>) -> Result<()> {
    for note in recovery::recover(&deliveries(host))? {
        output.warning(&note);
    }
    Ok(())
}

/// The delivery that `wanted` means, after what an earlier process left open has been settled: where all
/// of them are, and its name.
fn chosen(
    wanted: &str,
    usage: Use,
    host: &Host,
    output: &mut Output<'_>,
) -> Result<(AbsPath, String)> {
    recover(host, output)?;
    let deliveries = deliveries(host);
    let name = find(wanted, &deliveries, usage)?;
    Ok((deliveries, name))
}

/// The paths that were typed, from where the user stands.
fn typed(paths: &[String], host: &Host) -> Vec<AbsPath> {
    paths.iter().map(|path| host.cwd.join(path)).collect()
}

/// Whether `path` lies in one of `paths`, of which none means all.
fn is_meant(path: &AbsPath, paths: &[AbsPath]) -> bool {
    paths.is_empty() || paths.iter().any(|meant| path.is_within(meant))
}

/// A path as it is shown to somebody who stands in `here`.
fn shown(path: &AbsPath, here: &AbsPath) -> String {
    spelled(&match path.below(here) {
        Some(rel) => rel.to_string(),
        None => path.to_string(),
    })
}
