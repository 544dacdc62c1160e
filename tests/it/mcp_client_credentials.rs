//! Tokens for remote servers without a user: which authorization server receives the credentials of
//! the client, and how a token is replaced in the middle of a run.

use std::sync::{Arc, OnceLock};

use serde_json::json;
use url::form_urlencoded::byte_serialize;

use crate::http_server::{Endpoint, ScriptedResponse};
use crate::mcp::{call_results, stands_nowhere};
use crate::mcp_login::{LOGIN, RUN, project};
use crate::oauth_server::{OauthBehaviour, OauthServer, TOKEN};
use crate::project::Project;

const SECRET: &str = "secret-of-massgen";
/// The `Authorization` header with the id `known` and the secret.
const BASIC: &str = "Basic a25vd246c2VjcmV0LW9mLW1hc3NnZW4=";

/// Returns the client with which a user signs in, with further keys in `oauth`.
fn sign_in(keys: &str) -> String {
    format!("oauth: {{client_id: known, client_secret: '${{SECRET}}'{keys}}}")
}

/// Returns a project whose server has the client `known`, with further keys in `oauth`.
fn client_project(server: &OauthServer, keys: &str) -> Project {
    let keys = format!(
        "oauth: {{grant_type: client_credentials, client_id: known, client_secret: '${{SECRET}}', \
         scopes: [a, b]{keys}}}"
    );
    project(&server.url(), &keys).env("SECRET", SECRET)
}

#[test]
fn a_client_gets_a_token_without_a_user_and_another_if_it_is_rejected() {
    let server = OauthServer::start(OauthBehaviour {
        client: Some(("known", SECRET)),
        is_forgetful: true,
        ..OauthBehaviour::default()
    });
    let finished = client_project(&server, "").args(RUN).success();
    assert_eq!(call_results(&finished)[0], "you are Bearer [redacted]");
    let token_requests = server.requests("POST /token");
    assert_eq!(token_requests.len(), 2, "{token_requests:#?}");
    let resource: String = byte_serialize(server.url().as_bytes()).collect();
    let form = format!("grant_type=client_credentials&scope=a+b&resource={resource}");
    for request in &token_requests {
        assert_eq!(request.headers["authorization"], BASIC);
        assert_eq!(request.body, form);
    }
    for line in ["POST /register", "GET /authorize"] {
        assert_eq!(server.requests(line).len(), 0);
    }
    for secret in [TOKEN, SECRET] {
        assert!(!finished.stderr().contains(secret));
        stands_nowhere(secret, finished.project().path(""));
    }
    assert!(
        !finished
            .project()
            .home(".massgen/mcp/credentials.json")
            .exists()
    );

    let finished = finished.then(LOGIN).failure(2);
    let stderr = finished.stderr();
    assert!(stderr.contains("needs no sign-in"), "{stderr}");
}

#[test]
fn scopes_that_a_client_lacks_are_named_if_the_server_names_them() {
    let problem = "error: the server `t`: it requires more scopes than the client in `oauth` has";
    for (scope, expected) in [
        ("tickets:write", "; add them to its `scopes`: tickets:write"),
        // Only what a shell would read as a single word is shown.
        ("$(y)", ", and names none that can be shown"),
    ] {
        let server = OauthServer::start(OauthBehaviour {
            client: Some(("known", SECRET)),
            wants_scope: Some(scope),
            ..OauthBehaviour::default()
        });
        let finished = client_project(&server, "").args(RUN).success();
        assert_eq!(call_results(&finished)[0], format!("{problem}{expected}"));
    }
}

/// Checks that a run whose `oauth` has further keys ends before a model is asked, with `expected`.
#[track_caller]
fn check_refused(server: &OauthServer, keys: &str, expected: &str) {
    let finished = client_project(server, keys).args(RUN).failure(3);
    let stderr = finished.stderr();
    assert!(stderr.contains(expected), "{stderr}\n{expected}");
    assert!(!stderr.contains(TOKEN), "{stderr}");
}

#[test]
fn a_stranger_receives_no_credentials() {
    let stranger = OauthServer::start(OauthBehaviour::default());
    let issuer = stranger.issuer();
    let server = OauthServer::start(OauthBehaviour {
        authorized_by: Some(issuer.clone()),
        ..OauthBehaviour::default()
    });
    let hint = format!("add `issuer: {issuer}/` to its `oauth`");
    check_refused(&server, "", &hint);
    let own = format!(", issuer: '{}'", server.issuer());
    check_refused(&server, &own, "the credentials were not sent");
    for one in [&server, &stranger] {
        assert_eq!(one.requests("POST /token").len(), 0);
    }
    // The control: it is the one that the config means, but the server does not know its tokens.
    let named = format!(", issuer: '{issuer}'");
    check_refused(&server, &named, "it rejects the token");
    let token_requests = stranger.requests("POST /token");
    assert_eq!(token_requests[0].headers["authorization"], BASIC);
    assert_eq!(server.requests("POST /token").len(), 0);
}

#[test]
fn a_run_continues_without_a_server_whose_tokens_cannot_be_reached() {
    for path in ["/", "/.well-known/", "/token"] {
        let server = OauthServer::start(OauthBehaviour::default());
        server.break_down(path);
        let finished = client_project(&server, "").args(RUN).success();
        let stderr = finished.stderr();
        let warning = "the server `t` cannot be used, so `one` works without its tools";
        assert!(stderr.contains(warning), "{path}: {stderr}");
    }
    // The outage may begin after the first token.
    let server = OauthServer::start(OauthBehaviour {
        is_failing: true,
        ..OauthBehaviour::default()
    });
    let finished = client_project(&server, "").args(RUN).success();
    let stderr = finished.stderr();
    assert!(stderr.contains("so `one` works without"), "{stderr}");
    assert!(server.requests("POST /token").len() > 1);
    // Control: a refusal of the server.
    let server = OauthServer::start(OauthBehaviour {
        client: Some(("known", SECRET)),
        ..OauthBehaviour::default()
    });
    server.fall_silent();
    check_refused(&server, "", "it announces no authorization server");
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
    client_project(&server, "").args(RUN).success();
    // Nor at a sign-in, with or without a secret.
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
    assert_eq!(server.requests("POST /token").len(), 3);
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

#[test]
fn a_workload_shows_the_assertion_in_its_file() {
    let server = OauthServer::start(OauthBehaviour::default());
    let keys = "oauth: {grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer', \
                assertion_file: platform.jwt}";
    let project = project(&server.url(), keys).file("platform.jwt", "header.claims.signature\n");
    let finished = project.args(RUN).success();
    assert_eq!(call_results(&finished)[0], "you are Bearer [redacted]");
    let token_requests = server.requests("POST /token");
    let grant = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&";
    let assertion = "&assertion=header.claims.signature";
    let form = &token_requests[0].body;
    assert!(
        form.starts_with(grant) && form.ends_with(assertion),
        "{form}"
    );
    assert!(!token_requests[0].headers.contains_key("authorization"));
}
