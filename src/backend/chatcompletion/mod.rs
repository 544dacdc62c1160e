//! Owns the backend that speaks Chat Completions, which most vendors and all local servers do. It
//! asks once: whoever calls it decides whether to ask again.

use std::fmt;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use reqwest::Response;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::{Map, Value};
use url::Url;

use crate::backend::chatcompletion::decoder::Decoder;
use crate::backend::chatcompletion::faults::Faults;
use crate::backend::chatcompletion::reply::{Limits, body, events, hear, whole};
use crate::backend::chatcompletion::request::{Body, settled};
use crate::backend::connect::Surroundings;
use crate::backend::{Backend, BackendError, Reply, Request};
use crate::config::BackendConfig;
use crate::config::vendors::{ReasoningEcho, reasoning_echo_at};
use crate::error::Result as MassgenResult;
use crate::world::http::HttpClient;

mod calls;
mod decoder;
mod endpoint;
mod faults;
mod request;
pub mod reply;

/// How much of a refusal is read.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// A client of one model at one endpoint.
pub struct Completions {
    http: HttpClient,
    url: Url,
    headers: HeaderMap,
    model: String,
    parameters: Map<String, Value>,
    echo: ReasoningEcho,
    faults: Faults,
    limits: Limits,
}

impl fmt::Debug for Completions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL, whose query may hold a key, and without the headers.
        f.debug_struct("Completions")
            .field("model", &self.model)
            .field("faults", &self.faults)
            .finish_non_exhaustive()
    }
}

impl Completions {
    /// Finds endpoint and key; opens no connection.
    ///
    /// # Errors
    /// `Config` if the endpoint is missing or malformed, `Environment` if the key is.
    pub fn connect(config: &BackendConfig, around: Surroundings<'_>) -> MassgenResult<Self> {
        let vendor = config.vendor;
        let base_url = endpoint::base_url(config, around)?;
        let key = endpoint::key(config, &base_url, around)?;
        let url = endpoint::chat_url(&base_url, config, around)?;
        Ok(Self {
            http: around.http.clone(),
            headers: endpoint::headers(vendor.dialect, key.as_ref())?,
            model: config.model.clone(),
            parameters: settled(&config.parameters),
            echo: reasoning_echo_at(&url),
            faults: Faults::new(vendor.name, endpoint::place(&url), key),
            limits: Limits::default(),
            url,
        })
    }

    /// The same client with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    async fn open<'a>(&'a self, request: Request<'a>) -> Result<Reply<'a>, BackendError> {
        let (faults, limits) = (&self.faults, self.limits);
        let response = self.send(&request).await?;
        let content_type = response.headers().get(CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok());
        let decoder = Decoder::new(&request, faults, self.echo, limits.reply_bytes_max);
        match content_type.unwrap_or_default() {
            page if page.starts_with("text/html") => Err(faults.web_page()),
            json if json.starts_with("application/json") => {
                whole(response, decoder, faults, limits).await
            }
            _ => Ok(events(response, decoder, faults, limits)),
        }
    }

    async fn send(&self, request: &Request<'_>) -> Result<Response, BackendError> {
        let (faults, limits) = (&self.faults, self.limits);
        let client = self.http.reaching(&self.url);
        let client = client.map_err(|error| faults.no_client(&error))?;
        let wire = Body {
            model: &self.model,
            parameters: &self.parameters,
            request,
        };
        let sent = client
            .post(self.url.clone())
            .headers(self.headers.clone())
            .json(&wire)
            .send();
        let response = hear(sent, faults, limits).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let headers = response.headers().clone();
        let refusal = body(response, faults, limits, REFUSAL_BYTES_MAX).await;
        Err(faults.refused(status, &headers, &refusal.unwrap_or_default()))
    }
}

impl Backend for Completions {
    fn ask<'a>(&'a self, request: Request<'a>) -> Reply<'a> {
        stream::once(self.open(request)).try_flatten().boxed()
    }
}
