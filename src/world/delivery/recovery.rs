//! Recovers deliveries that a process left open: each is completed or rolled back as a whole. A
//! delivery that another process works on or may work on, because the file system has no locks, and
//! one that was not created here, is left alone.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::delivery_dir::DeliveryDir;
use crate::world::delivery::journal::{self, DeliveryProgress};
use crate::world::delivery::step_runner::{JournalTransaction, StepRunner};
use crate::world::delivery::store::OpenDelivery;
use crate::world::store::delivery_names::list_names;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirLockAttempt};

/// Recovers all deliveries below `deliveries`. Returns notes on what was done and what could not be
/// done.
pub fn recover(deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for name in list_names(deliveries)? {
        let path = deliveries.join(&name);
        if !is_unlocked(&path) {
            continue;
        }
        let recovery = || {
            if journal::is_cleared(&DeliveryDir(path.clone()).journal())? {
                return Ok(None);
            }
            recover_delivery(&OpenDelivery::open(deliveries, &name)?)
        };
        match recovery() {
            Ok(None) => {}
            Ok(Some(note)) => {
                notes.push(format!("the delivery of `{name}` was interrupted: {note}"));
            }
            Err(error) => notes.push(format!(
                "cannot recover the interrupted delivery of `{name}`: {error:#}"
            )),
        }
    }
    Ok(notes)
}

/// Returns whether no process has locked the directory `path` of a delivery; `false` if the file
/// system does not support locks. It keeps no other process from locking it.
fn is_unlocked(path: &AbsPath) -> bool {
    matches!(dir::try_lock_shared(path), Ok(DirLockAttempt::Acquired(_)))
}

/// Completes or rolls back what `delivery` left open.
pub(super) fn recover_delivery(delivery: &OpenDelivery) -> Result<Option<String>> {
    let Some(journal) = delivery.read_journal()? else {
        // The journal does not exist, or not even its first line is complete.
        return clear::remove(&delivery.delivery_dir.journal()).map(|()| None);
    };
    let (progress, start) = (journal.progress.clone(), journal.transaction_start);
    let mut runner = StepRunner::from_journal(delivery.delivery_dir.clone(), journal)?;
    match progress {
        DeliveryProgress::Closed => {
            runner.clear_slot_dirs()?;
            Ok(None)
        }
        DeliveryProgress::Prepared => {
            runner.discard_from(0)?;
            Ok(Some("nothing had been changed yet".to_owned()))
        }
        DeliveryProgress::Open {
            direction,
            selected_steps,
            is_rolling_back,
        } => {
            let journal_transaction = JournalTransaction { direction, start };
            runner.resume(
                journal_transaction,
                selected_steps.as_ref(),
                is_rolling_back,
            )?;
            let note = if is_rolling_back {
                "it was rolled back"
            } else {
                "it was completed"
            };
            Ok(Some(note.to_owned()))
        }
    }
}
