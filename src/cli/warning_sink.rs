//! Sink of a run that is not shown on the terminal: it passes each event on, and prints the
//! warnings.

use std::fmt::Debug;
use std::time::Duration;

use crate::cli::json_report::event_warning;
use crate::cli::output::CliOutput;
use crate::error::Result;
use crate::event::Event;
use crate::world::io::event_sink::EventSink;

/// A run whose state follows its events.
pub(crate) trait ObservedRun: Debug + Sync {
    /// Adds the next event.
    fn on_event(&self, event: &Event);
}

/// Sink that passes events on to a run. Problems that do not end the run are also printed.
#[derive(Debug)]
pub(crate) struct WarningSink<'o, 'w> {
    run: &'o dyn ObservedRun,
    output: &'o mut CliOutput<'w>,
}

impl<'o, 'w> WarningSink<'o, 'w> {
    /// Creates a sink that updates `run` and prints warnings to `output`.
    pub(crate) fn new(run: &'o dyn ObservedRun, output: &'o mut CliOutput<'w>) -> Self {
        Self { run, output }
    }
}

impl EventSink for WarningSink<'_, '_> {
    fn on_event(&mut self, event: &Event, _elapsed: Duration) -> Result<()> {
        if let Some(warning) = event_warning(event) {
            self.output.warning(&warning);
        }
        self.run.on_event(event);
        Ok(())
    }
}
