//! One request to an engine, on a connection of its own. An engine is not trusted to be brief: no
//! more than a named number of bytes of a reply is received, apart from the output of a command.

use std::error::Error as StdError;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bollard::errors::Error as EngineError;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue};
use hyper::http::uri::PathAndQuery;
use hyper::{Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use crate::path::AbsPath;
use crate::world::io::http::causes;

/// The largest reply, in bytes: enough for the changes of a container with 500,000 files.
const REPLY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A reply was refused because of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("its reply has more than {REPLY_BYTES_MAX} bytes")]
pub(super) struct EngineReplyTooLargeError;

/// Remembers that a reply was refused because of its size: some readers of replies keep only the
/// text of an error of their connection, which does not say it. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplyRefusal(Arc<AtomicBool>);

impl ReplyRefusal {
    /// Returns the reason, if a reply was refused.
    pub(super) fn reason(&self) -> Option<EngineReplyTooLargeError> {
        let is_refused = self.0.load(Ordering::Acquire);
        is_refused.then_some(EngineReplyTooLargeError)
    }

    /// Forgets earlier refusals, so that a later failure is not attributed to them.
    pub(super) fn reset(&self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Sends a request to the engine at `socket` and returns the head of its reply. What follows after
/// an upgrade of the connection is bounded where it is read; every other reply ends with an error
/// after [`REPLY_BYTES_MAX`], which `refusal` records.
pub(super) async fn send_request<B>(
    socket: &AbsPath,
    request: Request<B>,
    refusal: &ReplyRefusal,
) -> Result<Response<Incoming>, EngineError>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    send_bounded(socket, request, REPLY_BYTES_MAX, refusal).await
}

async fn send_bounded<B>(
    socket: &AbsPath,
    request: Request<B>,
    received_bytes_max: u64,
    refusal: &ReplyRefusal,
) -> Result<Response<Incoming>, EngineError>
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let (mut head, body) = request.into_parts();
    let target = head
        .uri
        .path_and_query()
        .map_or("/", PathAndQuery::as_str)
        .to_owned();
    head.uri = Uri::builder().path_and_query(target.as_str()).build()?;
    head.headers
        .insert(HOST, HeaderValue::from_static("localhost"));
    let is_unbounded = Arc::new(AtomicBool::new(false));
    let stream = BoundedStream {
        inner: UnixStream::connect(socket.as_path()).await?,
        received_bytes: 0,
        received_bytes_max,
        is_unbounded: Arc::clone(&is_unbounded),
        refusal: refusal.clone(),
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // What goes wrong with it is reported to the reader of the reply.
    drop(tokio::spawn(connection.with_upgrades()));
    let reply = sender.send_request(Request::from_parts(head, body)).await?;
    if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
        is_unbounded.store(true, Ordering::Release);
    }
    Ok(reply)
}

/// Returns the reason if `error` is about a reply that was too large.
pub(super) fn reply_size_error(error: &EngineError) -> Option<EngineReplyTooLargeError> {
    causes(error).find_map(|cause| {
        let inner = cause.downcast_ref::<io::Error>()?.get_ref()?;
        inner.downcast_ref::<EngineReplyTooLargeError>().copied()
    })
}

/// A connection that fails when more than a number of bytes was received.
#[derive(Debug)]
struct BoundedStream<S> {
    inner: S,
    received_bytes: u64,
    received_bytes_max: u64,
    /// Set when what follows is bounded by its reader.
    is_unbounded: Arc<AtomicBool>,
    refusal: ReplyRefusal,
}

impl<S: AsyncRead + Unpin> AsyncRead for BoundedStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        let filled_before = buffer.filled().len();
        ready!(Pin::new(&mut stream.inner).poll_read(context, buffer))?;
        let count = buffer.filled().len().saturating_sub(filled_before);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        stream.received_bytes = stream.received_bytes.saturating_add(count);
        if stream.received_bytes > stream.received_bytes_max
            && !stream.is_unbounded.load(Ordering::Acquire)
        {
            stream.refusal.0.store(true, Ordering::Release);
            return Poll::Ready(Err(io::Error::other(EngineReplyTooLargeError)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BoundedStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Bytes;
    use tempfile::TempDir;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    const MIB: u64 = 1024 * 1024;

    /// Returns how many bytes of a body arrive from an engine that sends `size_bytes` zeros, with a
    /// limit of 2 MiB.
    async fn received(
        path: &str,
        status: &str,
        size_bytes: u64,
        refusal: &ReplyRefusal,
    ) -> Result<u64, EngineError> {
        let dir = TempDir::new().unwrap();
        let socket = AbsPath::new(dir.path().join("engine")).unwrap();
        let listener = UnixListener::bind(socket.as_path()).unwrap();
        let head = format!("HTTP/1.1 {status}\r\nContent-Length: {size_bytes}\r\n\r\n");
        let engine = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let count = stream.read(&mut request).await.unwrap();
            stream.write_all(head.as_bytes()).await.unwrap();
            let chunk = vec![0; 64 * 1024];
            for _ in 0..size_bytes / 65_536 {
                if stream.write_all(&chunk).await.is_err() {
                    break;
                }
            }
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let request = Request::builder()
            .uri(format!("unix://engine{path}"))
            .body(Empty::<Bytes>::new())
            .unwrap();
        let reply = send_bounded(&socket, request, 2 * MIB, refusal).await?;
        let mut body = reply.into_body();
        let mut bytes_received = 0;
        while let Some(frame) = body.frame().await {
            let data = frame?.into_data().unwrap_or_default();
            bytes_received += u64::try_from(data.len()).unwrap();
        }
        drop(body);
        let head = engine.await.unwrap();
        assert!(head.contains(&format!(" {path} HTTP/1.1\r\n")), "{head}");
        Ok(bytes_received)
    }

    #[tokio::test]
    async fn a_reply_is_bounded() {
        let no_refusal = ReplyRefusal::default();
        let list = "/containers/json?all=true";
        let small_reply = received(list, "200 OK", MIB, &no_refusal).await;
        assert_eq!(small_reply.unwrap(), MIB);
        assert_eq!(no_refusal.reason(), None);
        for (path, status) in [
            (list, "200 OK"),
            ("/containers/x/archive?path=%2Fws", "200 OK"),
            ("/containers/x/archive?path=%2Fws", "500 Error"),
        ] {
            let refusal = ReplyRefusal::default();
            let refused_reply = received(path, status, 4 * MIB, &refusal).await;
            let error = refused_reply.unwrap_err();
            assert_eq!(refusal.reason(), Some(EngineReplyTooLargeError));
            assert_eq!(
                reply_size_error(&error),
                Some(EngineReplyTooLargeError),
                "{path} {status}: {error:?}"
            );
            refusal.reset();
            assert_eq!(refusal.reason(), None);
        }
    }
}
