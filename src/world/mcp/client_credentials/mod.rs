//! Tokens for a remote server that massgen gets as a client that acts for itself, not for a user
//! (the extension `io.modelcontextprotocol/oauth-client-credentials`). No browser is opened, and
//! nothing is stored. It must never send the credentials to an authorization server other than the
//! one that the config means, or show a token.

mod assertion;
mod token_request;
pub(super) mod token_http_client;

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use rmcp::transport::auth::AuthError;
use secrecy::ExposeSecret;
use tokio::sync::Mutex;
use url::Url;
use uuid::Uuid;

use crate::config::servers::{ClientAuthentication, ClientCredentials, RemoteServer};
use crate::world::io::clock::{self, Stopwatch};
use crate::world::io::http::root_cause;
use crate::world::mcp::client_credentials::token_request::{
    IssuedToken, RequestNonce, TokenRequest, checked_issuer, parse_token, refusal_reason,
    token_request,
};
use crate::world::mcp::guarded_http::GuardedHttpClient;
use crate::world::mcp::sent_secrets::SentSecrets;
use crate::world::mcp::{remote, sign_in};

/// Gets tokens for one server, and keeps the last one in memory. A clone is the same.
#[derive(Clone)]
pub(super) struct AccessTokenSource(Arc<AccessTokenSourceState>);

struct AccessTokenSourceState {
    server: RemoteServer,
    credentials: ClientCredentials,
    /// Receives every secret that is sent, to be redacted from what the servers send back.
    sent: SentSecrets,
    last: Mutex<Option<CachedToken>>,
}

/// The token that was issued last.
struct CachedToken {
    token: IssuedToken,
    age: Stopwatch,
}

impl CachedToken {
    /// Returns whether it can be used for a request now.
    fn is_usable(&self) -> bool {
        let usable_for = self.token.usable_for;
        usable_for.is_none_or(|time| self.age.elapsed() < time)
    }

    fn value(&self) -> &str {
        self.token.value.expose_secret()
    }
}

impl AccessTokenSource {
    /// Creates a source of tokens for `server`; `sent` receives every secret that is sent.
    pub(super) fn new(
        server: &RemoteServer,
        credentials: &ClientCredentials,
        sent: &SentSecrets,
    ) -> Self {
        match &credentials.authentication {
            ClientAuthentication::Secret(secret) => sent.insert(secret.expose_secret()),
            // It is never sent.
            ClientAuthentication::PrivateKey(_) => {}
        }
        Self(Arc::new(AccessTokenSourceState {
            server: server.clone(),
            credentials: credentials.clone(),
            sent: sent.clone(),
            last: Mutex::default(),
        }))
    }

    /// Returns a token, a new one if there is none or it is about to end.
    pub(super) async fn token(&self) -> Result<String, String> {
        let mut last = self.0.last.lock().await;
        if let Some(cached) = last.as_ref().filter(|cached| cached.is_usable()) {
            return Ok(cached.value().to_owned());
        }
        self.renew(&mut last).await
    }

    /// Returns another token than `rejected`, which the server does not accept.
    async fn replace(&self, rejected: &str) -> Result<String, String> {
        let mut last = self.0.last.lock().await;
        if let Some(cached) = last.as_ref().filter(|cached| cached.value() != rejected) {
            return Ok(cached.value().to_owned());
        }
        self.renew(&mut last).await
    }

    async fn renew(&self, last: &mut Option<CachedToken>) -> Result<String, String> {
        *last = None;
        let age = Stopwatch::start();
        let token = Box::pin(self.request_token()).await?;
        self.0.sent.insert(token.value.expose_secret());
        let cached = last.insert(CachedToken { token, age });
        Ok(cached.value().to_owned())
    }

    /// Discovers the authorization server, and requests a token from it.
    async fn request_token(&self) -> Result<IssuedToken, String> {
        let AccessTokenSourceState {
            server,
            credentials,
            ..
        } = self.0.as_ref();
        let failed = |error: AuthError| root_cause(&error).to_string();
        let manager = sign_in::manager(server).await.map_err(failed)?;
        let found = manager.resolve_metadata_from_challenge(None);
        let metadata = found.await.map_err(failed)?.metadata;
        let issuer = checked_issuer(&server.url, credentials, &metadata)?;
        let endpoint = Url::parse(&metadata.token_endpoint)
            .map_err(|_| format!("`{issuer}` announces no URL for tokens"))?;
        let scopes = match server.oauth.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            written => written.to_vec(),
        };
        let id = Uuid::new_v4().simple().to_string();
        let nonce = RequestNonce {
            now: Duration::from_nanos(clock::now().unix_nanoseconds()).as_secs(),
            id: &id,
        };
        let asked = token_request(&server.url, credentials, &scopes, &metadata, issuer, nonce)?;
        let http = GuardedHttpClient {
            client: remote::client(server)?,
            addresses: server.addresses,
        };
        let reply = http.send(http_request(endpoint, asked)?).await;
        let reply = reply.map_err(|error| error.to_string())?;
        let status = reply.status();
        if !status.is_success() {
            let why = refusal_reason(status.as_u16(), reply.body());
            return Err(format!("`{issuer}` issues no token: {why}"));
        }
        parse_token(reply.body()).map_err(|why| format!("`{issuer}` issues no token: {why}"))
    }
}

/// Converts a request for a token to one over HTTP.
fn http_request(endpoint: Url, asked: TokenRequest) -> Result<Request, String> {
    let mut request = Request::new(Method::POST, endpoint);
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, form);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(authorization) = asked.authorization {
        let value = HeaderValue::from_str(&authorization);
        let mut value = value.map_err(|_| "its `client_secret` does not fit into a header")?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    *request.body_mut() = Some(asked.form.into());
    Ok(request)
}
