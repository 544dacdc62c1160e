//! A tool call as a person sees it: what it does and how it ended, in a few words.

use serde::Serialize;

use crate::event::ToolEvent;
use crate::run_view::EventPosition;
use crate::text::{format_short, single_line};
use crate::tools::call_text::{describe_call, is_command, is_described};

/// Maximum length of a text about a call, in characters.
pub const CALL_CHARS_MAX: usize = 240;
/// Maximum length of the result of another tool than massgen's, in characters.
const RESULT_CHARS_MAX: usize = 160;
/// Duration from which on it is told of each call that succeeded, in milliseconds.
const TOLD_MS_MIN: u64 = 1000;

/// A tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolCallView {
    /// The id of the call in the conversation; empty for a native tool of an external agent.
    #[serde(skip)]
    pub(super) call_id: String,
    /// The tool.
    pub tool: String,
    /// The arguments, shortened to one line.
    pub arguments: String,
    /// What it does, such as `read src/main.rs`.
    pub text: String,
    /// How it ended, such as `(120 lines)` or `4.1 s  failed (101)`; empty while it runs, and if
    /// there is nothing to tell.
    pub note: String,
    /// Whether it runs, or how it ended.
    #[serde(flatten)]
    pub outcome: ToolCallOutcome,
    /// When it began, in milliseconds after the start of the run.
    pub started_ms: u64,
    /// How long it took, in milliseconds; `None` while it runs.
    pub elapsed_ms: Option<u64>,
}

/// Whether a tool call runs, or how it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum ToolCallOutcome {
    /// It runs.
    Running,
    /// It succeeded.
    Succeeded {
        /// The result, shortened to one line.
        summary: String,
    },
    /// It failed.
    Failed {
        /// The result, shortened to one line.
        summary: String,
    },
    /// The gate denied it.
    Denied {
        /// The reason.
        reason: String,
        /// The rule that denied it, if one did.
        rule: Option<String>,
    },
}

impl ToolCallView {
    /// Creates the view of the call that an event reports, of an agent whose user is in the
    /// directory `cwd`; `None` for another event.
    pub fn from_event(event: &ToolEvent, cwd: Option<&str>, at: EventPosition) -> Option<Self> {
        let (call_id, tool, arguments, outcome) = match event {
            ToolEvent::ToolCalled {
                call_id,
                tool,
                arguments,
                denied,
                rule,
                ..
            } => {
                let outcome = match (denied, rule) {
                    (None, _) => ToolCallOutcome::Running,
                    // Without a rule, the arguments were wrong.
                    (Some(reason), None) => ToolCallOutcome::Failed {
                        summary: join_lines(reason),
                    },
                    (Some(reason), Some(_)) => denied_outcome(reason, rule.as_ref()),
                };
                (call_id.as_str(), tool, arguments, outcome)
            }
            ToolEvent::NativeToolCall {
                tool,
                detail,
                denied,
                ..
            } => {
                let outcome = match denied {
                    Some(reason) => denied_outcome(reason, None),
                    None => ToolCallOutcome::Succeeded {
                        summary: String::new(),
                    },
                };
                ("", tool, detail, outcome)
            }
            ToolEvent::ToolFinished { .. }
            | ToolEvent::PlanUpdated { .. }
            | ToolEvent::ApprovalQueued { .. }
            | ToolEvent::Approval { .. }
            | ToolEvent::HookRan { .. }
            | ToolEvent::ServerProgress { .. } => return None,
        };
        let is_running = outcome == ToolCallOutcome::Running;
        let mut call = Self {
            call_id: call_id.to_owned(),
            tool: tool.clone(),
            arguments: single_line(arguments, CALL_CHARS_MAX),
            text: single_line(&describe_call(tool, arguments, cwd), CALL_CHARS_MAX),
            note: String::new(),
            outcome,
            started_ms: at.elapsed_ms,
            elapsed_ms: (!is_running).then_some(0),
        };
        call.note = call.outcome_note(None);
        Some(call)
    }

    /// Folds the end of the call into it.
    pub(super) fn finish(
        &mut self,
        outcome: ToolCallOutcome,
        measure: Option<&str>,
        elapsed_ms: u64,
    ) {
        self.outcome = outcome;
        self.elapsed_ms = Some(elapsed_ms);
        self.note = self.outcome_note(measure);
    }

    /// Returns the call and how it ended in one line.
    pub fn sentence(&self) -> String {
        format!("{}{}", self.text, self.spaced_note())
    }

    /// Returns how it ended, as it follows what it does.
    pub fn spaced_note(&self) -> String {
        let space = match self.note.chars().next() {
            None => "",
            Some('(' | '+') => " ",
            Some(_) => "  ",
        };
        format!("{space}{}", self.note)
    }

    fn outcome_note(&self, measure: Option<&str>) -> String {
        let is_command = is_command(&self.tool);
        let outcome = match &self.outcome {
            ToolCallOutcome::Running => return String::new(),
            ToolCallOutcome::Succeeded { summary } => match measure {
                Some(lines) if lines.contains(" line") => format!("({lines})"),
                Some(size) => size.to_owned(),
                None if is_described(&self.tool) => String::new(),
                None => single_line(summary, RESULT_CHARS_MAX),
            },
            ToolCallOutcome::Failed { summary } if is_command => failed_command_note(summary),
            ToolCallOutcome::Failed { summary } => return format!("failed: {summary}"),
            ToolCallOutcome::Denied { reason, rule: None } => return format!("denied: {reason}"),
            ToolCallOutcome::Denied {
                reason,
                rule: Some(rule),
            } => return format!("denied [{rule}]: {reason}"),
        };
        let told_ms_min = if is_command { 1 } else { TOLD_MS_MIN };
        let told_ms = self.elapsed_ms.filter(|elapsed| *elapsed >= told_ms_min);
        let duration = told_ms.map(format_short).unwrap_or_default();
        let parts = if is_command {
            [duration, outcome]
        } else {
            [outcome, duration]
        };
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("  ")
    }
}

/// Returns how a command failed: `failed (101): error: could not compile`. The summary begins with
/// its exit and its duration, which stands before already.
fn failed_command_note(summary: &str) -> String {
    let exit = summary.split_once(" after ");
    let Some((exit, rest)) = exit else {
        return format!("failed: {summary}");
    };
    let exit = exit.strip_prefix("status ").unwrap_or(exit);
    let (_, output) = rest.split_once(" s").unwrap_or_default();
    format!("failed ({exit}){output}")
}

fn denied_outcome(reason: &str, rule: Option<&String>) -> ToolCallOutcome {
    // What a model reads begins with the word that the note has already.
    let reason = reason.strip_prefix("denied: ").unwrap_or(reason);
    ToolCallOutcome::Denied {
        reason: join_lines(reason),
        rule: rule.cloned(),
    }
}

fn join_lines(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join("; ")
}
