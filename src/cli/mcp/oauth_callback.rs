//! Owns the port on loopback that a browser comes back to when somebody has signed in. It gives away
//! the address that the browser asks for, and answers with a word.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::error::{Error, ErrorKind, Result};

/// The path that browsers come back to.
const PATH: &str = "/callback";
/// How long the head of a request may take.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest head of a request that is read, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Connections that are open at the same time; more are closed at once.
const CONNECTIONS_MAX: usize = 16;
/// How long it is waited after a connection could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// What a browser is told that has come back.
const WELCOME: &str = "massgen has heard of it. You can close this page.\n";
/// What everybody else is told.
const NOTHING: &str = "There is nothing here.\n";

/// The port that a browser comes back to.
#[derive(Debug)]
pub(crate) struct CallbackListener {
    listener: TcpListener,
    own: Url,
}

impl CallbackListener {
    /// Listens on `port` of loopback, or on a free one if it is 0.
    pub(crate) async fn listen(port: u16) -> Result<Self> {
        let failed = |error| {
            Error::new(
                ErrorKind::Environment,
                format!("cannot listen on port {port} of 127.0.0.1"),
            )
            .with_source(error)
            .with_hint("name another one with `--port`")
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let own = Url::parse(&format!("http://{address}{PATH}"));
        let own = own.map_err(|_| Error::bug("loopback has no address"))?;
        Ok(Self { listener, own })
    }

    /// Where browsers are to be sent.
    pub(crate) fn url(&self) -> &Url {
        &self.own
    }

    /// Waits for a browser that comes back with what `is_wanted`, and gives the address with all that
    /// it was sent with.
    pub(crate) async fn wait_for_redirect(&self, is_wanted: impl Fn(&Url) -> bool) -> Url {
        let mut open = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if open.len() < CONNECTIONS_MAX => {
                        open.spawn(read_request(stream, self.own.clone()));
                    }
                    Ok(_) => {}
                    Err(_) => sleep(ACCEPT_AGAIN).await,
                },
                Some(asked) = open.join_next() => {
                    let Ok(Some((stream, url))) = asked else {
                        continue;
                    };
                    let found = url.filter(|url| is_wanted(url));
                    let text = found.as_ref().map_or(NOTHING, |_| WELCOME);
                    let status = found.as_ref().map_or("404 Not Found", |_| "200 OK");
                    // Whoever does not read the answer has asked all the same.
                    drop(timeout(HEAD_TIME_MAX, write_response(stream, status, text)).await);
                    if let Some(url) = found {
                        return url;
                    }
                }
            }
        }
    }
}

/// Reads what a connection asks for: the whole address if it is below `own`.
async fn read_request(mut stream: TcpStream, own: Url) -> Option<(TcpStream, Option<Url>)> {
    let mut head = Vec::new();
    let reading = async {
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let room = HEAD_BYTES_MAX.checked_sub(head.len())?;
            let mut piece = (&mut stream).take(u64::try_from(room).ok()?);
            if piece.read_buf(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        Some(())
    };
    timeout(HEAD_TIME_MAX, reading).await.ok()??;
    Some((stream, requested_url(&head, &own)))
}

/// The address in the head of a request, if it is a `GET` of the path that is waited for.
fn requested_url(head: &[u8], own: &Url) -> Option<Url> {
    let head = std::str::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (Some("GET"), Some(target), Some(_)) = (words.next(), words.next(), words.next()) else {
        return None;
    };
    let (path, query) = target.split_once('?')?;
    let mut url = own.clone();
    url.set_query(Some(query));
    (path == PATH).then_some(url)
}

async fn write_response(mut stream: TcpStream, status: &str, text: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         referrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(head: &str, expected: Option<&str>) {
        let own = Url::parse("http://127.0.0.1:9/callback").unwrap();
        let found = requested_url(head.as_bytes(), &own);
        assert_eq!(found.as_ref().map(Url::as_str), expected, "{head}");
    }

    #[test]
    fn only_the_path_that_is_waited_for_is_an_answer() {
        let whole = "http://127.0.0.1:9/callback?code=1&state=2";
        check("GET /callback?code=1&state=2 HTTP/1.1\r\n\r\n", Some(whole));
        check("GET /callback HTTP/1.1\r\n\r\n", None);
        check("GET /favicon.ico?x HTTP/1.1\r\n\r\n", None);
        check("POST /callback?code=1&state=2 HTTP/1.1\r\n\r\n", None);
        check("GET http://e/callback?code=1 HTTP/1.1\r\n\r\n", None);
        check("\r\n\r\n", None);
    }
}
