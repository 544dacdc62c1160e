//! Fans events out to the diagnostic log, telemetry, the records and the UI. An event is recorded
//! before it is shown. On resume, events that are already in the log are neither recorded nor shown
//! again.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::agent::emit;
use crate::error::{Error, ExitStatus, Result};
use crate::event::{CoordinationEvent, Event, ModelEvent, RunEvent, ToolEvent};
use crate::id::AgentId;
use crate::orchestrator::TurnResult;
use crate::orchestrator::record_sync::RecordSync;
use crate::orchestrator::resumed_turn::AlreadyLoggedEvents;
use crate::world::diagnostics::telemetry::RunTelemetry;
use crate::world::io::clock::Stopwatch;
use crate::world::io::event_sink::{EventSink, QueuedEvent, sleep_until_due};
use crate::world::store::records::Recorder;

/// Maximum time in which the work of a parked run ends and its last events are recorded.
/// Schedulers kill a job 30 seconds after they asked it to end.
const PARKING_MAX: Duration = Duration::from_secs(5);

/// The loss in the result of a run some of whose records could not be written.
const INCOMPLETE_RECORDS: &str = "its records are incomplete";

/// Whether the session has what a turn must leave in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionTurn {
    /// The turn is saved, or it has no answer.
    Complete,
    /// The turn could not be saved.
    Unsaved,
}

/// All sinks of one run.
#[derive(Debug)]
pub(super) struct EventSinks {
    /// The recorder, which writes the log.
    recorder: Recorder,
    record_sync: RecordSync,
    /// The sinks that also get the events that a resumed turn emits again.
    observers: Vec<Box<dyn EventSink>>,
    /// The UI.
    display: Sender<Event>,
    /// The events that are already in the log.
    already_logged: AlreadyLoggedEvents,
    since_start: Stopwatch,
}

impl EventSinks {
    /// Creates the sinks of a run; `already_logged` is empty unless the run is resumed.
    pub(super) fn new(
        recorder: Recorder,
        telemetry: Option<RunTelemetry>,
        display: Sender<Event>,
        already_logged: AlreadyLoggedEvents,
    ) -> Self {
        let mut observers: Vec<Box<dyn EventSink>> = vec![Box::new(DiagnosticEvents)];
        if let Some(telemetry) = telemetry {
            observers.push(Box::new(telemetry));
        }
        Self {
            recorder,
            record_sync: RecordSync::default(),
            observers,
            display,
            already_logged,
            since_start: Stopwatch::start(),
        }
    }

    /// Returns the recorder.
    pub(super) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Forwards events until the turn is over. Sinks do what is due while there are none.
    pub(super) async fn forward(&mut self, events: &mut Receiver<QueuedEvent>) {
        loop {
            let start_result = self.record_sync.start_requested(&mut self.recorder);
            report_records(&self.display, start_result).await;
            let due = self.due();
            tokio::select! {
                queued = events.recv() => match queued {
                    None => return,
                    Some(QueuedEvent::Event(event)) => self.emit(event).await,
                    Some(QueuedEvent::Barrier(waiter)) => self.record_sync.request(Some(waiter)),
                },
                sync_result = self.record_sync.finished() => {
                    report_records(&self.display, sync_result).await;
                }
                () = sleep_until_due(due) => self.on_due().await,
            }
        }
    }

    /// Forwards events until the turn is over, or until [`PARKING_MAX`] after the run was parked:
    /// work that does not end in that time is repeated when the run is resumed.
    pub(super) async fn forward_until_parked(
        &mut self,
        events: &mut Receiver<QueuedEvent>,
        park: &CancellationToken,
    ) {
        tokio::select! {
            biased;
            () = self.forward(events) => {}
            () = async {
                park.cancelled().await;
                sleep(PARKING_MAX).await;
            } => {}
        }
    }

    /// Shows an event that is already in the log.
    pub(super) async fn show(&mut self, event: Event) {
        emit(&self.display, event).await;
    }

    /// Passes `event` to all sinks; to the records and the UI only if it is not in the log yet.
    pub(super) async fn emit(&mut self, event: impl Into<Event>) {
        let (event, elapsed) = (event.into(), self.since_start.elapsed());
        for observer in &mut self.observers {
            let observer_result = observer.on_event(&event, elapsed);
            report(
                &self.display,
                observer_result.map_err(|error| error.to_string()),
            )
            .await;
        }
        if self.already_logged.take_matching(&event) {
            return;
        }
        let record_result = self.recorder.on_event(&event, elapsed);
        if let Some(ModelEvent::Replied { .. }) = event.as_model_event() {
            self.record_sync.request(None);
        }
        emit(&self.display, event).await;
        report_records(&self.display, record_result).await;
    }

    /// Emits the last event, after the warnings of the sinks about their end. It is recorded before
    /// it is shown, and records that are incomplete change `result`. A run with an unsaved turn has
    /// no end in its records.
    pub(super) async fn finish(mut self, result: &mut TurnResult, turn: SessionTurn) {
        if turn == SessionTurn::Unsaved {
            result.add_loss("this turn is not saved (to save it: `massgen --continue`)");
        }
        // The diagnostic log, which is the first, ends last: it logs the warnings of the others.
        while let Some(observer) = self.observers.pop() {
            let elapsed = self.since_start.elapsed();
            let end_event = run_ended_event(result.status, &result.summary);
            if let Err(message) = finish_sink(observer, &end_event, elapsed).await {
                self.emit(RunEvent::Warning { message }).await;
            }
        }
        let Self {
            mut recorder,
            display,
            since_start,
            ..
        } = self;
        if recorder.is_incomplete() {
            result.add_loss(INCOMPLETE_RECORDS);
        }
        let record_result = match turn {
            SessionTurn::Complete => {
                let end_event = run_ended_event(result.status, &result.summary);
                recorder.on_event(&end_event, since_start.elapsed())
            }
            SessionTurn::Unsaved => Ok(()),
        };
        let record_result = record_result.and(recorder.finish().map_or(Ok(()), Err));
        if record_result.is_err() {
            result.add_loss(INCOMPLETE_RECORDS);
        }
        report_records(&display, record_result).await;
        emit(&display, run_ended_event(result.status, &result.summary)).await;
    }

    /// Ends the sinks of a run that failed. The caller reports the error.
    pub(super) async fn abort(self, error: &Error) {
        let Self {
            mut recorder,
            mut observers,
            display,
            since_start,
            ..
        } = self;
        let end_event = run_ended_event(error.kind().exit_status(), &error.to_string());
        let record_result = recorder.on_event(&end_event, since_start.elapsed());
        let finish_result = recorder.finish().map_or(Ok(()), Err);
        report_records(&display, record_result.and(finish_result)).await;
        while let Some(observer) = observers.pop() {
            let ending = finish_sink(observer, &end_event, since_start.elapsed());
            report(&display, ending.await).await;
        }
    }

    /// Ends the sinks of a run that was parked: the records stay those of a run in progress, and
    /// the other sinks end.
    pub(super) async fn park(self, error: &Error) {
        let Self {
            recorder,
            observers,
            display,
            since_start,
            ..
        } = self;
        let end_event = run_ended_event(error.kind().exit_status(), &error.to_string());
        let finish_result = recorder.finish().map_or(Ok(()), Err);
        report_records(&display, finish_result).await;
        for observer in observers.into_iter().rev() {
            let ending = finish_sink(observer, &end_event, since_start.elapsed());
            report(&display, ending.await).await;
        }
    }

    /// Returns the time until a sink has something to do.
    fn due(&self) -> Option<Duration> {
        let observers = self.observers.iter().map(|observer| observer.due());
        observers.chain([self.recorder.due()]).flatten().min()
    }

    /// Lets the sinks do what is due.
    async fn on_due(&mut self) {
        let elapsed = self.since_start.elapsed();
        for observer in &mut self.observers {
            let observer_result = observer.on_due(elapsed);
            report(
                &self.display,
                observer_result.map_err(|error| error.to_string()),
            )
            .await;
        }
        let record_result = self.recorder.on_due(elapsed);
        report_records(&self.display, record_result).await;
    }
}

/// Passes the last event to a sink and ends it.
async fn finish_sink(
    mut sink: Box<dyn EventSink>,
    end_event: &Event,
    elapsed: Duration,
) -> std::result::Result<(), String> {
    let event_result = sink.on_event(end_event, elapsed);
    let finish_result = sink.finish().await;
    event_result
        .and(finish_result)
        .map_err(|error| error.to_string())
}

/// Returns the last event of a run.
fn run_ended_event(status: ExitStatus, summary: &str) -> Event {
    Event::Run(RunEvent::RunEnded {
        status,
        summary: summary.to_owned(),
    })
}

/// Shows why the records could not be written, if they could not.
async fn report_records(display: &Sender<Event>, record_result: Result<()>) {
    let warning = |error| format!("the run continues with incomplete logs: {error:#}");
    report(display, record_result.map_err(warning)).await;
}

/// Shows a warning without recording it.
async fn report(display: &Sender<Event>, outcome: std::result::Result<(), String>) {
    if let Err(message) = outcome {
        emit(display, RunEvent::Warning { message }).await;
    }
}

/// Writes events that may be faults to the diagnostic log; everything else is in the event log.
#[derive(Debug)]
struct DiagnosticEvents;

impl EventSink for DiagnosticEvents {
    fn on_event(&mut self, event: &Event, _elapsed: Duration) -> Result<()> {
        let agent = event.agent().map_or("-", AgentId::as_str);
        if let Event::Model(ModelEvent::Retrying { reason, .. }) = event {
            tracing::warn!(agent, %reason, "a model is asked again");
        } else if let Event::Run(RunEvent::LimitMet { limit, .. }) = event {
            tracing::warn!(agent, %limit, "a limit was reached");
        } else if let Event::Coordination(CoordinationEvent::DroppedOut { reason, .. }) = event {
            tracing::warn!(agent, %reason, "an agent drops out");
        } else if let Event::Tool(ToolEvent::ToolCalled {
            tool,
            denied: Some(denied),
            ..
        }) = event
        {
            tracing::info!(agent, %tool, %denied, "a call is denied");
        } else if let Event::Run(RunEvent::Warning { message }) = event {
            tracing::warn!(%message, "a warning is shown");
        } else if let Event::Run(RunEvent::RunEnded { status, summary }) = event {
            tracing::info!(?status, %summary, "the run ends");
        }
        Ok(())
    }
}
