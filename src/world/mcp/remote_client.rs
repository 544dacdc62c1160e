//! HTTP client for the requests to one remote server. It authorizes them, and skips events with too
//! many JSON values.
#![expect(
    clippy::disallowed_types,
    reason = "`StreamableHttpClient` takes headers as a `HashMap`, which is passed on"
)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::AuthClient;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream_of_rmcp::{Error as SseError, Sse};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::world::mcp::MESSAGE_BYTES_MAX;
use crate::world::mcp::message_size::bounded_events;

/// Why a request failed.
pub(super) type RemoteHttpError = StreamableHttpError<reqwest::Error>;

/// How the requests to a server are authorized, and the client that sends them.
#[derive(Clone)]
pub(super) enum RequestAuthorization {
    /// By the headers from the config, if at all.
    Headers(Client),
    /// By the tokens of the user, who has signed in.
    User(AuthClient<Client>),
}

/// HTTP client for one server. A clone has the same connections and tokens.
#[derive(Clone)]
pub(super) struct RemoteHttpClient {
    authorization: RequestAuthorization,
    /// The stream on which the server sends its own requests.
    pub(super) stream: EventStreamState,
}

impl RemoteHttpClient {
    /// Creates a client whose requests are authorized like this.
    pub(super) fn new(authorization: RequestAuthorization) -> Self {
        Self {
            authorization,
            stream: EventStreamState::default(),
        }
    }
}

/// Sends `$request` through `$client`, the client of `$authorization`.
macro_rules! send_authorized {
    ($authorization:expr, |$client:ident| $request:expr) => {
        match $authorization {
            RequestAuthorization::Headers($client) => $request.await,
            RequestAuthorization::User($client) => $request.await,
        }
    };
}

impl StreamableHttpClient for RemoteHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, RemoteHttpError> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, RemoteHttpError> {
        let reply = send_authorized!(&self.authorization, |client| {
            client.post_message_with_response_limits(uri, message, session, token, headers, limits)
        })?;
        if let StreamableHttpPostResponse::Json(_, Some(_))
        | StreamableHttpPostResponse::Sse(_, Some(_)) = &reply
        {
            // The server has opened a session, in which the transport requests the stream.
            self.stream.set_expected();
        }
        let StreamableHttpPostResponse::Sse(events, session) = reply else {
            return Ok(reply);
        };
        let events = bounded_events(events);
        Ok(StreamableHttpPostResponse::Sse(events, session))
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), RemoteHttpError> {
        send_authorized!(&self.authorization, |client| {
            client.delete_session(uri, session, token, headers)
        })
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, RemoteHttpError> {
        let bytes_max = MESSAGE_BYTES_MAX;
        self.get_stream_with_max_sse_event_size(uri, session, last_event, token, headers, bytes_max)
            .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        bytes_max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, RemoteHttpError> {
        let events = send_authorized!(&self.authorization, |client| {
            client.get_stream_with_max_sse_event_size(
                uri, session, last_event, token, headers, bytes_max,
            )
        });
        // An error is an answer too: after it, nothing waits for the stream.
        self.stream.set_answered();
        events.map(bounded_events)
    }
}

/// Longest wait for the beginning of the stream. Some servers answer only with the first event, so
/// it is waited for once.
const OPENING_TIME_MAX: Duration = Duration::from_secs(5);

/// Shared state of a stream. A clone is the same.
#[derive(Clone, Debug)]
pub(super) struct EventStreamState(Arc<watch::Sender<EventStreamPhase>>);

/// Phase of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventStreamPhase {
    /// No stream is expected.
    Unexpected,
    /// It was requested, or will be.
    Opening,
    /// The server has answered, perhaps that it has none, or has been waited for long enough.
    Answered,
}

impl Default for EventStreamState {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(EventStreamPhase::Unexpected)))
    }
}

impl EventStreamState {
    /// Records that the server has opened a session, in which a stream is requested.
    pub(super) fn set_expected(&self) {
        self.0.send_if_modified(|phase| {
            let is_first = *phase == EventStreamPhase::Unexpected;
            if is_first {
                *phase = EventStreamPhase::Opening;
            }
            is_first
        });
    }

    /// Records that the server has answered the request for the stream.
    pub(super) fn set_answered(&self) {
        self.0.send_replace(EventStreamPhase::Answered);
    }

    /// Waits until the server has answered the request for the stream, up to a limit.
    pub(super) async fn wait_until_answered(&self) {
        self.wait_at_most(OPENING_TIME_MAX).await;
    }

    async fn wait_at_most(&self, time_max: Duration) {
        let mut phases = self.0.subscribe();
        let phase_change = phases.wait_for(|phase| *phase != EventStreamPhase::Opening);
        let is_late = timeout(time_max, phase_change).await.is_err();
        if is_late {
            self.set_answered();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_that_does_not_begin_is_waited_for_once() {
        let stream = EventStreamState::default();
        stream.wait_at_most(Duration::MAX).await;
        stream.set_expected();
        stream.wait_at_most(Duration::ZERO).await;
        stream.wait_at_most(Duration::MAX).await;
    }
}
