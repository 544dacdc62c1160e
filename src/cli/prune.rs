//! Owns `massgen sessions prune`, and what the config's `retention` removes at the end of a run.

use std::time::Duration;

use crate::cli::args::PruneArguments;
use crate::cli::go_on::default_sessions;
use crate::cli::output::Output;
use crate::config::place::STATE_DIR;
use crate::config::retention::{DAY_SECONDS, Retention};
use crate::error::Result;
use crate::host::Host;
use crate::wording::counted;
use crate::world::store::prune::{Item, Store, due, remove};

/// Removes what the arguments say, or only says what that is.
pub(super) fn run(host: &Host, arguments: PruneArguments, output: &mut Output<'_>) -> Result<()> {
    let store = Store {
        state: host.cwd.join(STATE_DIR),
        sessions: default_sessions(host),
    };
    let retention = Retention {
        unused_seconds: arguments.older_than,
        bytes: arguments.larger_than,
    };
    let (mut count, mut bytes) = (0_usize, 0_u64);
    for item in due(&store, &retention)? {
        if arguments.dry_run || remove(&item)? {
            count = count.saturating_add(1);
            bytes = bytes.saturating_add(item.bytes);
            output.result(&line(&item))?;
        }
    }
    let done = if arguments.dry_run {
        "would be removed"
    } else {
        "removed"
    };
    let things = counted(count, "thing");
    output.note(&format!("{things} {done}, {}", shown(bytes)));
    Ok(())
}

/// Removes what `retention` lets go after a run. What cannot be removed is said and ends nothing.
pub(super) fn after_a_run(store: &Store, retention: &Retention, output: &mut Output<'_>) {
    if !retention.is_limited() {
        return;
    }
    let items = match due(store, retention) {
        Ok(items) => items,
        Err(error) => return output.warning(&format!("nothing is pruned: {error:#}")),
    };
    for item in items {
        match remove(&item) {
            Ok(true) => output.note(&format!("pruned {}", line(&item).trim_end())),
            Ok(false) => {}
            Err(error) => output.warning(&format!("{} is not pruned: {error:#}", item.name)),
        }
    }
}

fn line(item: &Item) -> String {
    let (noun, name) = (item.kind.noun(), &item.name);
    let (age, bytes) = (days(item.unused_for), shown(item.bytes));
    format!("{noun} {name}  {age}  {bytes}\n")
}

fn days(unused_for: Duration) -> String {
    let days = unused_for.as_secs() / DAY_SECONDS;
    counted(usize::try_from(days).unwrap_or(usize::MAX), "day")
}

/// A size for people, rounded down.
fn shown(bytes: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    match units.iter().find(|(_, shift)| bytes >> shift > 0) {
        Some((unit, shift)) => format!("{} {unit}", bytes >> shift),
        None => counted(usize::try_from(bytes).unwrap_or(usize::MAX), "byte"),
    }
}
