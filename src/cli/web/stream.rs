//! The stream of a run: server-sent events that a page reads with `fetch`. A reader that reconnects
//! with the id of the last event gets exactly the sections that changed since; one that is slow
//! gets the newest sections when it reads again.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event as StreamEvent, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::cli::web::logged_run::{LoggedRun, find_logged};
use crate::cli::web::reply::{ApiError, ApiResult, sanitize};
use crate::cli::web::run_feed::{ChangedSection, FeedCursor, FeedProgress, FeedUpdate, RunFeed};
use crate::cli::web::run_log::find_feed;
use crate::cli::web::server_state::WebServer;

/// Header with the id of the last event that a reader has.
const LAST_EVENT_ID: &str = "last-event-id";
/// Time after which a silent stream sends a comment.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);
/// Time after which a reader connects again.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// Time for which changes are collected before they are sent.
const COLLECT_TIME: Duration = Duration::from_millis(50);
/// The same while a long log is read.
const CATCH_UP_TIME: Duration = Duration::from_millis(500);

/// Query of `GET /api/runs/{id}/stream`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StreamQuery {
    /// Whether the stream stays open until the run ends; otherwise it has what there is now.
    #[serde(default = "follow_by_default")]
    follow: bool,
}

fn follow_by_default() -> bool {
    true
}

/// A reader of a run.
struct StreamReader {
    server: Arc<WebServer>,
    run: LoggedRun,
    feed: Arc<RunFeed>,
    changes: watch::Receiver<()>,
    cursor: FeedCursor,
    queue: VecDeque<StreamEvent>,
    state: ReaderState,
    /// Whether it waits for changes once it has everything.
    follows: bool,
    /// Its place among all readers.
    _slot: OwnedSemaphorePermit,
}

/// How far a reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReaderState {
    /// It has not read the run yet.
    Starting,
    /// It waits for changes.
    Following,
    /// It has everything.
    Ended,
}

/// Answers `GET /api/runs/{id}/stream`.
pub(super) async fn stream(
    State(server): State<Arc<WebServer>>,
    Path(id): Path<String>,
    query: std::result::Result<Query<StreamQuery>, QueryRejection>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let Query(query) = query.map_err(|rejection| ApiError::invalid(rejection.body_text()))?;
    let run = find_logged(&server, id).await?;
    let last_header = headers.get(LAST_EVENT_ID);
    let last_seq = last_header.and_then(|header| header.to_str().ok()?.trim().parse().ok());
    let slot = server.runs.stream_slot().ok_or_else(|| {
        let message = "too many streams are open";
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, message)
    })?;
    let feed = find_feed(&server, run.clone()).await?;
    let mut queue = VecDeque::new();
    queue.push_back(StreamEvent::default().retry(RECONNECT_DELAY));
    let reader = StreamReader {
        changes: feed.subscribe(),
        server,
        run,
        feed,
        cursor: FeedCursor::after(last_seq.unwrap_or_default()),
        queue,
        state: ReaderState::Starting,
        follows: query.follow,
        _slot: slot,
    };
    let events = stream::unfold(reader, async |mut reader| {
        let event = reader.next().await?;
        Some((Ok::<_, Infallible>(event), reader))
    });
    let events =
        Sse::new(Box::pin(events)).keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL));
    Ok(events.into_response())
}

impl StreamReader {
    /// Returns the next event; `None` at the end.
    async fn next(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.queue.pop_front() {
                return Some(event);
            }
            match self.state {
                ReaderState::Starting => self.state = ReaderState::Following,
                ReaderState::Following => self.wait().await?,
                ReaderState::Ended => return None,
            }
            self.changes.mark_unchanged();
            let update = self.feed.read(&mut self.cursor);
            self.enqueue(update);
        }
    }

    /// Waits for a change, and collects what follows immediately. `None` when the server stops.
    async fn wait(&mut self) -> Option<()> {
        let stop = self.server.runs.stop().graceful.clone();
        let change = async {
            self.changes.changed().await.ok()?;
            tokio::time::sleep(match self.feed.progress() {
                FeedProgress::CatchingUp => CATCH_UP_TIME,
                FeedProgress::Following | FeedProgress::Ended => COLLECT_TIME,
            })
            .await;
            Some(())
        };
        tokio::select! {
            change = change => change,
            () = stop.cancelled() => None,
        }
    }

    /// Adds the events of an update. Of the sections that the same line changed last, only the last
    /// has an id: a reader that breaks off before it gets all of them again.
    fn enqueue(&mut self, update: FeedUpdate) {
        let mut sections = update.sections.into_iter().peekable();
        while let Some(ChangedSection { seq, name, value }) = sections.next() {
            let mut event = self.section_event(&name, value);
            if sections.peek().is_none_or(|next| next.seq > seq) {
                event = event.id(seq.to_string());
            }
            self.queue.push_back(event);
        }
        if let Some(questions) = update.questions {
            let event = self.section_event("questions", questions);
            self.queue.push_back(event);
        }
        for piece in update.pieces {
            let event = StreamEvent::default().event("text");
            let event = self.with_data(event, json!(piece));
            self.queue.push_back(event);
        }
        if update.progress == FeedProgress::Following && !self.follows {
            self.state = ReaderState::Ended;
        }
        if update.progress == FeedProgress::Ended {
            self.state = ReaderState::Ended;
            let event = StreamEvent::default().event("end");
            let event = self.with_data(event, self.end_data(update.is_complete));
            self.queue.push_back(event);
        }
    }

    /// Returns how the run ended and, if it may be resumed, the length of its log: another length
    /// says later that it was.
    fn end_data(&self, is_complete: bool) -> Value {
        let state = if is_complete { "ended" } else { "interrupted" };
        let status = self.feed.with_view(|view| view.run().status);
        let length = self
            .feed
            .log_length()
            .filter(|_| self.run.may_be_resumed(status));
        json!({"state": state, "log_bytes": length})
    }

    fn section_event(&self, section: &str, value: Value) -> StreamEvent {
        let event = StreamEvent::default().event("section");
        let fields = [("section", section.into()), ("value", value)];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        self.with_data(event, Value::Object(fields.into_iter().collect()))
    }

    fn with_data(&self, event: StreamEvent, data: Value) -> StreamEvent {
        event.data(sanitize(&self.server.redactor, data).to_string())
    }
}
