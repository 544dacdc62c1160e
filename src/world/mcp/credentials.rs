//! Owns what a server on the network is sent so that it knows who asks, and that nothing of it comes
//! back: every message of the server is searched before anybody reads it.

use rmcp::service::{RoleClient, RxJsonRpcMessage};

use crate::config::servers::RemoteServer;
use crate::world::mcp::tokens::ServerTokens;
use crate::world::store::redact::Redactor;

/// What a server is sent so that it knows who asks; nothing for a program. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    headers: Redactor,
    tokens: Option<ServerTokens>,
}

impl Credentials {
    /// Those of a server on the network: those in `headers`, and what the user has signed in with.
    pub(super) fn of(remote: &RemoteServer, tokens: Option<ServerTokens>) -> Self {
        Self {
            headers: Redactor::new(remote.credentials()),
            tokens,
        }
    }

    /// `text` without them.
    pub(super) fn hide(&self, text: &str) -> String {
        let redactors = self.redactors();
        redactors
            .iter()
            .fold(text.to_owned(), |text, redactor| redactor.text(&text))
    }

    /// A message of the server without them; `None` if nothing is left that is a message.
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

    fn redactors(&self) -> [Redactor; 2] {
        let of_tokens = self.tokens.as_ref().map(ServerTokens::redactor);
        [self.headers.clone(), of_tokens.unwrap_or_default()]
    }
}
