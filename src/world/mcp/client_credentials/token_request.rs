//! The request for a token of a client that acts for itself (RFC 6749, section 4.4), and the reply:
//! which authorization server may receive it, and how the client proves who it is.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::transport::auth::AuthorizationMetadata;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::{Url, form_urlencoded};

use crate::config::servers::{ClientAuthentication, ClientCredentials};
use crate::text::list_names;
use crate::world::mcp::client_credentials::assertion::{AssertionKey, assertion_claims};

/// Largest token, in bytes: it has to fit into a header.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Time before its end at which a token is replaced, unless it lives shorter than twice that.
const REPLACED_BEFORE_END: Duration = Duration::from_secs(30);
/// The type of assertions (RFC 7523, section 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A request for a token.
pub(super) struct TokenRequest {
    /// The body, as a form.
    pub(super) form: String,
    /// The `Authorization` header.
    pub(super) authorization: Option<String>,
}

/// What proves to an authorization server that massgen is a client.
struct ClientProof {
    /// Parameters of the form.
    parameters: Vec<(&'static str, String)>,
    authorization: Option<String>,
}

impl ClientProof {
    fn in_form(parameters: Vec<(&'static str, String)>) -> Self {
        Self {
            parameters,
            authorization: None,
        }
    }
}

/// A token.
pub(super) struct IssuedToken {
    /// Its value.
    pub(super) value: SecretString,
    /// For how long it is used; `None` if the authorization server does not say.
    pub(super) usable_for: Option<Duration>,
}

/// A moment, and a value that is never used again.
#[derive(Clone, Copy)]
pub(super) struct RequestNonce<'a> {
    /// The time in seconds since the Unix epoch.
    pub(super) now: u64,
    /// The value.
    pub(super) id: &'a str,
}

/// Returns the issuer of the discovered metadata, if it may receive the credentials: it is the one
/// that the config names, or else has the origin of the server at `url`.
pub(super) fn checked_issuer<'m>(
    url: &Url,
    credentials: &ClientCredentials,
    metadata: &'m AuthorizationMetadata,
) -> Result<&'m str, String> {
    let found = metadata.issuer.as_deref();
    let found = found.and_then(|written| Some((written, Url::parse(written).ok()?)));
    let Some((written, found)) = found else {
        return Err("it announces no authorization server with an `issuer`".to_owned());
    };
    match &credentials.issuer {
        Some(issuer) if *issuer == found => Ok(written),
        Some(issuer) => Err(format!(
            "it uses the authorization server `{found}`, but `issuer` in its `oauth` is \
             `{issuer}`: the credentials were not sent"
        )),
        None if found.origin() == url.origin() => Ok(written),
        None => Err(format!(
            "it uses the authorization server `{found}`: if your client is registered there, add \
             `issuer: {found}` to its `oauth`"
        )),
    }
}

/// Builds the request for a token for the server at `url` from the authorization server `issuer`.
pub(super) fn token_request(
    url: &Url,
    credentials: &ClientCredentials,
    scopes: &[String],
    metadata: &AuthorizationMetadata,
    issuer: &str,
    nonce: RequestNonce<'_>,
) -> Result<TokenRequest, String> {
    let proof = match &credentials.authentication {
        ClientAuthentication::Secret(secret) => {
            secret_proof(&credentials.id, secret.expose_secret(), metadata)?
        }
        ClientAuthentication::PrivateKey(pem) => {
            let key = AssertionKey::parse(pem.expose_secret())?;
            let claims = assertion_claims(&credentials.id, issuer, nonce.now, nonce.id);
            assertion_proof(&key, &claims, metadata)?
        }
    };
    let mut resource = url.clone();
    resource.set_fragment(None);
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    form.append_pair("resource", resource.as_str());
    for (name, value) in &proof.parameters {
        form.append_pair(name, value);
    }
    Ok(TokenRequest {
        form: form.finish(),
        authorization: proof.authorization,
    })
}

/// Proves who the client is with its secret: in a header, unless the authorization server accepts
/// it only in the form.
fn secret_proof(
    id: &str,
    secret: &str,
    metadata: &AuthorizationMetadata,
) -> Result<ClientProof, String> {
    let methods = announced(metadata, "token_endpoint_auth_methods_supported");
    // Without a list, the authorization server accepts the header (RFC 8414, section 2).
    let has = |method| methods.as_ref().is_none_or(|all| all.contains(&method));
    if has("client_secret_basic") {
        let encode =
            |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let pair = format!("{}:{}", encode(id), encode(secret));
        return Ok(ClientProof {
            parameters: Vec::new(),
            authorization: Some(format!("Basic {}", STANDARD.encode(pair))),
        });
    }
    if has("client_secret_post") {
        return Ok(ClientProof::in_form(vec![
            ("client_id", id.to_owned()),
            ("client_secret", secret.to_owned()),
        ]));
    }
    Err(unsupported("a `client_secret`", methods))
}

/// Proves who the client is with a signed assertion.
fn assertion_proof(
    key: &AssertionKey,
    claims: &Value,
    metadata: &AuthorizationMetadata,
) -> Result<ClientProof, String> {
    let methods = announced(metadata, "token_endpoint_auth_methods_supported");
    if methods
        .as_ref()
        .is_some_and(|all| !all.contains(&"private_key_jwt"))
    {
        return Err(unsupported("assertions of a `private_key`", methods));
    }
    let algorithms = announced(metadata, "token_endpoint_auth_signing_alg_values_supported");
    let algorithm = key.algorithm();
    if algorithms
        .as_ref()
        .is_some_and(|all| !all.contains(&algorithm))
    {
        let what = format!("assertions with `{algorithm}`, as your `private_key` signs them");
        return Err(unsupported(&what, algorithms));
    }
    let assertion = key
        .sign(claims)
        .ok_or("an assertion cannot be signed with its `private_key`")?;
    Ok(ClientProof::in_form(vec![
        ("client_assertion_type", ASSERTION_TYPE.to_owned()),
        ("client_assertion", assertion),
    ]))
}

/// Returns a list of names in the metadata, if it is there.
fn announced<'m>(metadata: &'m AuthorizationMetadata, field: &str) -> Option<Vec<&'m str>> {
    let names = metadata.additional_fields.get(field)?.as_array()?;
    Some(names.iter().filter_map(Value::as_str).collect())
}

fn unsupported(what: &str, supported: Option<Vec<&str>>) -> String {
    let supported = supported.unwrap_or_default();
    if supported.is_empty() {
        return format!("its authorization server does not accept {what}");
    }
    let supported = list_names(&supported, "or");
    format!("its authorization server does not accept {what}, but {supported}")
}

/// Reads the reply with a token.
pub(super) fn parse_token(body: &[u8]) -> Result<IssuedToken, String> {
    let reply: Value = serde_json::from_slice(body).map_err(|_| "its reply is not JSON")?;
    let kind = reply.get("token_type").and_then(Value::as_str);
    if let Some(kind) = kind.filter(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(format!("its token is of the type `{kind}`, not `Bearer`"));
    }
    let is_token = |text: &&str| {
        let is_sent_whole = text.bytes().all(|byte| byte.is_ascii_graphic());
        !text.is_empty() && text.len() <= TOKEN_BYTES_MAX && is_sent_whole
    };
    let value = reply.get("access_token").and_then(Value::as_str);
    let value = value.filter(is_token).ok_or("its reply has no token")?;
    let lifetime = reply.get("expires_in").and_then(seconds);
    Ok(IssuedToken {
        value: SecretString::from(value),
        usable_for: lifetime.map(usable_part),
    })
}

/// Reads a number of seconds, which some authorization servers write as a string.
fn seconds(value: &Value) -> Option<Duration> {
    let number = value.as_u64();
    let number = number.or_else(|| value.as_str()?.parse().ok())?;
    Some(Duration::from_secs(number))
}

/// Returns for how long a token with this lifetime is used.
fn usable_part(lifetime: Duration) -> Duration {
    lifetime.saturating_sub(REPLACED_BEFORE_END.min(lifetime / 2))
}

/// Returns why an authorization server issues no token, from its reply.
pub(super) fn refusal_reason(status: u16, body: &[u8]) -> String {
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    let field = |name: &str| reply.get(name).and_then(Value::as_str);
    match (field("error"), field("error_description")) {
        (Some(error), Some(description)) => format!("{error}: {description}"),
        (Some(error), None) => error.to_owned(),
        (None, _) => format!("HTTP {status}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOGIN: &str = "https://login.example";

    fn credentials(issuer: Option<&str>) -> ClientCredentials {
        ClientCredentials {
            id: "the client".to_owned(),
            authentication: ClientAuthentication::Secret("s&cret:1".into()),
            issuer: issuer.map(|issuer| Url::parse(issuer).unwrap()),
        }
    }

    /// Returns metadata with these fields.
    fn metadata(fields: &Value) -> AuthorizationMetadata {
        let mut all = json!({
            "authorization_endpoint": format!("{LOGIN}/authorize"),
            "token_endpoint": format!("{LOGIN}/token"),
        });
        for (name, value) in fields.as_object().unwrap() {
            all[name] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    fn methods(methods: &[&str]) -> AuthorizationMetadata {
        metadata(&json!({"token_endpoint_auth_methods_supported": methods}))
    }

    /// Builds a request with the client's secret.
    fn request(scopes: &[&str], metadata: &AuthorizationMetadata) -> Result<TokenRequest, String> {
        let url = Url::parse("https://tools.example/mcp?a=1#part").unwrap();
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let nonce = RequestNonce { now: 1, id: "1" };
        token_request(&url, &credentials(None), &scopes, metadata, LOGIN, nonce)
    }

    #[test]
    fn the_secret_is_in_the_header_unless_only_the_form_is_accepted() {
        let form =
            "grant_type=client_credentials&resource=https%3A%2F%2Ftools.example%2Fmcp%3Fa%3D1";
        for metadata in [
            metadata(&json!({})),
            methods(&["client_secret_post", "client_secret_basic"]),
        ] {
            let request = request(&[], &metadata).unwrap();
            assert_eq!(request.form, form);
            let pair = STANDARD.encode("the+client:s%26cret%3A1");
            assert_eq!(request.authorization, Some(format!("Basic {pair}")));
        }
        let request = request(&[], &methods(&["client_secret_post"])).unwrap();
        let secret = "&client_id=the+client&client_secret=s%26cret%3A1";
        assert_eq!(request.form, format!("{form}{secret}"));
        assert_eq!(request.authorization, None);
    }

    #[test]
    fn scopes_are_one_parameter() {
        let request = request(&["a", "b:c"], &metadata(&json!({}))).unwrap();
        assert!(request.form.contains("&scope=a+b%3Ac&"), "{}", request.form);
    }

    #[test]
    fn methods_that_are_not_announced_are_not_used() {
        let why = request(&[], &methods(&["private_key_jwt"])).err().unwrap();
        assert!(
            why.ends_with("does not accept a `client_secret`, but `private_key_jwt`"),
            "{why}"
        );
        let why = request(&[], &methods(&[])).err().unwrap();
        assert!(why.ends_with("does not accept a `client_secret`"), "{why}");
    }

    /// Checks the issuer of the metadata `found` for a config with the issuer `named`.
    #[track_caller]
    fn check_issuer(named: Option<&str>, found: Option<&str>, expected: Result<&str, &str>) {
        let url = Url::parse("https://tools.example/mcp").unwrap();
        let metadata = metadata(&json!({"issuer": found}));
        match (
            checked_issuer(&url, &credentials(named), &metadata),
            expected,
        ) {
            (Ok(issuer), Ok(expected)) => assert_eq!(issuer, expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (found, expected) => panic!("{found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn credentials_are_for_one_issuer() {
        let stranger = "https://stranger.example";
        check_issuer(Some(LOGIN), Some(LOGIN), Ok(LOGIN));
        check_issuer(Some("https://LOGIN.example:443/"), Some(LOGIN), Ok(LOGIN));
        check_issuer(Some(LOGIN), Some(stranger), Err("were not sent"));
        let tenant = "https://login.example/tenant";
        check_issuer(Some(LOGIN), Some(tenant), Err("were not sent"));
        check_issuer(Some(tenant), Some(LOGIN), Err("were not sent"));
        let own = "https://tools.example/auth";
        check_issuer(None, Some(own), Ok(own));
        check_issuer(Some(LOGIN), Some(own), Err("were not sent"));
        let hint = "add `issuer: https://stranger.example/` to its `oauth`";
        check_issuer(None, Some(stranger), Err(hint));
        check_issuer(None, Some("http://tools.example"), Err("add `issuer:"));
        for nothing in [None, Some("tools")] {
            check_issuer(None, nothing, Err("no authorization server"));
            check_issuer(Some(LOGIN), nothing, Err("no authorization server"));
        }
    }

    /// Checks for how many seconds the token of a reply is used.
    #[track_caller]
    fn check_reply(reply: &Value, expected: Result<Option<u64>, &str>) {
        match (parse_token(reply.to_string().as_bytes()), expected) {
            (Ok(token), Ok(expected)) => {
                assert_eq!(token.value.expose_secret(), "t");
                assert_eq!(token.usable_for.map(|time| time.as_secs()), expected);
            }
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
            (found, _) => panic!("{reply}: {:?}", found.err()),
        }
    }

    #[test]
    fn a_token_is_replaced_before_its_end() {
        let reply =
            |end: Value| json!({"access_token": "t", "token_type": "bearer", "expires_in": end});
        check_reply(&reply(json!(3600)), Ok(Some(3570)));
        check_reply(&reply(json!("3600")), Ok(Some(3570)));
        check_reply(&reply(json!(40)), Ok(Some(20)));
        check_reply(&reply(json!(0)), Ok(Some(0)));
        check_reply(&reply(json!(null)), Ok(None));
        check_reply(&json!({"access_token": "t"}), Ok(None));
    }

    #[test]
    fn what_is_no_bearer_token_is_refused() {
        let long = "t".repeat(TOKEN_BYTES_MAX + 1);
        for token in [
            json!(""),
            json!("a b"),
            json!("a\nb"),
            json!(long),
            json!(1),
        ] {
            check_reply(&json!({"access_token": token}), Err("no token"));
        }
        check_reply(
            &json!({"access_token": "t", "token_type": "DPoP"}),
            Err("of the type `DPoP`"),
        );
        assert!(parse_token(b"<html>").is_err());
    }

    #[test]
    fn a_refusal_is_told_with_its_reason() {
        let refusal = br#"{"error": "invalid_client", "error_description": "who?"}"#;
        assert_eq!(refusal_reason(401, refusal), "invalid_client: who?");
        assert_eq!(refusal_reason(400, br#"{"error": "x"}"#), "x");
        assert_eq!(refusal_reason(500, b"oops"), "HTTP 500");
    }
}
