//! HTTP client that adds the token of a client that acts for itself to every request. A token that
//! the server rejects is replaced once.

#![expect(
    clippy::disallowed_types,
    reason = "`StreamableHttpClient` takes headers as a `HashMap`, which is passed on"
)]

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::auth::AuthError;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream_of_rmcp::{Error as SseError, Sse};

use crate::world::mcp::client_credentials::AccessTokenSource;

/// An HTTP client whose requests have a token.
#[derive(Clone)]
pub(in crate::world::mcp) struct TokenHttpClient<C> {
    client: C,
    source: AccessTokenSource,
}

impl<C: StreamableHttpClient + Sync> TokenHttpClient<C> {
    /// Adds the tokens of `source` to the requests of `client`.
    pub(in crate::world::mcp) fn new(client: C, source: AccessTokenSource) -> Self {
        Self { client, source }
    }

    /// Sends a request with a token, and once more with another one if the server rejects it.
    async fn with_token<T, F, Fut>(&self, send: F) -> Result<T, StreamableHttpError<C::Error>>
    where
        F: Fn(Option<String>) -> Fut,
        Fut: Future<Output = Result<T, StreamableHttpError<C::Error>>>,
    {
        let token = self.source.token().await.map_err(token_error)?;
        match send(Some(token.clone())).await {
            Err(StreamableHttpError::AuthRequired(_)) => {}
            answer => return answer,
        }
        let token = self.source.replace(&token).await.map_err(token_error)?;
        send(Some(token)).await
    }
}

impl<C: StreamableHttpClient + Sync> StreamableHttpClient for TokenHttpClient<C> {
    type Error = C::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(
            uri,
            message,
            session_id,
            auth_header,
            custom_headers,
            limits,
        )
        .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        self.with_token(|token| {
            let (uri, message) = (Arc::clone(&uri), message.clone());
            let (session_id, headers) = (session_id.clone(), custom_headers.clone());
            async move {
                self.client
                    .post_message_with_response_limits(
                        uri, message, session_id, token, headers, limits,
                    )
                    .await
            }
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        self.with_token(|token| {
            let (uri, session_id) = (Arc::clone(&uri), Arc::clone(&session_id));
            let headers = custom_headers.clone();
            async move {
                let client = &self.client;
                client.delete_session(uri, session_id, token, headers).await
            }
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Self::Error>> {
        self.with_token(|token| {
            let (uri, session_id) = (Arc::clone(&uri), session_id.clone());
            let (last, headers) = (last_event_id.clone(), custom_headers.clone());
            async move {
                let client = &self.client;
                client
                    .get_stream(uri, session_id, last, token, headers)
                    .await
            }
        })
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Self::Error>> {
        self.with_token(|token| {
            let (uri, session_id) = (Arc::clone(&uri), session_id.clone());
            let (last, headers) = (last_event_id.clone(), custom_headers.clone());
            let bytes_max = max_sse_event_size;
            async move {
                self.client
                    .get_stream_with_max_sse_event_size(
                        uri, session_id, last, token, headers, bytes_max,
                    )
                    .await
            }
        })
        .await
    }
}

/// Reports that there is no token.
fn token_error<E: std::error::Error + Send + Sync + 'static>(
    why: String,
) -> StreamableHttpError<E> {
    StreamableHttpError::Auth(AuthError::ClientCredentialsError(why))
}
