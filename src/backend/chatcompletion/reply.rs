//! Owns the way from the bytes of a response to events, within limits of size and silence.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::{Error as SseError, Sse, SseByteStream};

use crate::backend::chatcompletion::decoder::Decoder;
use crate::backend::chatcompletion::faults::Faults;
use crate::backend::{BackendError, Reply, ReplyEvent};

/// How much and how slowly a vendor may send.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long nothing may come, from the request on. Comments that keep a stream alive count.
    pub silence: Duration,
    /// The longest event.
    pub event_bytes_max: usize,
    /// The longest reply: text, reasoning and arguments together, or a body that is not streamed.
    pub reply_bytes_max: usize,
}

impl Default for Limits {
    /// Vendors are silent for up to four minutes while a model reasons or writes a long call, and
    /// local servers while they load one.
    fn default() -> Self {
        Self {
            silence: Duration::from_mins(5),
            event_bytes_max: 16 << 20,
            reply_bytes_max: 64 << 20,
        }
    }
}

/// The piece of a stream that ends it; it is no JSON.
const DONE: &str = "[DONE]";

/// A stream of events as far as it has come.
struct Decoding<'a> {
    sse: BoxStream<'a, Result<Sse, SseError>>,
    decoder: Decoder<'a>,
    faults: &'a Faults,
    ready: VecDeque<ReplyEvent>,
    is_over: bool,
}

/// The events of a response that is streamed.
pub(super) fn events<'a>(
    response: Response,
    decoder: Decoder<'a>,
    faults: &'a Faults,
    limits: Limits,
) -> Reply<'a> {
    let event_bytes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&event_bytes);
    let bytes = stream::try_unfold(response, move |mut response| {
        let counter = Arc::clone(&counter);
        async move {
            let chunk = hear(response.chunk(), faults, limits).await?;
            let size = chunk.as_ref().map_or(0, |chunk| <[u8]>::len(chunk));
            if counter.fetch_add(size, Ordering::Relaxed) > limits.event_bytes_max {
                return Err(faults.too_long("an event", limits.event_bytes_max));
            }
            Ok(chunk.map(|chunk| (chunk, response)))
        }
    });
    let sse = SseByteStream::new(bytes.boxed()).inspect_ok(move |_| {
        event_bytes.store(0, Ordering::Relaxed);
    });
    let decoding = Decoding {
        sse: sse.boxed(),
        decoder,
        faults,
        ready: VecDeque::new(),
        is_over: false,
    };
    stream::try_unfold(decoding, Decoding::next).boxed()
}

/// The events of a response that came whole, from a server that does not stream.
pub(super) async fn whole<'a>(
    response: Response,
    mut decoder: Decoder<'a>,
    faults: &'a Faults,
    limits: Limits,
) -> Result<Reply<'a>, BackendError> {
    let body = body(response, faults, limits, limits.reply_bytes_max).await?;
    if body.len() > limits.reply_bytes_max {
        return Err(faults.too_long("a reply", limits.reply_bytes_max));
    }
    let text = std::str::from_utf8(&body).map_err(|error| faults.malformed(&error.to_string()))?;
    let mut events = decoder.read(text)?;
    if events.is_empty() && !decoder.has_stopped() {
        return Err(faults.malformed("the body has no `choices`"));
    }
    events.extend(decoder.close()?);
    Ok(stream::iter(events.into_iter().map(Ok)).boxed())
}

/// The body of a response, read until it ends or has more than `bytes_max`.
pub(super) async fn body(
    mut response: Response,
    faults: &Faults,
    limits: Limits,
    bytes_max: usize,
) -> Result<Vec<u8>, BackendError> {
    let mut body = Vec::new();
    while let Some(chunk) = hear(response.chunk(), faults, limits).await? {
        body.extend_from_slice(&chunk);
        if body.len() > bytes_max {
            break;
        }
    }
    Ok(body)
}

/// Waits for the vendor, but not for ever.
pub(super) async fn hear<T>(
    sound: impl Future<Output = reqwest::Result<T>>,
    faults: &Faults,
    limits: Limits,
) -> Result<T, BackendError> {
    match tokio::time::timeout(limits.silence, sound).await {
        Ok(heard) => heard.map_err(|error| faults.broken(error)),
        Err(_) => Err(faults.silent(limits.silence)),
    }
}

impl Decoding<'_> {
    async fn next(mut self) -> Result<Option<(ReplyEvent, Self)>, BackendError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some((event, self)));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.sse.next().await {
                Some(Ok(event)) => self.take(&event)?,
                Some(Err(error)) => return Err(self.fault(error)),
                None if self.decoder.has_stopped() => self.close()?,
                None => return Err(self.faults.cut()),
            }
        }
    }

    fn take(&mut self, event: &Sse) -> Result<(), BackendError> {
        let data = event.data.as_deref().unwrap_or_default().trim();
        if event.event.as_deref() == Some("error") {
            return Err(self.faults.reported(data));
        }
        match data {
            "" => Ok(()),
            DONE => self.close(),
            piece => {
                self.ready.extend(self.decoder.read(piece)?);
                Ok(())
            }
        }
    }

    fn close(&mut self) -> Result<(), BackendError> {
        self.is_over = true;
        self.ready.extend(self.decoder.close()?);
        Ok(())
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
