//! Address of an HTTP server, and the connections that it accepts: how many, for how long their
//! heads may take, and how they are closed. Clients without a token never keep others out.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::command_line::usage_error;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of open connections that have carried an authorized request, and of those that
/// have not.
const CONNECTIONS_MAX: usize = 64;
/// Time after which a connection without an authorized request is closed, whatever it does: requests,
/// their bodies and the replies count.
const UNAUTHORIZED_TIME_MAX: Duration = Duration::from_secs(15);
/// Time after which the connection of a client that does not take what was sent is closed.
const UNREAD_MILLISECONDS_MAX: u32 = 30_000;
/// Timeout for the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Delay after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Timeout for open connections when the server stops.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);

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
    address: SocketAddr,
    names: Vec<String>,
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

    /// Returns whether only this machine reaches the address.
    pub(crate) fn is_loopback(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Starts to listen.
    pub(crate) async fn listen(self) -> Result<HttpListener> {
        let listener = TcpListener::bind(self.address).await.map_err(|error| {
            let message = format!("cannot listen on `{}`", self.address);
            Error::new(ErrorKind::Environment, message)
                .with_source(error)
                .with_hint("use another port, or 0 for a free one")
        })?;
        let address = listener
            .local_addr()
            .map_err(|error| Error::io("cannot listen", error))?;
        Ok(HttpListener {
            listener,
            address,
            names: self.names,
        })
    }
}

impl HttpListener {
    /// Returns the address, with the port that was chosen.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the names by which other machines reach the server.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Answers requests by `routes` until `stop` is cancelled.
    pub(crate) async fn serve(self, routes: Router, stop: &CancellationToken) {
        let pool = Arc::new(HttpConnectionPool::default());
        let mut tasks = JoinSet::new();
        while let Some(stream) = accept_connection(&self.listener, stop).await {
            let connection = pool.add();
            let (routes, stop) = (routes.clone(), stop.clone());
            tasks.spawn(async move { serve_connection(stream, connection, routes, &stop).await });
            while tasks.try_join_next().is_some() {}
        }
        let all_closed = async { while tasks.join_next().await.is_some() {} };
        // The runtime aborts connections that are still open after the timeout.
        let _result = tokio::time::timeout(CLOSE_TIME_MAX, all_closed).await;
    }
}

/// The open connections.
#[derive(Debug, Default)]
struct HttpConnectionPool(Mutex<ConnectionLists>);

#[derive(Debug, Default)]
struct ConnectionLists {
    /// The connections without an authorized request, oldest first.
    unauthorized: VecDeque<Arc<HttpConnection>>,
    /// The number of the others.
    authorized: usize,
}

/// An open connection. The requests that it carries have it among their extensions.
#[derive(Debug)]
pub(crate) struct HttpConnection {
    pool: Weak<HttpConnectionPool>,
    /// Set by the first authorized request.
    is_authorized: AtomicBool,
    /// Cancelled when it has to make room for another.
    displaced: CancellationToken,
}

/// An open connection, which leaves the pool on drop.
#[derive(Debug)]
struct PooledConnection(Arc<HttpConnection>);

impl HttpConnectionPool {
    fn lock(&self) -> MutexGuard<'_, ConnectionLists> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, for which the oldest one without an authorized request makes room.
    fn add(self: &Arc<Self>) -> PooledConnection {
        let connection = Arc::new(HttpConnection {
            pool: Arc::downgrade(self),
            is_authorized: AtomicBool::new(false),
            displaced: CancellationToken::new(),
        });
        let mut lists = self.lock();
        if lists.unauthorized.len() >= CONNECTIONS_MAX
            && let Some(oldest) = lists.unauthorized.pop_front()
        {
            oldest.displaced.cancel();
        }
        lists.unauthorized.push_back(Arc::clone(&connection));
        PooledConnection(connection)
    }
}

impl HttpConnection {
    /// Records that a request on this connection is authorized: it may stay open and is not
    /// displaced any more, unless there are too many such connections.
    pub(crate) fn authorize(&self) {
        let Some(pool) = self.pool.upgrade() else {
            return;
        };
        let mut lists = pool.lock();
        let mut unauthorized = lists.unauthorized.iter();
        let position = unauthorized.position(|connection| std::ptr::eq(connection.as_ref(), self));
        if lists.authorized < CONNECTIONS_MAX
            && let Some(index) = position
        {
            lists.unauthorized.remove(index);
            lists.authorized = lists.authorized.saturating_add(1);
            self.is_authorized.store(true, Ordering::Release);
        }
    }

    /// Waits until the connection has to be closed because it carried no authorized request.
    async fn wait_for_closure(&self) {
        tokio::select! {
            () = tokio::time::sleep(UNAUTHORIZED_TIME_MAX) => {}
            () = self.displaced.cancelled() => {}
        }
        if self.is_authorized.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let Some(pool) = self.0.pool.upgrade() else {
            return;
        };
        let mut lists = pool.lock();
        if self.0.is_authorized.load(Ordering::Acquire) {
            lists.authorized = lists.authorized.saturating_sub(1);
        } else {
            let is_other = |other: &Arc<HttpConnection>| !Arc::ptr_eq(other, &self.0);
            lists.unauthorized.retain(is_other);
        }
    }
}

/// Returns the next connection; `None` when `stop` is cancelled.
async fn accept_connection(listener: &TcpListener, stop: &CancellationToken) -> Option<TcpStream> {
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => return stream,
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    };
    tokio::select! {
        stream = accept => Some(stream),
        () = stop.cancelled() => None,
    }
}

/// Answers the requests of one connection.
async fn serve_connection(
    stream: TcpStream,
    pooled: PooledConnection,
    routes: Router,
    stop: &CancellationToken,
) {
    // The kernel closes the connection of a client that does not take what was sent.
    if set_tcp_user_timeout(&stream, UNREAD_MILLISECONDS_MAX).is_err() {
        return;
    }
    let own_connection = Arc::clone(&pooled.0);
    let routes = TowerToHyperService::new(routes);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&own_connection));
        routes.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error of the connection is the client's problem.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = pooled.0.wait_for_closure() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _result = connection.await;
        }
    }
}
