//! The records of one attempt: the state derived from its events, and the files that show it.

use std::time::Duration;

use crate::check_results::CheckResult;
use crate::error::Result;
use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, RunEvent, SubagentEvent, ToolEvent,
};
use crate::path::AbsPath;
use crate::text::{escape_name, escape_text};
use crate::tools::task_plan::TaskPlan;
use crate::world::io::clock::{LocalDateTime, Stopwatch};
use crate::world::store::records::STATUS_INTERVAL;
use crate::world::store::records::agent_outputs::{AgentOutputs, continue_line, escape_brackets};
use crate::world::store::records::history::CoordinationHistory;
use crate::world::store::records::record_errors::RecordErrors;
use crate::world::store::records::record_paths::STATUS;
use crate::world::store::records::record_writer::{AnswerRecord, RecordWriter};
use crate::world::store::records::status::{self, StatusContext};
use crate::world::store::records::view::AttemptProgress;
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::{clear, dir};

/// The state of one attempt and its record files.
#[derive(Debug)]
pub(crate) struct AttemptRecord {
    pub(crate) view: AttemptProgress,
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
        view: AttemptProgress,
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
        event.is_streamed()
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
        if let Event::Coordination(CoordinationEvent::Answered {
            agent,
            label,
            content,
            snapshot,
            plan,
            ..
        }) = event
        {
            let answer = AnswerRecord {
                label: *label,
                content,
                snapshot: snapshot.as_deref(),
                plan: plan.as_ref(),
            };
            self.filing.write_answer(agent, at, &answer)
        } else if let Event::Coordination(CoordinationEvent::Voted { agent, .. }) = event {
            let progress = self.view.agents.get(agent);
            match progress.and_then(|progress| progress.vote.as_ref()) {
                Some(vote) => self.filing.write_vote(agent, at, vote, &self.view),
                None => Ok(()),
            }
        } else if let Event::Delivery(DeliveryEvent::FinalAnswer { agent, content }) = event {
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
    pub(crate) fn write_status(&mut self, context: StatusContext<'_>) -> Result<()> {
        self.status_written = Some(Stopwatch::start());
        self.status_is_stale = false;
        self.filing
            .write_json(STATUS, status::status(&self.view, context))
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
    matches!(
        event,
        Event::Run(RunEvent::AttemptRestarted { .. } | RunEvent::RunEnded { .. })
    )
}

/// Formats a line of massgen's that contains foreign text, whose further lines cannot look like
/// one.
fn format_marked(mark: &str, text: &str) -> String {
    format!("[{mark}] {}", continue_line(text))
}

/// Returns the line for `event` in its agent's readable file, unless the stream already shows it.
fn note(event: &Event) -> Option<String> {
    match event {
        Event::Run(event) => run_note(event),
        Event::Model(event) => model_note(event),
        Event::Tool(event) => tool_note(event),
        Event::Subagent(event) => subagent_note(event),
        Event::Coordination(event) => coordination_note(event),
        Event::Delivery(event) => delivery_note(event),
        Event::Pipeline(_) => None,
    }
}

fn run_note(event: &RunEvent) -> Option<String> {
    if let RunEvent::LimitMet { limit, .. } = event {
        Some(format!("[limit met] {limit}"))
    } else {
        None
    }
}

fn model_note(event: &ModelEvent) -> Option<String> {
    if let ModelEvent::Retrying { reason, .. } = event {
        Some(format_marked("retrying", reason))
    } else if let ModelEvent::Failed { reason, .. } = event {
        Some(format_marked("failed", reason))
    } else {
        None
    }
}

fn subagent_note(event: &SubagentEvent) -> Option<String> {
    let name = event.key().subagent;
    let text = match event {
        SubagentEvent::SubagentStarted { task, .. } => format!("starts: {task}"),
        SubagentEvent::SubagentModel {
            event: ModelEvent::Replied { text, .. },
            ..
        } if !text.is_empty() => text.to_string(),
        SubagentEvent::SubagentModel { event, .. } => model_note(event)?,
        SubagentEvent::SubagentTool { event, .. } => tool_note(event)?,
        SubagentEvent::SubagentFinished { status, reason, .. } => match reason {
            Some(reason) => format!("{status}: {reason}"),
            None => status.to_string(),
        },
    };
    Some(format_marked(&format!("subagent {name}"), &text))
}

fn tool_note(event: &ToolEvent) -> Option<String> {
    if let ToolEvent::ToolCalled {
        tool,
        arguments,
        denied,
        ..
    } = event
    {
        let call = format!("[tool] {} {arguments}", escape_name(tool));
        let denial_text = denied
            .as_ref()
            .map(|reason| format!("\n{}", format_marked("denied", reason)));
        Some(call + &denial_text.unwrap_or_default())
    } else if let ToolEvent::ToolFinished {
        tool,
        success,
        summary,
        ..
    } = event
    {
        let outcome = if *success { "done" } else { "failed" };
        let text = format!("{}: {summary}", escape_name(tool));
        Some(format_marked(outcome, &text))
    } else if let ToolEvent::PlanUpdated { entries, .. } = event {
        Some(plan_note(entries))
    } else {
        approval_note(event)
    }
}

/// Returns the lines for a plan: its progress, and each step.
fn plan_note(plan: &TaskPlan) -> String {
    let (done_count, entry_count) = (plan.completed_count(), plan.entries.len());
    let steps = plan.entries.iter();
    let steps = steps.map(|entry| format!("\n- {}: {}", entry.status.word(), entry.content));
    let steps: String = steps.collect();
    format_marked(
        "plan",
        &format!("{done_count} of {entry_count} done{steps}"),
    )
}

/// Returns the line for the decision of a person or a hook about a tool call.
fn approval_note(event: &ToolEvent) -> Option<String> {
    if let ToolEvent::Approval {
        tool,
        reason,
        answer,
        ..
    } = event
    {
        Some(match answer {
            None => format!("[asked] {}: {}", escape_name(tool), continue_line(reason)),
            Some(answer) => format!("[person says {answer}] {}", escape_name(tool)),
        })
    } else if let ToolEvent::HookRan {
        event,
        command,
        decision,
        reason,
        ..
    } = event
    {
        let why = reason
            .as_ref()
            .map(|why| format!(": {}", continue_line(why)));
        let why = why.unwrap_or_default();
        Some(format!("[hook {event}] `{command}` says {decision}{why}"))
    } else {
        None
    }
}

fn coordination_note(event: &CoordinationEvent) -> Option<String> {
    if let CoordinationEvent::Answered { label, content, .. } = event {
        Some(format!("[answer {label}]\n{}", escape_brackets(content)))
    } else if let CoordinationEvent::Voted { label, reason, .. } = event {
        Some(format_marked(&format!("vote for {label}"), reason))
    } else if let CoordinationEvent::SubmissionRejected { reason, .. } = event {
        Some(format_marked("refused", reason))
    } else if let CoordinationEvent::DroppedOut { reason, .. } = event {
        Some(format_marked("dropped out", reason))
    } else {
        None
    }
}

fn delivery_note(event: &DeliveryEvent) -> Option<String> {
    if let DeliveryEvent::FinalStarted { .. } = event {
        Some("[final presentation]".to_owned())
    } else if let DeliveryEvent::Checked { finding, .. } = event {
        let CheckResult {
            check,
            verdict,
            tail,
            ..
        } = finding;
        let gap = if tail.is_empty() { "" } else { "\n" };
        let tail = escape_brackets(tail);
        Some(format!("[check {check}] {verdict}{gap}{tail}"))
    } else {
        None
    }
}
