//! The records of a run: how it began, the event log, and everything that is derived from the same
//! events for people and scripts. It decides nothing; a disk error is reported once and does not
//! end the run.

pub mod metadata;
mod agent_outputs;
pub mod record_paths;
pub mod replies;
pub mod coordination_progress;
mod record_writer;
mod status;
mod coordination_recorder;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, Result};
use crate::event::{Event, ModelEvent, RunEvent};
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::world::io::clock::{self, LocalDateTime};
use crate::world::io::event_sink::EventSink;
use crate::world::store::event_log::EventLog;
use crate::world::store::records::coordination_progress::CoordinationProgress;
use crate::world::store::records::coordination_recorder::CoordinationRecorder;
use crate::world::store::records::metadata::{ReplayManifest, RunMetadata};
use crate::world::store::records::record_paths::{
    EVENTS, MANIFEST, METADATA, REPLIES, RunRecordPaths,
};
use crate::world::store::records::replies::ReplyRecorder;
use crate::world::store::records::status::StatusContext;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::file::{self, Appender};
use crate::world::sys::state_files::sync::sync_tree;

/// The shortest interval at which `status.json` is written.
pub const STATUS_INTERVAL: Duration = Duration::from_secs(2);

/// Writes the records of one turn.
#[derive(Debug)]
pub struct Recorder {
    paths: RunRecordPaths,
    session_id: String,
    redactor: Redactor,
    log: EventLog,
    replies: ReplyRecorder,
    /// When the first event happened: all views of a run count its time from there.
    first_event_time: Option<LocalDateTime>,
    coordination: Option<CoordinationRecorder>,
    errors: RecordErrors,
    /// The length of the log that is on the disk, or on its way there.
    synced_len: u64,
    /// The directories that are not: at first those that the run needs when it is resumed.
    unsynced_directories: Vec<AbsPath>,
}

/// What of the records of a turn a power failure would lose.
#[derive(Debug)]
pub struct UnsyncedRecords {
    log: Appender,
    directories: Vec<AbsPath>,
}

impl UnsyncedRecords {
    /// Waits until they are on the disk. Blocks.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn sync(self) -> Result<()> {
        for directory in &self.directories {
            sync_tree(directory)?;
        }
        self.log.sync()
    }
}

impl Recorder {
    /// Creates the records of a turn: the log and `execution_metadata.yaml`.
    pub fn start(paths: RunRecordPaths, meta: &RunMetadata, redactor: Redactor) -> Result<Self> {
        let log = EventLog::create(paths.turn().join(EVENTS))?;
        let metadata = meta.to_yaml(&clock::now().iso_format(), &redactor)?;
        file::replace_unsynced(&paths.turn().join(METADATA), metadata.as_bytes())?;
        let session_id = meta.session_id.clone();
        Ok(Self::new(paths, log, session_id, redactor))
    }

    fn new(paths: RunRecordPaths, log: EventLog, session_id: String, redactor: Redactor) -> Self {
        Self {
            replies: ReplyRecorder::new(paths.turn(), redactor.clone()),
            unsynced_directories: vec![paths.log().clone()],
            paths,
            session_id,
            redactor,
            log,
            first_event_time: None,
            coordination: None,
            errors: RecordErrors::default(),
            synced_len: 0,
        }
    }

    /// Resumes the records of an interrupted turn: everything that is derived from its `log` is
    /// created again from `logged_events`, the events in it with their times.
    pub fn resume(
        paths: RunRecordPaths,
        log: EventLog,
        session_id: String,
        logged_events: &[(Event, LocalDateTime)],
        redactor: Redactor,
    ) -> Result<Self> {
        clear::remove(&paths.turn().join(REPLIES))?;
        let mut recorder = Self::new(paths, log, session_id, redactor);
        for (event, time) in logged_events {
            recorder.replay_event(event, time);
        }
        // The status of a run that the user stopped says that it is complete; now it is not.
        recorder.write_status_now(&clock::now());
        Ok(recorder)
    }

    /// Updates the derived records for an event that is already in the log.
    fn replay_event(&mut self, event: &Event, time: &LocalDateTime) {
        self.begin_coordination(event, time);
        self.errors.record(self.replies.apply(event));
        if let Some(coordination) = &mut self.coordination {
            coordination.apply_stream(event, &mut self.errors);
            // The log has these pieces of streams already.
            let _logged = coordination.outputs.take_ready();
            coordination.apply(event, time, &mut self.errors);
        }
        if coordination_recorder::ends_coordination(event) {
            self.write_status_now(time);
        }
    }

    /// Writes how the run began, so that it can be replayed.
    pub fn write_manifest(&self, manifest: &ReplayManifest) -> Result<()> {
        let text = self.redactor.yaml(manifest)?;
        let path = self.paths.turn().join(MANIFEST);
        file::replace_unsynced(&path, text.as_bytes())
    }

    /// Returns the file of the recorded replies of `agent`; `None` if it has given none.
    pub fn replies_file(&self, agent: &AgentId) -> Option<&AbsPath> {
        self.replies.file_of(agent)
    }

    /// Records `event`. Returns the first write error, to be shown as a warning; the run continues,
    /// and later events are still written if possible.
    pub fn record(&mut self, event: &Event) -> Option<Error> {
        let time = clock::now();
        self.begin_coordination(event, &time);
        self.errors.record(self.replies.apply(event));
        self.log_event(event, &time);
        if let Some(coordination) = &mut self.coordination {
            coordination.apply(event, &time, &mut self.errors);
        }
        if coordination_recorder::ends_coordination(event) {
            self.write_status_now(&time);
        } else {
            self.write_status_if_due(&time);
        }
        self.errors.take_first()
    }

    /// Returns what a power failure would lose, for the caller to synchronize; `None` if there is
    /// nothing, or it was returned before.
    ///
    /// # Errors
    /// The log cannot be opened once more.
    pub fn take_unsynced(&mut self) -> Result<Option<UnsyncedRecords>> {
        let len = self.log.len();
        if self.synced_len == len && self.unsynced_directories.is_empty() {
            return Ok(None);
        }
        self.synced_len = len;
        Ok(Some(UnsyncedRecords {
            log: self.log.duplicate()?,
            directories: std::mem::take(&mut self.unsynced_directories),
        }))
    }

    /// Adds directories that the run needs when it is resumed, and that are not on the disk yet.
    pub fn add_unsynced(&mut self, directories: impl IntoIterator<Item = AbsPath>) {
        self.unsynced_directories.extend(directories);
    }

    /// Returns how long until [`Recorder::write_status`] has something to write; `None` while
    /// nothing new has happened.
    pub fn status_due(&self) -> Option<Duration> {
        self.coordination
            .as_ref()
            .and_then(CoordinationRecorder::status_due)
    }

    /// Writes `status.json` if it is due. Recording an event does so too; this is for the time
    /// after the last one.
    pub fn write_status(&mut self) -> Option<Error> {
        self.write_status_if_due(&clock::now());
        self.errors.take_first()
    }

    /// Returns the state of the current coordination.
    pub fn progress(&self) -> Option<&CoordinationProgress> {
        self.coordination
            .as_ref()
            .map(|coordination| &coordination.progress)
    }

    /// Returns whether something could not be written.
    pub fn is_incomplete(&self) -> bool {
        self.errors.is_any()
    }

    /// Returns the paths of the records.
    pub fn paths(&self) -> &RunRecordPaths {
        &self.paths
    }

    /// Ends the records, and waits until they are on the disk. Without [`RunEvent::RunEnded`], what
    /// is known is written, and the run stays marked as incomplete.
    pub fn finish(mut self) -> Option<Error> {
        let time = clock::now();
        if let Some(coordination) = &mut self.coordination {
            self.errors.record(coordination.outputs.end_all());
        }
        self.log_streams(&time);
        self.write_status_now(&time);
        let unsynced_records = self.take_unsynced();
        self.errors.record(
            unsynced_records.and_then(|records| records.map_or(Ok(()), UnsyncedRecords::sync)),
        );
        self.errors.take_first()
    }

    /// Logs `event` after the streams that it ends; a piece of a stream is logged once enough has
    /// accumulated.
    fn log_event(&mut self, event: &Event, time: &LocalDateTime) {
        let is_streamed = match &mut self.coordination {
            Some(coordination) => coordination.apply_stream(event, &mut self.errors),
            None => false,
        };
        self.log_streams(time);
        if !is_streamed {
            let event = without_streamed_text(event);
            self.errors
                .record(self.log.append(&event, time, &self.redactor));
        }
    }

    fn log_streams(&mut self, time: &LocalDateTime) {
        if let Some(coordination) = &mut self.coordination {
            for event in coordination.outputs.take_ready() {
                self.errors
                    .record(self.log.append(&event, time, &self.redactor));
            }
        }
    }

    /// Creates the records of a coordination if `event` starts one.
    fn begin_coordination(&mut self, event: &Event, time: &LocalDateTime) {
        self.first_event_time.get_or_insert_with(|| time.clone());
        if let Event::Run(RunEvent::RunStarted {
            question,
            agents,
            restart,
            ..
        }) = event
        {
            let mut progress =
                CoordinationProgress::new(Arc::clone(question), agents, *restart, time.clone());
            if let Some(earlier) = &mut self.coordination {
                progress.spent = std::mem::take(&mut earlier.progress.spent);
            }
            self.open_coordination(progress);
        }
    }

    /// Creates the records of a coordination; in the turn's directory if its own cannot be created.
    fn open_coordination(&mut self, progress: CoordinationProgress) {
        let dir = self
            .paths
            .begin_coordination(progress.restart)
            .unwrap_or_else(|error| {
                self.errors.record(Err(error));
                self.paths.turn().clone()
            });
        let coordination =
            CoordinationRecorder::open(progress, dir, &self.redactor, &mut self.errors);
        self.coordination = Some(coordination);
    }

    fn write_status_if_due(&mut self, time: &LocalDateTime) {
        if self.status_due() == Some(Duration::ZERO) {
            self.write_status_now(time);
        }
    }

    fn write_status_now(&mut self, time: &LocalDateTime) {
        let start = self.first_event_time.as_ref();
        let elapsed = start.map_or(Duration::ZERO, |start| time.since(start));
        let Some(coordination) = &mut self.coordination else {
            return;
        };
        let context = StatusContext {
            session_id: &self.session_id,
            log_dir: &self.paths.log().to_string(),
            time,
            elapsed_seconds: elapsed.as_secs_f64(),
            redactor: &self.redactor,
        };
        self.errors.record(coordination.write_status(context));
    }
}

#[async_trait]
impl EventSink for Recorder {
    fn on_event(&mut self, event: &Event, _elapsed: Duration) -> Result<()> {
        self.record(event).map_or(Ok(()), Err)
    }

    fn due(&self) -> Option<Duration> {
        self.status_due()
    }

    fn on_due(&mut self, _elapsed: Duration) -> Result<()> {
        self.write_status().map_or(Ok(()), Err)
    }

    async fn finish(self: Box<Self>) -> Result<()> {
        Recorder::finish(*self).map_or(Ok(()), Err)
    }
}

/// Returns `event` without the text that was already logged while it streamed.
fn without_streamed_text(event: &Event) -> Cow<'_, Event> {
    if let Event::Model(ModelEvent::Replied {
        agent,
        calls,
        stop,
        echo,
        ..
    }) = event
    {
        Cow::Owned(Event::Model(ModelEvent::Replied {
            agent: agent.clone(),
            text: Arc::from(""),
            calls: calls.clone(),
            stop: *stop,
            echo: echo.clone(),
        }))
    } else {
        Cow::Borrowed(event)
    }
}

/// The write errors of one run's records.
#[derive(Debug, Default)]
pub(crate) struct RecordErrors {
    first: Option<Error>,
    is_reported: bool,
}

impl RecordErrors {
    /// Records the result of a write.
    pub(crate) fn record(&mut self, result: Result<()>) {
        if let Err(error) = result
            && !self.is_reported
        {
            self.first.get_or_insert(error);
        }
    }

    /// Returns whether a write has failed.
    pub(crate) fn is_any(&self) -> bool {
        self.is_reported || self.first.is_some()
    }

    /// Takes the first error, worded for the user; `None` if there is none or it was reported
    /// before.
    pub(crate) fn take_first(&mut self) -> Option<Error> {
        let error = self.first.take()?;
        self.is_reported = true;
        let hints = error.hints().to_vec();
        let report = Error::new(error.kind(), "the records of this run are incomplete")
            .with_source(error)
            .with_hint("the run continues, and its answer is not lost");
        Some(hints.into_iter().fold(report, Error::with_hint))
    }
}
