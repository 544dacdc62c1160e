//! Loopback HTTP listener for the OAuth redirect after a sign-in. It returns the address that the
//! browser requests, and answers the browser with a short text.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use url::Url;

use crate::error::{Error, ErrorKind, Result};

/// Path of the redirect.
const CALLBACK_PATH: &str = "/callback";
/// Timeout for the head of a request.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum size of the head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of open connections; more are closed immediately.
const CONNECTIONS_MAX: usize = 16;
/// Delay after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Response to a browser that was redirected here.
const REDIRECT_TEXT: &str = "massgen has received the result. You can close this page.\n";
/// Response to any other request.
const NOT_FOUND_TEXT: &str = "Not found.\n";

/// Listener for the redirect.
#[derive(Debug)]
pub(crate) struct CallbackListener {
    listener: TcpListener,
    callback_url: Url,
}

impl CallbackListener {
    /// Listens on `port` of loopback, or on a free port if it is 0.
    pub(crate) async fn listen(port: u16) -> Result<Self> {
        let listen_error = |error| {
            Error::new(
                ErrorKind::Environment,
                format!("cannot listen on port {port} of 127.0.0.1"),
            )
            .with_source(error)
            .with_hint("choose another one with `--port`")
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = TcpListener::bind(address).await.map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let callback_url = Url::parse(&format!("http://{address}{CALLBACK_PATH}"))
            .map_err(|_| Error::bug("the loopback listener has no address"))?;
        Ok(Self {
            listener,
            callback_url,
        })
    }

    /// Returns the redirect address.
    pub(crate) fn url(&self) -> &Url {
        &self.callback_url
    }

    /// Waits for a redirect that `is_wanted` accepts, and returns its address with the query.
    pub(crate) async fn wait_for_redirect(&self, is_wanted: impl Fn(&Url) -> bool) -> Url {
        let mut requests = JoinSet::new();
        loop {
            tokio::select! {
                connection = self.listener.accept() => match connection {
                    Ok((stream, _)) if requests.len() < CONNECTIONS_MAX => {
                        requests.spawn(read_request(stream, self.callback_url.clone()));
                    }
                    Ok(_) => {}
                    Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
                },
                Some(request) = requests.join_next() => {
                    let Ok(Some((stream, url))) = request else {
                        continue;
                    };
                    let redirect = url.filter(|url| is_wanted(url));
                    let text = redirect.as_ref().map_or(NOT_FOUND_TEXT, |_| REDIRECT_TEXT);
                    let status = redirect.as_ref().map_or("404 Not Found", |_| "200 OK");
                    // The request counts even if the client does not read the response.
                    drop(timeout(HEAD_TIME_MAX, write_response(stream, status, text)).await);
                    if let Some(url) = redirect {
                        return url;
                    }
                }
            }
        }
    }
}

/// Reads a request and returns the requested address if it is below `callback_url`.
async fn read_request(
    mut stream: TcpStream,
    callback_url: Url,
) -> Option<(TcpStream, Option<Url>)> {
    let mut head = Vec::new();
    let read_head = async {
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let bytes_left = HEAD_BYTES_MAX.checked_sub(head.len())?;
            let mut piece = (&mut stream).take(u64::try_from(bytes_left).ok()?);
            if piece.read_buf(&mut head).await.ok()? == 0 {
                return None;
            }
        }
        Some(())
    };
    timeout(HEAD_TIME_MAX, read_head).await.ok()??;
    Some((stream, requested_url(&head, &callback_url)))
}

/// Returns the address in the head of a request, if it is a `GET` of the redirect path.
fn requested_url(head: &[u8], callback_url: &Url) -> Option<Url> {
    let head = std::str::from_utf8(head).ok()?;
    let mut words = head.lines().next()?.split(' ');
    let (Some("GET"), Some(target), Some(_)) = (words.next(), words.next(), words.next()) else {
        return None;
    };
    let (path, query) = target.split_once('?')?;
    let mut url = callback_url.clone();
    url.set_query(Some(query));
    (path == CALLBACK_PATH).then_some(url)
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
        let callback_url = Url::parse("http://127.0.0.1:9/callback").unwrap();
        let url = requested_url(head.as_bytes(), &callback_url);
        assert_eq!(url.as_ref().map(Url::as_str), expected, "{head}");
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
