//! Checks the keys about tokens for a remote MCP server (`oauth`). A value with expanded variables
//! is never quoted, because it may be a secret.

use secrecy::SecretString;
use url::Url;

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::check::servers::VALUE_CHARS_MAX;
use crate::config::keys::servers;
use crate::config::servers::{OauthClient, OauthConfig, is_issuer};

impl ConfigChecker<'_> {
    /// Reads `oauth` of a server.
    pub(super) fn oauth(&mut self, entry: &MappingView<'_>) -> OauthConfig {
        let Some(oauth) = entry.section(&servers::OAUTH) else {
            return OauthConfig::default();
        };
        let scopes = self.scopes(&oauth);
        let issuer = oauth
            .text(&servers::ISSUER)
            .and_then(|text| self.issuer(&oauth, &text));
        OauthConfig {
            client: self.sign_in_client(&oauth),
            issuer,
            scopes,
        }
    }

    /// Reads the client with which the user signs in.
    fn sign_in_client(&mut self, oauth: &MappingView<'_>) -> Option<OauthClient> {
        let secret = oauth.text(&servers::CLIENT_SECRET);
        let id = self.client_id(oauth);
        if id.is_none() && secret.is_some() {
            let message = "a `client_secret` needs a `client_id`";
            self.refuse(
                oauth.at(&servers::CLIENT_SECRET),
                message,
                "add `client_id`",
            );
        }
        id.map(|id| OauthClient {
            id,
            secret: secret.map(|secret| SecretString::from(secret.value)),
        })
    }

    fn client_id(&mut self, oauth: &MappingView<'_>) -> Option<String> {
        let id = oauth.text(&servers::CLIENT_ID)?;
        self.limit_chars(&id, "the name", VALUE_CHARS_MAX);
        Some(id.value.to_owned())
    }

    fn scopes(&mut self, oauth: &MappingView<'_>) -> Vec<String> {
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let scopes = oauth.texts(&servers::SCOPES);
        for scope in &scopes {
            if scope.value.is_empty() || !is_word(scope.value) {
                self.refuse_value(scope, "a scope", "list each scope separately");
            }
        }
        scopes.iter().map(|scope| scope.value.to_owned()).collect()
    }

    fn issuer(&mut self, oauth: &MappingView<'_>, text: &TextValue<'_>) -> Option<Url> {
        self.limit_chars(text, "the address", VALUE_CHARS_MAX);
        let url = Url::parse(text.value).ok().filter(is_issuer);
        if url.is_none() {
            let message = "`issuer` is not the URL of an authorization server";
            let hint = "write `https://host/path`, as its metadata names it";
            self.refuse(oauth.at(&servers::ISSUER), message, hint);
        }
        url
    }
}
