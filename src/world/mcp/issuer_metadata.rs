//! The authorization server that an MCP server names: whether it is the one that the config means,
//! and its metadata, which are read from the issuer's own address. What the MCP server says about
//! them is not trusted: it could name the right issuer, and endpoints of its own.

use reqwest::{Method, Request};
use rmcp::transport::auth::{AuthorizationMetadata, AuthorizationMetadataResolution};
use url::Url;

use crate::config::servers::{RemoteServer, is_issuer};
use crate::world::mcp::guarded_http::GuardedHttpClient;

/// Returns the metadata of the authorization server at which the user signs in; `resolution` is the
/// metadata that was discovered.
pub(super) async fn sign_in_metadata(
    server: &RemoteServer,
    http: &GuardedHttpClient,
    resolution: AuthorizationMetadataResolution,
) -> Result<AuthorizationMetadata, String> {
    let configured_issuer = server.oauth.issuer.as_ref();
    if configured_issuer.is_none() && !resolution.source.is_discovered() {
        // In protocol version 2025-03-26, the endpoints are at the origin of the server itself.
        return Ok(resolution.metadata);
    }
    let client = server.oauth.client.as_ref();
    let has_secret = client.is_some_and(|client| client.secret.is_some());
    let discovered = resolution.metadata.issuer.as_deref();
    // A secret must not reach an issuer that only the MCP server names.
    let issuer = if configured_issuer.is_some() || has_secret {
        checked_issuer(&server.url, configured_issuer, discovered)?
    } else {
        parse_issuer(discovered)?
    };
    issuer_metadata(http, &issuer).await
}

/// Gets the metadata of an authorization server from itself.
async fn issuer_metadata(
    http: &GuardedHttpClient,
    issuer: &Url,
) -> Result<AuthorizationMetadata, String> {
    for url in metadata_urls(issuer) {
        let reply = http
            .send(Request::new(Method::GET, url))
            .await
            .map_err(|error| error.to_string())?;
        let body = Some(reply.body()).filter(|_| reply.status().is_success());
        if let Some(metadata) = body.and_then(|body| parse_metadata(issuer, body)) {
            return Ok(metadata);
        }
    }
    Err(format!(
        "`{issuer}` publishes no metadata as an authorization server"
    ))
}

/// Returns the issuer that was discovered, if it may receive the credentials: it is the one that
/// the config names, or else has the origin of the server at `url`.
fn checked_issuer(
    url: &Url,
    configured_issuer: Option<&Url>,
    discovered: Option<&str>,
) -> Result<Url, String> {
    let discovered = parse_issuer(discovered)?;
    match configured_issuer {
        Some(issuer) if *issuer == discovered => Ok(discovered),
        Some(issuer) => Err(format!(
            "it uses the authorization server `{discovered}`, but `issuer` in its `oauth` is \
             `{issuer}`: the credentials were not sent"
        )),
        None if discovered.origin() == url.origin() => Ok(discovered),
        None => Err(format!(
            "it uses the authorization server `{discovered}`: if your client is registered there, add \
             `issuer: {discovered}` to its `oauth`"
        )),
    }
}

/// Parses the issuer that was discovered.
fn parse_issuer(discovered: Option<&str>) -> Result<Url, String> {
    let issuer = discovered
        .and_then(|text| Url::parse(text).ok())
        .filter(is_issuer);
    issuer.ok_or_else(|| "it announces no authorization server with a valid `issuer`".to_owned())
}

/// Returns the URLs at which an authorization server may publish its metadata (RFC 8414, section 3,
/// and `OpenID` Connect Discovery, section 4), and those where some publish them instead.
fn metadata_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
        paths.push(format!("{path}/.well-known/oauth-authorization-server"));
        paths.push("/.well-known/oauth-authorization-server".to_owned());
    }
    let url_with_path = |path: String| {
        let mut url = issuer.clone();
        url.set_path(&path);
        url
    };
    paths.into_iter().map(url_with_path).collect()
}

/// Reads the metadata of an authorization server; `None` if it is not that of `issuer`.
fn parse_metadata(issuer: &Url, body: &[u8]) -> Option<AuthorizationMetadata> {
    let metadata: AuthorizationMetadata = serde_json::from_slice(body).ok()?;
    let published_issuer = Url::parse(metadata.issuer.as_deref()?).ok()?;
    (published_issuer == *issuer).then_some(metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOGIN: &str = "https://login.example";

    #[test]
    fn metadata_are_those_of_the_issuer_at_its_own_address() {
        let urls_of = |issuer: &str| {
            let urls = metadata_urls(&Url::parse(issuer).unwrap());
            urls.iter().map(Url::to_string).collect::<Vec<String>>()
        };
        let well_known = "https://login.example/.well-known";
        let plain_urls = [
            format!("{well_known}/oauth-authorization-server"),
            format!("{well_known}/openid-configuration"),
        ];
        assert_eq!(urls_of(LOGIN), plain_urls);
        let of_tenant = [
            format!("{well_known}/oauth-authorization-server/a/b"),
            format!("{well_known}/openid-configuration/a/b"),
            format!("{LOGIN}/a/b/.well-known/openid-configuration"),
            format!("{LOGIN}/a/b/.well-known/oauth-authorization-server"),
            format!("{well_known}/oauth-authorization-server"),
        ];
        assert_eq!(urls_of("https://login.example/a/b/"), of_tenant);

        let issuer = Url::parse(LOGIN).unwrap();
        let text = |issuer: &str| {
            let metadata = json!({
                "issuer": issuer,
                "authorization_endpoint": format!("{LOGIN}/authorize"),
                "token_endpoint": format!("{LOGIN}/token"),
            });
            metadata.to_string()
        };
        assert!(parse_metadata(&issuer, text(LOGIN).as_bytes()).is_some());
        for other_issuer in ["https://login.example/a", "https://tools.example", "x"] {
            assert!(parse_metadata(&issuer, text(other_issuer).as_bytes()).is_none());
        }
        assert!(parse_metadata(&issuer, b"<html>").is_none());
    }

    /// Checks whether the issuer `found` may receive the credentials of a config with the issuer
    /// `configured`.
    #[track_caller]
    fn check_issuer(configured: Option<&str>, found: Option<&str>, expected: Result<&str, &str>) {
        let url = Url::parse("https://tools.example/mcp").unwrap();
        let configured_url = configured.map(|text| Url::parse(text).unwrap());
        match (
            checked_issuer(&url, configured_url.as_ref(), found),
            expected,
        ) {
            (Ok(issuer), Ok(expected)) => assert_eq!(issuer, Url::parse(expected).unwrap()),
            (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn credentials_are_for_one_issuer() {
        let stranger = "https://stranger.example";
        check_issuer(Some(LOGIN), Some(LOGIN), Ok(LOGIN));
        check_issuer(Some("https://LOGIN.example:443/"), Some(LOGIN), Ok(LOGIN));
        check_issuer(Some(LOGIN), Some(stranger), Err("were not sent"));
        let port = "https://login.example:8443";
        check_issuer(Some(LOGIN), Some(port), Err("were not sent"));
        let tenant = "https://login.example/tenant";
        check_issuer(Some(LOGIN), Some(tenant), Err("were not sent"));
        check_issuer(Some(tenant), Some(LOGIN), Err("were not sent"));
        let own_issuer = "https://tools.example/auth";
        check_issuer(None, Some(own_issuer), Ok(own_issuer));
        check_issuer(Some(LOGIN), Some(own_issuer), Err("were not sent"));
        let hint = "add `issuer: https://stranger.example/` to its `oauth`";
        check_issuer(None, Some(stranger), Err(hint));
        check_issuer(
            None,
            Some("https://tools.example:8443"),
            Err("add `issuer:"),
        );
        // An address that only looks like one of the user's is not proposed to them.
        for invalid in [
            None,
            Some("tools"),
            Some("http://tools.example"),
            Some("https://login.example@stranger.example"),
            Some("https://stranger.example/?login.example"),
            Some("https://stranger.example/#login.example"),
            Some("file:///etc/passwd"),
        ] {
            check_issuer(None, invalid, Err("no authorization server"));
            check_issuer(Some(LOGIN), invalid, Err("no authorization server"));
        }
    }
}
