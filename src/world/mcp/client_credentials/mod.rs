//! Tokens for a remote server that massgen gets as a client that acts for itself, not for a user:
//! a registered client (the extension `io.modelcontextprotocol/oauth-client-credentials`), or a
//! workload with an assertion of its platform. No browser is opened, and nothing is stored. It must
//! never send the credentials to an authorization server other than the one that the config means,
//! or show a token.

mod assertion;
mod token_request;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Request};
use rmcp::transport::auth::{AuthError, AuthorizationManager, AuthorizationMetadata};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use secrecy::ExposeSecret;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use url::Url;
use uuid::Uuid;

use crate::config::servers::{ClientAuthentication, RemoteServer, WorkloadAssertion};
use crate::path::AbsPath;
use crate::world::io::clock::{self, Stopwatch};
use crate::world::io::files::read_capped;
use crate::world::io::http::root_cause;
use crate::world::mcp::client_credentials::assertion::{AssertionKey, assertion_claims};
use crate::world::mcp::client_credentials::token_request::{
    ClientProof, IssuedToken, TokenRequest, assertion_proof, parse_assertion, parse_token,
    refusal_reason, secret_proof, token_request, workload_proof,
};
use crate::world::mcp::guarded_http::GuardedHttpClient;
use crate::world::mcp::issuer_metadata::{checked_issuer, issuer_metadata};
use crate::world::mcp::sent_secrets::SentSecrets;
use crate::world::mcp::server_failure::{FailureCause, UnusableServer};

/// Largest file with the assertion of a workload, in bytes.
const ASSERTION_BYTES_MAX: u64 = 16 * 1024;

/// Gets tokens for one server, and keeps the last one in memory. A clone is the same.
#[derive(Clone)]
pub(super) struct AccessTokenSource(Arc<AccessTokenSourceState>);

struct AccessTokenSourceState {
    server: RemoteServer,
    credentials: ClientAuthentication,
    /// Receives every secret that is sent, to be redacted from what the servers send back.
    sent_secrets: SentSecrets,
    cached_token: Mutex<Option<CachedToken>>,
    /// Whether the last request for a token failed because of a server or the network.
    is_down: AtomicBool,
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
    /// Creates a source of tokens for `server`; `sent_secrets` receives every secret that is sent.
    pub(super) fn new(
        server: &RemoteServer,
        credentials: &ClientAuthentication,
        sent_secrets: &SentSecrets,
    ) -> Self {
        match credentials {
            ClientAuthentication::Secret { secret, .. } => {
                sent_secrets.insert(secret.expose_secret());
            }
            // A key is never sent; an assertion is read or signed when it is needed.
            ClientAuthentication::PrivateKey { .. } | ClientAuthentication::Workload { .. } => {}
        }
        Self(Arc::new(AccessTokenSourceState {
            server: server.clone(),
            credentials: credentials.clone(),
            sent_secrets: sent_secrets.clone(),
            cached_token: Mutex::default(),
            is_down: AtomicBool::default(),
        }))
    }

    /// Returns why a request to the server could not be sent: the authorization server could not be
    /// reached for a token, or otherwise a refusal.
    pub(super) fn failure_cause(&self) -> FailureCause {
        if self.0.is_down.load(Ordering::Relaxed) {
            FailureCause::Server
        } else {
            FailureCause::Refusal
        }
    }

    /// Returns a token, a new one if there is none or it is about to end.
    pub(super) async fn token(&self) -> Result<String, UnusableServer> {
        let mut cached_token = self.0.cached_token.lock().await;
        if let Some(cached_token) = cached_token.as_ref().filter(|cached| cached.is_usable()) {
            return Ok(cached_token.value().to_owned());
        }
        self.renew(&mut cached_token).await
    }

    /// Sends a request with a token, and once more with another one if the server rejects it.
    pub(super) async fn authorize<T, Reply>(
        &self,
        send: impl Fn(Option<String>) -> Reply,
    ) -> Result<T, StreamableHttpError<reqwest::Error>>
    where
        Reply: Future<Output = Result<T, StreamableHttpError<reqwest::Error>>>,
    {
        let token_error = |unusable: UnusableServer| {
            StreamableHttpError::Auth(AuthError::ClientCredentialsError(unusable.reason))
        };
        let token = self.token().await.map_err(token_error)?;
        match send(Some(token.clone())).await {
            Err(StreamableHttpError::AuthRequired(_)) => {}
            reply => return reply,
        }
        let token = self.replace_token(&token).await.map_err(token_error)?;
        send(Some(token)).await
    }

    /// Returns another token than `rejected`, which the server does not accept.
    async fn replace_token(&self, rejected: &str) -> Result<String, UnusableServer> {
        let mut cached_token = self.0.cached_token.lock().await;
        if let Some(cached) = cached_token
            .as_ref()
            .filter(|cached| cached.value() != rejected)
        {
            return Ok(cached.value().to_owned());
        }
        self.renew(&mut cached_token).await
    }

    async fn renew(
        &self,
        cached_token: &mut Option<CachedToken>,
    ) -> Result<String, UnusableServer> {
        *cached_token = None;
        let age = Stopwatch::start();
        let token_result = Box::pin(self.request_token()).await;
        let is_outage = |unusable: &UnusableServer| unusable.cause == FailureCause::Server;
        let is_down = token_result.as_ref().is_err_and(is_outage);
        self.0.is_down.store(is_down, Ordering::Relaxed);
        let token = token_result?;
        self.0.sent_secrets.insert(token.value.expose_secret());
        let cached = cached_token.insert(CachedToken { token, age });
        Ok(cached.value().to_owned())
    }

    /// Discovers the authorization server, and requests a token from it.
    async fn request_token(&self) -> Result<IssuedToken, UnusableServer> {
        let http_client = GuardedHttpClient::with_manager(&self.0.server).await;
        let (http, manager) = http_client.map_err(|error| UnusableServer {
            reason: root_cause(&error).to_string(),
            cause: FailureCause::Refusal,
        })?;
        let token_result = Box::pin(self.request_token_through(&http, &manager)).await;
        token_result.map_err(|reason| http.unusable(reason))
    }

    /// Requests a token through `http`, which also sends the requests of `manager`.
    async fn request_token_through(
        &self,
        http: &GuardedHttpClient,
        manager: &AuthorizationManager,
    ) -> Result<IssuedToken, String> {
        let server = &self.0.server;
        let cause_text = |error: AuthError| root_cause(&error).to_string();
        let resolution = manager.resolve_metadata_from_challenge(None);
        let discovered_issuer = resolution.await.map_err(cause_text)?.metadata.issuer;
        let issuer = checked_issuer(
            &server.url,
            server.oauth.issuer.as_ref(),
            discovered_issuer.as_deref(),
        )?;
        let metadata = issuer_metadata(http, &issuer).await?;
        let endpoint = Url::parse(&metadata.token_endpoint)
            .map_err(|_| format!("`{issuer}` announces no URL for tokens"))?;
        let scopes = match server.oauth.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            configured => configured.to_vec(),
        };
        let proof = self.proof(&metadata).await?;
        if let Some(assertion) = proof.assertion() {
            self.0.sent_secrets.insert(assertion);
        }
        let request = token_request(&server.url, &scopes, proof);
        let reply = http
            .send(http_request(endpoint, request)?)
            .await
            .map_err(|error| error.to_string())?;
        let status = reply.status();
        if !status.is_success() {
            let reason = refusal_reason(status.as_u16(), reply.body());
            return Err(format!("`{issuer}` issues no token: {reason}"));
        }
        parse_token(reply.body()).map_err(|reason| format!("`{issuer}` issues no token: {reason}"))
    }

    /// Returns what proves to the authorization server with these metadata who massgen is.
    async fn proof(&self, metadata: &AuthorizationMetadata) -> Result<ClientProof, String> {
        match &self.0.credentials {
            ClientAuthentication::Secret { id, secret } => {
                secret_proof(id, secret.expose_secret(), metadata)
            }
            ClientAuthentication::PrivateKey { id, key } => {
                let key = AssertionKey::parse(key.expose_secret())?;
                let now = Duration::from_nanos(clock::now().unix_nanoseconds()).as_secs();
                let token_id = Uuid::new_v4().simple().to_string();
                let issuer = metadata.issuer.as_deref().unwrap_or_default();
                let claims = assertion_claims(id, issuer, now, &token_id);
                assertion_proof(&key, &claims, metadata)
            }
            ClientAuthentication::Workload { id, assertion } => {
                let assertion = match assertion {
                    WorkloadAssertion::Text(text) => text.expose_secret().trim().to_owned(),
                    WorkloadAssertion::File(path) => read_assertion(path).await?,
                };
                Ok(workload_proof(id.as_deref(), &assertion))
            }
        }
    }
}

/// Reads the assertion of a workload from its file.
async fn read_assertion(path: &AbsPath) -> Result<String, String> {
    let file = path.clone();
    let read_task = spawn_blocking(move || read_capped(&file, ASSERTION_BYTES_MAX)).await;
    let read_result = read_task.map_err(|error| error.to_string())?;
    let bytes = read_result
        .map_err(|error| error.to_string())?
        .ok_or_else(|| format!("its `assertion_file` `{path}` does not exist"))?;
    let assertion = parse_assertion(&bytes)
        .ok_or_else(|| format!("its `assertion_file` `{path}` has no token"))?;
    Ok(assertion.to_owned())
}

/// Converts a request for a token to one over HTTP.
fn http_request(endpoint: Url, token_request: TokenRequest) -> Result<Request, String> {
    let mut request = Request::new(Method::POST, endpoint);
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, form);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    if let Some(authorization) = token_request.authorization {
        let mut value = HeaderValue::from_str(&authorization)
            .map_err(|_| "its `client_secret` does not fit into a header")?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    *request.body_mut() = Some(token_request.form.into());
    Ok(request)
}
