//! HTTP client for the requests to one remote server. It authorizes them, and skips events with too
//! many JSON values.

#![expect(
    clippy::disallowed_types,
    reason = "`StreamableHttpClient` takes headers as a `HashMap`, which is passed on"
)]

use std::collections::HashMap;
use std::sync::Arc;

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

use crate::world::mcp::MESSAGE_BYTES_MAX;
use crate::world::mcp::event_stream::EventStreamState;
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
