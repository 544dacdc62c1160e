//! Probes an endpoint with one cheap request, which incurs no cost, and returns its result.

use std::time::Duration;

use reqwest::header::{ACCEPT, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::timeout;
use url::Url;

use crate::world::io::clock::Stopwatch;
use crate::world::io::http::{HttpClient, root_cause};

/// Timeout for an endpoint, long enough for a server on a machine under load: one that does not run
/// refuses the connection at once.
const ENDPOINT_TIME_MAX: Duration = Duration::from_secs(10);
/// Largest list of models that is read, in bytes.
const LIST_BYTES_MAX: usize = 4 << 20;

/// Result of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointReply {
    /// No request was sent, or no reply came back, for this reason.
    Unreachable(String),
    /// No reply within the timeout.
    TooSlow(Duration),
    /// A reply.
    Answered {
        /// The HTTP status.
        status: u16,
        /// The names of the models that it lists, if it lists any.
        models: Option<Vec<String>>,
        /// The response time.
        elapsed: Duration,
    },
}

impl EndpointReply {
    /// Returns the names of the models, or why there is no list; the reason continues a sentence
    /// after the URL.
    pub fn into_models(self) -> Result<Vec<String>, String> {
        match self {
            Self::Unreachable(reason) => Err(format!("is not reachable: {reason}")),
            Self::TooSlow(time) => Err(format!("gives no response within {} s", time.as_secs())),
            Self::Answered {
                status: 200..=299,
                models: Some(models),
                ..
            } => Ok(models),
            Self::Answered { status, .. } => {
                Err(format!("answers HTTP {status} without a list of models"))
            }
        }
    }
}

/// Requests the list of models at `url`.
pub async fn probe_endpoint(http: &HttpClient, url: &Url, headers: HeaderMap) -> EndpointReply {
    let stopwatch = Stopwatch::start();
    match timeout(ENDPOINT_TIME_MAX, request_models(http, url, headers)).await {
        Err(_) => EndpointReply::TooSlow(ENDPOINT_TIME_MAX),
        Ok(Err(reason)) => EndpointReply::Unreachable(reason),
        Ok(Ok((status, models))) => EndpointReply::Answered {
            status,
            models,
            elapsed: stopwatch.elapsed(),
        },
    }
}

async fn request_models(
    http: &HttpClient,
    url: &Url,
    mut headers: HeaderMap,
) -> Result<(u16, Option<Vec<String>>), String> {
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let client = http.client_for(url).map_err(|error| error.to_string())?;
    let request = client.get(url.clone()).headers(headers);
    let mut response = request
        .send()
        .await
        .map_err(|error| root_cause(&error).to_string())?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Ok(Some(bytes)) = response.chunk().await {
        body.extend_from_slice(&bytes);
        if body.len() > LIST_BYTES_MAX {
            return Ok((status, None));
        }
    }
    Ok((status, model_names(&body)))
}

/// Extracts the names from a list of models: `data[].id` from most vendors, `models[].name` from
/// Gemini, whose names begin with `models/`.
fn model_names(body: &[u8]) -> Option<Vec<String>> {
    let listing: Value = serde_json::from_slice(body).ok()?;
    let (list, key) = match (listing.get("data"), listing.get("models")) {
        (Some(list), _) => (list, "id"),
        (None, Some(list)) => (list, "name"),
        (None, None) => (&listing, "id"),
    };
    let names = list.as_array()?.iter().filter_map(|model| {
        let name = model.get(key)?.as_str()?;
        Some(name.strip_prefix("models/").unwrap_or(name).to_owned())
    });
    Some(names.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body: &str, expected: Option<&[&str]>) {
        let names = model_names(body.as_bytes());
        let name_refs: Option<Vec<&str>> = names
            .as_ref()
            .map(|names| names.iter().map(String::as_str).collect());
        assert_eq!(name_refs.as_deref(), expected, "{body}");
    }

    #[test]
    fn every_vendors_list_is_read() {
        check(
            r#"{"object":"list","data":[{"id":"gpt-4o"},{"id":"o3"}]}"#,
            Some(&["gpt-4o", "o3"]),
        );
        check(
            r#"{"models":[{"name":"models/gemini-2.5-flash"}]}"#,
            Some(&["gemini-2.5-flash"]),
        );
        check(r#"[{"id":"m"}]"#, Some(&["m"]));
        check(r#"{"data":[]}"#, Some(&[]));
        check(r#"{"error":"no"}"#, None);
        check("<html>", None);
    }
}
