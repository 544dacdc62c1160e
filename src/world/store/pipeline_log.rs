//! The event log of a pipeline: the events of the pipeline itself. Those of the work in its stages
//! are in the logs of their runs. Programs show the pipeline from it; nothing is resumed from it.

use serde::Deserialize;

use crate::error::Result;
use crate::event::{DeliveryEvent, Event, ModelEvent, RunEvent, ToolEvent};
use crate::world::io::clock::{self, LocalDateTime};
use crate::world::store::event_log::EventLog;
use crate::world::store::pipelines::PipelineDir;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::file;

/// The part of a log that contains its last line, in bytes; a longer line is not read.
const LAST_LINE_BYTES_MAX: u64 = 64 * 1024;

/// The log of a pipeline, open for writing.
#[derive(Debug)]
pub struct PipelineLog {
    log: EventLog,
    redactor: Redactor,
    /// Whether the pipeline was started by an earlier process.
    is_resumed: bool,
    /// The number of messages of the user that earlier processes recorded.
    earlier_message_count: u32,
}

/// The last line of a log.
#[derive(Debug)]
pub struct LastLine {
    /// Its event.
    pub event: Event,
    /// When it was written.
    pub time: LocalDateTime,
}

/// The time of a line.
#[derive(Deserialize)]
struct LineTime {
    time: String,
}

impl PipelineLog {
    /// Opens the log of the pipeline in `dir`, which the caller has locked. The end that an earlier
    /// process recorded is removed.
    pub fn open(dir: &PipelineDir, redactor: Redactor) -> Result<Self> {
        let path = dir.events_file();
        if !dir.has_log()? {
            return Ok(Self {
                log: EventLog::create(path)?,
                redactor,
                is_resumed: false,
                earlier_message_count: 0,
            });
        }
        let mut reopened = EventLog::reopen(&path)?;
        let mut lines = reopened.events.len();
        let last_event = reopened.events.last().and_then(Option::as_ref);
        if let Some((Event::Run(RunEvent::RunEnded { .. }), _)) = last_event {
            lines = lines.saturating_sub(1);
            let end = reopened.line_end(lines);
            reopened.log.truncate(end)?;
        }
        let is_message = |event: &Event| matches!(event, Event::Run(RunEvent::UserMessage { .. }));
        let known_events = reopened.events.iter().flatten();
        let message_count = known_events.filter(|(event, _)| is_message(event)).count();
        Ok(Self {
            log: reopened.log,
            redactor,
            is_resumed: lines > 0,
            earlier_message_count: u32::try_from(message_count).unwrap_or(u32::MAX),
        })
    }

    /// Returns the number of messages of the user that earlier processes recorded.
    pub fn earlier_message_count(&self) -> u32 {
        self.earlier_message_count
    }

    /// Appends `event` if it is one of the pipeline itself. A pipeline that is resumed has started
    /// already.
    pub fn record(&mut self, event: &Event) -> Result<()> {
        let is_start = matches!(event, Event::Run(RunEvent::RunStarted { .. }));
        if !is_own(event) || (is_start && self.is_resumed) {
            return Ok(());
        }
        self.log.append(event, &clock::now(), &self.redactor)
    }
}

/// Returns the last line of the log of a pipeline, if it is complete and known.
pub fn last_line(dir: &PipelineDir) -> Option<LastLine> {
    let bytes = file::read_end(&dir.events_file(), LAST_LINE_BYTES_MAX).ok()?;
    let text = std::str::from_utf8(bytes.strip_suffix(b"\n")?).ok()?;
    let (_, line) = text.rsplit_once('\n').unwrap_or(("", text));
    let LineTime { time } = serde_json::from_str(line).ok()?;
    Some(LastLine {
        event: Event::from_json(line).ok()?,
        time: LocalDateTime::parse(&time)?,
    })
}

/// Returns whether an event is one of a pipeline itself: its steps, its start and end, what it
/// used, what it asks, and what the user tells its agents.
fn is_own(event: &Event) -> bool {
    match event {
        Event::Pipeline(_) => true,
        Event::Run(event) => matches!(
            event,
            RunEvent::RunStarted { .. }
                | RunEvent::RunEnded { .. }
                | RunEvent::LimitMet { .. }
                | RunEvent::SandboxSelected { .. }
                | RunEvent::UserMessage { .. }
                | RunEvent::UserMessagesShown { .. }
                | RunEvent::Warning { .. }
        ),
        Event::Delivery(event) => matches!(event, DeliveryEvent::FinalAnswer { .. }),
        Event::Tool(event) => matches!(event, ToolEvent::Approval { .. }),
        Event::Model(_) | Event::Subagent(_) => matches!(
            event.as_model_event(),
            Some(ModelEvent::ModelRequestFinished { .. })
        ),
        Event::Coordination(_) => false,
    }
}
