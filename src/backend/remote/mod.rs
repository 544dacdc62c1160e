//! Owns the way to models over HTTP, which is the same for every wire format: one request, and the
//! events of its reply within limits. It asks once: whoever calls it decides whether to ask again.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use url::Url;

use crate::backend::remote::faults::Faults;
use crate::backend::remote::reply::{Body, Limits, events, gathered, hear, heard, whole};
use crate::backend::remote::wire::Wire;
use crate::backend::remote::written::Written;
use crate::backend::{Backend, BackendError, Reply, Request};
use crate::world::http::HttpClient;

pub mod connect;
pub mod endpoint;
mod faults;
pub mod listing;
pub mod reply;
pub mod wire;
mod written;

/// How much of a refusal is read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// A client of one model at one endpoint.
pub struct Remote {
    http: HttpClient,
    url: Url,
    headers: HeaderMap,
    wire: Box<dyn Wire>,
    written: Mutex<Written>,
    faults: Faults,
    limits: Limits,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, whose query may hold a key, and without the headers.
        f.debug_struct("Remote")
            .field("wire", &self.wire)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

impl Remote {
    /// The same client with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    async fn open<'a>(&'a self, request: Request<'a>) -> Result<Reply<'a>, BackendError> {
        let response = self.send(&request).await?;
        let content_type = response.headers().get(CONTENT_TYPE).cloned();
        let content_type = content_type.as_ref().and_then(|value| value.to_str().ok());
        let body = heard(response, &self.faults, self.limits);
        self.read(request, content_type.unwrap_or_default(), body)
            .await
    }

    /// The events of a body that answers `request`, wherever it comes from. Nothing here waits for
    /// anything but the body.
    ///
    /// # Errors
    /// If the body is no stream and holds no reply. What is wrong with a stream comes as its last
    /// element.
    pub async fn read<'a>(
        &'a self,
        request: Request<'a>,
        content_type: &str,
        body: Body<'a>,
    ) -> Result<Reply<'a>, BackendError> {
        let (faults, limits) = (&self.faults, self.limits);
        let decoder = self.wire.decoder(request);
        match content_type {
            page if page.starts_with("text/html") => Err(faults.web_page()),
            json if json.starts_with("application/json") => {
                whole(body, decoder, faults, limits).await
            }
            _ => Ok(events(body, decoder, faults, limits)),
        }
    }

    async fn send(&self, request: &Request<'_>) -> Result<Response, BackendError> {
        let (faults, limits) = (&self.faults, self.limits);
        let client = self.http.reaching(&self.url);
        let client = client.map_err(|error| faults.no_client(&error))?;
        let body_text = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            written.body(&*self.wire, request)
        };
        let sent = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .body(body_text)
            .send();
        let response = hear(sent, limits.first_byte, faults).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let refusal = gathered(heard(response, faults, limits), REFUSAL_BYTES_MAX).await;
        Err(faults.refused(status, &headers, &refusal.unwrap_or_default()))
    }
}

impl Backend for Remote {
    fn ask<'a>(&'a self, request: Request<'a>) -> Reply<'a> {
        stream::once(self.open(request)).try_flatten().boxed()
    }
}
