//! Owns the trait of all that takes in the events of a run: the records, telemetry, and what shows a
//! run to a person or a program. A sink decides nothing and changes no run.

use std::fmt::Debug;
use std::future::pending;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Result;
use crate::event::Event;

/// Something that takes in the events of a run, one after another.
///
/// An error is reported and ends nothing: the sink gets the next event all the same.
#[async_trait]
pub trait EventSink: Debug + Send {
    /// Takes in an event that happened `elapsed` after the start.
    fn on_event(&mut self, event: &Event, elapsed: Duration) -> Result<()>;

    /// How long until [`EventSink::on_due`] has something to do; `None` while it has nothing.
    fn due(&self) -> Option<Duration> {
        None
    }

    /// Does what is due by now, if anything is.
    fn on_due(&mut self, _elapsed: Duration) -> Result<()> {
        Ok(())
    }

    /// Does what is left to do when no event follows.
    async fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Waits for as long as `due` says; forever if nothing is due.
pub async fn sleep_until_due(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => pending().await,
    }
}
