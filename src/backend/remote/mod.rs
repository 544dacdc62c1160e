//! HTTP client for models, the same for every wire format: sends one request, and returns the
//! events of its reply within limits. It sends a request again only if a refusal shows how to
//! encode it; whether any other error is retried is the caller's decision.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};
use url::Url;

use crate::backend::remote::errors::RemoteErrors;
use crate::backend::remote::prefix_cache::RequestPrefixCache;
use crate::backend::remote::reply::{
    ReplyLimits, ResponseBody, collect_body, decode_stream, decode_whole, limited_body,
    wait_for_vendor,
};
use crate::backend::remote::wire::{RefusalRemedy, WireCodec};
use crate::backend::{Backend, BackendError, BackendErrorKind, ModelRequest, ReplyStream};
use crate::event::SetupProblem;
use crate::world::io::http::HttpClient;

pub mod connect;
pub mod endpoint;
mod errors;
pub mod media;
pub mod model_list;
pub mod reply;
pub mod wire;
mod prefix_cache;

/// How much of an error response is read, in bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// A client of one model at one endpoint.
pub struct RemoteBackend {
    http: HttpClient,
    url: Url,
    headers: HeaderMap,
    wire: Box<dyn WireCodec>,
    prefix_cache: Mutex<RequestPrefixCache>,
    errors: RemoteErrors,
    limits: ReplyLimits,
}

impl fmt::Debug for RemoteBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Omits the URL, whose query may hold a key, and the headers.
        f.debug_struct("RemoteBackend")
            .field("wire", &self.wire)
            .field("errors", &self.errors)
            .finish_non_exhaustive()
    }
}

impl RemoteBackend {
    /// Returns the same client with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: ReplyLimits) -> Self {
        self.limits = limits;
        self
    }

    async fn open<'a>(
        &'a self,
        request: ModelRequest<'a>,
    ) -> Result<ReplyStream<'a>, BackendError> {
        let response = self.send(&request).await?;
        let header = response.headers().get(CONTENT_TYPE).cloned();
        let content_type = header.as_ref().and_then(|value| value.to_str().ok());
        let body = limited_body(response, &self.errors, self.limits);
        self.decode_body(request, content_type.unwrap_or_default(), body)
            .await
    }

    /// Decodes the events of a body that answers `request`, wherever it comes from. Waits for
    /// nothing but the body.
    ///
    /// # Errors
    /// If the body is not a stream and contains no reply. An error within a stream is its last
    /// element.
    pub async fn decode_body<'a>(
        &'a self,
        request: ModelRequest<'a>,
        content_type: &str,
        body: ResponseBody<'a>,
    ) -> Result<ReplyStream<'a>, BackendError> {
        let (errors, limits) = (&self.errors, self.limits);
        let decoder = self.wire.decoder(request);
        match content_type {
            page if page.starts_with("text/html") => Err(errors.web_page()),
            json if json.starts_with("application/json") => {
                decode_whole(body, decoder, errors, limits).await
            }
            _ => Ok(decode_stream(body, decoder, errors, limits)),
        }
    }

    /// Sends a request; once more if the refusal shows how it has to be encoded.
    async fn send(&self, request: &ModelRequest<'_>) -> Result<Response, BackendError> {
        let mut refusal = match self.post(request).await? {
            Ok(response) => return Ok(response),
            Err(refusal) => refusal,
        };
        let message = String::from_utf8_lossy(&refusal.body);
        let is_about_fields = matches!(
            refusal.status,
            StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY
        );
        if is_about_fields && self.wire.adapt_to_refusal(&message) == RefusalRemedy::Retry {
            // It holds messages in the refused encoding.
            *self.lock_prefix_cache() = RequestPrefixCache::default();
            tracing::debug!("a refused request is encoded in another way");
            refusal = match self.post(request).await? {
                Ok(response) => return Ok(response),
                Err(refusal) => refusal,
            };
        }
        let HttpRefusal {
            status,
            headers,
            body,
        } = refusal;
        Err(self.errors.http_status_error(status, &headers, &body))
    }

    fn lock_prefix_cache(&self) -> MutexGuard<'_, RequestPrefixCache> {
        self.prefix_cache
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts a request once. The outer error is that no response came; the inner one, that its
    /// status is not success.
    async fn post(
        &self,
        request: &ModelRequest<'_>,
    ) -> Result<Result<Response, HttpRefusal>, BackendError> {
        let (errors, limits) = (&self.errors, self.limits);
        let client = self
            .http
            .client_for(&self.url)
            .map_err(|error| errors.client_setup_failed(&error))?;
        let body_text = self.lock_prefix_cache().body(&*self.wire, request);
        let response_future = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body_text)
            .send();
        let response = wait_for_vendor(response_future, limits.first_byte, errors).await;
        let response = match response {
            Ok(response) => response,
            Err(error) => return Err(self.retried_if_reachable(error).await),
        };
        self.http.note_reached();
        let status = response.status();
        if status.is_success() {
            return Ok(Ok(response));
        }
        let headers = response.headers().clone();
        let body = collect_body(limited_body(response, errors, limits), REFUSAL_BYTES_MAX).await;
        Ok(Err(HttpRefusal {
            status,
            headers,
            // The status is a refusal even if its body cannot be read.
            body: body.unwrap_or_default(),
        }))
    }
}

impl RemoteBackend {
    /// Returns the error of a name that was not found as one that may recover, unless there seems
    /// to be no network at all: nothing was reached so far, and no other name is found either.
    async fn retried_if_reachable(&self, error: BackendError) -> BackendError {
        let is_lookup = error.setup_problem() == Some(SetupProblem::NoNetwork);
        if is_lookup && !self.http.finds_no_host().await {
            let kind = BackendErrorKind::Unreachable;
            return BackendError { kind, ..error };
        }
        error
    }
}

/// A response with a status other than success.
struct HttpRefusal {
    status: StatusCode,
    headers: HeaderMap,
    /// The body, as far as it was read.
    body: Vec<u8>,
}

impl Backend for RemoteBackend {
    fn ask<'a>(&'a self, request: ModelRequest<'a>) -> ReplyStream<'a> {
        stream::once(self.open(request)).try_flatten().boxed()
    }
}
