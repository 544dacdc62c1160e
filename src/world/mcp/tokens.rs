//! Owns the file of what the user has signed in with at servers on the network, in their own
//! directory: never in a project. What is in it goes to nobody but the server that it is for and
//! where that server has people sign in; no record, message or model reads it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

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
use crate::world::sys::state_files::dir::{self, DirLock, DirectoryAudience};
use crate::world::sys::state_files::file::{self, FileDurability};

/// Where it lies in the user's home directory.
const PLACE: &str = ".massgen/mcp/credentials.json";
/// The longest file, in bytes.
const BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The file of what the user has signed in with, by the addresses of servers.
#[derive(Clone, Debug)]
pub struct TokenFile(AbsPath);

/// What was given for one server.
#[derive(Serialize, Deserialize)]
struct TokenFileEntry {
    /// What proves that massgen is the client that it was registered as.
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<String>,
    /// What the server said when it turned somebody away whom it did not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<String>,
    /// Where new tokens are asked for: where the user signed in, and nowhere else. A file of an earlier
    /// version does not say it.
    #[serde(default)]
    token_endpoint: String,
    given: StoredCredentials,
}

/// Who massgen is at a server where the user has signed in.
pub(super) struct RegisteredClient {
    /// Its name there.
    pub(super) id: String,
    /// What proves it.
    pub(super) secret: Option<String>,
    /// What the server said when it turned somebody away whom it did not know.
    pub(super) challenge: Option<String>,
    /// Where new tokens are asked for.
    pub(super) token_endpoint: String,
}

impl TokenFile {
    /// The one of the user whose home directory this is.
    pub fn in_home(home: &AbsPath) -> Self {
        Self(home.join(PLACE))
    }

    /// Where it is.
    pub fn path(&self) -> &AbsPath {
        &self.0
    }

    /// Takes out what is kept for the server at `url`, and says whether there was anything.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn remove(&self, url: &Url) -> Result<TokenRemoval> {
        let _turn = self.lock()?;
        let mut all = self.read()?;
        if all.remove(url.as_str()).is_none() {
            return Ok(TokenRemoval::Nothing);
        }
        self.write(&all)?;
        Ok(TokenRemoval::Something)
    }

    /// What is kept for the server at `url`.
    pub(super) fn for_server(&self, url: &Url) -> ServerTokens {
        ServerTokens {
            file: self.clone(),
            server: url.to_string(),
            begun: None,
            seen: Arc::default(),
        }
    }

    /// Waits for the turn to change the file, which lasts as long as what is given.
    fn lock(&self) -> Result<Option<DirLock>> {
        let Some(parent) = self.0.parent() else {
            return Ok(None);
        };
        dir::create_all(&parent, DirectoryAudience::User)?;
        dir::lock(&parent)
    }

    fn read(&self) -> Result<BTreeMap<String, TokenFileEntry>> {
        let Some(bytes) = read_own(&self.0, BYTES_MAX)? else {
            return Ok(BTreeMap::new());
        };
        let damaged = || {
            let message = format!("`{}` is no file of tokens", self.0);
            Error::new(ErrorKind::Environment, message)
                .with_hint("move it away, and sign in again with `massgen mcp login`")
        };
        // What the parser would tell of the place may be a token.
        serde_json::from_slice(&bytes).map_err(|_| damaged())
    }

    fn write(&self, all: &BTreeMap<String, TokenFileEntry>) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(all)
            .map_err(|error| Error::bug("a token has no JSON form").with_source(error))?;
        file::replace(&self.0, &bytes, FileDurability::Power)
    }
}

/// Whether anything was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRemoval {
    /// It was.
    Something,
    /// There was nothing.
    Nothing,
}

/// What is kept for one server. A clone is the same.
#[derive(Clone)]
pub(super) struct ServerTokens {
    file: TokenFile,
    server: String,
    /// What a sign-in has just begun with.
    begun: Option<Arc<PendingRegistration>>,
    /// All that was read or written so far, to be taken out of what the server says.
    seen: Arc<Mutex<Redactor>>,
}

/// What is kept beside what is given at last.
pub(super) struct PendingRegistration {
    /// What a client that has just been registered was given.
    pub(super) client_secret: Option<SecretString>,
    /// What the server said to somebody whom it did not know.
    pub(super) challenge: Option<String>,
    /// Where tokens are asked for.
    pub(super) token_endpoint: String,
}

/// What is kept is nobody's business.
impl fmt::Debug for ServerTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTokens")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

impl ServerTokens {
    /// The same, of a sign-in that begins; what it began with is kept with what is saved.
    pub(super) fn with_registration(self, begun: PendingRegistration) -> Self {
        Self {
            begun: Some(Arc::new(begun)),
            ..self
        }
    }

    /// Who massgen was registered as, with what proves it, if the user has signed in.
    pub(super) fn client(&self) -> Result<Option<RegisteredClient>> {
        let kept = self.entry()?;
        Ok(kept.map(|kept| RegisteredClient {
            id: kept.given.client_id,
            secret: kept.client_secret,
            challenge: kept.challenge,
            token_endpoint: kept.token_endpoint,
        }))
    }

    /// Waits for the turn to change what is kept.
    pub(super) async fn lock(&self) -> Result<Option<DirLock>> {
        let file = self.file.clone();
        let turn = tokio::task::spawn_blocking(move || file.lock()).await;
        turn.map_err(|_| Error::bug("nobody could wait for the file of tokens"))?
    }

    /// Takes out what was ever sent to the server or where it has people sign in.
    pub(super) fn redactor(&self) -> Redactor {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone()
    }

    fn entry(&self) -> Result<Option<TokenFileEntry>> {
        let kept = self.file.read()?.remove(&self.server);
        if let Some(kept) = &kept {
            self.remember_secrets(kept);
        }
        Ok(kept)
    }

    fn remember_secrets(&self, kept: &TokenFileEntry) {
        let response = serde_json::to_value(&kept.given.token_response).unwrap_or_default();
        let tokens = ["access_token", "refresh_token", "id_token"];
        let tokens = tokens
            .iter()
            .filter_map(|name| response.get(name)?.as_str());
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for secret in tokens.chain(kept.client_secret.as_deref()) {
            seen.insert(secret);
        }
    }

    fn replace(&self, given: Option<StoredCredentials>) -> Result<()> {
        let mut all = self.file.read()?;
        let before = all.remove(&self.server);
        if let Some(given) = given {
            let kept = match (&self.begun, before) {
                (Some(begun), _) => {
                    let secret = begun.client_secret.as_ref();
                    TokenFileEntry {
                        client_secret: secret.map(|secret| secret.expose_secret().to_owned()),
                        challenge: begun.challenge.clone(),
                        token_endpoint: begun.token_endpoint.clone(),
                        given,
                    }
                }
                (None, Some(before)) => TokenFileEntry { given, ..before },
                (None, None) => TokenFileEntry {
                    client_secret: None,
                    challenge: None,
                    token_endpoint: String::new(),
                    given,
                },
            };
            self.remember_secrets(&kept);
            all.insert(self.server.clone(), kept);
        }
        self.file.write(&all)
    }
}

#[async_trait::async_trait]
impl CredentialStore for ServerTokens {
    async fn load(&self) -> std::result::Result<Option<StoredCredentials>, AuthError> {
        let kept = self.entry().map_err(|error| auth_error(&error))?;
        Ok(kept.map(|kept| kept.given))
    }

    async fn save(&self, given: StoredCredentials) -> std::result::Result<(), AuthError> {
        self.replace(Some(given))
            .map_err(|error| auth_error(&error))
    }

    async fn clear(&self) -> std::result::Result<(), AuthError> {
        self.replace(None).map_err(|error| auth_error(&error))
    }

    async fn acquire_refresh_guard(
        &self,
    ) -> std::result::Result<Option<CredentialRefreshGuard>, AuthError> {
        let turn = self.lock().await.map_err(|error| auth_error(&error))?;
        Ok(turn.map(CredentialRefreshGuard::new))
    }
}

fn auth_error(error: &Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}
