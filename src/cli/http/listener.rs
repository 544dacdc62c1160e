//! Address of an HTTP server, and the connections that it accepts: how many, for how long their
//! heads may take, and how they are closed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::command_line::usage_error;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of open connections; the next one waits.
const CONNECTIONS_MAX: usize = 64;
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
        let connection_slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut tasks = JoinSet::new();
        while let Some(stream) = accept_connection(&self.listener, &connection_slots, stop).await {
            let Ok(slot) = Arc::clone(&connection_slots).try_acquire_owned() else {
                continue;
            };
            let (routes, stop) = (routes.clone(), stop.clone());
            tasks.spawn(async move {
                serve_connection(stream, routes, &stop).await;
                drop(slot);
            });
            while tasks.try_join_next().is_some() {}
        }
        let all_closed = async { while tasks.join_next().await.is_some() {} };
        // The runtime aborts connections that are still open after the timeout.
        let _result = tokio::time::timeout(CLOSE_TIME_MAX, all_closed).await;
    }
}

/// Waits for a free slot and returns the next connection; `None` when `stop` is cancelled.
async fn accept_connection(
    listener: &TcpListener,
    connection_slots: &Semaphore,
    stop: &CancellationToken,
) -> Option<TcpStream> {
    let accept = async {
        loop {
            drop(connection_slots.acquire().await.ok()?);
            match listener.accept().await {
                Ok((stream, _)) => return Some(stream),
                Err(_) => tokio::time::sleep(ACCEPT_RETRY_DELAY).await,
            }
        }
    };
    tokio::select! {
        stream = accept => stream,
        () = stop.cancelled() => None,
    }
}

/// Answers the requests of one connection.
async fn serve_connection(stream: TcpStream, routes: Router, stop: &CancellationToken) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes));
    let mut connection = std::pin::pin!(connection);
    // An error of the connection is the client's problem.
    let _result = tokio::select! {
        result = connection.as_mut() => result,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
}
