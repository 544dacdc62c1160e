//! Sends the events of a pipeline to its log, which other processes read, and to the UI.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::Sender;

use crate::agent::emit;
use crate::error::{Error, Result};
use crate::event::{Event, RunEvent};
use crate::world::store::pipeline_log::PipelineLog;
use crate::world::store::pipelines::PipelineDir;
use crate::world::store::redact::Redactor;

/// The receivers of the events of a pipeline.
#[derive(Debug)]
pub(super) struct PipelineEvents {
    /// The UI.
    display: Sender<Event>,
    /// The log; `None` after it could not be written.
    log: Mutex<Option<PipelineLog>>,
}

impl PipelineEvents {
    /// Opens the log of the pipeline in `dir`.
    pub(super) fn open(
        dir: &PipelineDir,
        redactor: Redactor,
        display: Sender<Event>,
    ) -> Result<Self> {
        Ok(Self {
            display,
            log: Mutex::new(Some(PipelineLog::open(dir, redactor)?)),
        })
    }

    /// Returns the channel to the UI, for events that the log does not contain.
    pub(super) fn display(&self) -> &Sender<Event> {
        &self.display
    }

    /// Returns the number of messages of the user in the log that earlier processes wrote.
    pub(super) fn earlier_message_count(&self) -> u32 {
        let log = self.lock_log();
        log.as_ref().map_or(0, PipelineLog::earlier_message_count)
    }

    /// Sends an event to the log and to the UI. If the log cannot be written, the pipeline
    /// continues without it.
    pub(super) async fn emit(&self, event: impl Into<Event>) {
        let event = event.into();
        if let Err(error) = self.record(&event) {
            let message = format!("the log of the pipeline ends here: {error:#}");
            emit(&self.display, RunEvent::Warning { message }).await;
        }
        emit(&self.display, event).await;
    }

    /// Records that the pipeline failed. The caller reports the error.
    pub(super) fn record_failure(&self, error: &Error) {
        let end_event = Event::Run(RunEvent::RunEnded {
            status: error.kind().exit_status(),
            summary: error.to_string(),
        });
        // The error that ended the pipeline matters more.
        drop(self.record(&end_event));
    }

    fn record(&self, event: &Event) -> Result<()> {
        let mut log = self.lock_log();
        let record_result = log.as_mut().map_or(Ok(()), |log| log.record(event));
        if record_result.is_err() {
            *log = None;
        }
        record_result
    }

    fn lock_log(&self) -> MutexGuard<'_, Option<PipelineLog>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
