//! Decodes the bytes of a response to events, within limits of size and time.

use std::collections::VecDeque;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::{Error as SseError, Sse, SseByteStream};
use tokio::time::Instant;
use tokio_util::bytes::Bytes;

use crate::backend::remote::errors::RemoteErrors;
use crate::backend::remote::wire::{ReplyDecodeError, ReplyDecoder, SseMessage};
use crate::backend::{BackendError, REPLY_BYTES_MAX, ReplyEvent, ReplyStream};
use crate::config::ReplyTimeouts;

/// Limits of a reply's size and time.
#[derive(Clone, Copy, Debug)]
pub struct ReplyLimits {
    /// Timeout for the first byte after the request.
    pub first_byte: Duration,
    /// Idle timeout within the reply. Keep-alive comments in a stream count as activity.
    pub idle: Duration,
    /// Timeout for the whole reply.
    pub total: Duration,
    /// Maximum size of an event, in bytes.
    pub event_bytes_max: usize,
    /// Maximum size of a reply as it is sent, in bytes: of the data of its events, or of a body that
    /// is not streamed. What it says may have at most [`REPLY_BYTES_MAX`].
    pub reply_bytes_max: usize,
}

impl ReplyLimits {
    /// Returns the timeouts of a config, with the size limits that apply to all.
    pub fn from_timeouts(times: ReplyTimeouts) -> Self {
        Self {
            first_byte: Duration::from_secs(times.first_byte_seconds),
            idle: Duration::from_secs(times.idle_seconds),
            total: Duration::from_secs(times.total_seconds),
            event_bytes_max: 16 << 20,
            reply_bytes_max: 128 << 20,
        }
    }
}

/// A stream of events that is being decoded.
struct EventDecoder<'a> {
    sse: BoxStream<'a, Result<Sse, SseError>>,
    decoder: Box<dyn ReplyDecoder + 'a>,
    errors: &'a RemoteErrors,
    /// The events that are decoded and not returned yet.
    ready_events: VecDeque<ReplyEvent>,
    bytes: usize,
    bytes_max: usize,
    is_over: bool,
}

/// The bytes of a response's body, in pieces as they arrive.
pub type ResponseBody<'a> = BoxStream<'a, Result<Bytes, BackendError>>;

/// Returns the body of a response as it arrives, within the timeouts.
pub(super) fn limited_body(
    response: Response,
    errors: &RemoteErrors,
    limits: ReplyLimits,
) -> ResponseBody<'_> {
    let start = Instant::now();
    let bytes = stream::try_unfold(response, move |mut response| async move {
        let time_left = limits.total.saturating_sub(start.elapsed());
        let chunk_result =
            wait_for_vendor(response.chunk(), limits.idle.min(time_left), errors).await;
        let chunk = chunk_result.map_err(|error| {
            if start.elapsed() < limits.total {
                error
            } else {
                errors.reply_timed_out(limits.total)
            }
        })?;
        Ok(chunk.map(|chunk| (chunk, response)))
    });
    bytes.boxed()
}

/// Decodes the events of a streamed body.
pub(super) fn decode_stream<'a>(
    body: ResponseBody<'a>,
    decoder: Box<dyn ReplyDecoder + 'a>,
    errors: &'a RemoteErrors,
    limits: ReplyLimits,
) -> ReplyStream<'a> {
    let event_bytes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&event_bytes);
    let bytes = body.and_then(move |chunk| {
        let bytes_before = counter.fetch_add(chunk.len(), Ordering::Relaxed);
        let is_too_long = bytes_before > limits.event_bytes_max;
        ready(if is_too_long {
            Err(errors.too_long("an event", limits.event_bytes_max))
        } else {
            Ok(chunk)
        })
    });
    let sse = SseByteStream::new(bytes).inspect_ok(move |_| {
        event_bytes.store(0, Ordering::Relaxed);
    });
    let event_decoder = EventDecoder {
        sse: sse.boxed(),
        decoder,
        errors,
        ready_events: VecDeque::new(),
        bytes: 0,
        bytes_max: limits.reply_bytes_max,
        is_over: false,
    };
    stream::try_unfold(event_decoder, EventDecoder::next).boxed()
}

/// Decodes the events of a body that arrives whole, from a server that does not stream.
pub(super) async fn decode_whole<'a>(
    body: ResponseBody<'a>,
    mut decoder: Box<dyn ReplyDecoder + 'a>,
    errors: &'a RemoteErrors,
    limits: ReplyLimits,
) -> Result<ReplyStream<'a>, BackendError> {
    let body = collect_body(body, limits.reply_bytes_max).await?;
    if body.len() > limits.reply_bytes_max {
        return Err(errors.too_long("a reply", limits.reply_bytes_max));
    }
    let text =
        std::str::from_utf8(&body).map_err(|error| errors.malformed_reply(&error.to_string()))?;
    let message = SseMessage {
        name: "",
        data: text.trim(),
    };
    let mut events = decoder
        .decode_event(message)
        .map_err(|error| errors.decode_failed(error))?;
    if !matches!(events.last(), Some(ReplyEvent::End(_))) {
        let last_events = decoder.end().map_err(|error| match error {
            ReplyDecodeError::UnexpectedEnd => errors.malformed_reply("the body holds no reply"),
            ReplyDecodeError::Malformed(_)
            | ReplyDecodeError::TooLong(_)
            | ReplyDecodeError::VendorError(_)
            | ReplyDecodeError::ReplyFailed(_) => errors.decode_failed(error),
        });
        events.extend(last_events?);
    }
    Ok(stream::iter(events.into_iter().map(Ok)).boxed())
}

/// Reads a body until it ends or exceeds `bytes_max`.
pub(super) async fn collect_body(
    mut body: ResponseBody<'_>,
    bytes_max: usize,
) -> Result<Vec<u8>, BackendError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.try_next().await? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > bytes_max {
            break;
        }
    }
    Ok(bytes)
}

/// Waits for the vendor, with a timeout.
pub(super) async fn wait_for_vendor<T>(
    response: impl Future<Output = reqwest::Result<T>>,
    silence_max: Duration,
    errors: &RemoteErrors,
) -> Result<T, BackendError> {
    match tokio::time::timeout(silence_max, response).await {
        Ok(result) => result.map_err(|error| errors.connection_failed(error)),
        Err(_) => Err(errors.idle_timed_out(silence_max)),
    }
}

impl EventDecoder<'_> {
    async fn next(mut self) -> Result<Option<(ReplyEvent, Self)>, BackendError> {
        loop {
            if let Some(event) = self.ready_events.pop_front() {
                self.is_over = matches!(event, ReplyEvent::End(_));
                return Ok(Some((event, self)));
            }
            if self.is_over {
                return Ok(None);
            }
            let decode_result = match self.sse.next().await {
                Some(Ok(event)) => self.decode_event(&event)?,
                Some(Err(error)) => return Err(self.stream_error(error)),
                None => self.decoder.end(),
            };
            let events = decode_result.map_err(|error| self.errors.decode_failed(error))?;
            self.ready_events.extend(events);
        }
    }

    /// Decodes one event. The outer error is that the reply is too long; the inner one, that the
    /// event is not that of a reply.
    fn decode_event(
        &mut self,
        event: &Sse,
    ) -> Result<Result<Vec<ReplyEvent>, ReplyDecodeError>, BackendError> {
        let data = event.data.as_deref().unwrap_or_default();
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > self.bytes_max {
            return Err(self.errors.too_long("a reply", self.bytes_max));
        }
        let message = SseMessage {
            name: event.event.as_deref().unwrap_or_default(),
            data: data.trim(),
        };
        if message.data.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let decode_result = self.decoder.decode_event(message);
        if self.decoder.held_bytes() > REPLY_BYTES_MAX {
            return Err(self.errors.too_long("a reply", REPLY_BYTES_MAX));
        }
        Ok(decode_result)
    }

    fn stream_error(&self, error: SseError) -> BackendError {
        let SseError::Body(cause) = error else {
            return self.errors.malformed_reply(&error.to_string());
        };
        match cause.downcast::<BackendError>() {
            Ok(error) => *error,
            Err(cause) => self.errors.malformed_reply(&cause.to_string()),
        }
    }
}
