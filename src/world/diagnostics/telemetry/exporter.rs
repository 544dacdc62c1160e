//! Exports spans in the background, in batches and within limits. A collector that is slow or gone
//! costs nothing but spans. It must never delay the work of a run or make it fail; only the end of
//! a run waits for it, for a limited time.

use std::time::Duration;

use prost::Message as _;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::{Client, StatusCode};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::text::count_noun;
use crate::world::diagnostics::telemetry::otlp::{
    InstrumentationScope, OtlpResource, OtlpSpan, ResourceSpans, ScopeSpans, TracesRequest,
    attribute,
};
use crate::world::diagnostics::telemetry::settings::{OtlpEncoding, TelemetrySettings};
use crate::world::io::http::{HttpClient, display_url, root_cause};

/// Number of spans that may wait to be sent; further ones are dropped and counted. This and the
/// next two are the defaults of
/// <https://opentelemetry.io/docs/specs/otel/trace/sdk/#batching-processor>.
const SPANS_WAITING_MAX: usize = 2_048;
/// Largest number of spans in one request.
const BATCH_SPANS_MAX: usize = 512;
/// Longest time that a request waits for more spans.
const BATCH_WAIT: Duration = Duration::from_secs(5);
/// Longest time that the end of a run waits for the remaining spans to be sent.
const FLUSH_WAIT_MAX: Duration = Duration::from_secs(10);
/// Number of attempts to send one batch to a collector that reports that it is busy.
const TRIES_MAX: u32 = 3;
/// Delay before a retry, unless the collector specifies one.
const RETRY_WAIT: Duration = Duration::from_secs(1);
/// Longest retry delay that a collector may specify.
const RETRY_WAIT_MAX: Duration = Duration::from_secs(10);

/// Exporter that sends spans to a collector.
#[derive(Debug)]
pub(crate) struct SpanExporter {
    span_sender: Sender<OtlpSpan>,
    worker: JoinHandle<ExportReport>,
    shown_url: String,
    span_count: usize,
    dropped_count: usize,
}

/// Result of sending the spans.
#[derive(Debug, Default)]
struct ExportReport {
    lost_count: usize,
    reason: Option<String>,
}

/// Background task that sends batches to the collector.
struct BatchWorker {
    settings: TelemetrySettings,
    http: HttpClient,
}

impl SpanExporter {
    /// Starts the background task. No connection is opened before there is a span.
    pub(crate) fn start(settings: TelemetrySettings, http: HttpClient) -> Self {
        let (span_sender, spans) = mpsc::channel(SPANS_WAITING_MAX);
        let shown_url = display_url(&settings.endpoint);
        Self {
            span_sender,
            worker: tokio::spawn(BatchWorker { settings, http }.send_all(spans)),
            shown_url,
            span_count: 0,
            dropped_count: 0,
        }
    }

    /// Queues a span. If the queue is full, the span is dropped.
    pub(crate) fn queue(&mut self, span: OtlpSpan) {
        self.span_count = self.span_count.saturating_add(1);
        if self.span_sender.try_send(span).is_err() {
            self.dropped_count = self.dropped_count.saturating_add(1);
        }
    }

    /// Sends the remaining spans within a time limit. Returns a message for the user if spans were
    /// lost.
    pub(crate) async fn finish(self) -> Option<String> {
        let Self {
            span_sender,
            mut worker,
            shown_url,
            span_count,
            dropped_count,
        } = self;
        // The worker ends when its queue is closed and empty.
        drop(span_sender);
        let (lost_count, reason) = match timeout(FLUSH_WAIT_MAX, &mut worker).await {
            Ok(Ok(report)) => (
                Some(report.lost_count.saturating_add(dropped_count)),
                report.reason,
            ),
            Ok(Err(_)) => (None, Some("sending failed unexpectedly".to_owned())),
            Err(_) => {
                worker.abort();
                let seconds = FLUSH_WAIT_MAX.as_secs();
                (None, Some(format!("no answer within {seconds} s")))
            }
        };
        let reason = reason
            .unwrap_or_else(|| "spans were produced faster than they could be sent".to_owned());
        match lost_count {
            Some(0) => None,
            Some(lost_count) => Some(format!(
                "telemetry: {lost_count} of {} not accepted by `{shown_url}`: {reason}",
                count_noun(span_count, "span")
            )),
            None => Some(format!(
                "telemetry: some of {} not accepted by `{shown_url}`: {reason}",
                count_noun(span_count, "span")
            )),
        }
    }
}

impl BatchWorker {
    async fn send_all(self, mut spans: Receiver<OtlpSpan>) -> ExportReport {
        let mut report = ExportReport::default();
        while let Some(first_span) = spans.recv().await {
            let mut batch = vec![first_span];
            let fill_batch = async {
                while batch.len() < BATCH_SPANS_MAX
                    && let Some(span) = spans.recv().await
                {
                    batch.push(span);
                }
            };
            // On timeout, the batch is sent as it is.
            timeout(BATCH_WAIT, fill_batch).await.unwrap_or_default();
            let count = batch.len();
            if let Err(reason) = self.send(batch).await {
                tracing::warn!(count, why = %reason, "spans were not sent");
                report.lost_count = report.lost_count.saturating_add(count);
                report.reason.get_or_insert(reason);
            }
        }
        report
    }

    async fn send(&self, batch: Vec<OtlpSpan>) -> Result<(), String> {
        let client = self.client().await?;
        let request = self.request(batch);
        let (content_type, body) = match self.settings.encoding {
            OtlpEncoding::Protobuf => ("application/x-protobuf", request.encode_to_vec()),
            OtlpEncoding::Json => {
                let body = serde_json::to_vec(&request).map_err(|error| error.to_string())?;
                ("application/json", body)
            }
        };
        let mut tries: u32 = 1;
        loop {
            let request = client
                .post(self.settings.endpoint.clone())
                .headers(self.settings.headers.clone())
                .header(CONTENT_TYPE, content_type)
                .timeout(self.settings.timeout)
                .body(body.clone());
            let response = request
                .send()
                .await
                .map_err(|error| describe_error(&error))?;
            let status = response.status();
            if status.is_success() {
                return Ok(());
            }
            if !is_busy(status) || tries == TRIES_MAX {
                return Err(format!("it answers {status}"));
            }
            tries = tries.saturating_add(1);
            let retry_after = response
                .headers()
                .get(RETRY_AFTER)
                .and_then(|value| value.to_str().ok()?.parse().ok());
            let wait = retry_after.map_or(RETRY_WAIT, Duration::from_secs);
            sleep(wait.min(RETRY_WAIT_MAX)).await;
        }
    }

    /// Sets the client up on a blocking thread, because loading certificates takes too long for the
    /// thread of the run.
    async fn client(&self) -> Result<Client, String> {
        let (http, url) = (self.http.clone(), self.settings.endpoint.clone());
        let set_up = move || {
            http.client_for(&url)
                .cloned()
                .map_err(|error| error.to_string())
        };
        let set_up_result = tokio::task::spawn_blocking(set_up).await;
        set_up_result.map_err(|error| error.to_string())?
    }

    fn request(&self, spans: Vec<OtlpSpan>) -> TracesRequest {
        let resource = self.settings.resource.iter();
        let attributes = resource.map(|(key, value)| attribute(key, value.as_str()));
        let scope = InstrumentationScope {
            name: "massgen".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        TracesRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(OtlpResource {
                    attributes: attributes.collect(),
                }),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope),
                    spans,
                }],
            }],
        }
    }
}

/// Returns whether the same request may be retried:
/// <https://opentelemetry.io/docs/specs/otlp/#failures-1>.
fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// Describes why a request failed, without its URL, which may contain a key.
fn describe_error(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "no answer in time".to_owned()
    } else {
        root_cause(error).to_string()
    }
}
