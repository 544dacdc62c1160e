//! Which authorization server receives the secret of a client at a sign-in.

use std::sync::{Arc, OnceLock};

use serde_json::json;

use crate::http_server::{Endpoint, ScriptedResponse};
use crate::mcp_login::{LOGIN, project};
use crate::oauth_server::{OauthBehaviour, OauthServer};

const SECRET: &str = "secret-of-massgen";
/// The `Authorization` header with the id `known` and the secret.
const BASIC: &str = "Basic a25vd246c2VjcmV0LW9mLW1hc3NnZW4=";

/// Returns the client with which a user signs in, with further keys in `oauth`.
fn sign_in(keys: &str) -> String {
    format!("oauth: {{client_id: known, client_secret: '${{SECRET}}'{keys}}}")
}

/// The metadata of a stranger name the server itself as the issuer, but the stranger's endpoint.
#[test]
fn a_stranger_cannot_speak_for_the_issuer() {
    let claimed: Arc<OnceLock<String>> = Arc::default();
    let issuer = Arc::clone(&claimed);
    let stranger = Endpoint::start_with(move |request| {
        let host = format!("http://{}", request.headers["host"]);
        let metadata = json!({
            "issuer": issuer.get(),
            "authorization_endpoint": format!("{host}/authorize"),
            "token_endpoint": format!("{host}/token"),
        });
        let headers = ["content-type: application/json"];
        ScriptedResponse::whole("200 OK", &headers, metadata.to_string())
    });
    let server = OauthServer::start(OauthBehaviour {
        authorized_by: Some(format!("{}/.well-known/stranger", stranger.server.url)),
        ..OauthBehaviour::default()
    });
    claimed.set(server.issuer()).unwrap();
    for keys in [sign_in(""), String::new()] {
        let project = project(&server.url(), &keys).env("SECRET", SECRET);
        project.args(LOGIN).success();
    }
    let requests = stranger.server.requests();
    assert!(!requests.is_empty());
    assert!(
        requests
            .iter()
            .all(|request| request.line.starts_with("GET "))
    );
    assert_eq!(server.requests("POST /token").len(), 2);
}

#[test]
fn a_stranger_receives_no_secret_at_a_sign_in() {
    let stranger = OauthServer::start(OauthBehaviour::default());
    let issuer = stranger.issuer();
    let server = OauthServer::start(OauthBehaviour {
        authorized_by: Some(issuer.clone()),
        ..OauthBehaviour::default()
    });
    let hint = format!("add `issuer: {issuer}/` to its `oauth`");
    let named = |issuer: &str| sign_in(&format!(", issuer: '{issuer}'"));
    for (keys, expected) in [
        (sign_in(""), hint.as_str()),
        (named(&server.issuer()), "the credentials were not sent"),
    ] {
        let project = project(&server.url(), &keys).env("SECRET", SECRET);
        let finished = project.args(LOGIN).failure(3);
        let stderr = finished.stderr();
        assert!(stderr.contains(expected), "{stderr}");
    }
    for line in ["GET /authorize", "POST /token"] {
        assert_eq!(stranger.requests(line).len(), 0);
    }
    // The control: it is the one that the config names, or receives no secret of the config.
    for keys in [named(&issuer), String::new()] {
        let project = project(&server.url(), &keys).env("SECRET", SECRET);
        project.args(LOGIN).success();
    }
    let token_requests = stranger.requests("POST /token");
    assert_eq!(token_requests[0].headers["authorization"], BASIC);
    assert!(!token_requests[1].headers.contains_key("authorization"));
    assert_eq!(server.requests("POST /token").len(), 0);
}
