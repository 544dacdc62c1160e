//! Checks the keys about tokens for a remote MCP server (`oauth`). A value with expanded variables
//! is never quoted, because it may be a secret.

use secrecy::SecretString;
use url::Url;

use crate::config::check::ConfigChecker;
use crate::config::check::mapping_view::{MappingView, TextValue};
use crate::config::check::servers::VALUE_CHARS_MAX;
use crate::config::keys::{ConfigKey, oauth, servers};
use crate::config::servers::{
    ClientAuthentication, OauthClient, OauthConfig, WorkloadAssertion, is_issuer,
};

/// The longest secret, private key or assertion, in characters.
const SECRET_CHARS_MAX: usize = 16_384;
/// The header that a token is sent in.
const AUTHORIZATION: &str = "authorization";

impl ConfigChecker<'_> {
    /// Reads `oauth` of a server.
    pub(super) fn oauth(&mut self, entry: &MappingView<'_>) -> OauthConfig {
        let Some(oauth) = entry.section(&servers::OAUTH) else {
            return OauthConfig::default();
        };
        let scopes = self.scopes(&oauth);
        let grant = oauth
            .text(&oauth::GRANT_TYPE)
            .map_or(oauth::AUTHORIZATION_CODE, |grant| grant.value);
        self.refuse_keys_of_other_grants(&oauth, grant);
        let issuer = oauth
            .text(&oauth::ISSUER)
            .and_then(|text| self.issuer(&oauth, &text));
        if grant == oauth::AUTHORIZATION_CODE {
            return OauthConfig {
                client: self.sign_in_client(&oauth),
                client_credentials: None,
                issuer,
                scopes,
            };
        }
        self.refuse_authorization_header(entry);
        let client_credentials = if grant == oauth::JWT_BEARER {
            self.workload(&oauth)
        } else {
            self.registered_client(&oauth)
        };
        OauthConfig {
            client: None,
            client_credentials,
            issuer,
            scopes,
        }
    }

    /// Refuses keys that have no effect with this grant type.
    fn refuse_keys_of_other_grants(&mut self, oauth: &MappingView<'_>, grant: &str) {
        let workload_keys: [&ConfigKey; 2] = [&oauth::ASSERTION, &oauth::ASSERTION_FILE];
        let client_keys: [&ConfigKey; 1] = [&oauth::PRIVATE_KEY];
        let secret_keys: [&ConfigKey; 1] = [&oauth::CLIENT_SECRET];
        if grant == oauth::JWT_BEARER {
            let reason = "an `assertion` identifies the workload";
            self.refuse_keys(oauth, &secret_keys, reason);
        } else {
            let reason = format!("it belongs to `grant_type: {}`", oauth::JWT_BEARER);
            self.refuse_keys(oauth, &workload_keys, &reason);
        }
        if grant != oauth::CLIENT_CREDENTIALS {
            let reason = "it belongs to `grant_type: client_credentials`";
            self.refuse_keys(oauth, &client_keys, reason);
        }
    }

    /// Reads the client with which the user signs in.
    fn sign_in_client(&mut self, oauth: &MappingView<'_>) -> Option<OauthClient> {
        let secret = oauth.text(&oauth::CLIENT_SECRET);
        let id = self.client_id(oauth);
        if id.is_none() && secret.is_some() {
            let message = "a `client_secret` needs a `client_id`";
            self.refuse(oauth.at(&oauth::CLIENT_SECRET), message, "add `client_id`");
        }
        id.map(|id| OauthClient {
            id,
            secret: secret.map(|secret| SecretString::from(secret.value)),
        })
    }

    fn client_id(&mut self, oauth: &MappingView<'_>) -> Option<String> {
        let id = oauth.text(&oauth::CLIENT_ID)?;
        self.limit_chars(&id, "the name", VALUE_CHARS_MAX);
        Some(id.value.to_owned())
    }

    fn scopes(&mut self, oauth: &MappingView<'_>) -> Vec<String> {
        let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let scopes = oauth.texts(&oauth::SCOPES);
        for scope in &scopes {
            if scope.value.is_empty() || !is_word(scope.value) {
                self.refuse_value(scope, "a scope", "list each scope separately");
            }
        }
        scopes.iter().map(|scope| scope.value.to_owned()).collect()
    }

    /// Reads the credentials of a registered client that gets a token without a user.
    fn registered_client(&mut self, oauth: &MappingView<'_>) -> Option<ClientAuthentication> {
        let id = self.client_id(oauth);
        if id.is_none() {
            let message = "`grant_type: client_credentials` needs a `client_id`";
            let hint = "add the `client_id` with which massgen is registered";
            self.refuse(oauth.at(&oauth::GRANT_TYPE), message, hint);
        }
        let secret = oauth.text(&oauth::CLIENT_SECRET);
        let key = oauth.text(&oauth::PRIVATE_KEY);
        match (secret, key) {
            (Some(secret), None) => {
                self.limit_chars(&secret, "the secret", SECRET_CHARS_MAX);
                let secret = SecretString::from(secret.value);
                Some(ClientAuthentication::Secret { id: id?, secret })
            }
            (None, Some(key)) => {
                self.check_private_key(oauth, &key);
                let key = SecretString::from(key.value);
                Some(ClientAuthentication::PrivateKey { id: id?, key })
            }
            (Some(_), Some(_)) => {
                let message = "`client_secret` and `private_key` exclude each other";
                self.refuse(oauth.at(&oauth::PRIVATE_KEY), message, "remove one of them");
                None
            }
            (None, None) => {
                let message = "`grant_type: client_credentials` needs a secret";
                let hint = "add `client_secret: ${VARIABLE}` or `private_key: ${VARIABLE}`";
                self.refuse(oauth.at(&oauth::GRANT_TYPE), message, hint);
                None
            }
        }
    }

    /// Reads the assertion that identifies a workload.
    fn workload(&mut self, oauth: &MappingView<'_>) -> Option<ClientAuthentication> {
        let id = self.client_id(oauth);
        let text = oauth.text(&oauth::ASSERTION);
        let file = oauth.text(&oauth::ASSERTION_FILE);
        let assertion = match (text, file) {
            (Some(text), None) => {
                self.limit_chars(&text, "the assertion", SECRET_CHARS_MAX);
                WorkloadAssertion::Text(SecretString::from(text.value))
            }
            (None, Some(file)) => WorkloadAssertion::File(self.path(&file)?),
            (Some(_), Some(_)) => {
                let message = "`assertion` and `assertion_file` exclude each other";
                self.refuse(oauth.at(&oauth::ASSERTION), message, "remove one of them");
                return None;
            }
            (None, None) => {
                let message = "this `grant_type` needs an assertion";
                let hint = "add `assertion: ${VARIABLE}` or `assertion_file: PATH`";
                self.refuse(oauth.at(&oauth::GRANT_TYPE), message, hint);
                return None;
            }
        };
        Some(ClientAuthentication::Workload { id, assertion })
    }

    fn check_private_key(&mut self, oauth: &MappingView<'_>, key: &TextValue<'_>) {
        self.limit_chars(key, "the key", SECRET_CHARS_MAX);
        if !key.value.trim_start().starts_with(oauth::PRIVATE_KEY_BEGIN) {
            let message = "`private_key` is not a private key as PKCS#8 in PEM";
            let hint = "convert it with `openssl pkcs8 -topk8 -nocrypt -in KEY`; it begins with \
                        `-----BEGIN PRIVATE KEY-----`";
            self.refuse(oauth.at(&oauth::PRIVATE_KEY), message, hint);
        }
    }

    fn issuer(&mut self, oauth: &MappingView<'_>, text: &TextValue<'_>) -> Option<Url> {
        self.limit_chars(text, "the address", VALUE_CHARS_MAX);
        let url = Url::parse(text.value).ok().filter(is_issuer);
        if url.is_none() {
            let message = "`issuer` is not the URL of an authorization server";
            let hint = "write `https://host/path`, as its metadata names it";
            self.refuse(oauth.at(&oauth::ISSUER), message, hint);
        }
        url
    }

    /// Refuses an `Authorization` header, which the token replaces.
    fn refuse_authorization_header(&mut self, entry: &MappingView<'_>) {
        let Some(headers) = entry.section(&servers::HEADERS) else {
            return;
        };
        let mut names = headers.node.entries().iter().map(|header| &header.key);
        if names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION)) {
            let message = "`headers` and the token of `oauth` both set `Authorization`";
            self.refuse(entry.at(&servers::HEADERS), message, "remove one of them");
        }
    }
}
