//! Writes events that may be faults to the diagnostic log; everything else is in the event log.

use std::time::Duration;

use crate::error::Result;
use crate::event::{CoordinationEvent, Event, ModelEvent, RunEvent, ToolEvent};
use crate::id::AgentId;
use crate::world::io::event_sink::EventSink;

/// Sink for the diagnostic log.
#[derive(Debug)]
pub(super) struct DiagnosticEvents;

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
