//! Credentials that are sent to a remote server, and their redaction: they are removed from every
//! message of the server before it is read by anything else.

use std::str::FromStr;

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use rmcp::service::{RoleClient, RxJsonRpcMessage};
use secrecy::ExposeSecret;

use crate::config::servers::RemoteServer;
use crate::world::mcp::tokens::ServerTokens;
use crate::world::store::redact::Redactor;

/// The credentials sent to a server; none for a program. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Credentials {
    config: Redactor,
    tokens: Option<ServerTokens>,
}

impl Credentials {
    /// Returns the credentials for a remote server: those in `headers`, the user's tokens, and the
    /// secret of the client with which they are refreshed.
    pub(super) fn new(remote: &RemoteServer, tokens: Option<ServerTokens>) -> Self {
        let client = remote.oauth.client.as_ref();
        let client_secret = client.and_then(|client| client.secret.clone());
        let config_secrets = remote.credentials().into_iter().chain(client_secret);
        Self {
            config: Redactor::new(config_secrets.collect()),
            tokens,
        }
    }

    /// Redacts the credentials from `text`.
    pub(super) fn redact(&self, text: &str) -> String {
        let redactors = self.redactors();
        redactors
            .iter()
            .fold(text.to_owned(), |text, redactor| redactor.text(&text))
    }

    /// Redacts the credentials from a message; `None` if the result is not a valid message.
    pub(super) fn redact_message(
        &self,
        message: RxJsonRpcMessage<RoleClient>,
    ) -> Option<RxJsonRpcMessage<RoleClient>> {
        let redactors = self.redactors();
        if redactors.iter().all(Redactor::is_empty) {
            return Some(message);
        }
        let mut value = serde_json::to_value(&message).ok()?;
        let original = value.clone();
        for redactor in redactors {
            value = redactor.json(value);
        }
        if value == original {
            return Some(message);
        }
        serde_json::from_value(value).ok()
    }

    fn redactors(&self) -> [Redactor; 2] {
        let token_redactor = self.tokens.as_ref().map(ServerTokens::redactor);
        [self.config.clone(), token_redactor.unwrap_or_default()]
    }
}

/// Returns the headers from the config that every request carries.
pub(super) fn headers<H>(remote: &RemoteServer) -> H
where
    H: FromIterator<(HeaderName, HeaderValue)>,
{
    let header = |(name, value): (&String, &secrecy::SecretString)| {
        let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::from_str(name).ok()?, value))
    };
    remote.headers.iter().filter_map(header).collect()
}

/// Returns whether the headers from the config contain the credentials, so that nobody signs in.
pub(super) fn has_authorization(remote: &RemoteServer) -> bool {
    let mut names = remote.headers.keys();
    names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use url::Url;

    use super::*;
    use crate::config::servers::{AddressPolicy, OauthClient, OauthConfig};

    #[test]
    fn the_secret_of_the_client_of_a_user_is_redacted() {
        let secret = "secret-of-massgen";
        let client = OauthClient {
            id: "known".to_owned(),
            secret: Some(secret.into()),
        };
        let server = RemoteServer {
            url: Url::parse("https://tools.example/mcp").unwrap(),
            headers: BTreeMap::new(),
            addresses: AddressPolicy::default(),
            oauth: OauthConfig {
                client: Some(client),
                ..OauthConfig::default()
            },
        };
        let credentials = Credentials::new(&server, None);
        let message = credentials.redact(&format!("invalid_client: known, {secret}"));
        assert!(message.starts_with("invalid_client: known, "), "{message}");
        assert!(!message.contains(secret), "{message}");
    }
}
