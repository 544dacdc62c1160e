//! Owns the records of one attempt: what its events add up to, and the files that tell of it.

use std::time::Duration;

use crate::error::Result;
use crate::event::Event;
use crate::evidence::Finding;
use crate::path::AbsPath;
use crate::wording::{spelled, visible_lines};
use crate::world::clock::{Moment, Stopwatch};
use crate::world::store::records::STATUS_INTERVAL;
use crate::world::store::records::faults::Faults;
use crate::world::store::records::filing::Filing;
use crate::world::store::records::history::History;
use crate::world::store::records::outputs::{Outputs, continued, without_marks};
use crate::world::store::records::places::STATUS;
use crate::world::store::records::status::{self, Frame};
use crate::world::store::records::view::RunView;
use crate::world::store::redact::Redactor;
use crate::world::sys::own::{clear, dir};

/// What is known of one attempt, and where it is filed.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) view: RunView,
    pub(crate) outputs: Outputs,
    history: History,
    filing: Filing,
    /// When `status.json` was last written.
    status_written: Option<Stopwatch>,
    /// Whether something happened since.
    status_is_stale: bool,
}

impl Attempt {
    /// Files into the existing directory `dir`.
    pub(crate) fn open(
        view: RunView,
        dir: AbsPath,
        redactor: &Redactor,
        faults: &mut Faults,
    ) -> Self {
        let outputs = dir.join("agent_outputs");
        // Where a run is gone on with, they are made again from the log.
        faults.note(clear::remove(&outputs));
        faults.note(dir::create(&outputs).map(drop));
        Self {
            view,
            history: History::default(),
            filing: Filing::new(dir, redactor.clone()),
            outputs: Outputs::new(outputs, redactor.clone()),
            status_written: None,
            status_is_stale: true,
        }
    }

    /// Takes in what streams and ends what `event` ends; whether `event` is a piece of a stream.
    pub(crate) fn listen(&mut self, event: &Event, faults: &mut Faults) -> bool {
        faults.note(self.outputs.hear(event));
        matches!(event, Event::Text { .. } | Event::Reasoning { .. })
    }

    /// Takes in the next event and files what is a record of its own.
    pub(crate) fn apply(&mut self, event: &Event, at: &Moment, faults: &mut Faults) {
        self.view.apply(event, at);
        self.history.apply(event, at);
        self.status_is_stale = true;
        faults.note(self.file(event, at));
        if let (Some(agent), Some(line)) = (event.agent(), note(event)) {
            faults.note(self.outputs.note(agent, &line));
        }
    }

    fn file(&mut self, event: &Event, at: &Moment) -> Result<()> {
        if let Event::Answered {
            agent,
            label,
            content,
            snapshot,
            ..
        } = event
        {
            self.filing
                .answer((agent, at), *label, content, snapshot.as_deref())
        } else if let Event::Voted { agent, .. } = event {
            let seat = self.view.seats.get(agent);
            match seat.and_then(|seat| seat.vote.as_ref()) {
                Some(vote) => self.filing.vote((agent, at), vote, &self.view),
                None => Ok(()),
            }
        } else if let Event::FinalAnswer { agent, content } = event {
            self.filing.final_answer(agent, content)
        } else {
            Ok(())
        }
    }

    /// How long until `status.json` is to be written; `None` while nothing new happened.
    pub(crate) fn status_due(&self) -> Option<Duration> {
        let since = |written: Stopwatch| STATUS_INTERVAL.saturating_sub(written.elapsed());
        self.status_is_stale
            .then(|| self.status_written.map_or(Duration::ZERO, since))
    }

    /// Writes `status.json` now.
    pub(crate) fn write_status(&mut self, frame: Frame<'_>) -> Result<()> {
        self.status_written = Some(Stopwatch::start());
        self.status_is_stale = false;
        self.filing.json(STATUS, status::status(&self.view, frame))
    }

    /// Writes all that is told only at the end.
    pub(crate) fn close(&self, faults: &mut Faults) {
        let history = self.history.json(&self.view);
        faults.note(self.filing.json("coordination_events.json", history));
        let table = self.history.table();
        let table = visible_lines(&table);
        faults.note(self.filing.text("coordination_table.txt", &table));
        faults.note(self.filing.mappings());
    }
}

/// Whether nothing of the attempt follows `event`.
pub(crate) fn is_end(event: &Event) -> bool {
    matches!(event, Event::Restarting { .. } | Event::RunEnded { .. })
}

/// The line that tells what a person or a hook says of a deed.
fn word_about_a_call(event: &Event) -> Option<String> {
    if let Event::PersonAsked {
        tool,
        reason,
        answer,
        ..
    } = event
    {
        return Some(match answer {
            None => format!("[asked] {}: {}", spelled(tool), continued(reason)),
            Some(said) => format!("[person says {said}] {}", spelled(tool)),
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

/// A line of massgen's own with somebody's text, whose further lines do not look like one.
fn marked(mark: &str, text: &str) -> String {
    format!("[{mark}] {}", continued(text))
}

/// The line that tells of `event` in its agent's readable file, where the stream itself does not.
fn note(event: &Event) -> Option<String> {
    match event {
        Event::ToolCalled {
            tool,
            arguments,
            denied,
            ..
        } => {
            let call = format!("[tool] {} {arguments}", spelled(tool));
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
            Some(marked(outcome, &format!("{}: {summary}", spelled(tool))))
        }
        Event::PersonAsked { .. } | Event::HookRan { .. } => word_about_a_call(event),
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
            let Finding {
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
