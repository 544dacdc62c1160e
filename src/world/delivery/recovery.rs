//! Owns the care for deliveries that a process left open: each is completed or taken back, whole. A
//! delivery that somebody works on, and one that was not made here, is left alone.

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::delivery::journal::{self, State};
use crate::world::delivery::store::{Delivery, names};
use crate::world::delivery::work::Work;
use crate::world::sys::own::clear;
use crate::world::sys::own::dir::{self, Hold};

/// Looks at all deliveries below `deliveries`. The sentences say what was done, and what could not be.
pub fn recover(deliveries: &AbsPath) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for name in names(deliveries)? {
        let path = deliveries.join(&name);
        let delivery_journal = path.join("journal.jsonl");
        if journal::is_cleared(&delivery_journal) || !is_free(&path) {
            continue;
        }
        let recovered = Delivery::open(deliveries, &name).and_then(|delivery| settle(&delivery));
        match recovered {
            Ok(None) => {}
            Ok(Some(note)) => {
                notes.push(format!("the delivery of `{name}` was broken off: {note}"))
            }
            Err(error) => notes.push(format!("the delivery of `{name}` is still open: {error:#}")),
        }
    }
    Ok(notes)
}

/// Whether no process works on it.
fn is_free(path: &AbsPath) -> bool {
    matches!(dir::hold(path), Ok(Hold::Held(_)))
}

/// Completes or takes back what `delivery` left open.
pub(super) fn settle(delivery: &Delivery) -> Result<Option<String>> {
    let Some(told) = delivery.told()? else {
        // Not even its first line was written.
        return clear::remove(&delivery.place.journal()).map(|()| None);
    };
    let state = told.state.clone();
    let mut work = Work::go_on(delivery.place.clone(), told)?;
    match state {
        State::Closed => {
            work.clear_rooms()?;
            Ok(None)
        }
        State::Prepared => {
            work.give_up_from(0)?;
            Ok(Some("nothing had been changed yet".to_owned()))
        }
        State::Open { way, only, turned } => {
            work.resume(way, only.as_ref(), turned)?;
            let note = if turned {
                "it was taken back"
            } else {
                "it was completed"
            };
            Ok(Some(note.to_owned()))
        }
    }
}
