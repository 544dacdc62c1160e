//! Loopback HTTP listener for the OAuth redirect after a sign-in. It returns the address that the
//! browser requests, and answers the browser with a short text.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::StatusCode;
use hyper::header::{HeaderName, REFERRER_POLICY};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::cli::http::listener::{HttpListener, ListenAddress};
use crate::error::{Error, Result};

/// Path of the redirect.
const CALLBACK_PATH: &str = "/callback";
/// Maximum number of requests that wait to be compared; further ones wait to be queued.
const REQUESTS_QUEUED_MAX: usize = 16;
/// Response to a browser that was redirected here.
const REDIRECT_TEXT: &str = "massgen has received the result. You can close this page.\n";
/// Response to any other request.
const NOT_FOUND_TEXT: &str = "Not found.\n";
/// Keeps the address from what the response might link to.
const NO_REFERRER: [(HeaderName, &str); 1] = [(REFERRER_POLICY, "no-referrer")];

/// Listener for the redirect.
#[derive(Debug)]
pub(crate) struct CallbackListener {
    listener: HttpListener,
    callback_url: Url,
}

/// A request for the redirect path.
struct CallbackRequest {
    query: String,
    /// Channel for whether it is the redirect.
    answer: oneshot::Sender<bool>,
}

impl CallbackListener {
    /// Listens on `port` of loopback, or on a free port if it is 0.
    pub(crate) async fn listen(port: u16) -> Result<Self> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listener = ListenAddress::new(address, Vec::new())?.listen().await?;
        let address = listener.address();
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
    pub(crate) async fn wait_for_redirect(self, is_wanted: impl Fn(&Url) -> bool) -> Url {
        let (sender, mut requests) = mpsc::channel(REQUESTS_QUEUED_MAX);
        let routes = Router::new()
            .route(CALLBACK_PATH, get(answer))
            .fallback(async || (StatusCode::NOT_FOUND, NOT_FOUND_TEXT))
            .with_state(sender);
        let stop = CancellationToken::new();
        let mut service = std::pin::pin!(self.listener.serve(routes, &stop));
        let mut redirect = None;
        loop {
            tokio::select! {
                () = service.as_mut() => match redirect {
                    Some(redirect) => return redirect,
                    // The service ends only when it is stopped, after the redirect.
                    None => std::future::pending().await,
                },
                Some(CallbackRequest { query, answer }) = requests.recv() => {
                    let mut url = self.callback_url.clone();
                    url.set_query(Some(&query));
                    let is_redirect = redirect.is_none() && is_wanted(&url);
                    answer.send(is_redirect).unwrap_or_default();
                    if is_redirect {
                        redirect = Some(url);
                        stop.cancel();
                    }
                }
            }
        }
    }
}

/// Answers a request for the redirect path.
async fn answer(
    State(requests): State<mpsc::Sender<CallbackRequest>>,
    RawQuery(query): RawQuery,
) -> Response {
    let (answer, reply) = oneshot::channel();
    let query = query.unwrap_or_default();
    let is_sent = requests
        .send(CallbackRequest { query, answer })
        .await
        .is_ok();
    if is_sent && reply.await.is_ok_and(|is_redirect| is_redirect) {
        (NO_REFERRER, REDIRECT_TEXT).into_response()
    } else {
        (StatusCode::NOT_FOUND, NOT_FOUND_TEXT).into_response()
    }
}
