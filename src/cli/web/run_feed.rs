//! What readers see of one run: its view, folded from its event log while that is written, the
//! pieces of replies that the log does not have yet, and the questions to the person. All readers
//! of a run share one feed; none of them delays it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::Value;
use tokio::sync::watch;

use crate::cli::web::pending_questions::PendingQuestions;
use crate::cli::web::reply::TEXT_BYTES_MAX;
use crate::cli::web::run_limits::limits_json;
use crate::cli::web::text_pieces::{TextPiece, TextPieces};
use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::markdown;
use crate::orchestrator::review::UserQuestion;
use crate::path::AbsPath;
use crate::run_view::overview::RunPhase;
use crate::run_view::{EventPosition, RunView, ViewSection};
use crate::spending::limits::BudgetLimits;
use crate::world::io::clock::milliseconds;
use crate::world::store::event_log::{self, EventLogClock, LogEntry};
use crate::world::store::tail::LogTail;

/// Maximum number of lines that are folded before readers are notified.
const FOLDED_LINES_MAX: usize = 64;

/// The feed of a run.
#[derive(Debug)]
pub(super) struct RunFeed {
    state: Mutex<FeedState>,
    change_sender: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct FeedState {
    view: RunView,
    /// The number of the last line that was folded.
    seq: u64,
    /// The length of the log in bytes before it was read the last time.
    log_length: Option<u64>,
    clock: EventLogClock,
    progress: FeedProgress,
    /// The pieces of replies that the log may not have yet.
    pieces: TextPieces,
    questions: PendingQuestions,
    /// The limits in force, if they are known.
    limits: Option<BudgetLimits>,
    /// Warnings about how the run was started, which its log does not have.
    start_warnings: Vec<String>,
}

/// How far a feed is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FeedProgress {
    /// It reads what was written before.
    #[default]
    CatchingUp,
    /// It has read everything so far.
    Following,
    /// The run has ended, or its process is gone.
    Ended,
}

/// What changed for a reader.
#[derive(Debug)]
pub(super) struct FeedUpdate {
    /// The sections that changed, the one that changed last at the end.
    pub(super) sections: Vec<ChangedSection>,
    /// The questions, if they changed.
    pub(super) questions: Option<Value>,
    /// The pieces of replies that no section contains yet.
    pub(super) pieces: Vec<TextPiece>,
    /// How far the feed is.
    pub(super) progress: FeedProgress,
    /// Whether the run has ended, and was not interrupted.
    pub(super) is_complete: bool,
}

/// A section of a view that changed.
#[derive(Debug)]
pub(super) struct ChangedSection {
    /// The number of the line that changed it last.
    pub(super) seq: u64,
    pub(super) name: String,
    pub(super) value: Value,
}

/// What a reader has read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FeedCursor {
    /// The number of the last line.
    pub(super) seq: u64,
    /// The number of the next piece.
    next_piece: u64,
    /// The version of the questions.
    questions_version: Option<u64>,
}

impl FeedCursor {
    /// Creates the cursor of a reader that has read everything up to the line `seq`.
    pub(super) fn after(seq: u64) -> Self {
        Self {
            seq,
            ..Self::default()
        }
    }
}

impl RunFeed {
    /// Creates a feed that follows no log yet.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            change_sender: watch::Sender::new(()),
        })
    }

    /// Follows the log at `events` in a thread of its own, until the run ends or its process is
    /// gone.
    pub(super) fn follow(self: &Arc<Self>, events: &AbsPath) -> Result<()> {
        let tail = LogTail::open(events)?;
        let (feed, events) = (Arc::clone(self), events.clone());
        let follower = thread::Builder::new().spawn(move || feed.fold_log(tail, &events));
        follower.map(drop).map_err(|error| {
            Error::new(ErrorKind::Environment, "cannot follow the run").with_source(error)
        })
    }

    /// Returns a receiver that is notified of every change.
    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.change_sender.subscribe()
    }

    /// Returns how far the feed is.
    pub(super) fn progress(&self) -> FeedProgress {
        self.lock().progress
    }

    /// Returns the length in bytes that the log had when it was read the last time, if it is known.
    pub(super) fn log_length(&self) -> Option<u64> {
        self.lock().log_length
    }

    /// Waits until everything that was written so far has been read.
    pub(super) async fn wait_until_read(&self) {
        let mut changes = self.subscribe();
        // The feed owns the sender, so there is always a next change or an end.
        let wait = changes.wait_for(|()| self.progress() != FeedProgress::CatchingUp);
        drop(wait.await);
    }

    /// Calls `read_view` with the view.
    pub(super) fn with_view<T>(&self, read_view: impl FnOnce(&RunView) -> T) -> T {
        read_view(&self.lock().view)
    }

    /// Calls `change` with the questions.
    pub(super) fn with_questions<T>(&self, change: impl FnOnce(&mut PendingQuestions) -> T) -> T {
        let mut state = self.lock();
        state.questions.drop_closed();
        let result = change(&mut state.questions);
        drop(state);
        self.change_sender.send_replace(());
        result
    }

    /// Sets the limits in force, before a log is followed.
    pub(super) fn set_limits(&self, limits: BudgetLimits) {
        self.lock().limits = Some(limits);
    }

    /// Sets the warnings about how the run is started, before a log is followed.
    pub(super) fn set_warnings(&self, warnings: Vec<String>) {
        self.lock().start_warnings = warnings;
    }

    /// Adds a question to the person.
    pub(super) fn ask(&self, question: UserQuestion) {
        self.with_questions(|questions| questions.push(question));
    }

    /// Adds pieces of replies, from which secrets have been removed already.
    pub(super) fn push_pieces(&self, pieces: &[Event]) {
        if pieces.is_empty() {
            return;
        }
        let mut state = self.lock();
        for piece in pieces {
            state.pieces.push(piece);
        }
        drop(state);
        self.change_sender.send_replace(());
    }

    /// Ends the feed of a run whose log ends, or that never had one.
    pub(super) fn end(&self) {
        self.lock().progress = FeedProgress::Ended;
        self.change_sender.send_replace(());
    }

    /// Returns what changed for the reader at `cursor`, and moves the cursor.
    pub(super) fn read(&self, cursor: &mut FeedCursor) -> FeedUpdate {
        let mut state = self.lock();
        state.questions.drop_closed();
        let state = &*state;
        if state.progress != FeedProgress::CatchingUp && cursor.seq > state.seq {
            // The reader knows another log.
            cursor.seq = 0;
        }
        let changed_section = |section: ViewSection| {
            Some(ChangedSection {
                seq: state.view.last_change(section)?,
                name: section.name(),
                value: section_value(state, section)?,
            })
        };
        let changed_sections = state.view.sections_changed_after(cursor.seq);
        let mut sections: Vec<ChangedSection> =
            changed_sections.filter_map(changed_section).collect();
        sections.sort_by_key(|section| section.seq);
        cursor.seq = cursor.seq.max(state.seq);
        let version = state.questions.version();
        let questions =
            (cursor.questions_version != Some(version)).then(|| state.questions.to_json());
        cursor.questions_version = Some(version);
        let (mut pieces, next_piece) = state.pieces.read_from(cursor.next_piece);
        cursor.next_piece = next_piece;
        // The view has the others already.
        pieces.retain(|piece| {
            let agent = state.view.agent(&piece.agent);
            agent.is_none_or(|agent| piece.end() > agent.reply_tail.length)
        });
        FeedUpdate {
            sections,
            questions,
            pieces,
            progress: state.progress,
            is_complete: state.view.run().phase == RunPhase::Ended,
        }
    }

    /// Folds the lines of a log until its run ends or its process is gone.
    fn fold_log(&self, mut tail: LogTail, events: &AbsPath) {
        loop {
            self.fold_written_lines(&mut tail, events);
            let mut state = self.lock();
            if state.view.run().phase == RunPhase::Ended {
                drop(state);
                // Once more, because the log may have grown after its length was read.
                self.fold_written_lines(&mut tail, events);
                break;
            }
            state.progress = FeedProgress::Following;
            drop(state);
            self.change_sender.send_replace(());
            if !tail.wait() {
                break;
            }
        }
        self.end();
    }

    /// Folds all lines that are written already.
    fn fold_written_lines(&self, tail: &mut LogTail, events: &AbsPath) {
        // The length first, then the log: if a process appends lines meanwhile, the feed only seems
        // outdated.
        let log_length = event_log::length(events);
        self.lock().log_length = log_length;
        while self.fold_some_written_lines(tail) {
            self.change_sender.send_replace(());
        }
    }

    /// Folds some lines that are written already. Returns whether there may be more.
    fn fold_some_written_lines(&self, tail: &mut LogTail) -> bool {
        for _ in 0..FOLDED_LINES_MAX {
            match tail.next_written() {
                Some(Ok(entry)) => self.lock().apply(&entry),
                // A line that cannot be read is part of no view.
                Some(Err(_)) => {}
                None => return false,
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, FeedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a section as the page reads it: the run has its limits, if they are known, and the
/// warnings about its start, and the final answer is also parsed as Markdown.
fn section_value(state: &FeedState, section: ViewSection) -> Option<Value> {
    let mut value = state.view.section_json(section)?;
    if let (ViewSection::Run, Some(fields)) = (section, value.as_object_mut()) {
        if let Some(limits) = &state.limits {
            fields.insert("limits".to_owned(), limits_json(limits));
        }
        if let Some(Value::Array(warnings)) = fields.get_mut("warnings") {
            let log_warnings = std::mem::take(warnings);
            let start_warnings = state.start_warnings.iter().cloned().map(Value::from);
            *warnings = start_warnings.chain(log_warnings).collect();
        }
    }
    if let (ViewSection::Delivery, Some(answer), Some(fields)) = (
        section,
        &state.view.delivery().answer,
        value.as_object_mut(),
    ) {
        fields.insert("markdown".to_owned(), markdown_json(answer));
    }
    Some(value)
}

/// Returns the blocks of a text in Markdown, up to the length that replies may have.
pub(super) fn markdown_json(text: &str) -> Value {
    let prefix = text.get(..text.floor_char_boundary(TEXT_BYTES_MAX));
    let blocks = markdown::parse(prefix.unwrap_or_default());
    serde_json::to_value(blocks).unwrap_or_default()
}

impl FeedState {
    fn apply(&mut self, entry: &LogEntry) {
        self.seq = entry.seq;
        let elapsed_ms = milliseconds(self.clock.elapsed_at(entry));
        if let Some(event) = &entry.event {
            let position = EventPosition {
                seq: entry.seq,
                elapsed_ms,
            };
            self.view.apply(event, position);
        }
    }
}
