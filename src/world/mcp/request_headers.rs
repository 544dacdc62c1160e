//! The headers that the config gives for a remote server.

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

/// Returns whether the headers from the config contain the credentials, so that nobody signs in.
pub(super) fn has_authorization(remote: &RemoteServer) -> bool {
    let mut names = remote.headers.keys();
    names.any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()))
}
