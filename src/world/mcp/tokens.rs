//! File with the OAuth tokens for remote servers, in the user's home directory, never in a project.
//! Its content must never go anywhere but to the server that it is for and that server's
//! authorization server; no log, message or model gets it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials,
};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::io::files::read_own;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::dir::{self, DirLock};
use crate::world::sys::state_files::json_file;

/// Path of the file below the user's home directory.
const FILE_PATH: &str = ".massgen/mcp/credentials.json";
/// Largest file, in bytes.
const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The token file, which is indexed by server URL.
#[derive(Clone, Debug)]
pub struct TokenFile(AbsPath);

/// Tokens for one server.
#[derive(Serialize, Deserialize)]
struct TokenFileEntry {
    /// The secret that massgen was given when it was registered as a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// The challenge with which the server rejected an unauthenticated client.
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<String>,
    /// The endpoint that may refresh the tokens: the one that issued them, and no other.
    token_endpoint: String,
    credentials: StoredCredentials,
}

/// massgen's client registration at a server where the user has signed in.
pub(super) struct RegisteredClient {
    /// The client id.
    pub(super) id: String,
    /// The client secret.
    pub(super) secret: Option<String>,
    /// The challenge with which the server rejected an unauthenticated client.
    pub(super) challenge: Option<String>,
    /// The endpoint that may refresh the tokens.
    pub(super) token_endpoint: String,
}

impl TokenFile {
    /// Returns the file of the user with this home directory.
    pub fn in_home(home: &AbsPath) -> Self {
        Self(home.join(FILE_PATH))
    }

    /// Returns its path.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }

    /// Removes the entry for the server at `url`, and returns whether there was one.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, url: &Url) -> Result<TokenRemoval> {
        let _lock = self.lock()?;
        let mut entries = self.read()?;
        if entries.remove(url.as_str()).is_none() {
            return Ok(TokenRemoval::Nothing);
        }
        self.write(&entries)?;
        Ok(TokenRemoval::Something)
    }

    /// Returns a handle on the entry for the server at `url`.
    pub(super) fn for_server(&self, url: &Url) -> ServerTokens {
        ServerTokens {
            file: self.clone(),
            server: url.to_string(),
            registration: None,
            sent_secrets: SentSecrets::default(),
        }
    }

    /// Locks the file for changes until the guard is dropped.
    fn lock(&self) -> Result<Option<DirLock>> {
        dir::lock_directory_of(&self.0)
    }

    fn read(&self) -> Result<BTreeMap<String, TokenFileEntry>> {
        let Some(bytes) = read_own(&self.0, FILE_BYTES_MAX)? else {
            return Ok(BTreeMap::new());
        };
        let invalid_file_error = || {
            let message = format!("`{}` is not a valid token file", self.0);
            Error::new(ErrorKind::Environment, message)
                .with_hint("move it away, and sign in again with `massgen mcp login`")
        };
        // The parser's error message might contain a token.
        serde_json::from_slice(&bytes).map_err(|_| invalid_file_error())
    }

    fn write(&self, entries: &BTreeMap<String, TokenFileEntry>) -> Result<()> {
        json_file::replace(&self.0, entries)
    }
}

/// Whether an entry was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRemoval {
    /// It was removed.
    Something,
    /// There was none.
    Nothing,
}

/// Handle on the entry of one server. A clone is the same.
#[derive(Clone)]
pub(super) struct ServerTokens {
    file: TokenFile,
    server: String,
    /// The registration of a sign-in that has just begun.
    registration: Option<Arc<PendingRegistration>>,
    /// The secrets of the entry that were read or written so far. They are sent to the server, so
    /// they are redacted from its messages.
    sent_secrets: SentSecrets,
}

/// Registration data that is stored along with the tokens.
pub(super) struct PendingRegistration {
    /// The client secret, if a client has just been registered.
    pub(super) client_secret: Option<SecretString>,
    /// The challenge with which the server rejected an unauthenticated client.
    pub(super) challenge: Option<String>,
    /// The endpoint that issues tokens.
    pub(super) token_endpoint: String,
}

/// Shows no secrets.
impl fmt::Debug for ServerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTokens")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl ServerTokens {
    /// Returns a handle for a sign-in that begins; `registration` is stored along with its tokens.
    pub(super) fn with_registration(self, registration: PendingRegistration) -> Self {
        Self {
            registration: Some(Arc::new(registration)),
            ..self
        }
    }

    /// Returns the client registration, if the user has signed in.
    pub(super) fn registered_client(&self) -> Result<Option<RegisteredClient>> {
        let entry = self.entry()?;
        Ok(entry.map(|entry| RegisteredClient {
            id: entry.credentials.client_id,
            secret: entry.client_secret,
            challenge: entry.challenge,
            token_endpoint: entry.token_endpoint,
        }))
    }

    /// Returns the scopes of the stored token, if this endpoint has issued it.
    pub(super) fn granted_scopes(&self, token_endpoint: &str) -> Result<Vec<String>> {
        let entry = self.entry()?;
        let entry = entry.filter(|entry| entry.token_endpoint == token_endpoint);
        Ok(entry
            .map(|entry| entry.credentials.granted_scopes)
            .unwrap_or_default())
    }

    /// Locks the file for changes.
    pub(super) async fn lock(&self) -> Result<Option<DirLock>> {
        let file = self.file.clone();
        let lock_result = tokio::task::spawn_blocking(move || file.lock()).await;
        lock_result.map_err(|_| Error::bug("cannot lock the token file"))?
    }

    /// Returns a redactor for all secrets that were sent to the server or its authorization server.
    pub(super) fn redactor(&self) -> Redactor {
        self.sent_secrets.redactor()
    }

    fn entry(&self) -> Result<Option<TokenFileEntry>> {
        let stored_entry = self.file.read()?.remove(&self.server);
        if let Some(stored_entry) = &stored_entry {
            self.remember_secrets(stored_entry);
        }
        Ok(stored_entry)
    }

    fn remember_secrets(&self, entry: &TokenFileEntry) {
        let response = serde_json::to_value(&entry.credentials.token_response).unwrap_or_default();
        let token_names = ["access_token", "refresh_token", "id_token"];
        let tokens = token_names
            .iter()
            .filter_map(|name| response.get(name)?.as_str());
        for secret in tokens.chain(entry.client_secret.as_deref()) {
            self.sent_secrets.insert(secret);
        }
    }

    /// Replaces the entry of the server, or removes it if there are no credentials.
    fn replace_entry(&self, credentials: Option<StoredCredentials>) -> Result<()> {
        let mut entries = self.file.read()?;
        let old_entry = entries.remove(&self.server);
        if let Some(credentials) = credentials {
            let entry = match (&self.registration, old_entry) {
                (Some(registration), _) => {
                    let secret = registration.client_secret.as_ref();
                    TokenFileEntry {
                        client_secret: secret.map(|secret| secret.expose_secret().to_owned()),
                        challenge: registration.challenge.clone(),
                        token_endpoint: registration.token_endpoint.clone(),
                        credentials,
                    }
                }
                (None, Some(old_entry)) => TokenFileEntry {
                    credentials,
                    ..old_entry
                },
                (None, None) => TokenFileEntry {
                    client_secret: None,
                    challenge: None,
                    token_endpoint: String::new(),
                    credentials,
                },
            };
            self.remember_secrets(&entry);
            entries.insert(self.server.clone(), entry);
        }
        self.file.write(&entries)
    }
}

#[async_trait::async_trait]
impl CredentialStore for ServerTokens {
    async fn load(&self) -> std::result::Result<Option<StoredCredentials>, AuthError> {
        let entry = self.entry().map_err(|error| auth_error(&error))?;
        Ok(entry.map(|entry| entry.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> std::result::Result<(), AuthError> {
        self.replace_entry(Some(credentials))
            .map_err(|error| auth_error(&error))
    }

    async fn clear(&self) -> std::result::Result<(), AuthError> {
        self.replace_entry(None).map_err(|error| auth_error(&error))
    }

    async fn acquire_refresh_guard(
        &self,
    ) -> std::result::Result<Option<CredentialRefreshGuard>, AuthError> {
        let lock = self.lock().await.map_err(|error| auth_error(&error))?;
        Ok(lock.map(CredentialRefreshGuard::new))
    }
}

fn auth_error(error: &Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

/// The secrets that were sent so far. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct SentSecrets(Arc<Mutex<Redactor>>);

impl SentSecrets {
    /// Adds a secret.
    pub(super) fn insert(&self, secret: &str) {
        let mut secrets = self.0.lock();
        secrets.insert(secret);
    }

    /// Returns a redactor for the secrets so far.
    pub(super) fn redactor(&self) -> Redactor {
        let secrets = self.0.lock();
        secrets.clone()
    }
}
