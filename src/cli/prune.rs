//! Implements `massgen sessions prune`, and what `retention` in the config removes at the end of a
//! run.

use std::time::Duration;

use crate::cli::args::PruneArguments;
use crate::cli::continued_session::default_sessions;
use crate::cli::output::CliOutput;
use crate::config::retention::{DAY_SECONDS, RetentionConfig};
use crate::config::storage_path::STATE_DIR;
use crate::error::Result;
use crate::host::Host;
use crate::text::count_noun;
use crate::world::store::prune::{ProjectStore, PrunableItem, list_prunable, remove, sweep};

/// Removes what the arguments select, or only lists it.
pub(super) fn run(
    host: &Host,
    arguments: PruneArguments,
    output: &mut CliOutput<'_>,
) -> Result<()> {
    let store = ProjectStore {
        state: host.state_parent.join(STATE_DIR),
        sessions: default_sessions(host),
    };
    let retention = RetentionConfig {
        unused_seconds: arguments.older_than,
        bytes: arguments.larger_than,
    };
    if !arguments.dry_run {
        sweep(&store);
    }
    let (mut count, mut bytes) = (0_usize, 0_u64);
    for item in list_prunable(&store, &retention)? {
        if arguments.dry_run || remove(&item)? {
            count = count.saturating_add(1);
            bytes = bytes.saturating_add(item.bytes);
            output.result(&item_line(&item))?;
        }
    }
    let verb = if arguments.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    let things = count_noun(count, "thing");
    output.note(&format!("{things} {verb}, {}", human_size(bytes)));
    Ok(())
}

/// Removes what `retention` no longer keeps after a run. An error is a warning and does not fail
/// the run.
pub(super) fn prune_after_run(
    store: &ProjectStore,
    retention: &RetentionConfig,
    output: &mut CliOutput<'_>,
) {
    if !retention.is_limited() {
        return;
    }
    sweep(store);
    let items = match list_prunable(store, retention) {
        Ok(items) => items,
        Err(error) => return output.warning(&format!("nothing was pruned: {error:#}")),
    };
    for item in items {
        match remove(&item) {
            Ok(true) => output.note(&format!("pruned {}", item_line(&item).trim_end())),
            Ok(false) => {}
            Err(error) => output.warning(&format!("{} was not pruned: {error:#}", item.name)),
        }
    }
}

fn item_line(item: &PrunableItem) -> String {
    let (noun, name) = (item.kind.noun(), &item.name);
    let (age, bytes) = (age_text(item.unused_for), human_size(item.bytes));
    format!("{noun} {name}  {age}  {bytes}\n")
}

fn age_text(unused_for: Duration) -> String {
    let days = unused_for.as_secs() / DAY_SECONDS;
    count_noun(usize::try_from(days).unwrap_or(usize::MAX), "day")
}

/// Formats a size for people, rounded down.
fn human_size(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => count_noun(usize::try_from(bytes).unwrap_or(usize::MAX), "byte"),
    }
}
