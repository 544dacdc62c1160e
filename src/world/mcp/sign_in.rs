//! OAuth sign-in at a remote server: discovers the authorization server, registers massgen as a
//! client if necessary, lets the user authorize it in a browser, and stores the tokens. It must
//! never show a token.

use std::sync::Arc;
use std::time::Duration;

use rmcp::service::ServiceError;
use rmcp::transport::auth::{
    AuthError, AuthorizationCallback, AuthorizationManager, OAuthClientConfig,
};
use secrecy::{ExposeSecret, SecretString};
use tokio::time::timeout;
use url::Url;

use crate::config::servers::RemoteServer;
use crate::error::{Error, ErrorKind, Result};
use crate::text::{escape_line, escape_name, single_line};
use crate::world::io::http::root_cause;
use crate::world::mcp::credentials::Credentials;
use crate::world::mcp::guarded_http::{
    FailureCause, GuardedHttpClient, UnusableServer, address_problem,
};
use crate::world::mcp::guarded_resolver::guarded_client;
use crate::world::mcp::issuer_metadata::sign_in_metadata;
use crate::world::mcp::remote::{self, RemoteConnectError};
use crate::world::mcp::remote_client::{RemoteHttpClient, RequestAuthorization};
use crate::world::mcp::tokens::{PendingRegistration, RegisteredClient, ServerTokens, TokenFile};

/// Client name under which massgen registers itself.
const CLIENT_NAME: &str = "massgen";
/// Timeout for the server's reply to an unauthenticated client.
const CHALLENGE_TIME_MAX: Duration = Duration::from_secs(30);
/// Longest message of a server that an error quotes, in characters.
const QUOTE_CHARS_MAX: usize = 600;
/// Largest number of a server's scopes that a message to the user repeats.
const SCOPES_MAX: usize = 16;
/// Longest of them, in bytes.
const SCOPE_BYTES_MAX: usize = 100;

/// A sign-in that waits for the user's authorization.
pub struct PendingSignIn {
    manager: AuthorizationManager,
    tokens: ServerTokens,
    address: Url,
    /// The `state` parameter, which distinguishes the answer to this sign-in from others.
    state: String,
}

/// Shows no secrets.
impl std::fmt::Debug for PendingSignIn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingSignIn").finish_non_exhaustive()
    }
}

impl PendingSignIn {
    /// Discovers how to sign in at `server` and registers massgen there. The answer is redirected
    /// to `redirect`. `scopes`, if not empty, are requested instead of those in the config.
    ///
    /// # Errors
    /// The server offers no sign-in, or none that is allowed.
    pub async fn begin(
        server: &RemoteServer,
        file: &TokenFile,
        redirect: &str,
        scopes: &[String],
    ) -> Result<Self> {
        let refused = |error: AuthError| sign_in_error(&error);
        let http_client = GuardedHttpClient::with_manager(server).await;
        let (http, mut manager) = http_client.map_err(refused)?;
        let challenge = Box::pin(request_challenge(server)).await?;
        let resolution = manager.resolve_metadata_from_challenge(challenge.as_deref());
        let resolution = resolution.await.map_err(refused)?;
        let metadata = Box::pin(sign_in_metadata(server, &http, resolution))
            .await
            .map_err(|reason| refusal(&reason))?;
        let endpoints = [
            Some(&metadata.authorization_endpoint),
            Some(&metadata.token_endpoint),
            metadata.registration_endpoint.as_ref(),
        ];
        for endpoint in endpoints.into_iter().flatten() {
            check_address(server, endpoint)?;
        }
        let token_endpoint = metadata.token_endpoint.clone();
        manager.set_metadata(metadata);
        let scopes = match (scopes, server.oauth.scopes.as_slice()) {
            ([], []) => manager.select_initial_scopes(&[]).await,
            ([], configured) => configured.to_vec(),
            (requested, _) => requested.to_vec(),
        };
        // A new token replaces the old one, so it must cover what was granted before.
        let granted_scopes = file
            .for_server(&server.url)
            .granted_scopes(&token_endpoint)?;
        let other_scopes = granted_scopes
            .iter()
            .filter(|scope| !scopes.contains(scope));
        let scopes: Vec<&str> = scopes
            .iter()
            .chain(other_scopes)
            .map(String::as_str)
            .collect();
        let secret = if let Some(client) = &server.oauth.client {
            let secret = client.secret.as_ref().map(ExposeSecret::expose_secret);
            let config = client_config(&client.id, secret.map(str::to_owned), redirect);
            manager.configure_client(config).map_err(refused)?;
            // This secret stays in the config and is not stored with the tokens.
            None
        } else {
            let registration = manager.register_client(CLIENT_NAME, redirect, &scopes);
            registration.await.map_err(refused)?.client_secret
        };
        let address = manager.get_authorization_url(&scopes).await;
        let address = check_address(server, &address.map_err(refused)?)?;
        let tokens = file
            .for_server(&server.url)
            .with_registration(PendingRegistration {
                client_secret: secret.map(SecretString::from),
                challenge,
                token_endpoint,
            });
        manager.set_credential_store(tokens.clone());
        let state = query_parameter(&address, "state").unwrap_or_default();
        Ok(Self {
            manager,
            tokens,
            address,
            state,
        })
    }

    /// Returns the URL at which the user signs in.
    pub fn address(&self) -> &Url {
        &self.address
    }

    /// Returns whether `redirected` is the answer to this sign-in.
    pub fn is_answer(&self, redirected: &Url) -> bool {
        query_parameter(redirected, "state").as_ref() == Some(&self.state)
    }

    /// Exchanges the user's authorization for tokens and stores them. `redirected` is the URL that
    /// the browser was redirected to.
    ///
    /// # Errors
    /// The user declined, or no token was issued.
    pub async fn finish(self, redirected: &Url) -> Result<()> {
        if let Some(reason) = query_parameter(redirected, "error") {
            let description = query_parameter(redirected, "error_description");
            let detail = description
                .map(|description| format!(": {description}"))
                .unwrap_or_default();
            return Err(refusal(&format!("it was refused ({reason}{detail})")));
        }
        let answer = AuthorizationCallback::from_redirect_url(redirected.as_str())
            .map_err(|error| sign_in_error(&error))?;
        let _lock = self.tokens.lock().await?;
        let AuthorizationCallback {
            code,
            csrf_token,
            issuer,
            ..
        } = answer;
        let exchange =
            self.manager
                .exchange_code_for_token_with_issuer(&code, &csrf_token, issuer.as_deref());
        exchange
            .await
            .map(drop)
            .map_err(|error| sign_in_error(&error))
    }
}

/// Returns the OAuth manager with the stored tokens for `server`, and the client that sends its
/// requests; `None` if the user is not signed in.
pub(super) async fn authorized_manager(
    server: &RemoteServer,
    tokens: &ServerTokens,
) -> std::result::Result<Option<(AuthorizationManager, GuardedHttpClient)>, UnusableServer> {
    let refusal = |reason: String| UnusableServer {
        reason,
        cause: FailureCause::Refusal,
    };
    let registration = tokens
        .registered_client()
        .map_err(|error| refusal(error.to_string()))?;
    let Some(registration) = registration else {
        return Ok(None);
    };
    let http_client = GuardedHttpClient::with_manager(server).await;
    let (http, manager) =
        http_client.map_err(|error| refusal(quote_server(&root_cause(&error).to_string())))?;
    let restore_result = Box::pin(restore_manager(
        server,
        tokens,
        registration,
        &http,
        manager,
    ))
    .await;
    match restore_result {
        Ok(manager) => {
            http.forget_outage();
            Ok(manager.map(|manager| (manager, http)))
        }
        Err(reason) => Err(http.unusable(quote_server(&reason))),
    }
}

/// Gives `manager`, which sends its requests through `http`, the stored tokens for `server`; `None`
/// if another endpoint issues its tokens now.
async fn restore_manager(
    server: &RemoteServer,
    tokens: &ServerTokens,
    registration: RegisteredClient,
    http: &GuardedHttpClient,
    mut manager: AuthorizationManager,
) -> std::result::Result<Option<AuthorizationManager>, String> {
    let configured_client = server
        .oauth
        .client
        .as_ref()
        .filter(|client| client.id == registration.id);
    let secret = configured_client.and_then(|client| client.secret.as_ref());
    let secret = secret.map(|secret| secret.expose_secret().to_owned());
    let cause_text = |error: AuthError| root_cause(&error).to_string();
    let resolution = manager.resolve_metadata_from_challenge(registration.challenge.as_deref());
    let resolution = resolution.await.map_err(cause_text)?;
    let metadata = Box::pin(sign_in_metadata(server, http, resolution)).await?;
    // A different endpoint that the server names now must not get tokens that this one issued.
    if metadata.token_endpoint != registration.token_endpoint {
        return match http.failure_cause() {
            // Without its metadata, the usual endpoints of the server are assumed.
            FailureCause::Server => Err("its authorization server cannot be reached".to_owned()),
            FailureCause::Refusal => Ok(None),
        };
    }
    manager.set_metadata(metadata);
    manager.set_credential_store(tokens.clone());
    if !manager.initialize_from_store().await.map_err(cause_text)? {
        return Ok(None);
    }
    // The URL of the server stands for an address to redirect to: refreshing tokens needs none.
    let config = client_config(
        &registration.id,
        secret.or(registration.secret),
        server.url.as_str(),
    );
    manager.configure_client(config).map_err(cause_text)?;
    Ok(Some(manager))
}

/// Returns the authentication challenge with which the server rejects an unauthenticated client, if
/// it does: during the handshake, or when the client lists its tools.
async fn request_challenge(server: &RemoteServer) -> Result<Option<String>> {
    let client = guarded_client(server).map_err(|reason| refusal(&reason))?;
    let client = RemoteHttpClient::new(RequestAuthorization::Headers(client));
    let exchange = async {
        let (tool_change_count, credentials) = (Arc::default(), Credentials::default());
        let handshake =
            remote::initialize_remote(server, client, None, &tool_change_count, &credentials);
        match handshake.await {
            Ok(service) => {
                let tool_list = service.peer().list_tools(None).await;
                let challenge = tool_list
                    .as_ref()
                    .err()
                    .and_then(ServiceError::auth_challenge);
                Ok(challenge.map(str::to_owned))
            }
            Err(RemoteConnectError::SignIn { challenge, .. }) => Ok(challenge),
            Err(RemoteConnectError::Refused(reason) | RemoteConnectError::Failed(reason)) => {
                Err(refusal(&reason))
            }
        }
    };
    let outcome = timeout(CHALLENGE_TIME_MAX, Box::pin(exchange)).await;
    outcome.unwrap_or_else(|_| Err(refusal("the server does not answer")))
}

/// Parses the URL `address`, which comes from the server or a third party, if the config allows it.
fn check_address(server: &RemoteServer, address: &str) -> Result<Url> {
    let invalid = |_| refusal(&format!("{} is not a URL", escape_name(address)));
    let url = Url::parse(address).map_err(invalid)?;
    match address_problem(server.addresses, &url) {
        Some(reason) => Err(refusal(&reason)),
        None => Ok(url),
    }
}

fn client_config(id: &str, secret: Option<String>, redirect: &str) -> OAuthClientConfig {
    let config = OAuthClientConfig::new(id, redirect);
    match secret {
        Some(secret) => config.with_client_secret(secret),
        None => config,
    }
}

/// Returns the value of a query parameter of a URL.
fn query_parameter(url: &Url, key: &str) -> Option<String> {
    let mut pairs = url.query_pairs();
    let pair = pairs.find(|(name, _)| name == key);
    pair.map(|(_, value)| value.into_owned())
}

fn sign_in_error(error: &AuthError) -> Error {
    let message = error.to_string();
    let cause = root_cause(error).to_string();
    if message.contains(&cause) {
        return refusal(&message);
    }
    refusal(&format!("{message}: {cause}"))
}

/// Error for a failed sign-in; the reason may come from an untrusted server.
fn refusal(reason: &str) -> Error {
    let message = format!("you are not signed in: {}", quote_server(reason));
    Error::new(ErrorKind::Environment, message)
}

fn quote_server(text: &str) -> String {
    escape_line(&single_line(text, QUOTE_CHARS_MAX))
}

/// Builds the command-line options that request these scopes.
pub(super) fn scope_options(scopes: &str) -> String {
    let scopes = shell_safe_scopes(scopes).into_iter();
    let options: Vec<&str> = scopes.flat_map(|scope| [" --scope ", scope]).collect();
    options.concat()
}

/// Splits scopes. They come from a server, which is not trusted, and the user may copy them into a
/// command: scopes that a shell would not read as a single word are left out.
pub(super) fn shell_safe_scopes(scopes: &str) -> Vec<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
    let is_plain_scope =
        |scope: &&str| scope.len() <= SCOPE_BYTES_MAX && scope.chars().all(is_plain);
    let scopes = scopes.split_ascii_whitespace().filter(is_plain_scope);
    scopes.take(SCOPES_MAX).collect()
}
