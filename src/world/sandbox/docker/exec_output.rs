//! Output of a command as an engine sends it: frames of its standard output and error on one
//! connection. A frame may claim to have 4 GiB; it is passed on in parts, so that no more than one
//! part is ever kept.

use std::io;

use bollard::errors::Error as EngineError;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{CONNECTION, CONTENT_TYPE, UPGRADE};
use hyper::upgrade::Upgraded;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, ReadHalf, WriteHalf, split};

use crate::path::AbsPath;
use crate::world::sandbox::docker::engine_request::{ReplyRefusal, send_request};

/// The largest part of a frame, in bytes.
const PART_BYTES_MAX: usize = 64 * 1024;
/// Size of the header of a frame, in bytes: the stream, three zeros, and the size.
const HEADER_BYTES: usize = 8;
/// What an engine is to do with the command: pass its output on, as it is.
const START_OPTIONS: &[u8] = br#"{"Detach":false,"Tty":false}"#;

/// The output of a command that an engine has started.
pub(super) type EngineExecOutput = ExecOutput<ReadHalf<TokioIo<Upgraded>>>;
/// The standard input of a command that an engine has started, if it is attached. Nothing ends on
/// drop.
pub(super) type EngineExecInput = WriteHalf<TokioIo<Upgraded>>;

/// Starts the command that the engine at `socket` has created as `exec`. If its reply is refused,
/// `refusal` records that.
pub(super) async fn start_exec(
    socket: &AbsPath,
    exec: &str,
    refusal: &ReplyRefusal,
) -> Result<(EngineExecOutput, EngineExecInput), EngineError> {
    let request = Request::post(format!("/exec/{exec}/start"))
        .header(CONTENT_TYPE, "application/json")
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "tcp")
        .body(Full::new(Bytes::from_static(START_OPTIONS)))?;
    let reply = send_request(socket, request, refusal).await?;
    let status = reply.status();
    if status == StatusCode::SWITCHING_PROTOCOLS {
        let stream = hyper::upgrade::on(reply).await?;
        let (output, input) = split(TokioIo::new(stream));
        return Ok((ExecOutput::new(output), input));
    }
    let body = reply.into_body().collect().await?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = answer.get("message").and_then(Value::as_str);
    Err(EngineError::DockerResponseServerError {
        status_code: status.as_u16(),
        message: message.map_or_else(
            || String::from_utf8_lossy(&body).trim().to_owned(),
            str::to_owned,
        ),
    })
}

/// Which stream of a command a part belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExecStream {
    /// Its standard input, which no engine sends.
    Stdin,
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

impl ExecStream {
    fn of_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(ExecStream::Stdin),
            1 => Some(ExecStream::Stdout),
            2 => Some(ExecStream::Stderr),
            _ => None,
        }
    }
}

/// A part of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExecPart {
    pub(super) stream: ExecStream,
    /// At most [`PART_BYTES_MAX`].
    pub(super) bytes: Vec<u8>,
}

/// Splits what a reader receives into parts.
#[derive(Debug)]
pub(super) struct ExecOutput<R> {
    reader: R,
    /// What was received; only `unread_start..unread_end` was not passed on yet.
    received: Vec<u8>,
    unread_start: usize,
    unread_end: usize,
    /// The stream of the current frame, and how many bytes of the frame are left.
    stream: ExecStream,
    frame_bytes_left: usize,
}

impl<R: AsyncRead + Unpin> ExecOutput<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            received: vec![0; PART_BYTES_MAX],
            unread_start: 0,
            unread_end: 0,
            stream: ExecStream::Stdout,
            frame_bytes_left: 0,
        }
    }

    /// Returns the next part; `None` if the connection has ended, also within a frame. What is not
    /// a frame is an engine's own text instead of output, and counts as standard output. If this is
    /// dropped before it is ready, nothing is lost.
    pub(super) async fn next_part(&mut self) -> io::Result<Option<ExecPart>> {
        loop {
            if let Some(part) = self.take_part() {
                return Ok(Some(part));
            }
            if !self.receive().await? {
                return Ok(None);
            }
        }
    }

    fn take_part(&mut self) -> Option<ExecPart> {
        loop {
            let unread = self
                .received
                .get(self.unread_start..self.unread_end)
                .unwrap_or_default();
            let first_byte = *unread.first()?;
            if self.frame_bytes_left > 0 {
                let count = self.frame_bytes_left.min(unread.len());
                let bytes = unread.get(..count).unwrap_or_default().to_vec();
                self.unread_start = self.unread_start.saturating_add(count);
                self.frame_bytes_left = self.frame_bytes_left.saturating_sub(count);
                let stream = self.stream;
                return Some(ExecPart { stream, bytes });
            }
            let Some(stream) = ExecStream::of_number(first_byte) else {
                let bytes = unread.to_vec();
                self.unread_start = self.unread_end;
                let stream = ExecStream::Stdout;
                return Some(ExecPart { stream, bytes });
            };
            let (header, _) = unread.split_first_chunk::<HEADER_BYTES>()?;
            let [_, _, _, _, size @ ..] = *header;
            self.stream = stream;
            self.frame_bytes_left = usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX);
            self.unread_start = self.unread_start.saturating_add(HEADER_BYTES);
        }
    }

    /// Receives more; returns whether there was more.
    async fn receive(&mut self) -> io::Result<bool> {
        // At most a part of a header waits.
        self.received
            .copy_within(self.unread_start..self.unread_end, 0);
        self.unread_end = self.unread_end.saturating_sub(self.unread_start);
        self.unread_start = 0;
        let buffer = self.received.get_mut(self.unread_end..).unwrap_or_default();
        let count = self.reader.read(buffer).await?;
        self.unread_end = self.unread_end.saturating_add(count);
        Ok(count > 0)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex, repeat};

    use super::*;

    /// Returns the header of a frame.
    fn header(stream: u8, size: u32) -> Vec<u8> {
        let mut header = vec![stream, 0, 0, 0];
        header.extend(size.to_be_bytes());
        header
    }

    /// Returns all parts of `sent`, of which `step` bytes arrive at a time.
    async fn parts(sent: &[u8], step: usize) -> Vec<(ExecStream, String)> {
        let (mut engine, reader) = duplex(step);
        let sent = sent.to_vec();
        let sending = tokio::spawn(async move {
            engine.write_all(&sent).await.unwrap();
        });
        let mut output = ExecOutput::new(reader);
        let mut parts: Vec<(ExecStream, String)> = Vec::new();
        while let Some(part) = output.next_part().await.unwrap() {
            let text = String::from_utf8(part.bytes).unwrap();
            match parts.last_mut() {
                Some((stream, last)) if *stream == part.stream => last.push_str(&text),
                Some(_) | None => parts.push((part.stream, text)),
            }
        }
        sending.await.unwrap();
        parts
    }

    #[tokio::test]
    async fn frames_are_told_apart_however_they_arrive() {
        let frames = [
            header(1, 4),
            b"one\n".to_vec(),
            header(2, 0),
            header(2, 4),
            b"two\n".to_vec(),
            header(1, 6),
            b"three\n".to_vec(),
        ];
        let frames = frames.concat();
        let expected = [
            (ExecStream::Stdout, "one\n"),
            (ExecStream::Stderr, "two\n"),
            (ExecStream::Stdout, "three\n"),
        ];
        let expected = expected.map(|(stream, text)| (stream, text.to_owned()));
        for step in [1, 3, 8, 1024] {
            assert_eq!(parts(&frames, step).await, expected, "{step}");
        }
        // What an engine writes without a frame is output; what it leaves incomplete ends.
        let text = b"OCI runtime exec failed";
        let raw = [(ExecStream::Stdout, "OCI runtime exec failed".to_owned())];
        assert_eq!(parts(text, 1024).await, raw);
        let cut = [header(1, 9), b"cut".to_vec()].concat();
        assert_eq!(
            parts(&cut, 1024).await,
            [(ExecStream::Stdout, "cut".to_owned())]
        );
        assert!(parts(&[1, 0, 0], 1024).await.is_empty());
    }

    #[tokio::test]
    async fn a_frame_of_4_gib_is_passed_on_in_parts() {
        let claim = header(1, u32::MAX);
        let endless = claim.as_slice().chain(repeat(b'x'));
        let mut output = ExecOutput::new(endless);
        for _ in 0..100 {
            let part = output.next_part().await.unwrap().unwrap();
            assert!(part.bytes.len() <= PART_BYTES_MAX && !part.bytes.is_empty());
        }
        assert_eq!(output.received.len(), PART_BYTES_MAX);
    }
}
