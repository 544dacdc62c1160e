//! Owns the requests that are made to sign in at a server. Their addresses come from what the server
//! and others say of themselves, so each is judged before it is connected to, as that of the server
//! is. No redirect is followed, and nothing goes over a network in the clear.

use std::time::Duration;

use hyper::http::Response;
use reqwest::{Client, Request};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use url::Url;

use crate::config::servers::AddressPolicy;
use crate::config::vendors::is_this_machine;
use crate::world::io::http::{display_url, root_cause};

/// How long one request may take.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// The longest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Makes requests to addresses that are allowed.
#[derive(Debug)]
pub(super) struct GuardedHttpClient {
    /// Looks names up, and gives away only the addresses that are allowed.
    pub(super) client: Client,
    /// Which addresses may stand in a URL itself.
    pub(super) addresses: AddressPolicy,
}

impl OAuthHttpClient for GuardedHttpClient {
    fn execute(&self, asked: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let request = Request::try_from(asked.request)?;
            if let Some(why) = address_fault(self.addresses, request.url()) {
                return Err(why.into());
            }
            let answered = tokio::time::timeout(REQUEST_TIME_MAX, self.answer(request)).await;
            answered.unwrap_or_else(|_| Err("it did not answer".into()))
        })
    }
}

impl GuardedHttpClient {
    async fn answer(&self, request: Request) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let place = display_url(request.url());
        let failed = |error: reqwest::Error| format!("`{place}`: {}", root_cause(&error));
        let mut answer = self.client.execute(request).await.map_err(failed)?;
        let mut told = Response::builder().status(answer.status());
        for (name, value) in answer.headers() {
            told = told.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(bytes) = answer.chunk().await.map_err(failed)? {
            if body.len().saturating_add(bytes.len()) > ANSWER_BYTES_MAX {
                return Err(
                    format!("`{place}` answered more than {ANSWER_BYTES_MAX} bytes").into(),
                );
            }
            body.extend_from_slice(&bytes);
        }
        Ok(told.body(body)?)
    }
}

/// Why nothing may be sent to `url` that lets somebody sign in; `None` if it may.
pub(super) fn address_fault(addresses: AddressPolicy, url: &Url) -> Option<String> {
    let is_closed = match url.scheme() {
        "https" => false,
        "http" => !is_this_machine(url),
        _ => true,
    };
    let place = display_url(url);
    if is_closed {
        return Some(format!(
            "`{place}` would be sent secrets in the clear: only `https` is used to sign in"
        ));
    }
    let why = addresses.url_fault(url)?.trim_start_matches("`url` ");
    Some(format!("`{place}` {why}, which is not allowed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::servers::AddressAllowance;

    #[track_caller]
    fn check(addresses: AddressPolicy, url: &str, expected: Option<&str>) {
        let found = address_fault(addresses, &Url::parse(url).unwrap());
        assert_eq!(
            found.is_some(),
            expected.is_some(),
            "{url}: {found:?}, expected {expected:?}"
        );
        assert!(
            found
                .unwrap_or_default()
                .contains(expected.unwrap_or_default()),
            "{url}"
        );
    }

    #[test]
    fn only_what_the_config_allows_is_asked_to_sign_in() {
        let closed = AddressPolicy::default();
        let here = AddressPolicy {
            this_machine: AddressAllowance::Yes,
            ..closed
        };
        let private = AddressPolicy {
            private: AddressAllowance::Yes,
            ..closed
        };
        check(closed, "https://login.example/token", None);
        check(closed, "http://login.example/token", Some("in the clear"));
        check(here, "http://login.example/token", Some("in the clear"));
        check(private, "http://10.0.0.1/token", Some("in the clear"));
        check(closed, "file:///etc/passwd", Some("in the clear"));
        check(closed, "http://127.0.0.1/token", Some("this machine"));
        check(closed, "https://localhost/token", Some("this machine"));
        check(here, "http://127.0.0.1/token", None);
        check(here, "http://localhost:8080/token", None);
        check(closed, "https://10.0.0.1/token", Some("private network"));
        check(private, "https://10.0.0.1/token", None);
        for metadata in ["https://169.254.169.254/", "https://[fe80::1]/"] {
            check(private, metadata, Some("private network"));
            check(here, metadata, Some("private network"));
        }
    }
}
