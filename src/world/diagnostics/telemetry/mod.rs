//! Exports a run's spans to the user's collector over OTLP. It is off unless the environment names
//! a collector, and then it costs nothing. It must never affect the work of a run, and never
//! export a secret.

pub mod conventions;
mod otlp;
pub mod settings;
mod exporter;
mod content_filter;
mod span_events;
mod tracker;

use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::world::diagnostics::telemetry::content_filter::ContentFilter;
use crate::world::diagnostics::telemetry::conventions::ProviderNames;
use crate::world::diagnostics::telemetry::exporter::SpanExporter;
use crate::world::diagnostics::telemetry::settings::TelemetrySettings;
use crate::world::diagnostics::telemetry::tracker::SpanTracker;
use crate::world::io::clock::{Stopwatch, now};
use crate::world::io::event_sink::EventSink;
use crate::world::io::http::HttpClient;
use crate::world::store::redact::Redactor;

/// Telemetry of a run that is exported to a collector.
#[derive(Debug)]
pub struct RunTelemetry {
    tracker: SpanTracker,
    exporter: SpanExporter,
    /// Start of the run in nanoseconds since 1970. The clock may be set during the run, so later
    /// times are derived from the stopwatch.
    start_ns: u64,
    stopwatch: Stopwatch,
}

impl RunTelemetry {
    /// Starts the span of a run. Must be called within an async runtime.
    pub fn begin(
        settings: TelemetrySettings,
        providers: ProviderNames,
        redactor: Redactor,
    ) -> Self {
        let start_ns = now().unix_nanoseconds();
        let filter = ContentFilter::new(settings.content, redactor);
        Self {
            tracker: SpanTracker::begin(providers, filter, start_ns),
            exporter: SpanExporter::start(settings, HttpClient::new()),
            start_ns,
            stopwatch: Stopwatch::start(),
        }
    }
}

#[async_trait]
impl EventSink for RunTelemetry {
    fn on_event(&mut self, event: &Event, _elapsed: Duration) -> Result<()> {
        let elapsed = u64::try_from(self.stopwatch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let time_ns = self.start_ns.saturating_add(elapsed);
        for span in self.tracker.on_event(event, time_ns) {
            self.exporter.queue(span);
        }
        Ok(())
    }

    /// Sends the remaining spans within a time limit. Lost spans are an error.
    async fn finish(self: Box<Self>) -> Result<()> {
        let loss_message = self.exporter.finish().await;
        loss_message.map_or(Ok(()), |message| {
            Err(Error::new(ErrorKind::Environment, message))
        })
    }
}
