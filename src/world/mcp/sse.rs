//! Owns the older protocol over HTTP (2024-11-05): all that a server says comes as events of one
//! stream, and what it is told is posted to the place that the first of them names. That place must
//! be at the server itself, because the headers of the user go there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::JsonRpcMessage;
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use url::{Position, Url};

use crate::config::servers::RemoteServer;
use crate::world::http::innermost;
use crate::world::mcp::MESSAGE_BYTES_MAX;
use crate::world::mcp::remote::headers;

/// How long it may take until a server says where messages are posted to.
const PLACE_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest name of that place, in bytes.
const PLACE_BYTES_MAX: usize = 8 * 1024;
/// How many messages may wait to be taken; more wait for their turn.
const POSTS_MAX: usize = 32;
/// What the client says of a body that is no message, where the status was good.
const NO_MESSAGE: &str = "could not parse JSON response";

/// What requests are made with: the user's token comes along if they have signed in.
pub(super) trait Requests: StreamableHttpClient<Error = reqwest::Error> + Sync {}

impl<C: StreamableHttpClient<Error = reqwest::Error> + Sync> Requests for C {}

/// An open stream, and the place for answers to it.
pub(super) struct Events<C> {
    client: C,
    place: Arc<str>,
    headers: Vec<(HeaderName, HeaderValue)>,
    stream: EventStream,
    turns: Arc<Semaphore>,
}

/// The events of a stream that hold anything.
type EventStream = BoxStream<'static, Result<Event, Unheard>>;

/// An event, with its name if it has one.
struct Event {
    name: Option<String>,
    data: String,
}

/// Why a server was not heard, or did not hear.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unheard {
    /// A request came to nothing.
    #[error(transparent)]
    Asked(#[from] StreamableHttpError<reqwest::Error>),
    /// For this reason.
    #[error("{0}")]
    Said(String),
}

impl<C: Requests> Events<C> {
    /// Opens the stream of a server, and waits until it says where messages are posted to.
    pub(super) async fn open(remote: &RemoteServer, client: C) -> Result<Self, Unheard> {
        let opened = timeout(PLACE_TIME_MAX, Self::begin(remote, client)).await;
        opened.unwrap_or_else(|_| {
            let seconds = PLACE_TIME_MAX.as_secs();
            let why = format!("it did not say in {seconds} s where messages are sent to");
            Err(Unheard::Said(why))
        })
    }

    async fn begin(remote: &RemoteServer, client: C) -> Result<Self, Unheard> {
        let (url, bytes_max) = (remote.url.as_str().into(), MESSAGE_BYTES_MAX);
        let sent = headers(remote);
        let stream =
            client.get_stream_with_max_sse_event_size(url, None, None, None, sent, bytes_max);
        let events = stream.await.map_err(turned_away)?;
        let events = events.filter_map(async |read| match read {
            Ok(event) => {
                let name = event.event;
                event.data.map(|data| Ok(Event { name, data }))
            }
            Err(error) => Some(Err(Unheard::Said(innermost(&error).to_string()))),
        });
        let mut stream: EventStream = events.boxed();
        let first = stream.next().await.transpose()?;
        let place = place(&remote.url, first.as_ref()).map_err(Unheard::Said)?;
        Ok(Self {
            client,
            place: place.as_str().into(),
            headers: headers(remote),
            stream,
            turns: Arc::new(Semaphore::new(POSTS_MAX)),
        })
    }
}

impl<C: Requests> Transport<RoleClient> for Events<C> {
    type Error = Unheard;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Unheard>> + Send + 'static {
        let (client, headers) = (self.client.clone(), self.headers.iter().cloned().collect());
        let (place, turns) = (Arc::clone(&self.place), Arc::clone(&self.turns));
        async move {
            let _turn = turns.acquire().await;
            let posted = client.post_message(place, message, None, None, headers);
            taken(posted.await)
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        while let Some(Ok(event)) = self.stream.next().await {
            if event.name.is_none_or(|name| name == "message") {
                match serde_json::from_str(&event.data) {
                    Ok(message) => return Some(message),
                    Err(error) => tracing::debug!(%error, "an event is no message"),
                }
            }
        }
        self.stream = stream::empty().boxed();
        None
    }

    async fn close(&mut self) -> Result<(), Unheard> {
        self.stream = stream::empty().boxed();
        Ok(())
    }
}

/// Why there is no stream.
fn turned_away(error: StreamableHttpError<reqwest::Error>) -> Unheard {
    if let StreamableHttpError::Client(error) = &error {
        return match error.status() {
            Some(StatusCode::UNAUTHORIZED) => {
                let challenge = AuthRequiredError::new(String::new());
                StreamableHttpError::AuthRequired(challenge).into()
            }
            Some(status) => Unheard::Said(format!("HTTP {status}")),
            None => Unheard::Said(innermost(error).to_string()),
        };
    }
    if let StreamableHttpError::ServerDoesNotSupportSse = error {
        return Unheard::Said(format!("HTTP {}", StatusCode::METHOD_NOT_ALLOWED));
    }
    if let StreamableHttpError::UnexpectedContentType(_) = error {
        return Unheard::Said("it answers with no stream of events".to_owned());
    }
    error.into()
}

/// Whether a message was taken. What else the server says of it counts for nothing: answers are
/// events.
fn taken(
    posted: Result<StreamableHttpPostResponse, StreamableHttpError<reqwest::Error>>,
) -> Result<(), Unheard> {
    match posted {
        Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), _)) => {
            Err(Unheard::Said(error.error.message.into_owned()))
        }
        Ok(_) | Err(StreamableHttpError::UnexpectedContentType(_)) => Ok(()),
        Err(StreamableHttpError::UnexpectedServerResponse(said))
            if said.starts_with(NO_MESSAGE) =>
        {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Where messages for the server at `url` are posted to, as its `first` event says.
fn place(url: &Url, first: Option<&Event>) -> Result<Url, String> {
    let Some(Event { name, data }) = first else {
        return Err("its stream ended before it said where messages are sent to".to_owned());
    };
    let name = name.as_deref().unwrap_or("message");
    if name != "endpoint" {
        return Err(format!("its first event is `{name}`, and not `endpoint`"));
    }
    let named = Some(data.trim()).filter(|named| named.len() <= PLACE_BYTES_MAX);
    let named = named.and_then(|named| url.join(named).ok());
    let place = named.ok_or("what it names to send messages to is no address")?;
    let (origin, own) = (&place[..Position::BeforePath], &url[..Position::BeforePath]);
    if origin != own {
        return Err(format!(
            "it wants messages to be sent to `{origin}`, and is itself at `{own}`"
        ));
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks where messages for a server go whose first event is `endpoint` with `data`.
    #[track_caller]
    fn check(data: &str, expected: Result<&str, &str>) {
        let url = Url::parse("https://e.org/mcp/sse?key=1").unwrap();
        let event = Event {
            name: Some("endpoint".to_owned()),
            data: data.to_owned(),
        };
        match (place(&url, Some(&event)), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.as_str(), expected),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{data}: {why}"),
            (found, expected) => panic!("{data}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn messages_go_to_the_server_itself_and_nowhere_else() {
        check("/message?id=1", Ok("https://e.org/message?id=1"));
        check("message?id=1", Ok("https://e.org/mcp/message?id=1"));
        check(" ?id=1\n", Ok("https://e.org/mcp/sse?id=1"));
        check("https://e.org:443/message", Ok("https://e.org/message"));
        check("HTTPS://E.org/message", Ok("https://e.org/message"));
        for elsewhere in [
            "http://e.org/message",
            "https://e.org:8443/message",
            "https://other.org/message",
            "https://e.org.other.org/message",
            "https://user@e.org/message",
            "//other.org/message",
            "\\\\other.org/message",
            "file:///etc/passwd",
            "blob:https://e.org/1",
        ] {
            check(elsewhere, Err("and is itself at `https://e.org`"));
        }
        check(
            "https://other.org/message",
            Err("to be sent to `https://other.org`, and is itself at `https://e.org`"),
        );
        check("https://[/", Err("is no address"));
        let long = "a".repeat(PLACE_BYTES_MAX);
        check(&long, Ok(&format!("https://e.org/mcp/{long}")));
        check(&format!("{long}a"), Err("is no address"));
    }

    #[test]
    fn the_first_event_names_the_place() {
        let url = Url::parse("https://e.org/sse").unwrap();
        for (first, expected) in [
            (None, "its stream ended"),
            (Some(None), "its first event is `message`"),
            (Some(Some("ping")), "its first event is `ping`"),
        ] {
            let event = first.map(|name: Option<&str>| Event {
                name: name.map(str::to_owned),
                data: "/message".to_owned(),
            });
            let why = place(&url, event.as_ref()).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
