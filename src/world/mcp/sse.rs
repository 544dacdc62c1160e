//! Transport for the older HTTP+SSE protocol (2024-11-05): the server sends its messages as events
//! of one stream, and receives messages by POST at the endpoint that its first event names. That
//! endpoint must have the server's own origin, because the user's headers are sent there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::{Position, Url};

use crate::config::servers::RemoteServer;
use crate::world::io::http::root_cause;
use crate::world::mcp::MESSAGE_BYTES_MAX;
use crate::world::mcp::guarded_resolver::refused_address;
use crate::world::mcp::remote_client::{RemoteHttpClient, RemoteHttpError};
use crate::world::mcp::request_headers::headers;

/// Timeout for the `endpoint` event.
const ENDPOINT_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest URL of the endpoint, in bytes.
const ENDPOINT_BYTES_MAX: usize = 8 * 1024;
/// Largest number of messages that are posted at the same time; others wait for their turn.
const POSTS_MAX: usize = 32;
/// Error message of the client for a body that is not a message, despite a successful status.
const NOT_A_MESSAGE: &str = "could not parse JSON response";

/// An open event stream, with the endpoint for messages.
pub(super) struct SseTransport {
    client: RemoteHttpClient,
    endpoint: Arc<str>,
    headers: Vec<(HeaderName, HeaderValue)>,
    stream: SseEventStream,
    post_slots: Arc<Semaphore>,
}

/// The events of a stream that have data.
type SseEventStream = BoxStream<'static, Result<McpSseEvent, SseTransportError>>;

/// An event, with its optional name.
struct McpSseEvent {
    name: Option<String>,
    data: String,
}

/// Why a message could not be received or sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SseTransportError {
    /// A request failed.
    #[error(transparent)]
    Request(#[from] RemoteHttpError),
    /// massgen refused to send a request.
    #[error("{0}")]
    Refused(String),
    /// Another reason.
    #[error("{0}")]
    Message(String),
}

impl SseTransport {
    /// Opens the event stream of a server, and waits until it names its endpoint.
    pub(super) async fn open(
        remote: &RemoteServer,
        client: RemoteHttpClient,
    ) -> Result<Self, SseTransportError> {
        let transport = timeout(ENDPOINT_TIME_MAX, Self::open_stream(remote, client)).await;
        transport.unwrap_or_else(|_| {
            let seconds = ENDPOINT_TIME_MAX.as_secs();
            let reason = format!("no `endpoint` event within {seconds} s");
            Err(SseTransportError::Message(reason))
        })
    }

    async fn open_stream(
        remote: &RemoteServer,
        client: RemoteHttpClient,
    ) -> Result<Self, SseTransportError> {
        let (url, bytes_max) = (remote.url.as_str().into(), MESSAGE_BYTES_MAX);
        let stream_headers = headers(remote);
        let stream = client.get_stream_with_max_sse_event_size(
            url,
            None,
            None,
            None,
            stream_headers,
            bytes_max,
        );
        let events = stream
            .await
            .map_err(open_error)?
            .filter_map(async |event_read| match event_read {
                Ok(event) => {
                    let name = event.event;
                    event.data.map(|data| Ok(McpSseEvent { name, data }))
                }
                Err(error) => Some(Err(SseTransportError::Message(
                    root_cause(&error).to_string(),
                ))),
            });
        let mut stream: SseEventStream = events.boxed();
        let first_event = stream.next().await.transpose()?;
        let endpoint = endpoint_url(&remote.url, first_event.as_ref())?;
        Ok(Self {
            client,
            endpoint: endpoint.as_str().into(),
            headers: headers(remote),
            stream,
            post_slots: Arc::new(Semaphore::new(POSTS_MAX)),
        })
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = SseTransportError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), SseTransportError>> + Send + 'static {
        let (client, headers) = (self.client.clone(), self.headers.iter().cloned().collect());
        let (endpoint, post_slots) = (Arc::clone(&self.endpoint), Arc::clone(&self.post_slots));
        async move {
            let _slot = post_slots.acquire().await;
            let post = client.post_message(endpoint, message, None, None, headers);
            check_post_result(post.await)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while let Some(Ok(event)) = self.stream.next().await {
            if event.name.is_none_or(|name| name == "message") {
                match serde_json::from_str(&event.data) {
                    Ok(message) => return Some(message),
                    Err(error) => tracing::debug!(%error, "an event is not a message"),
                }
            }
        }
        self.stream = stream::empty().boxed();
        None
    }

    async fn close(&mut self) -> Result<(), SseTransportError> {
        self.stream = stream::empty().boxed();
        Ok(())
    }
}

/// Converts the error of a stream that could not be opened.
fn open_error(error: RemoteHttpError) -> SseTransportError {
    if let StreamableHttpError::Client(error) = &error {
        return match error.status() {
            Some(StatusCode::UNAUTHORIZED) => {
                let challenge = AuthRequiredError::new(String::new());
                StreamableHttpError::AuthRequired(challenge).into()
            }
            Some(status) => SseTransportError::Message(format!("HTTP {status}")),
            None => match refused_address(error) {
                Some(reason) => SseTransportError::Refused(reason.to_owned()),
                None => SseTransportError::Message(root_cause(error).to_string()),
            },
        };
    }
    if let StreamableHttpError::ServerDoesNotSupportSse = error {
        return SseTransportError::Message(format!("HTTP {}", StatusCode::METHOD_NOT_ALLOWED));
    }
    if let StreamableHttpError::UnexpectedContentType(_) = error {
        return SseTransportError::Message("its reply is not an event stream".to_owned());
    }
    error.into()
}

/// Checks that a message was accepted. Anything else in the reply is ignored: the server answers
/// with events.
fn check_post_result(
    post_result: Result<StreamableHttpPostResponse, RemoteHttpError>,
) -> Result<(), SseTransportError> {
    match post_result {
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)) => {
            Err(SseTransportError::Message(error.error.message.into_owned()))
        }
        Ok(_) | Err(StreamableHttpError::UnexpectedContentType(_)) => Ok(()),
        Err(StreamableHttpError::UnexpectedServerResponse(message))
            if message.starts_with(NOT_A_MESSAGE) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Resolves the endpoint for messages to the server at `url` from its first event.
fn endpoint_url(url: &Url, first_event: Option<&McpSseEvent>) -> Result<Url, SseTransportError> {
    let invalid = |reason: &str| SseTransportError::Message(reason.to_owned());
    let Some(McpSseEvent { name, data }) = first_event else {
        return Err(invalid("its stream ended before the `endpoint` event"));
    };
    let name = name.as_deref().unwrap_or("message");
    if name != "endpoint" {
        let reason = format!("its first event is `{name}`, not `endpoint`");
        return Err(invalid(&reason));
    }
    let endpoint_text = Some(data.trim()).filter(|text| text.len() <= ENDPOINT_BYTES_MAX);
    let endpoint_url = endpoint_text.and_then(|text| url.join(text).ok());
    let endpoint = endpoint_url.ok_or_else(|| invalid("its `endpoint` event contains no URL"))?;
    let (origin, server_origin) = (
        &endpoint[..Position::BeforePath],
        &url[..Position::BeforePath],
    );
    if origin != server_origin {
        return Err(SseTransportError::Refused(format!(
            "its endpoint is at `{origin}`, but the server is at `{server_origin}`"
        )));
    }
    Ok(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the endpoint of a server whose first event is `endpoint` with `data`.
    #[track_caller]
    fn check(data: &str, expected: Result<&str, &str>) {
        let url = Url::parse("https://e.org/mcp/sse?key=1").unwrap();
        let event = McpSseEvent {
            name: Some("endpoint".to_owned()),
            data: data.to_owned(),
        };
        match (endpoint_url(&url, Some(&event)), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
            (Err(error), Err(expected)) => {
                assert!(error.to_string().contains(expected), "{data}: {error}");
            }
            (found, expected) => panic!("{data}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn messages_are_sent_only_to_the_origin_of_the_server() {
        check("/message?id=1", Ok("https://e.org/message?id=1"));
        check("message?id=1", Ok("https://e.org/mcp/message?id=1"));
        check(" ?id=1\n", Ok("https://e.org/mcp/sse?id=1"));
        check("https://e.org:443/message", Ok("https://e.org/message"));
        check("HTTPS://E.org/message", Ok("https://e.org/message"));
        for elsewhere in [
            "http://e.org/message",
            "https://e.org:8443/message",
            "https://other.org/message",
            "https://e.org.other.org/message",
            "https://user@e.org/message",
            "//other.org/message",
            "\\\\other.org/message",
            "file:///etc/passwd",
            "blob:https://e.org/1",
        ] {
            check(elsewhere, Err("but the server is at `https://e.org`"));
        }
        check(
            "https://other.org/message",
            Err("endpoint is at `https://other.org`, but the server is at `https://e.org`"),
        );
        check("https://[/", Err("contains no URL"));
        let long_path = "a".repeat(ENDPOINT_BYTES_MAX);
        check(&long_path, Ok(&format!("https://e.org/mcp/{long_path}")));
        check(&format!("{long_path}a"), Err("contains no URL"));
    }

    #[test]
    fn the_first_event_names_the_endpoint() {
        let url = Url::parse("https://e.org/sse").unwrap();
        for (first_event, expected) in [
            (None, "its stream ended"),
            (Some(None), "its first event is `message`"),
            (Some(Some("ping")), "its first event is `ping`"),
        ] {
            let event = first_event.map(|name: Option<&str>| McpSseEvent {
                name: name.map(str::to_owned),
                data: "/message".to_owned(),
            });
            let reason = endpoint_url(&url, event.as_ref()).unwrap_err().to_string();
            assert!(reason.contains(expected), "{reason}");
        }
    }
}
