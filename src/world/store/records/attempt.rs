//! The records of one attempt: the state derived from its events, and the files that show it.

use std::time::Duration;

use crate::check_results::CheckResult;
use crate::error::Result;
use crate::event::Event;
use crate::path::AbsPath;
use crate::text::{escape_name, escape_text};
use crate::world::io::clock::{LocalDateTime, Stopwatch};
use crate::world::store::records::STATUS_INTERVAL;
use crate::world::store::records::agent_outputs::{AgentOutputs, continued, without_marks};
use crate::world::store::records::history::CoordinationHistory;
use crate::world::store::records::record_errors::RecordErrors;
use crate::world::store::records::record_paths::STATUS;
use crate::world::store::records::record_writer::RecordWriter;
use crate::world::store::records::status::{self, StatusContext};
use crate::world::store::records::view::RunView;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::{clear, dir};

/// The state of one attempt and its record files.
#[derive(Debug)]
pub(crate) struct AttemptRecord {
    pub(crate) view: RunView,
    pub(crate) outputs: AgentOutputs,
    history: CoordinationHistory,
    filing: RecordWriter,
    /// When `status.json` was last written.
    status_written: Option<Stopwatch>,
    /// Whether something has happened since.
    status_is_stale: bool,
}

impl AttemptRecord {
    /// Creates the records in the existing directory `dir`.
    pub(crate) fn open(
        view: RunView,
        dir: AbsPath,
        redactor: &Redactor,
        faults: &mut RecordErrors,
    ) -> Self {
        let outputs = dir.join("agent_outputs");
        // On resume, they are created again from the log.
        faults.note(clear::remove(&outputs));
        faults.note(dir::create(&outputs).map(drop));
        Self {
            view,
            history: CoordinationHistory::default(),
            filing: RecordWriter::new(dir, redactor.clone()),
            outputs: AgentOutputs::new(outputs, redactor.clone()),
            status_written: None,
            status_is_stale: true,
        }
    }

    /// Applies what streams, and ends the streams that `event` ends. Returns whether `event` is a
    /// piece of a stream.
    pub(crate) fn apply_stream(&mut self, event: &Event, faults: &mut RecordErrors) -> bool {
        faults.note(self.outputs.apply(event));
        matches!(event, Event::Text { .. } | Event::Reasoning { .. })
    }

    /// Applies the next event and writes the records that belong to it.
    pub(crate) fn apply(&mut self, event: &Event, at: &LocalDateTime, faults: &mut RecordErrors) {
        self.view.apply(event, at);
        self.history.apply(event, at);
        self.status_is_stale = true;
        faults.note(self.write_records(event, at));
        if let (Some(agent), Some(line)) = (event.agent(), note(event)) {
            faults.note(self.outputs.note(agent, &line));
        }
    }

    fn write_records(&mut self, event: &Event, at: &LocalDateTime) -> Result<()> {
        if let Event::Answered {
            agent,
            label,
            content,
            snapshot,
            ..
        } = event
        {
            self.filing
                .write_answer(agent, at, *label, content, snapshot.as_deref())
        } else if let Event::Voted { agent, .. } = event {
            let seat = self.view.seats.get(agent);
            match seat.and_then(|seat| seat.vote.as_ref()) {
                Some(vote) => self.filing.write_vote(agent, at, vote, &self.view),
                None => Ok(()),
            }
        } else if let Event::FinalAnswer { agent, content } = event {
            self.filing.write_final_answer(agent, content)
        } else {
            Ok(())
        }
    }

    /// Returns how long until `status.json` must be written; `None` while nothing new has happened.
    pub(crate) fn status_due(&self) -> Option<Duration> {
        let since = |written: Stopwatch| STATUS_INTERVAL.saturating_sub(written.elapsed());
        self.status_is_stale
            .then(|| self.status_written.map_or(Duration::ZERO, since))
    }

    /// Writes `status.json` now.
    pub(crate) fn write_status(&mut self, frame: StatusContext<'_>) -> Result<()> {
        self.status_written = Some(Stopwatch::start());
        self.status_is_stale = false;
        self.filing
            .write_json(STATUS, status::status(&self.view, frame))
    }

    /// Writes the records that are only written at the end.
    pub(crate) fn close(&self, faults: &mut RecordErrors) {
        let history = self.history.json(&self.view);
        faults.note(self.filing.write_json("coordination_events.json", history));
        let table = self.history.table();
        let table = escape_text(&table);
        faults.note(self.filing.write_text("coordination_table.txt", &table));
        faults.note(self.filing.write_mappings());
    }
}

/// Returns whether `event` is the last one of an attempt.
pub(crate) fn is_end(event: &Event) -> bool {
    matches!(event, Event::Restarting { .. } | Event::RunEnded { .. })
}

/// Returns the line for the decision of a person or a hook about a tool call.
fn approval_note(event: &Event) -> Option<String> {
    if let Event::PersonAsked {
        tool,
        reason,
        answer,
        ..
    } = event
    {
        return Some(match answer {
            None => format!("[asked] {}: {}", escape_name(tool), continued(reason)),
            Some(said) => format!("[person says {said}] {}", escape_name(tool)),
        });
    }
    let Event::HookRan {
        event,
        command,
        decision,
        reason,
        ..
    } = event
    else {
        return None;
    };
    let why = reason.as_ref().map(|why| format!(": {}", continued(why)));
    let why = why.unwrap_or_default();
    Some(format!("[hook {event}] `{command}` says {decision}{why}"))
}

/// Formats a line of massgen's that contains foreign text, whose further lines cannot look like
/// one.
fn marked(mark: &str, text: &str) -> String {
    format!("[{mark}] {}", continued(text))
}

/// Returns the line for `event` in its agent's readable file, unless the stream already shows it.
fn note(event: &Event) -> Option<String> {
    match event {
        Event::ToolCalled {
            tool,
            arguments,
            denied,
            ..
        } => {
            let call = format!("[tool] {} {arguments}", escape_name(tool));
            let denied = denied.as_ref();
            let denied = denied.map(|reason| format!("\n{}", marked("denied", reason)));
            Some(call + &denied.unwrap_or_default())
        }
        Event::ToolFinished {
            tool,
            success,
            summary,
            ..
        } => {
            let outcome = if *success { "done" } else { "failed" };
            Some(marked(
                outcome,
                &format!("{}: {summary}", escape_name(tool)),
            ))
        }
        Event::PersonAsked { .. } | Event::HookRan { .. } => approval_note(event),
        Event::Answered { label, content, .. } => {
            Some(format!("[answer {label}]\n{}", without_marks(content)))
        }
        Event::Voted { label, reason, .. } => Some(marked(&format!("vote for {label}"), reason)),
        Event::Refused { reason, .. } => Some(marked("refused", reason)),
        Event::Retrying { reason, .. } => Some(marked("retrying", reason)),
        Event::LimitMet { limit, .. } => Some(format!("[limit met] {limit}")),
        Event::Failed { reason, .. } => Some(marked("failed", reason)),
        Event::DroppedOut { reason, .. } => Some(marked("dropped out", reason)),
        Event::FinalStarted { .. } => Some("[final presentation]".to_owned()),
        Event::Checked { finding, .. } => {
            let CheckResult {
                check,
                verdict,
                tail,
                ..
            } = finding;
            let gap = if tail.is_empty() { "" } else { "\n" };
            let tail = without_marks(tail);
            Some(format!("[check {check}] {verdict}{gap}{tail}"))
        }
        Event::RunStarted { .. }
        | Event::Pipeline { .. }
        | Event::Asking { .. }
        | Event::Text { .. }
        | Event::Reasoning { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Held { .. }
        | Event::FellBack { .. }
        | Event::Shortened { .. }
        | Event::OwnTool { .. }
        | Event::VotesVoided { .. }
        | Event::Informed { .. }
        | Event::Checking { .. }
        | Event::WinnerSelected { .. }
        | Event::FinalAnswer { .. }
        | Event::Delivered { .. }
        | Event::Restarting { .. }
        | Event::Confined { .. }
        | Event::CutShort { .. }
        | Event::ServerWorks { .. }
        | Event::Warning { .. }
        | Event::RunEnded { .. } => None,
    }
}
