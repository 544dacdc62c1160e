//! The records of one coordination: the state derived from its events, and the files that show it.

use std::time::Duration;

use crate::check_results::CheckResult;
use crate::error::Result;
use crate::event::{
    CoordinationEvent, DeliveryEvent, Event, ModelEvent, RunEvent, SubagentEvent, ToolEvent,
};
use crate::path::AbsPath;
use crate::text::escape_name;
use crate::tools::task_plan::TaskPlan;
use crate::world::io::clock::{LocalDateTime, Stopwatch};
use crate::world::store::records::agent_outputs::{AgentOutputs, continue_line, escape_brackets};
use crate::world::store::records::coordination_progress::CoordinationProgress;
use crate::world::store::records::record_paths::STATUS;
use crate::world::store::records::record_writer::RecordWriter;
use crate::world::store::records::status::{self, StatusContext};
use crate::world::store::records::{RecordErrors, STATUS_INTERVAL};
use crate::world::store::redact::Redactor;
use crate::world::sys::state_files::{clear, dir};

/// The state of one coordination and its record files.
#[derive(Debug)]
pub(crate) struct CoordinationRecorder {
    pub(crate) progress: CoordinationProgress,
    pub(crate) outputs: AgentOutputs,
    writer: RecordWriter,
    /// When `status.json` was last written.
    last_status_write: Option<Stopwatch>,
    /// Whether something has happened since.
    status_is_stale: bool,
}

impl CoordinationRecorder {
    /// Creates the records in the existing directory `dir`.
    pub(crate) fn open(
        progress: CoordinationProgress,
        dir: AbsPath,
        redactor: &Redactor,
        errors: &mut RecordErrors,
    ) -> Self {
        let outputs = dir.join("agent_outputs");
        // On resume, they are created again from the log.
        errors.record(clear::remove(&outputs));
        errors.record(dir::create(&outputs).map(drop));
        Self {
            progress,
            writer: RecordWriter::new(dir, redactor.clone()),
            outputs: AgentOutputs::new(outputs, redactor.clone()),
            last_status_write: None,
            status_is_stale: true,
        }
    }

    /// Applies what streams, and ends the streams that `event` ends. Returns whether `event` is a
    /// piece of a stream.
    pub(crate) fn apply_stream(&mut self, event: &Event, errors: &mut RecordErrors) -> bool {
        errors.record(self.outputs.apply(event));
        event.is_streamed()
    }

    /// Applies the next event and writes the records that belong to it.
    pub(crate) fn apply(&mut self, event: &Event, time: &LocalDateTime, errors: &mut RecordErrors) {
        self.progress.apply(event, time);
        self.status_is_stale = true;
        errors.record(self.write_records(event, time));
        if let (Some(agent), Some(line)) = (event.agent(), agent_line(event)) {
            errors.record(self.outputs.write_line(agent, &line));
        }
    }

    fn write_records(&mut self, event: &Event, time: &LocalDateTime) -> Result<()> {
        if let Event::Coordination(CoordinationEvent::Answered { agent, content, .. }) = event {
            self.writer.write_answer(agent, time, content)
        } else if let Event::Delivery(DeliveryEvent::FinalAnswer { agent, content }) = event {
            self.writer.write_final_answer(agent, content)
        } else {
            Ok(())
        }
    }

    /// Returns how long until `status.json` must be written; `None` while nothing new has happened.
    pub(crate) fn status_due(&self) -> Option<Duration> {
        let time_left = |write: Stopwatch| STATUS_INTERVAL.saturating_sub(write.elapsed());
        self.status_is_stale
            .then(|| self.last_status_write.map_or(Duration::ZERO, time_left))
    }

    /// Writes `status.json` now.
    pub(crate) fn write_status(&mut self, context: StatusContext<'_>) -> Result<()> {
        self.last_status_write = Some(Stopwatch::start());
        self.status_is_stale = false;
        self.writer
            .write_json(STATUS, status::status(&self.progress, context))
    }
}

/// Returns whether `event` ends a coordination.
pub(crate) fn ends_coordination(event: &Event) -> bool {
    matches!(
        event,
        Event::Run(RunEvent::CoordinationRestarted { .. } | RunEvent::RunEnded { .. })
    )
}

/// Formats a line from massgen that quotes others; further lines of the quoted text cannot look
/// like one.
fn tagged_line(tag: &str, text: &str) -> String {
    format!("[{tag}] {}", continue_line(text))
}

/// Returns the line for `event` in its agent's readable file, unless the stream already shows it.
fn agent_line(event: &Event) -> Option<String> {
    if let Event::Model(event) = event {
        model_note(event)
    } else if let Event::Tool(event) = event {
        tool_note(event)
    } else if let Event::Subagent(event) = event {
        subagent_note(event)
    } else if let Event::Run(RunEvent::LimitMet { limit, .. }) = event {
        Some(format!("[limit met] {limit}"))
    } else if let Event::Coordination(CoordinationEvent::Answered { label, content, .. }) = event {
        Some(format!("[answer {label}]\n{}", escape_brackets(content)))
    } else if let Event::Coordination(CoordinationEvent::Voted { label, reason, .. }) = event {
        Some(tagged_line(&format!("vote for {label}"), reason))
    } else if let Event::Coordination(CoordinationEvent::SubmissionRejected { reason, .. }) = event
    {
        Some(tagged_line("refused", reason))
    } else if let Event::Coordination(CoordinationEvent::DroppedOut { reason, .. }) = event {
        Some(tagged_line("dropped out", reason))
    } else if let Event::Delivery(DeliveryEvent::FinalStarted { .. }) = event {
        Some("[final presentation]".to_owned())
    } else if let Event::Delivery(DeliveryEvent::Checked { finding, .. }) = event {
        let CheckResult {
            check,
            verdict,
            tail,
            ..
        } = finding;
        let separator = if tail.is_empty() { "" } else { "\n" };
        let tail = escape_brackets(tail);
        Some(format!("[check {check}] {verdict}{separator}{tail}"))
    } else {
        None
    }
}

fn model_note(event: &ModelEvent) -> Option<String> {
    if let ModelEvent::Retrying { reason, .. } = event {
        Some(tagged_line("retrying", reason))
    } else if let ModelEvent::Failed { reason, .. } = event {
        Some(tagged_line("failed", reason))
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
    Some(tagged_line(&format!("subagent {name}"), &text))
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
            .map(|reason| format!("\n{}", tagged_line("denied", reason)));
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
        Some(tagged_line(outcome, &text))
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
    tagged_line(
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
        let suffix = reason
            .as_ref()
            .map(|reason| format!(": {}", continue_line(reason)));
        let suffix = suffix.unwrap_or_default();
        Some(format!(
            "[hook {event}] `{command}` says {decision}{suffix}"
        ))
    } else {
        None
    }
}
