//! Owns the export of a run's spans to a collector of the user's, over OTLP. It is off unless the
//! environment names a collector, and then it costs nothing. It must never change a run, and never
//! tell a secret.

pub mod conventions;
mod exporter;
mod span_events;
mod otlp;
pub mod settings;
mod tracker;
mod content_filter;

use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::world::clock::{Stopwatch, now};
use crate::world::event_sink::EventSink;
use crate::world::http::HttpClient;
use crate::world::store::redact::Redactor;
use crate::world::telemetry::content_filter::ContentFilter;
use crate::world::telemetry::conventions::ProviderNames;
use crate::world::telemetry::exporter::SpanExporter;
use crate::world::telemetry::settings::TelemetrySettings;
use crate::world::telemetry::tracker::SpanTracker;

/// A run that is told to a collector.
#[derive(Debug)]
pub struct RunTelemetry {
    tracker: SpanTracker,
    exporter: SpanExporter,
    /// Nanoseconds since 1970 when the run began; the clock may be set while it goes on.
    begun: u64,
    since: Stopwatch,
}

impl RunTelemetry {
    /// Begins the span of a run. It has to be called where tasks can be started.
    pub fn begin(settings: TelemetrySettings, vendors: ProviderNames, redactor: Redactor) -> Self {
        let begun = now().unix_nanoseconds();
        let words = ContentFilter::new(settings.content, redactor);
        Self {
            tracker: SpanTracker::begin(vendors, words, begun),
            exporter: SpanExporter::start(settings, HttpClient::new()),
            begun,
            since: Stopwatch::start(),
        }
    }
}

#[async_trait]
impl EventSink for RunTelemetry {
    fn on_event(&mut self, event: &Event, _elapsed: Duration) -> Result<()> {
        let elapsed = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let at = self.begun.saturating_add(elapsed);
        for span in self.tracker.event(event, at) {
            self.exporter.take(span);
        }
        Ok(())
    }

    /// Sends what is left, for a limited time. It is an error if spans were lost.
    async fn finish(self: Box<Self>) -> Result<()> {
        let lost = self.exporter.finish().await;
        lost.map_or(Ok(()), |message| {
            Err(Error::new(ErrorKind::Environment, message))
        })
    }
}
