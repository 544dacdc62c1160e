//! Fans events out to the log, telemetry and the UI. An event is logged before it is shown. On
//! resume, events that are already in the log are not emitted again.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};

use crate::agent::emit;
use crate::error::Error;
use crate::event::Event;
use crate::id::AgentId;
use crate::orchestrator::resumed_turn::AlreadyLoggedEvents;
use crate::world::diagnostics::telemetry::RunTelemetry;
use crate::world::store::records::Recorder;

/// All receivers of a run's events.
#[derive(Debug)]
pub(super) struct EventSinks {
    /// The recorder, which writes the log.
    pub(super) recorder: Recorder,
    /// The telemetry spans.
    pub(super) telemetry: Option<RunTelemetry>,
    /// The UI.
    pub(super) display: Sender<Event>,
    /// The events that are already in the log.
    pub(super) already_logged: AlreadyLoggedEvents,
}

impl EventSinks {
    /// Forwards events until the turn is over. Updates `status.json` while there are none.
    pub(super) async fn forward(&mut self, events: &mut Receiver<Event>) {
        loop {
            let due = self.recorder.status_due();
            let fault = tokio::select! {
                event = events.recv() => match event {
                    None => return,
                    Some(event) => {
                        self.emit(event).await;
                        continue;
                    }
                },
                () = sleep_until_due(due) => self.recorder.write_status(),
            };
            warn(&self.display, fault).await;
        }
    }

    /// Emits `event` unless it is already in the log.
    pub(super) async fn emit(&mut self, event: Event) {
        log(&event);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.event(&event);
        }
        if self.already_logged.take_matching(&event) {
            return;
        }
        let fault = self.recorder.record(&event);
        emit(&self.display, event).await;
        warn(&self.display, fault).await;
    }

    /// Emits the last event. A warning about the spans is emitted before it, because no event
    /// follows it.
    pub(super) async fn finish(mut self, ended: Event) {
        if let Some(mut telemetry) = self.telemetry.take() {
            telemetry.event(&ended);
            if let Some(message) = telemetry.finish().await {
                self.emit(Event::Warning { message }).await;
            }
        }
        self.emit(ended).await;
        let fault = self.recorder.finish();
        warn(&self.display, fault).await;
    }

    /// Ends the records and the spans of a run that failed. The caller reports the error.
    pub(super) async fn abort(mut self, error: &Error) {
        let ended = Event::RunEnded {
            status: error.kind().exit_status(),
            summary: error.to_string(),
        };
        log(&ended);
        let fault = self.recorder.record(&ended);
        warn(&self.display, fault.or(self.recorder.finish())).await;
        if let Some(mut telemetry) = self.telemetry {
            telemetry.event(&ended);
            if let Some(message) = telemetry.finish().await {
                emit(&self.display, Event::Warning { message }).await;
            }
        }
    }
}

async fn warn(shown: &Sender<Event>, fault: Option<Error>) {
    if let Some(fault) = fault {
        let message = format!("the run goes on without some of its records: {fault:#}");
        emit(shown, Event::Warning { message }).await;
    }
}

/// Writes possible faults to the diagnostic log; everything else is in the event log.
fn log(event: &Event) {
    let agent = event.agent().map_or("-", AgentId::as_str);
    if let Event::Retrying { reason, .. } = event {
        tracing::warn!(agent, %reason, "a model is asked again");
    }
    if let Event::LimitMet { limit, .. } = event {
        tracing::warn!(agent, %limit, "a limit is met");
    }
    if let Event::DroppedOut { reason, .. } = event {
        tracing::warn!(agent, %reason, "an agent drops out");
    }
    if let Event::ToolCalled {
        tool,
        denied: Some(denied),
        ..
    } = event
    {
        tracing::info!(agent, %tool, %denied, "a call is denied");
    }
    if let Event::Warning { message } = event {
        tracing::warn!(%message, "a warning is shown");
    }
    if let Event::RunEnded { status, summary } = event {
        tracing::info!(?status, %summary, "the run ends");
    }
}

async fn sleep_until_due(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}
