//! The request for a token of a client that acts for itself (RFC 6749, section 4.4, and RFC 7523,
//! section 2.1), with what proves who the client is, and the reply.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::transport::auth::AuthorizationMetadata;
use secrecy::SecretString;
use serde_json::Value;
use url::{Url, form_urlencoded};

use crate::config::keys::oauth::{CLIENT_CREDENTIALS, JWT_BEARER};
use crate::text::list_names;
use crate::world::mcp::client_credentials::assertion::AssertionKey;

/// Largest token, in bytes: it has to fit into a header.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// How long before its end a token is replaced; at most half of its lifetime.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);
/// The type of assertions of a client (RFC 7523, section 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// A request for a token.
pub(super) struct TokenRequest {
    /// The body, as a form.
    pub(super) form: String,
    /// The `Authorization` header.
    pub(super) authorization: Option<String>,
}

/// What proves to an authorization server who massgen is.
pub(super) struct ClientProof {
    grant_type: &'static str,
    /// Parameters of the form.
    parameters: Vec<(&'static str, String)>,
    authorization: Option<String>,
}

impl ClientProof {
    /// Creates a proof of a registered client that is part of the form.
    fn in_form(parameters: Vec<(&'static str, String)>) -> Self {
        Self {
            grant_type: CLIENT_CREDENTIALS,
            parameters,
            authorization: None,
        }
    }

    /// Returns the assertion that it consists of, if it is one.
    pub(super) fn assertion(&self) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let parameter =
            parameters.find(|(name, _)| matches!(*name, "assertion" | "client_assertion"));
        parameter.map(|(_, value)| value.as_str())
    }
}

/// A token that an authorization server has issued.
pub(super) struct IssuedToken {
    pub(super) value: SecretString,
    /// For how long it is used; `None` if the authorization server does not say.
    pub(super) usable_for: Option<Duration>,
}

/// Builds the request for a token for the server at `url`.
pub(super) fn token_request(url: &Url, scopes: &[String], proof: ClientProof) -> TokenRequest {
    let mut resource = url.clone();
    resource.set_fragment(None);
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", proof.grant_type);
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    form.append_pair("resource", resource.as_str());
    for (name, value) in &proof.parameters {
        form.append_pair(name, value);
    }
    TokenRequest {
        form: form.finish(),
        authorization: proof.authorization,
    }
}

/// Proves who the client is with its secret: in a header, unless the authorization server accepts
/// it only in the form.
pub(super) fn secret_proof(
    id: &str,
    secret: &str,
    metadata: &AuthorizationMetadata,
) -> Result<ClientProof, String> {
    let methods = announced_names(metadata, "token_endpoint_auth_methods_supported");
    // Without a list, the authorization server accepts the header (RFC 8414, section 2).
    let accepts = |method| methods.as_ref().is_none_or(|all| all.contains(&method));
    if accepts("client_secret_basic") {
        let encode =
            |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
        let pair = format!("{}:{}", encode(id), encode(secret));
        return Ok(ClientProof {
            grant_type: CLIENT_CREDENTIALS,
            parameters: Vec::new(),
            authorization: Some(format!("Basic {}", STANDARD.encode(pair))),
        });
    }
    if accepts("client_secret_post") {
        return Ok(ClientProof::in_form(vec![
            ("client_id", id.to_owned()),
            ("client_secret", secret.to_owned()),
        ]));
    }
    Err(describe_unsupported("a `client_secret`", methods))
}

/// Proves who the client is with an assertion that it signs.
pub(super) fn assertion_proof(
    key: &AssertionKey,
    claims: &Value,
    metadata: &AuthorizationMetadata,
) -> Result<ClientProof, String> {
    let methods = announced_names(metadata, "token_endpoint_auth_methods_supported");
    if methods
        .as_ref()
        .is_some_and(|all| !all.contains(&"private_key_jwt"))
    {
        return Err(describe_unsupported(
            "assertions of a `private_key`",
            methods,
        ));
    }
    let algorithms = announced_names(metadata, "token_endpoint_auth_signing_alg_values_supported");
    let algorithm = key.algorithm();
    if algorithms
        .as_ref()
        .is_some_and(|all| !all.contains(&algorithm))
    {
        let method = format!("assertions with `{algorithm}`, as your `private_key` signs them");
        return Err(describe_unsupported(&method, algorithms));
    }
    let assertion = key
        .sign(claims)
        .ok_or("an assertion cannot be signed with its `private_key`")?;
    Ok(ClientProof::in_form(vec![
        ("client_assertion_type", ASSERTION_TYPE.to_owned()),
        ("client_assertion", assertion),
    ]))
}

/// Proves who a workload is with the assertion of its platform.
pub(super) fn workload_proof(id: Option<&str>, assertion: &str) -> ClientProof {
    let id = id.map(|id| ("client_id", id.to_owned()));
    let assertion = ("assertion", assertion.to_owned());
    ClientProof {
        grant_type: JWT_BEARER,
        parameters: id.into_iter().chain([assertion]).collect(),
        authorization: None,
    }
}

/// Reads an assertion from a file.
pub(super) fn parse_assertion(bytes: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let is_word = text.bytes().all(|byte| byte.is_ascii_graphic());
    (is_word && !text.is_empty()).then_some(text)
}

/// Returns a list of names in the metadata, if the metadata have it.
fn announced_names<'m>(metadata: &'m AuthorizationMetadata, field: &str) -> Option<Vec<&'m str>> {
    let names = metadata.additional_fields.get(field)?.as_array()?;
    Some(names.iter().filter_map(Value::as_str).collect())
}

fn describe_unsupported(method: &str, supported: Option<Vec<&str>>) -> String {
    let supported = supported.unwrap_or_default();
    if supported.is_empty() {
        return format!("its authorization server does not accept {method}");
    }
    let supported_names = list_names(&supported, "or");
    format!("its authorization server does not accept {method}, but {supported_names}")
}

/// Reads the reply with a token.
pub(super) fn parse_token(body: &[u8]) -> Result<IssuedToken, String> {
    let reply: Value = serde_json::from_slice(body).map_err(|_| "its reply is not JSON")?;
    let token_type = reply.get("token_type").and_then(Value::as_str);
    if let Some(token_type) = token_type.filter(|name| !name.eq_ignore_ascii_case("bearer")) {
        return Err(format!(
            "its token is of the type `{token_type}`, not `Bearer`"
        ));
    }
    let is_token = |text: &&str| {
        let is_graphic = text.bytes().all(|byte| byte.is_ascii_graphic());
        !text.is_empty() && text.len() <= TOKEN_BYTES_MAX && is_graphic
    };
    let value = reply
        .get("access_token")
        .and_then(Value::as_str)
        .filter(is_token)
        .ok_or("its reply has no token")?;
    let lifetime = reply.get("expires_in").and_then(seconds);
    Ok(IssuedToken {
        value: SecretString::from(value),
        usable_for: lifetime.map(usable_duration),
    })
}

/// Reads a number of seconds, which some authorization servers write as a string.
fn seconds(value: &Value) -> Option<Duration> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    Some(Duration::from_secs(number))
}

/// Returns for how long a token with this lifetime is used.
fn usable_duration(lifetime: Duration) -> Duration {
    lifetime.saturating_sub(RENEWAL_MARGIN.min(lifetime / 2))
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
    use secrecy::ExposeSecret;
    use serde_json::json;

    use super::*;

    const LOGIN: &str = "https://login.example";
    /// The parameter of the form for the server of `request`.
    const RESOURCE: &str = "resource=https%3A%2F%2Ftools.example%2Fmcp%3Fa%3D1";

    /// Returns metadata with these fields.
    fn metadata(fields: &Value) -> AuthorizationMetadata {
        let mut metadata = json!({
            "authorization_endpoint": format!("{LOGIN}/authorize"),
            "token_endpoint": format!("{LOGIN}/token"),
        });
        for (name, value) in fields.as_object().unwrap() {
            metadata[name] = value.clone();
        }
        serde_json::from_value(metadata).unwrap()
    }

    fn methods(methods: &[&str]) -> AuthorizationMetadata {
        metadata(&json!({"token_endpoint_auth_methods_supported": methods}))
    }

    /// Builds a request with a proof.
    fn request(scopes: &[&str], proof: ClientProof) -> TokenRequest {
        let url = Url::parse("https://tools.example/mcp?a=1#part").unwrap();
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        token_request(&url, &scopes, proof)
    }

    /// Returns the proof with the client's secret, or why there is none.
    fn secret(metadata: &AuthorizationMetadata) -> Result<ClientProof, String> {
        secret_proof("the client", "s&cret:1", metadata)
    }

    #[test]
    fn the_secret_is_in_the_header_unless_only_the_form_is_accepted() {
        let form = format!("grant_type=client_credentials&{RESOURCE}");
        for metadata in [
            metadata(&json!({})),
            methods(&["client_secret_post", "client_secret_basic"]),
        ] {
            let request = request(&[], secret(&metadata).unwrap());
            assert_eq!(request.form, form);
            let pair = STANDARD.encode("the+client:s%26cret%3A1");
            assert_eq!(request.authorization, Some(format!("Basic {pair}")));
        }
        let proof = secret(&methods(&["client_secret_post"])).unwrap();
        let request = request(&[], proof);
        let parameters = "&client_id=the+client&client_secret=s%26cret%3A1";
        assert_eq!(request.form, format!("{form}{parameters}"));
        assert_eq!(request.authorization, None);
    }

    #[test]
    fn an_assertion_is_a_parameter() {
        let proof = workload_proof(Some("me"), "a.b.c");
        assert_eq!(proof.assertion(), Some("a.b.c"));
        let signed_proof = ClientProof::in_form(vec![
            ("client_assertion_type", ASSERTION_TYPE.to_owned()),
            ("client_assertion", "d.e.f".to_owned()),
        ]);
        assert_eq!(signed_proof.assertion(), Some("d.e.f"));
        assert_eq!(secret(&metadata(&json!({}))).unwrap().assertion(), None);
        let request = request(&["a", "b:c"], proof);
        let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
        let other_fields = format!("scope=a+b%3Ac&{RESOURCE}&client_id=me&assertion=a.b.c");
        assert_eq!(request.form, format!("{grant}&{other_fields}"));
        assert_eq!(request.authorization, None);
        assert_eq!(parse_assertion(b"\n a.b.c\n"), Some("a.b.c"));
        for text in ["", " \n", "a b", "a.b.c\nd.e.f"] {
            assert_eq!(parse_assertion(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn methods_that_are_not_announced_are_not_used() {
        let reason = secret(&methods(&["private_key_jwt"])).err().unwrap();
        assert!(
            reason.ends_with("does not accept a `client_secret`, but `private_key_jwt`"),
            "{reason}"
        );
        let reason = secret(&methods(&[])).err().unwrap();
        assert!(
            reason.ends_with("does not accept a `client_secret`"),
            "{reason}"
        );
    }

    /// Checks for how many seconds the token of a reply is used.
    #[track_caller]
    fn check_reply(reply: &Value, expected: Result<Option<u64>, &str>) {
        match (parse_token(reply.to_string().as_bytes()), expected) {
            (Ok(token), Ok(expected)) => {
                assert_eq!(token.value.expose_secret(), "t");
                assert_eq!(token.usable_for.map(|time| time.as_secs()), expected);
            }
            (Err(reason), Err(expected)) => assert!(reason.contains(expected), "{reason}"),
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
    fn malformed_bearer_tokens_are_refused() {
        let long_token = "t".repeat(TOKEN_BYTES_MAX + 1);
        for token in [
            json!(""),
            json!("a b"),
            json!("a\nb"),
            json!(long_token),
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
    fn a_refusal_is_reported_with_its_reason() {
        let refusal = br#"{"error": "invalid_client", "error_description": "who?"}"#;
        assert_eq!(refusal_reason(401, refusal), "invalid_client: who?");
        assert_eq!(refusal_reason(400, br#"{"error": "x"}"#), "x");
        assert_eq!(refusal_reason(500, b"oops"), "HTTP 500");
    }
}
