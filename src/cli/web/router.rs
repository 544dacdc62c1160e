//! The routes of the server, and the checks that come before them, in this order: host, origin,
//! method, token, and whether the server is read-only. Every reply gets the headers that protect the page.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::cli::http::token::BearerToken;
use crate::cli::web::reply::{ApiError, ApiResult, JsonBody, JsonReply, encode};
use crate::cli::web::server_state::WebServer;
use crate::cli::web::{
    batches, browse, config_form, overview, page_assets, review, run_control, run_log,
    run_resumption, run_start, stream,
};

/// Maximum size of a request body, in bytes.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Path at which a code is exchanged for a token.
const SESSION_PATH: &str = "/api/session";
/// Path of the lookups of the file picker.
const BROWSE_PATH: &str = "/api/browse";
/// Beginning of the paths of the files of the page.
const PAGE_PREFIX: &str = "/page/";
/// What the page may load and run: only files of this server, and no HTML from strings.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; form-action 'none'; base-uri 'none'; \
    frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types lit-html";
/// Headers of every reply.
const FIXED_HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, PAGE_POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// Body of `POST /api/session`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionRequest {
    code: String,
}

/// Returns all routes of `server`.
pub(super) fn routes(server: &Arc<WebServer>) -> Router {
    let api = Router::new()
        .route("/session", post(open_session))
        .route("/info", get(overview::info))
        .route("/runs", get(overview::runs).post(run_start::start))
        .route("/runs/{id}/stream", get(stream::stream))
        .route("/runs/{id}/log", get(run_log::events))
        .route("/runs/{id}/resumption", get(run_log::resumption))
        .route("/runs/{id}/answers/{label}", get(run_log::answer))
        .route(
            "/runs/{id}/approvals/{approval}",
            post(run_control::approve),
        )
        .route("/runs/{id}/questions/{question}", post(run_control::answer))
        .route("/runs/{id}/diff", get(review::diff))
        .route("/runs/{id}/delivery", post(review::deliver))
        .route("/runs/{id}/undo", post(review::undo))
        .route("/runs/{id}/messages", post(run_control::send_message))
        .route("/runs/{id}/stop", post(run_control::stop))
        .route("/runs/{id}/continue", post(run_resumption::resume))
        .route("/batches", get(batches::list))
        .route("/batches/{id}", get(batches::batch))
        .route("/batches/{id}/comparison", get(batches::comparison))
        .route("/config/keys", get(config_form::keys))
        .route("/config/open", post(config_form::open))
        .route("/config/check", post(config_form::check))
        .route("/config/save", post(config_form::save))
        .route("/browse", post(browse::browse));
    Router::new()
        .route("/", get(page_assets::index))
        .route("/page/{*name}", get(page_assets::asset))
        .nest("/api", api)
        .fallback(async || ApiError::not_found("there is nothing here"))
        .method_not_allowed_fallback(async || {
            let message = "the method is not allowed for this address";
            ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message)
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(server), check_and_finish))
        .with_state(Arc::clone(server))
}

/// Exchanges the code of a link for a token.
async fn open_session(
    State(server): State<Arc<WebServer>>,
    JsonBody(request): JsonBody<SessionRequest>,
) -> ApiResult {
    if !server.codes.redeem(&request.code) {
        let message = "the link was used already, or is older than a minute";
        return Err(ApiError::new(StatusCode::UNAUTHORIZED, message)
            .with_hint("press Enter in the terminal of `massgen web` for another link"));
    }
    let (token, text) = BearerToken::random();
    server.tokens.insert(token);
    Ok(JsonReply(json!({"token": text})))
}

/// Passes on a request that may be made, and completes the reply.
async fn check_and_finish(
    State(server): State<Arc<WebServer>>,
    request: Request,
    next: Next,
) -> Response {
    let is_api = !is_page_file(request.uri().path());
    let mut response = match check(&server, request) {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    encode(&mut response, &server.redactor);
    let headers = response.headers_mut();
    for (name, value) in FIXED_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_api || !headers.contains_key(CACHE_CONTROL) {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if response.status() == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

/// Checks everything about `request` but its route, and adds the token that it carries to its
/// extensions.
fn check(server: &WebServer, request: Request) -> ApiResult<Request> {
    let (mut parts, body) = request.into_parts();
    if let Err(refusal) = server.guard.check(&parts) {
        return Err(ApiError::new(StatusCode::FORBIDDEN, refusal.to_string()));
    }
    let path = parts.uri.path();
    let method = &parts.method;
    if !matches!(*method, Method::GET | Method::HEAD | Method::POST) {
        let message = "expected GET or POST";
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    if !needs_no_token(path, method) {
        let token = require_token(server, &parts)?;
        let is_write = *method == Method::POST && path != BROWSE_PATH;
        if server.is_read_only && is_write {
            let message = "the server was started with `--read-only`";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        parts.extensions.insert(token);
    }
    Ok(Request::from_parts(parts, body))
}

/// Returns whether a request needs no token: it is for a file of the page, or asks for a token.
fn needs_no_token(path: &str, method: &Method) -> bool {
    if *method == Method::POST {
        return path == SESSION_PATH;
    }
    is_page_file(path)
}

/// Returns whether `path` is a file of the page.
fn is_page_file(path: &str) -> bool {
    path == "/" || path.starts_with(PAGE_PREFIX)
}

/// Returns the token that a request carries, if it is accepted.
fn require_token(server: &WebServer, request: &Parts) -> ApiResult<BearerToken> {
    server.tokens.authorize(request).ok_or_else(|| {
        let message = "the bearer token is missing or wrong";
        ApiError::new(StatusCode::UNAUTHORIZED, message)
            .with_hint("open the link that `massgen web` prints")
    })
}
