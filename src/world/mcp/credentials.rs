//! Credentials that are sent to a remote server, and their redaction: they are removed from every
//! message of the server before it is read by anything else.

use rmcp::service::{RoleClient, RxJsonRpcMessage};

use crate::config::servers::RemoteServer;
use crate::world::mcp::sent_secrets::SentSecrets;
use crate::world::mcp::tokens::ServerTokens;
use crate::world::store::redact::Redactor;

/// The credentials sent to a server; none for a program. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    headers: Redactor,
    tokens: Option<ServerTokens>,
    /// What massgen has sent as a client that acts for itself.
    of_client: SentSecrets,
}

impl Credentials {
    /// Returns the credentials for a remote server: those in `headers`, and the user's tokens.
    pub(super) fn of(remote: &RemoteServer, tokens: Option<ServerTokens>) -> Self {
        Self {
            headers: Redactor::new(remote.credentials()),
            tokens,
            of_client: SentSecrets::default(),
        }
    }

    /// Returns the secrets of a client that acts for itself, to which its tokens are added.
    pub(super) fn of_client(&self) -> &SentSecrets {
        &self.of_client
    }

    /// Redacts the credentials from `text`.
    pub(super) fn hide(&self, text: &str) -> String {
        let redactors = self.redactors();
        redactors
            .iter()
            .fold(text.to_owned(), |text, redactor| redactor.text(&text))
    }

    /// Redacts the credentials from a message; `None` if the result is not a valid message.
    pub(super) fn hide_in(
        &self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let redactors = self.redactors();
        if redactors.iter().all(Redactor::is_empty) {
            return Some(message);
        }
        let mut value = serde_json::to_value(&message).ok()?;
        let before = value.clone();
        for redactor in redactors {
            value = redactor.json(value);
        }
        if value == before {
            return Some(message);
        }
        serde_json::from_value(value).ok()
    }

    fn redactors(&self) -> [Redactor; 3] {
        let of_tokens = self.tokens.as_ref().map(ServerTokens::redactor);
        [
            self.headers.clone(),
            of_tokens.unwrap_or_default(),
            self.of_client.redactor(),
        ]
    }
}
