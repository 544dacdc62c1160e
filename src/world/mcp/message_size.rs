//! Skips messages with too many JSON values before they are parsed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::StreamExt as _;
use futures_util::future;
use futures_util::stream::BoxStream;
use sse_stream_of_rmcp::{Error as SseError, Sse};
use tokio::io::{AsyncRead, ReadBuf};

use crate::text::json_value_count::{JSON_VALUES_MAX, JsonValueCounter, has_too_many_values};

/// A reader of lines that cuts off a line where it exceeds the number of values.
#[derive(Debug)]
pub(crate) struct BoundedLines<R> {
    source: R,
    counter: JsonValueCounter,
}

impl<R> BoundedLines<R> {
    /// Creates a reader of `source`.
    pub(crate) fn new(source: R) -> Self {
        Self {
            source,
            counter: JsonValueCounter::default(),
        }
    }

    /// Moves the bytes to keep to the beginning of `chunk`, and returns their number.
    fn retain(&mut self, chunk: &mut [u8]) -> usize {
        let mut kept_bytes = 0;
        for index in 0..chunk.len() {
            let byte = chunk.get(index).copied().unwrap_or_default();
            let was_over = self.counter.is_over();
            if byte == b'\n' {
                self.counter = JsonValueCounter::default();
            } else {
                self.counter.push(byte);
                if self.counter.is_over() && !was_over {
                    tracing::error!("a message has more than {JSON_VALUES_MAX} values");
                }
            }
            if (byte == b'\n' || !self.counter.is_over())
                && let Some(slot) = chunk.get_mut(kept_bytes)
            {
                *slot = byte;
                kept_bytes += 1;
            }
        }
        kept_bytes
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for BoundedLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        loop {
            ready!(Pin::new(&mut self.source).poll_read(context, buffer))?;
            let Some(chunk) = buffer.filled_mut().get_mut(start..) else {
                return Poll::Ready(Ok(()));
            };
            let bytes_read = chunk.len();
            let kept_bytes = self.retain(chunk);
            buffer.set_filled(start.saturating_add(kept_bytes));
            // No byte would mean the end of the stream.
            if kept_bytes > 0 || bytes_read == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Returns the events without those that have too many values.
pub(super) fn bounded_events(
    events: BoxStream<'static, Result<Sse, SseError>>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let is_accepted = |event: &Result<Sse, SseError>| {
        let data = event.as_ref().ok().and_then(|event| event.data.as_ref());
        let is_large = data.is_some_and(|data| has_too_many_values(data.as_bytes()));
        if is_large {
            tracing::error!("a message has more than {JSON_VALUES_MAX} values");
        }
        future::ready(!is_large)
    };
    events.filter(is_accepted).boxed()
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_line_ends_where_it_has_too_many_values_and_the_next_is_whole() {
        let values = "0,".repeat(JSON_VALUES_MAX * 2);
        let text = format!("{{\"a\":1}}\n[{values}0]\n{{\"b\":2}}\n");
        let mut text_read = String::new();
        let mut lines = BoundedLines::new(text.as_bytes());
        lines.read_to_string(&mut text_read).await.unwrap();
        let lines: Vec<&str> = text_read.lines().collect();
        assert_eq!((lines[0], lines[2]), ("{\"a\":1}", "{\"b\":2}"));
        assert_eq!(lines[1].len(), 2 * JSON_VALUES_MAX);
        assert_eq!(lines.len(), 3);
    }
}
