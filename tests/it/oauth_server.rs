//! MCP server on loopback that requires sign-in, together with its authorization server: it issues
//! codes, tokens and refreshed tokens according to the protocol, and misbehaves if the test wants
//! it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;
use url::form_urlencoded::parse;

use crate::http_server::{Endpoint, ReceivedRequest, ScriptedResponse};

/// Prefix of every token, to search for in what is left behind.
pub(crate) const TOKEN: &str = "token-of-the-user-";

/// Behaviour of the server.
#[derive(Clone, Debug, Default)]
pub(crate) struct OauthBehaviour {
    /// The token endpoint that it announces instead of its own.
    pub(crate) tokens_at: Option<String>,
    /// The authorization endpoint that it announces instead of its own.
    pub(crate) authorizes_at: Option<String>,
    /// Target of redirects for requests for its metadata.
    pub(crate) moved_to: Option<String>,
    /// The user refuses.
    pub(crate) is_refused: bool,
    /// The only client that it knows, with its secret.
    pub(crate) client: Option<(&'static str, &'static str)>,
    /// The scope that a call requires.
    pub(crate) wants_scope: Option<&'static str>,
    /// The authorization server that it announces instead of itself.
    pub(crate) authorized_by: Option<String>,
}

/// Codes and tokens that it has issued.
#[derive(Debug, Default)]
struct State {
    /// Codes, with the challenge and the scopes of their requests.
    codes: BTreeMap<String, (String, String)>,
    /// The token that is valid, and its scopes.
    valid: Option<(String, String)>,
    /// Whether refresh tokens are rejected.
    is_revoked: bool,
    /// The token endpoint that it announces since it was moved.
    tokens_moved_to: Option<String>,
    /// Whether it no longer announces an authorization server.
    is_silent: bool,
    /// The beginning of the paths at which it only answers that it cannot be reached.
    down_below: Option<&'static str>,
    issued_count: usize,
}

/// The server.
pub(crate) struct OauthServer {
    endpoint: Endpoint,
    state: Arc<Mutex<State>>,
}

impl OauthServer {
    /// Starts a server.
    pub(crate) fn start(behaviour: OauthBehaviour) -> Self {
        let state: Arc<Mutex<State>> = Arc::default();
        let own = Arc::clone(&state);
        let endpoint = Endpoint::start_with(move |request| {
            answer(request, &behaviour, &mut own.lock().unwrap())
        });
        Self { endpoint, state }
    }

    /// Returns the address of its tools.
    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.endpoint.server.url)
    }

    /// Returns its address as an authorization server.
    pub(crate) fn issuer(&self) -> String {
        self.endpoint.server.url.clone()
    }

    /// Returns the requests so far whose line begins with `line`.
    pub(crate) fn requests(&self, line: &str) -> Vec<ReceivedRequest> {
        let all = self.endpoint.server.requests().into_iter();
        all.filter(|request| request.line.starts_with(line))
            .collect()
    }

    /// Makes it reject the token that it issued.
    pub(crate) fn expire(&self) {
        self.state.lock().unwrap().valid = None;
    }

    /// Makes it announce this token endpoint.
    pub(crate) fn move_tokens(&self, url: &str) {
        self.state.lock().unwrap().tokens_moved_to = Some(url.to_owned());
    }

    /// Makes it no longer announce an authorization server.
    pub(crate) fn fall_silent(&self) {
        self.state.lock().unwrap().is_silent = true;
    }

    /// Makes it answer at all paths that begin with `path` that it cannot be reached.
    pub(crate) fn break_down(&self, path: &'static str) {
        self.state.lock().unwrap().down_below = Some(path);
    }

    /// Makes it reject refresh tokens that it issued.
    pub(crate) fn revoke(&self) {
        self.state.lock().unwrap().is_revoked = true;
    }
}

fn answer(
    request: &ReceivedRequest,
    behaviour: &OauthBehaviour,
    state: &mut State,
) -> ScriptedResponse {
    let host = format!("http://{}", request.headers["host"]);
    let (method, target) = request.line.split_once(' ').unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if state
        .down_below
        .is_some_and(|below| path.starts_with(below))
    {
        return ScriptedResponse::whole("502 Bad Gateway", &[], "");
    }
    match (method, path) {
        ("GET", path) if state.is_silent && path.starts_with("/.well-known/") => {
            ScriptedResponse::whole("404 Not Found", &[], "")
        }
        ("GET", "/.well-known/oauth-protected-resource/mcp") => {
            if let Some(to) = &behaviour.moved_to {
                return ScriptedResponse::whole("302 Found", &[&format!("location: {to}")], "");
            }
            let authorized_by = behaviour.authorized_by.as_ref().unwrap_or(&host);
            json_answer(&json!({
                "resource": format!("{host}/mcp"),
                "authorization_servers": [authorized_by],
            }))
        }
        ("GET", "/.well-known/oauth-authorization-server") => {
            let moved = state.tokens_moved_to.clone();
            let tokens = moved.or_else(|| behaviour.tokens_at.clone());
            let authorizes = behaviour.authorizes_at.clone();
            json_answer(&json!({
                "issuer": host,
                "authorization_endpoint": authorizes.unwrap_or(format!("{host}/authorize")),
                "token_endpoint": tokens.unwrap_or(format!("{host}/token")),
                "registration_endpoint": format!("{host}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            }))
        }
        ("POST", "/register") => {
            let mut client = request.json();
            client["client_id"] = json!("registered");
            json_answer(&client)
        }
        ("GET", "/authorize") => authorize(query, behaviour, state),
        ("POST", "/token") => token(request, behaviour, state),
        ("POST", "/mcp") => match tools(request, &host, behaviour, state) {
            Ok(Some(message)) => json_answer(&message),
            Ok(None) => ScriptedResponse::whole("202 Accepted", &[], ""),
            Err(refusal) => refusal,
        },
        _ => ScriptedResponse::whole("404 Not Found", &[], ""),
    }
}

fn authorize(query: &str, behaviour: &OauthBehaviour, state: &mut State) -> ScriptedResponse {
    let parameters: BTreeMap<_, _> = parse(query.as_bytes()).into_owned().collect();
    assert_eq!(parameters["code_challenge_method"], "S256");
    let mut back = Url::parse(&parameters["redirect_uri"]).unwrap();
    if behaviour.is_refused {
        back.query_pairs_mut()
            .append_pair("error", "access_denied")
            .append_pair("error_description", "the user said \u{1b}[2Jno");
    } else {
        let code = format!("code-{}", state.codes.len());
        back.query_pairs_mut().append_pair("code", &code);
        let scopes = parameters.get("scope").cloned().unwrap_or_default();
        let challenge = parameters["code_challenge"].clone();
        state.codes.insert(code, (challenge, scopes));
    }
    back.query_pairs_mut()
        .append_pair("state", &parameters["state"]);
    ScriptedResponse::whole("302 Found", &[&format!("location: {back}")], "")
}

fn token(
    request: &ReceivedRequest,
    behaviour: &OauthBehaviour,
    state: &mut State,
) -> ScriptedResponse {
    let form: BTreeMap<_, _> = parse(&request.bytes).into_owned().collect();
    let refused = |error: &str| {
        let body = json!({"error": error}).to_string();
        ScriptedResponse::whole("400 Bad Request", &["content-type: application/json"], body)
    };
    if behaviour.client.is_some() && !request.headers.contains_key("authorization") {
        return refused("invalid_client");
    }
    let scopes = match form["grant_type"].as_str() {
        "authorization_code" => {
            let Some((challenge, scopes)) = state.codes.remove(&form["code"]) else {
                return refused("invalid_grant");
            };
            let digest = Sha256::digest(form["code_verifier"].as_bytes());
            if base64_url(&digest) != challenge {
                return refused("invalid_grant");
            }
            scopes
        }
        _ if state.is_revoked => return refused("invalid_grant"),
        _ => String::new(),
    };
    state.issued_count += 1;
    let token = format!("{TOKEN}{}", state.issued_count);
    state.valid = Some((token.clone(), scopes.clone()));
    json_answer(&json!({
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": format!("{TOKEN}refresh-{}", state.issued_count),
        "scope": scopes,
    }))
}

/// Returns the answer to an unauthorized request.
fn turned_away(request: &ReceivedRequest, host: &str, state: &State) -> Option<ScriptedResponse> {
    let sent = request.headers.get("authorization").cloned();
    let valid = state.valid.as_ref();
    let is_known = valid.is_some_and(|(token, _)| sent == Some(format!("Bearer {token}")));
    (!is_known).then(|| unauthorized_response(host))
}

fn unauthorized_response(host: &str) -> ScriptedResponse {
    let metadata = format!("{host}/.well-known/oauth-protected-resource/mcp");
    let header = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"");
    ScriptedResponse::whole("401 Unauthorized", &[&header], "")
}

/// Returns the answer to a message, if it requires one.
fn tools(
    request: &ReceivedRequest,
    host: &str,
    behaviour: &OauthBehaviour,
    state: &State,
) -> Result<Option<Value>, ScriptedResponse> {
    if let Some(refusal) = turned_away(request, host, state) {
        return Err(refusal);
    }
    let sent = request.headers.get("authorization").cloned();
    let valid = state.valid.as_ref();
    let message = request.json();
    let Some(id) = message.get("id") else {
        return Ok(None);
    };
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "o", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "who", "inputSchema": {"type": "object"}}]}),
        _ => {
            let scopes = valid.map(|(_, scopes)| scopes.as_str()).unwrap_or_default();
            if let Some(scope) = behaviour.wants_scope
                && !scopes.contains(scope)
            {
                let header = format!(
                    "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"{scope} $(x)\""
                );
                return Err(ScriptedResponse::whole("403 Forbidden", &[&header], ""));
            }
            json!({"content": [{"type": "text", "text": format!("you are {}", sent.unwrap())}]})
        }
    };
    Ok(Some(json!({"jsonrpc": "2.0", "id": id, "result": result})))
}

fn json_answer(value: &Value) -> ScriptedResponse {
    let headers = ["content-type: application/json"];
    ScriptedResponse::whole("200 OK", &headers, value.to_string())
}

/// Encodes in base64 for URLs, without padding (RFC 4648, section 5).
fn base64_url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for piece in bytes.chunks(3) {
        let mut bits = 0_u32;
        for at in 0..3 {
            bits = bits << 8 | u32::from(piece.get(at).copied().unwrap_or_default());
        }
        for at in 0..=piece.len() {
            let digit = bits >> (18 - 6 * at) & 63;
            text.push(char::from(DIGITS[usize::try_from(digit).unwrap()]));
        }
    }
    text
}
