//! HTTP transport of an MCP server: its address, authorization, and limits on connections and
//! sessions. Authorized requests are passed to the protocol; everything else is answered with an
//! error.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::command_line::usage_error;
use crate::cli::mcp::token::BearerToken;
use crate::cli::mcp::transport::MESSAGE_BYTES_MAX;
use crate::error::{Error, ErrorKind, Result};

/// Path of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";
/// Maximum number of open connections; the next one waits.
const CONNECTIONS_MAX: usize = 64;
/// Maximum number of open sessions; more are rejected.
const SESSIONS_MAX: usize = 32;
/// Idle time after which a session is closed.
const SESSION_IDLE_MAX: Duration = Duration::from_mins(30);
/// Timeout for the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Delay after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Timeout for open connections when the server stops.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);
/// Header that names the session of a request.
const SESSION_HEADER: &str = "mcp-session-id";
/// Names by which a machine reaches itself.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// Origins of web pages that the machine itself serves; `*` is any port.
const LOOPBACK_ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// Address of a server, and the names by which other machines reach it.
#[derive(Clone, Debug)]
pub(crate) struct ListenAddress {
    address: SocketAddr,
    names: Vec<String>,
}

/// A server that is listening and answers no requests yet.
#[derive(Debug)]
pub(crate) struct HttpListener {
    listener: TcpListener,
    place: ListenAddress,
}

/// State that all connections share.
struct HttpServerState<S> {
    protocol: StreamableHttpService<S, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    token: BearerToken,
}

impl ListenAddress {
    /// Accepts a loopback address, or one that other machines reach by `names`, which the user must
    /// have given explicitly.
    pub(crate) fn new(address: SocketAddr, names: Vec<String>) -> Result<Self> {
        if !address.ip().is_loopback() && names.is_empty() {
            let message = format!("`--http {address}` is reachable from other machines");
            return Err(usage_error(message)
                .with_hint("use a loopback address, such as 127.0.0.1:0")
                .with_hint("or name the host by which clients reach it: `--allowed-host NAME`"));
        }
        Ok(Self { address, names })
    }

    /// Starts to listen.
    pub(crate) async fn listen(self) -> Result<HttpListener> {
        let listener = TcpListener::bind(self.address).await.map_err(|error| {
            let message = format!("cannot listen on `{}`", self.address);
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("use another port, or 0 for a free one")
        })?;
        Ok(HttpListener {
            listener,
            place: self,
        })
    }
}

impl HttpListener {
    /// Returns the URL for clients.
    pub(crate) fn url(&self) -> Result<String> {
        let address = self.listener.local_addr();
        let address = address.map_err(|error| Error::io("cannot listen", error))?;
        Ok(format!("http://{address}{PATH}"))
    }

    /// Answers clients that have the token, until `stop` is cancelled.
    pub(crate) async fn serve<S>(self, tools: S, token: BearerToken, stop: &CancellationToken)
    where
        S: ServerHandler + Clone,
    {
        let shared = Arc::new(HttpServerState::new(tools, token, &self.place, stop));
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut open = JoinSet::new();
        while let Some(stream) = accept_connection(&self.listener, &room, stop).await {
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else {
                continue;
            };
            let (shared, stop) = (Arc::clone(&shared), stop.clone());
            open.spawn(async move {
                serve_connection(stream, &shared, &stop).await;
                drop(permit);
            });
            while open.try_join_next().is_some() {}
        }
        let all = async { while open.join_next().await.is_some() {} };
        // The runtime aborts connections that are still open after the timeout.
        let _ended = tokio::time::timeout(CLOSE_TIME_MAX, all).await;
    }
}

/// Waits for capacity and returns the next connection; `None` when `stop` is cancelled.
async fn accept_connection(
    listener: &TcpListener,
    room: &Semaphore,
    stop: &CancellationToken,
) -> Option<TcpStream> {
    let accept = async {
        loop {
            drop(room.acquire().await.ok()?);
            match listener.accept().await {
                Ok((stream, _)) => return Some(stream),
                Err(_) => tokio::time::sleep(ACCEPT_AGAIN).await,
            }
        }
    };
    tokio::select! {
        stream = accept => stream,
        () = stop.cancelled() => None,
    }
}

/// Answers the requests of one connection.
async fn serve_connection<S>(
    stream: TcpStream,
    shared: &Arc<HttpServerState<S>>,
    stop: &CancellationToken,
) where
    S: ServerHandler,
{
    let service = service_fn(|request| {
        let shared = Arc::clone(shared);
        async move { Ok::<_, Infallible>(shared.handle_request(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error of the connection is the client's problem.
    let _broken = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}

impl<S: ServerHandler> HttpServerState<S> {
    fn new(tools: S, token: BearerToken, place: &ListenAddress, stop: &CancellationToken) -> Self
    where
        S: Clone,
    {
        let mut idle = SessionConfig::default();
        idle.keep_alive = Some(SESSION_IDLE_MAX);
        let mut sessions = LocalSessionManager::default();
        sessions.session_config = idle;
        let sessions = Arc::new(sessions);
        let names = place.names.iter().map(String::as_str);
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(LOOPBACK_NAMES.into_iter().chain(names))
            .with_allowed_origins(LOOPBACK_ORIGINS)
            .with_max_request_body_bytes(MESSAGE_BYTES_MAX)
            .with_cancellation_token(stop.child_token());
        let session = move || Ok(tools.clone());
        Self {
            protocol: StreamableHttpService::new(session, Arc::clone(&sessions), config),
            sessions,
            token,
        }
    }

    async fn handle_request(
        &self,
        request: Request<Incoming>,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        if request.uri().path() != PATH {
            return error_response(StatusCode::NOT_FOUND, "there is nothing here");
        }
        if !self.token.is_authorized(request.headers()) {
            let mut response = error_response(
                StatusCode::UNAUTHORIZED,
                "the bearer token is missing or wrong",
            );
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            return response;
        }
        if names_several_servers(&request) {
            let why = "Forbidden: more than one host or origin";
            return error_response(StatusCode::FORBIDDEN, why);
        }
        let is_new =
            request.method() == Method::POST && !request.headers().contains_key(SESSION_HEADER);
        if is_new && self.sessions.sessions.read().await.len() >= SESSIONS_MAX {
            return error_response(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many sessions are open",
            );
        }
        self.protocol.handle(request).await
    }
}

/// Returns whether a request names the server or its origin more than once, in which case only one
/// of the names would be checked. A target with a host, as sent to proxies, counts as one more
/// name.
fn names_several_servers(request: &Request<Incoming>) -> bool {
    let count = |name| request.headers().get_all(name).iter().count();
    request.uri().authority().is_some() || count(HOST) > 1 || count(ORIGIN) > 1
}

fn error_response(status: StatusCode, why: &'static str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from_static(why.as_bytes())).boxed());
    *response.status_mut() = status;
    response
}
