//! Owns the telling of events: each is recorded before it is shown, and what stands in the log already
//! of a run that is gone on with is told to nobody again.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};

use crate::agent::emit;
use crate::error::Error;
use crate::event::{CoordinationEvent, Event, ModelEvent, RunEvent, ToolEvent};
use crate::id::AgentId;
use crate::orchestrator::resumed_turn::AlreadyLoggedEvents;
use crate::world::store::records::Recorder;
use crate::world::telemetry::RunTelemetry;

/// All who are told what happens.
#[derive(Debug)]
pub(super) struct EventSinks {
    /// The records.
    pub(super) recorder: Recorder,
    /// The spans.
    pub(super) telemetry: Option<RunTelemetry>,
    /// Whoever watches.
    pub(super) display: Sender<Event>,
    /// What stands in the log already.
    pub(super) already_logged: AlreadyLoggedEvents,
}

impl EventSinks {
    /// Tells events until the turn is over. In the silence between them `status.json` is brought up
    /// to date.
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

    /// Tells `event` unless it stands in the log already.
    pub(super) async fn emit(&mut self, event: impl Into<Event>) {
        let event = event.into();
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

    /// Tells the last event. What became of the spans is told before it, because nothing follows it.
    pub(super) async fn finish(mut self, ended: Event) {
        if let Some(mut telemetry) = self.telemetry.take() {
            telemetry.event(&ended);
            if let Some(message) = telemetry.finish().await {
                self.emit(RunEvent::Warning { message }).await;
            }
        }
        self.emit(ended).await;
        let fault = self.recorder.finish();
        warn(&self.display, fault).await;
    }

    /// Ends the records and the spans of a run that broke off. Why it did is told by the caller.
    pub(super) async fn abort(mut self, error: &Error) {
        let ended = Event::Run(RunEvent::RunEnded {
            status: error.kind().exit_status(),
            summary: error.to_string(),
        });
        log(&ended);
        let fault = self.recorder.record(&ended);
        warn(&self.display, fault.or(self.recorder.finish())).await;
        if let Some(mut telemetry) = self.telemetry {
            telemetry.event(&ended);
            if let Some(message) = telemetry.finish().await {
                emit(&self.display, RunEvent::Warning { message }).await;
            }
        }
    }
}

async fn warn(shown: &Sender<Event>, fault: Option<Error>) {
    if let Some(fault) = fault {
        let message = format!("the run goes on without some of its records: {fault:#}");
        emit(shown, RunEvent::Warning { message }).await;
    }
}

/// Puts what may be a fault into the diagnostic log; what went well stands in the event log.
fn log(event: &Event) {
    let agent = event.agent().map_or("-", AgentId::as_str);
    if let Event::Model(ModelEvent::Retrying { reason, .. }) = event {
        tracing::warn!(agent, %reason, "a model is asked again");
    }
    if let Event::Run(RunEvent::LimitMet { limit, .. }) = event {
        tracing::warn!(agent, %limit, "a limit is met");
    }
    if let Event::Coordination(CoordinationEvent::DroppedOut { reason, .. }) = event {
        tracing::warn!(agent, %reason, "an agent drops out");
    }
    if let Event::Tool(ToolEvent::ToolCalled {
        tool,
        denied: Some(denied),
        ..
    }) = event
    {
        tracing::info!(agent, %tool, %denied, "a call is denied");
    }
    if let Event::Run(RunEvent::Warning { message }) = event {
        tracing::warn!(%message, "a warning is shown");
    }
    if let Event::Run(RunEvent::RunEnded { status, summary }) = event {
        tracing::info!(?status, %summary, "the run ends");
    }
}

async fn sleep_until_due(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}
