//! HTTP client for the requests by which massgen gets tokens, for a user or for itself. Their URLs
//! come from the server and from third parties, so each is checked before it is connected to, like
//! that of the server itself. It must never follow a redirect or send anything over a network
//! unencrypted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::http::{Response, StatusCode};
use reqwest::header::{CONNECTION, HeaderValue};
use reqwest::{Client, Request};
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture,
    OAuthHttpRequest,
};
use url::Url;

use crate::config::servers::{AddressPolicy, RemoteServer};
use crate::config::vendors::is_this_machine;
use crate::world::io::http::{display_url, root_cause};
use crate::world::mcp::guarded_resolver::{guarded_client, refused_address};

/// Timeout for one request.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// Largest response that is read, in bytes.
const RESPONSE_BYTES_MAX: usize = 1024 * 1024;

/// How requests have failed.
#[derive(Debug, Default)]
struct RequestFailures {
    /// Whether the last request got no reply, or one that only a failure of the server explains.
    is_down: AtomicBool,
    /// Whether massgen has refused to send a request.
    is_refused: AtomicBool,
}

/// Sends requests only to allowed addresses. A clone shares the connections and the record of
/// failures.
#[derive(Clone, Debug)]
pub(super) struct GuardedHttpClient {
    /// Resolves names, and connects only to allowed addresses.
    client: Client,
    /// The addresses that may occur literally in a URL.
    addresses: AddressPolicy,
    failures: Arc<RequestFailures>,
}

impl OAuthHttpClient for GuardedHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move { self.send(Request::try_from(request.request)?).await })
    }
}

impl GuardedHttpClient {
    /// Builds a client for the authorization server of `server`, and an OAuth manager for `server`
    /// that sends its requests through it.
    pub(super) async fn with_manager(
        server: &RemoteServer,
    ) -> Result<(Self, AuthorizationManager), AuthError> {
        let http = Self {
            client: guarded_client(server).map_err(AuthError::InternalError)?,
            addresses: server.addresses,
            failures: Arc::default(),
        };
        let (url, shared_http) = (server.url.clone(), Arc::new(http.clone()));
        let manager = AuthorizationManager::new_with_oauth_http_client(url, shared_http).await?;
        Ok((http, manager))
    }

    /// Returns whose fault it is if these requests got no token: that of the server or the network
    /// if the last request failed there and massgen refused none, and otherwise a refusal.
    pub(super) fn failure_cause(&self) -> FailureCause {
        let RequestFailures {
            is_down,
            is_refused,
        } = self.failures.as_ref();
        if is_down.load(Ordering::Relaxed) && !is_refused.load(Ordering::Relaxed) {
            FailureCause::Server
        } else {
            FailureCause::Refusal
        }
    }

    /// Returns that the server cannot be used because these requests got no token.
    pub(super) fn unusable(&self, reason: String) -> UnusableServer {
        UnusableServer {
            reason,
            cause: self.failure_cause(),
        }
    }

    /// Forgets an outage that did not prevent these requests from succeeding as a whole, so that a
    /// later failure is not attributed to it.
    pub(super) fn forget_outage(&self) {
        self.failures.is_down.store(false, Ordering::Relaxed);
    }

    /// Sends a request, if its URL is allowed, and returns the response.
    pub(super) async fn send(
        &self,
        mut request: Request,
    ) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        // A connection that the other side is about to close would lose a code or a token.
        let close = HeaderValue::from_static("close");
        request.headers_mut().insert(CONNECTION, close);
        if let Some(reason) = address_problem(self.addresses, request.url()) {
            self.failures.is_refused.store(true, Ordering::Relaxed);
            return Err(reason.into());
        }
        let response = tokio::time::timeout(REQUEST_TIME_MAX, self.exchange(request)).await;
        response.unwrap_or_else(|_| {
            self.failures.is_down.store(true, Ordering::Relaxed);
            Err("no answer".into())
        })
    }

    async fn exchange(&self, request: Request) -> Result<Response<Vec<u8>>, OAuthHttpClientError> {
        let shown_url = display_url(request.url());
        let request_error = |error: reqwest::Error| {
            if refused_address(&error).is_some() {
                self.failures.is_refused.store(true, Ordering::Relaxed);
            }
            self.failures.is_down.store(true, Ordering::Relaxed);
            format!("`{shown_url}`: {}", root_cause(&error))
        };
        let mut reply = self.client.execute(request).await.map_err(request_error)?;
        let is_down = is_outage(reply.status());
        self.failures.is_down.store(is_down, Ordering::Relaxed);
        let mut response = Response::builder().status(reply.status());
        for (name, value) in reply.headers() {
            response = response.header(name, value);
        }
        let mut body = Vec::new();
        while let Some(bytes) = reply.chunk().await.map_err(request_error)? {
            if body.len().saturating_add(bytes.len()) > RESPONSE_BYTES_MAX {
                return Err(
                    format!("`{shown_url}` sent more than {RESPONSE_BYTES_MAX} bytes").into(),
                );
            }
            body.extend_from_slice(&bytes);
        }
        Ok(response.body(body)?)
    }
}

/// Returns whether a reply with this status says nothing but that the server cannot reply now.
fn is_outage(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        )
}

/// Returns why no sign-in request may be sent to `url`; `None` if it may.
pub(super) fn address_problem(addresses: AddressPolicy, url: &Url) -> Option<String> {
    let is_unencrypted = match url.scheme() {
        "https" => false,
        "http" => !is_this_machine(url),
        _ => true,
    };
    let shown_url = display_url(url);
    if is_unencrypted {
        return Some(format!(
            "`{shown_url}` would receive secrets unencrypted: signing in requires `https`"
        ));
    }
    let reason = addresses.url_problem(url)?.trim_start_matches("`url` ");
    Some(format!("`{shown_url}` {reason}, which is not allowed"))
}

/// Why a server cannot be used.
#[derive(Debug)]
pub(super) struct UnusableServer {
    /// The reason: a sentence, or only the end of one from what gets tokens.
    pub(super) reason: String,
    pub(super) cause: FailureCause,
}

/// Whose fault it is that a server cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureCause {
    /// The program, the server or the network has failed.
    Server,
    /// massgen refuses to use the server, or the user has to do something first.
    Refusal,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::servers::AddressAllowance;

    #[track_caller]
    fn check(addresses: AddressPolicy, url: &str, expected: Option<&str>) {
        let problem = address_problem(addresses, &Url::parse(url).unwrap());
        assert_eq!(
            problem.is_some(),
            expected.is_some(),
            "{url}: {problem:?}, expected {expected:?}"
        );
        assert!(
            problem
                .unwrap_or_default()
                .contains(expected.unwrap_or_default()),
            "{url}"
        );
    }

    #[test]
    fn only_what_the_config_allows_is_asked_to_sign_in() {
        let closed_policy = AddressPolicy::default();
        let this_machine_policy = AddressPolicy {
            this_machine: AddressAllowance::Yes,
            ..closed_policy
        };
        let private_policy = AddressPolicy {
            private: AddressAllowance::Yes,
            ..closed_policy
        };
        check(closed_policy, "https://login.example/token", None);
        check(
            closed_policy,
            "http://login.example/token",
            Some("unencrypted"),
        );
        check(
            this_machine_policy,
            "http://login.example/token",
            Some("unencrypted"),
        );
        check(private_policy, "http://10.0.0.1/token", Some("unencrypted"));
        check(closed_policy, "file:///etc/passwd", Some("unencrypted"));
        check(
            closed_policy,
            "http://127.0.0.1/token",
            Some("this machine"),
        );
        check(
            closed_policy,
            "https://localhost/token",
            Some("this machine"),
        );
        check(this_machine_policy, "http://127.0.0.1/token", None);
        check(this_machine_policy, "http://localhost:8080/token", None);
        check(
            closed_policy,
            "https://10.0.0.1/token",
            Some("private network"),
        );
        check(private_policy, "https://10.0.0.1/token", None);
        for metadata in ["https://169.254.169.254/", "https://[fe80::1]/"] {
            check(private_policy, metadata, Some("metadata service"));
            check(this_machine_policy, metadata, Some("metadata service"));
        }
    }
}
