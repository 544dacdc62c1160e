//! The headers that the config gives for a remote server, and where its credentials come from.

use std::str::FromStr;

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use secrecy::ExposeSecret;

use crate::config::servers::RemoteServer;

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

/// Where the credentials for a remote server come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CredentialSource {
    /// The config contains them in `headers`.
    Headers,
    /// massgen gets tokens as a client that acts for itself (`oauth` in the config).
    Client,
    /// The user signs in.
    SignIn,
}

impl CredentialSource {
    /// Returns the source for a server; `headers` win.
    pub(super) fn for_server(remote: &RemoteServer) -> Self {
        let mut names = remote.headers.keys();
        if names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str())) {
            Self::Headers
        } else if remote.oauth.client_credentials.is_some() {
            Self::Client
        } else {
            Self::SignIn
        }
    }
}
