//! HTTP endpoint of an MCP server: who may use it, and how many sessions it has. Authorized
//! requests are passed to the protocol; everything else is answered with an error.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use hyper::header::WWW_AUTHENTICATE;
use hyper::{Method, StatusCode};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use crate::cli::http::origin_guard::{LoopbackPort, OriginGuard};
use crate::cli::http::token::{BearerToken, BearerTokens};
use crate::cli::mcp::transport::MESSAGE_BYTES_MAX;
use crate::world::mcp::tool_server::ToolServer;

/// Path of the endpoint.
const ENDPOINT_PATH: &str = "/mcp";
/// Maximum number of open sessions; more are rejected.
const SESSIONS_MAX: usize = 32;
/// Idle time after which a session is closed.
const SESSION_IDLE_MAX: Duration = Duration::from_mins(30);
/// Header that names the session of a request.
const SESSION_HEADER: &str = "mcp-session-id";
/// Names by which a machine reaches itself.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Origins of web pages that the machine itself serves; `*` is any port.
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// What requests are checked against.
#[derive(Clone)]
struct McpAccess {
    guard: OriginGuard,
    tokens: BearerTokens,
    sessions: Arc<LocalSessionManager>,
}

/// Returns the URL for clients of a server that listens on `address`.
pub(crate) fn endpoint_url(address: SocketAddr) -> String {
    format!("http://{address}{ENDPOINT_PATH}")
}

/// Returns the routes of `server` for clients that have `token`. Other machines reach it by
/// `names`; its sessions end when `stop` is cancelled.
pub(crate) fn routes(
    server: ToolServer,
    token: BearerToken,
    names: &[String],
    stop: &CancellationToken,
) -> Router {
    let mut session_config = SessionConfig::default();
    session_config.keep_alive = Some(SESSION_IDLE_MAX);
    let mut sessions = LocalSessionManager::default();
    sessions.session_config = session_config;
    let sessions = Arc::new(sessions);
    let hosts = LOOPBACK_NAMES
        .into_iter()
        .chain(names.iter().map(String::as_str));
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(hosts)
        .with_allowed_origins(LOOPBACK_ORIGINS)
        .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
        .with_cancellation_token(stop.child_token());
    let new_session = move || Ok(server.clone());
    let protocol = StreamableHttpService::new(new_session, Arc::clone(&sessions), config);
    let access = McpAccess {
        guard: OriginGuard::new(LoopbackPort::Any, names),
        tokens: BearerTokens::from(token),
        sessions,
    };
    Router::new()
        .route_service(ENDPOINT_PATH, protocol)
        .fallback(async || (StatusCode::NOT_FOUND, "there is nothing here"))
        .layer(from_fn_with_state(access, check_request))
}

/// Passes on requests that may use the endpoint.
async fn check_request(State(access): State<McpAccess>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    if let Err(refusal) = access.guard.check(&parts) {
        return (StatusCode::FORBIDDEN, refusal.to_string()).into_response();
    }
    if access.tokens.authorize(&parts).is_none() {
        let reason = "the bearer token is missing or wrong";
        return (
            StatusCode::UNAUTHORIZED,
            [(WWW_AUTHENTICATE, "Bearer")],
            reason,
        )
            .into_response();
    }
    let opens_session = parts.method == Method::POST && !parts.headers.contains_key(SESSION_HEADER);
    if opens_session && access.sessions.sessions.read().await.len() >= SESSIONS_MAX {
        let reason = "too many sessions are open";
        return (StatusCode::SERVICE_UNAVAILABLE, reason).into_response();
    }
    next.run(Request::from_parts(parts, body)).await
}
