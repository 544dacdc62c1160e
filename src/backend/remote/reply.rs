//! Owns the way from the bytes of a response to events, within limits of size and silence.

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

use crate::backend::remote::faults::Faults;
use crate::backend::remote::wire::{Decode, Piece, Unread};
use crate::backend::{BackendError, Reply, ReplyEvent};
use crate::config::ReplyTimes;

/// How much and how slowly a vendor may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long nothing may come after the request.
    pub first_byte: Duration,
    /// How long nothing may come in the middle. Comments that keep a stream alive count.
    pub idle: Duration,
    /// How long the whole reply may take.
    pub total: Duration,
    /// The longest event.
    pub event_bytes_max: usize,
    /// The longest reply, with all that its format adds.
    pub reply_bytes_max: usize,
}

impl Limits {
    /// Limits of time as a config sets them, and of size as they are for all.
    pub fn of(times: ReplyTimes) -> Self {
        Self {
            first_byte: Duration::from_secs(times.first_byte_seconds),
            idle: Duration::from_secs(times.idle_seconds),
            total: Duration::from_secs(times.total_seconds),
            event_bytes_max: 16 << 20,
            reply_bytes_max: 128 << 20,
        }
    }
}

/// A stream of events as far as it has come.
struct Decoding<'a> {
    sse: BoxStream<'a, Result<Sse, SseError>>,
    decoder: Box<dyn Decode + 'a>,
    faults: &'a Faults,
    ready: VecDeque<ReplyEvent>,
    bytes: usize,
    bytes_max: usize,
    is_over: bool,
}

/// The bytes of a response's body, in the pieces in which they come.
pub type Body<'a> = BoxStream<'a, Result<Bytes, BackendError>>;

/// The body of a response as it comes, within limits of silence and time.
pub(super) fn heard(response: Response, faults: &Faults, limits: Limits) -> Body<'_> {
    let began = Instant::now();
    let bytes = stream::try_unfold(response, move |mut response| async move {
        let left = limits.total.saturating_sub(began.elapsed());
        let chunk = hear(response.chunk(), limits.idle.min(left), faults).await;
        let chunk = chunk.map_err(|fault| {
            if began.elapsed() < limits.total {
                fault
            } else {
                faults.endless(limits.total)
            }
        })?;
        Ok(chunk.map(|chunk| (chunk, response)))
    });
    bytes.boxed()
}

/// The events of a body that is streamed.
pub(super) fn events<'a>(
    body: Body<'a>,
    decoder: Box<dyn Decode + 'a>,
    faults: &'a Faults,
    limits: Limits,
) -> Reply<'a> {
    let event_bytes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&event_bytes);
    let bytes = body.and_then(move |chunk| {
        let before = counter.fetch_add(chunk.len(), Ordering::Relaxed);
        let is_too_long = before > limits.event_bytes_max;
        ready(if is_too_long {
            Err(faults.too_long("an event", limits.event_bytes_max))
        } else {
            Ok(chunk)
        })
    });
    let sse = SseByteStream::new(bytes).inspect_ok(move |_| {
        event_bytes.store(0, Ordering::Relaxed);
    });
    let decoding = Decoding {
        sse: sse.boxed(),
        decoder,
        faults,
        ready: VecDeque::new(),
        bytes: 0,
        bytes_max: limits.reply_bytes_max,
        is_over: false,
    };
    stream::try_unfold(decoding, Decoding::next).boxed()
}

/// The events of a body that came whole, from a server that does not stream.
pub(super) async fn whole<'a>(
    body: Body<'a>,
    mut decoder: Box<dyn Decode + 'a>,
    faults: &'a Faults,
    limits: Limits,
) -> Result<Reply<'a>, BackendError> {
    let body = gathered(body, limits.reply_bytes_max).await?;
    if body.len() > limits.reply_bytes_max {
        return Err(faults.too_long("a reply", limits.reply_bytes_max));
    }
    let text = std::str::from_utf8(&body).map_err(|error| faults.malformed(&error.to_string()))?;
    let piece = Piece {
        name: "",
        data: text.trim(),
    };
    let mut events = decoder
        .read(piece)
        .map_err(|unread| faults.unread(unread))?;
    if !matches!(events.last(), Some(ReplyEvent::End(_))) {
        let rest = decoder.end().map_err(|unread| match unread {
            Unread::Cut => faults.malformed("the body holds no reply"),
            Unread::Malformed(_) | Unread::Reported(_) | Unread::GaveUp(_) => faults.unread(unread),
        });
        events.extend(rest?);
    }
    Ok(stream::iter(events.into_iter().map(Ok)).boxed())
}

/// A body, read until it ends or has more than `bytes_max`.
pub(super) async fn gathered(
    mut body: Body<'_>,
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

/// Waits for the vendor, but not for ever.
pub(super) async fn hear<T>(
    sound: impl Future<Output = reqwest::Result<T>>,
    silence_max: Duration,
    faults: &Faults,
) -> Result<T, BackendError> {
    match tokio::time::timeout(silence_max, sound).await {
        Ok(heard) => heard.map_err(|error| faults.broken(error)),
        Err(_) => Err(faults.silent(silence_max)),
    }
}

impl Decoding<'_> {
    async fn next(mut self) -> Result<Option<(ReplyEvent, Self)>, BackendError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                self.is_over = matches!(event, ReplyEvent::End(_));
                return Ok(Some((event, self)));
            }
            if self.is_over {
                return Ok(None);
            }
            let read = match self.sse.next().await {
                Some(Ok(event)) => self.take(&event)?,
                Some(Err(error)) => return Err(self.fault(error)),
                None => self.decoder.end(),
            };
            let events = read.map_err(|unread| self.faults.unread(unread))?;
            self.ready.extend(events);
        }
    }

    fn take(&mut self, event: &Sse) -> Result<Result<Vec<ReplyEvent>, Unread>, BackendError> {
        let data = event.data.as_deref().unwrap_or_default();
        self.bytes = self.bytes.saturating_add(data.len());
        if self.bytes > self.bytes_max {
            return Err(self.faults.too_long("a reply", self.bytes_max));
        }
        let piece = Piece {
            name: event.event.as_deref().unwrap_or_default(),
            data: data.trim(),
        };
        if piece.data.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        Ok(self.decoder.read(piece))
    }

    fn fault(&self, error: SseError) -> BackendError {
        let SseError::Body(cause) = error else {
            return self.faults.malformed(&error.to_string());
        };
        match cause.downcast::<BackendError>() {
            Ok(fault) => *fault,
            Err(cause) => self.faults.malformed(&cause.to_string()),
        }
    }
}
