//! Owns the records of a run: the event log, and all that is derived from the same events for
//! people and scripts. It decides nothing; a disk that fails is said once and ends nothing.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::AgentId;
use crate::path::AbsPath;
use crate::world::clock::{self, Moment, Stopwatch};
use crate::world::store::event_log::EventLog;
use crate::world::store::records::attempt::Attempt;
use crate::world::store::records::faults::Faults;
use crate::world::store::records::metadata::RunMeta;
use crate::world::store::records::outset::Outset;
use crate::world::store::records::places::{EVENTS, METADATA, OUTSET, REPLIES, RunPlaces};
use crate::world::store::records::replies::Replies;
use crate::world::store::records::status::Frame;
use crate::world::store::records::view::RunView;
use crate::world::store::redact::Redactor;
use crate::world::sys::own::clear;
use crate::world::sys::own::file::{self, Durability};

mod attempt;
mod faults;
mod filing;
mod history;
pub mod metadata;
pub mod outset;
mod outputs;
pub mod places;
pub mod recording;
pub mod replies;
mod status;
pub mod view;

/// How often `status.json` is written at most.
pub const STATUS_INTERVAL: Duration = Duration::from_secs(2);

/// Writes the records of one turn.
#[derive(Debug)]
pub struct Recorder {
    places: RunPlaces,
    session_id: String,
    redactor: Redactor,
    log: EventLog,
    replies: Replies,
    began: Stopwatch,
    attempt: Option<Attempt>,
    faults: Faults,
}

impl Recorder {
    /// Begins the records of a turn: the log and `execution_metadata.yaml`.
    pub fn start(places: RunPlaces, meta: &RunMeta, redactor: Redactor) -> Result<Self> {
        let log = EventLog::create(places.turn().join(EVENTS))?;
        let metadata = meta.yaml(&clock::now().iso(), &redactor)?;
        file::replace(
            &places.turn().join(METADATA),
            metadata.as_bytes(),
            Durability::Process,
        )?;
        let session_id = meta.session_id.clone();
        Ok(Self::new(places, log, session_id, redactor))
    }

    fn new(places: RunPlaces, log: EventLog, session_id: String, redactor: Redactor) -> Self {
        Self {
            replies: Replies::new(places.turn(), redactor.clone()),
            places,
            session_id,
            redactor,
            log,
            began: Stopwatch::start(),
            attempt: None,
            faults: Faults::default(),
        }
    }

    /// Goes on with the records of a turn that was broken off: whatever is derived from its `log` is
    /// made again from what was `told` in it, each event with its time.
    pub fn go_on(
        (places, log): (RunPlaces, EventLog),
        session_id: String,
        told: &[(Event, Moment)],
        redactor: Redactor,
    ) -> Result<Self> {
        clear::remove(&places.turn().join(REPLIES))?;
        let mut recorder = Self::new(places, log, session_id, redactor);
        for (event, at) in told {
            recorder.derive_again(event, at);
        }
        Ok(recorder)
    }

    /// Derives from an event that stands in the log what is derived from it.
    fn derive_again(&mut self, event: &Event, at: &Moment) {
        self.begin_attempt(event, at);
        self.faults.note(self.replies.apply(event));
        if let Some(attempt) = &mut self.attempt {
            attempt.listen(event, &mut self.faults);
            let _logged = attempt.outputs.take_ready();
            attempt.apply(event, at, &mut self.faults);
        }
        if attempt::is_end(event) {
            self.close_attempt(at);
        }
    }

    /// Files how the run began, so that it can be played again.
    pub fn file_outset(&self, outset: &Outset) -> Result<()> {
        let text = outset.yaml(&self.redactor)?;
        let path = self.places.turn().join(OUTSET);
        file::replace(&path, text.as_bytes(), Durability::Process)
    }

    /// The recorded replies of `agent`; `None` if it has given none.
    pub fn replies_of(&self, agent: &AgentId) -> Option<&AbsPath> {
        self.replies.of(agent)
    }

    /// Records `event`. The first time that something cannot be written, the error comes back, to
    /// be shown as a warning; the run goes on, and later events are tried again.
    pub fn record(&mut self, event: &Event) -> Option<Error> {
        let at = clock::now();
        self.begin_attempt(event, &at);
        self.faults.note(self.replies.apply(event));
        self.log(event, &at);
        if let Some(attempt) = &mut self.attempt {
            attempt.apply(event, &at, &mut self.faults);
        }
        if attempt::is_end(event) {
            self.close_attempt(&at);
        } else {
            self.write_status_if_due(&at);
        }
        self.faults.tell()
    }

    /// How long until [`Recorder::write_status`] has something to write; `None` while nothing new
    /// happened.
    pub fn status_due(&self) -> Option<Duration> {
        self.attempt.as_ref().and_then(Attempt::status_due)
    }

    /// Writes `status.json` if it is due. Events do so too; this is for the silence after them.
    pub fn write_status(&mut self) -> Option<Error> {
        self.write_status_if_due(&clock::now());
        self.faults.tell()
    }

    /// The state of the present attempt.
    pub fn view(&self) -> Option<&RunView> {
        self.attempt.as_ref().map(|attempt| &attempt.view)
    }

    /// Where the records lie.
    pub fn places(&self) -> &RunPlaces {
        &self.places
    }

    /// Ends the records. After [`Event::RunEnded`] nothing is left to do; without it, what is
    /// known is written, and the run stays marked as not complete.
    pub fn finish(mut self) -> Option<Error> {
        let at = clock::now();
        if let Some(attempt) = &mut self.attempt {
            self.faults.note(attempt.outputs.end_all());
        }
        self.log_streams(&at);
        self.close_attempt(&at);
        self.faults.tell()
    }

    /// Logs `event` after what it ends; a piece of a stream waits until there is enough of it.
    fn log(&mut self, event: &Event, at: &Moment) {
        let is_piece = match &mut self.attempt {
            Some(attempt) => attempt.listen(event, &mut self.faults),
            None => false,
        };
        self.log_streams(at);
        if !is_piece {
            let event = without_streamed(event);
            self.faults
                .note(self.log.append(&event, at, &self.redactor));
        }
    }

    fn log_streams(&mut self, at: &Moment) {
        if let Some(attempt) = &mut self.attempt {
            for event in attempt.outputs.take_ready() {
                self.faults
                    .note(self.log.append(&event, at, &self.redactor));
            }
        }
    }

    /// Opens the records of an attempt if `event` begins one.
    fn begin_attempt(&mut self, event: &Event, at: &Moment) {
        if let Event::RunStarted {
            question,
            agents,
            attempt,
        } = event
        {
            let mut view = RunView::new(Arc::clone(question), agents, *attempt, at.clone());
            if let Some(earlier) = &mut self.attempt {
                view.spent = std::mem::take(&mut earlier.view.spent);
            }
            self.open_attempt(view);
        }
    }

    /// Opens the records of an attempt. If its directory cannot be made, they are filed beside it.
    fn open_attempt(&mut self, view: RunView) {
        let dir = self
            .places
            .begin_attempt(view.attempt)
            .unwrap_or_else(|error| {
                self.faults.note(Err(error));
                self.places.turn().clone()
            });
        let attempt = Attempt::open(view, dir, &self.redactor, &mut self.faults);
        self.attempt = Some(attempt);
    }

    fn close_attempt(&mut self, at: &Moment) {
        self.write_status_now(at);
        if let Some(attempt) = &self.attempt {
            attempt.close(&mut self.faults);
        }
    }

    fn write_status_if_due(&mut self, at: &Moment) {
        if self.status_due() == Some(Duration::ZERO) {
            self.write_status_now(at);
        }
    }

    fn write_status_now(&mut self, at: &Moment) {
        let Some(attempt) = &mut self.attempt else {
            return;
        };
        let frame = Frame {
            session_id: &self.session_id,
            log_dir: &self.places.log().to_string(),
            at,
            elapsed_seconds: self.began.elapsed().as_secs_f64(),
            redactor: &self.redactor,
        };
        self.faults.note(attempt.write_status(frame));
    }
}

/// `event` without the text that stands in the log already, as it streamed.
fn without_streamed(event: &Event) -> Cow<'_, Event> {
    if let Event::Replied {
        agent,
        calls,
        stop,
        echo,
        ..
    } = event
    {
        Cow::Owned(Event::Replied {
            agent: agent.clone(),
            text: Arc::from(""),
            calls: calls.clone(),
            stop: *stop,
            echo: echo.clone(),
        })
    } else {
        Cow::Borrowed(event)
    }
}
