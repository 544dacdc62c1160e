//! The words and styles in which lines tell what agents did and what became of delivered files, and
//! how durations and usage are written.

use std::time::Duration;

use crate::ballot::WinnerReason;
use crate::check_results::{CheckResult, CheckVerdict};
use crate::cli::output::TextStyle;
use crate::event::{
    ApprovalAnswer, CoordinationEvent, DeliveryEvent, DeliveryOutcome, DeliveryRow, Event,
    ModelEvent, RunEvent, SubagentEvent, SubagentStatus, ToolEvent, rejection_cause,
};
use crate::id::AgentId;
use crate::run_view::ballot::BallotView;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::spending::totals::{RequestTotals, UsageTotals};
use crate::text::{escape_name, join_with_commas, single_line};

/// Maximum length of a tool call, its result, a subagent's task or a plan in a line, in characters.
const SUMMARY_CHARS_MAX: usize = 160;

/// What an agent did, as a sentence whose subject is the agent.
#[derive(Debug)]
pub(crate) struct EventLine {
    /// The style of the verb.
    pub(crate) style: TextStyle,
    pub(crate) verb: &'static str,
    /// The rest of the sentence.
    pub(crate) rest: String,
}

impl EventLine {
    fn new(style: TextStyle, verb: &'static str, rest: String) -> Self {
        Self { style, verb, rest }
    }
}

/// The outcome of one file.
#[derive(Debug)]
pub(crate) struct OutcomeText {
    /// The style of the word.
    pub(crate) style: TextStyle,
    /// The word for the outcome.
    pub(crate) word: &'static str,
    /// What follows the path of the file.
    pub(crate) note: String,
}

impl OutcomeText {
    fn new(style: TextStyle, word: &'static str, note: String) -> Self {
        Self { style, word, note }
    }
}

/// Describes what an agent did, as a verb with its style and the rest of the sentence; `None` for
/// an event that is not an action of one agent or is shown in another way.
pub(crate) fn event_line(event: &Event) -> Option<EventLine> {
    match event {
        Event::Run(event) => run_line(event),
        Event::Model(event) => model_line(event),
        Event::Tool(event) => tool_line(event),
        Event::Subagent(event) => subagent_line(event),
        Event::Coordination(event) => coordination_line(event),
        Event::Delivery(event) => delivery_line(event),
        Event::Pipeline(_) => None,
    }
}

/// Returns why the winner of a tie was chosen; `None` if it won without one, or there is none yet.
pub(crate) fn tie_text(ballot: &BallotView) -> Option<&'static str> {
    let winner = ballot.winner.as_ref()?;
    (winner.reason == WinnerReason::FirstOfTie).then(|| winner.reason.text())
}

fn run_line(event: &RunEvent) -> Option<EventLine> {
    if let RunEvent::LimitMet { limit, .. } = event {
        Some(EventLine::new(
            TextStyle::Bad,
            "reached its limit:",
            limit.clone(),
        ))
    } else if let RunEvent::UserMessagesShown { numbers, .. } = event {
        let noun = if numbers.len() == 1 {
            "message"
        } else {
            "messages"
        };
        let text = format!("{noun} {}", join_with_commas(numbers));
        Some(EventLine::new(TextStyle::Faint, "reads your", text))
    } else {
        None
    }
}

fn model_line(event: &ModelEvent) -> Option<EventLine> {
    let wait_text = |ms: &u64| format_duration(Duration::from_millis(*ms));
    match event {
        ModelEvent::Retrying {
            reason, wait_ms, ..
        } => {
            let text = format!("in {}: {reason}", wait_text(wait_ms));
            Some(EventLine::new(TextStyle::Warn, "retries", text))
        }
        ModelEvent::RateLimited {
            reason, wait_ms, ..
        } => {
            let text = format!("for {}: {reason}", wait_text(wait_ms));
            Some(EventLine::new(TextStyle::Faint, "waits", text))
        }
        ModelEvent::ModelFallback {
            from, to, reason, ..
        } => {
            let text = format!("to {to} from {from}: {reason}");
            Some(EventLine::new(TextStyle::Warn, "switches", text))
        }
        ModelEvent::ContextCompacted { removal, .. } => Some(EventLine::new(
            TextStyle::Warn,
            "compacts its context:",
            removal.clone(),
        )),
        ModelEvent::ModelRequestStarted { .. }
        | ModelEvent::Text { .. }
        | ModelEvent::Reasoning { .. }
        | ModelEvent::ModelRequestFinished { .. }
        | ModelEvent::Replied { .. }
        | ModelEvent::Failed { .. } => None,
    }
}

fn subagent_line(event: &SubagentEvent) -> Option<EventLine> {
    let name = event.key().subagent;
    let line = match event {
        SubagentEvent::SubagentStarted { task, .. } => {
            let text = single_line(&format!("{name}: {task}"), SUMMARY_CHARS_MAX);
            return Some(EventLine::new(TextStyle::Plain, "starts subagent", text));
        }
        SubagentEvent::SubagentModel { event, .. } => model_line(event),
        SubagentEvent::SubagentTool { event, .. } => tool_line(event),
        SubagentEvent::SubagentFinished { status, reason, .. } => {
            let style = match status {
                SubagentStatus::Completed => TextStyle::Good,
                SubagentStatus::Failed | SubagentStatus::Timeout | SubagentStatus::Cancelled => {
                    TextStyle::Bad
                }
            };
            let reason = reason.as_ref().map(|reason| format!(": {reason}"));
            let text = format!("{name} {status}{}", reason.unwrap_or_default());
            let text = single_line(&text, SUMMARY_CHARS_MAX);
            return Some(EventLine::new(style, "subagent", text));
        }
    };
    line.map(|EventLine { style, verb, rest }| {
        EventLine::new(style, "subagent", format!("{name} {verb} {rest}"))
    })
}

fn tool_line(event: &ToolEvent) -> Option<EventLine> {
    match event {
        ToolEvent::ToolCalled {
            tool,
            arguments,
            denied,
            ..
        } => Some(tool_call_line(tool, arguments, denied.as_deref())),
        ToolEvent::NativeToolCall {
            tool,
            detail,
            denied,
            ..
        } => Some(tool_call_line(tool, detail, denied.as_deref())),
        ToolEvent::PlanUpdated { entries, .. } => Some(EventLine::new(
            TextStyle::Plain,
            "updates its plan:",
            single_line(&entries.to_string(), SUMMARY_CHARS_MAX),
        )),
        ToolEvent::ApprovalQueued { tool, waiting, .. } => {
            let text = format!("to ask for approval of {tool}");
            waiting.then(|| EventLine::new(TextStyle::Faint, "waits", text))
        }
        ToolEvent::Approval { tool, answer, .. } => Some(approval_line(tool, *answer)),
        ToolEvent::HookRan {
            event,
            command,
            decision,
            reason,
            ..
        } => Some(hook_line(event, command, decision, reason.as_deref())),
        ToolEvent::ToolFinished {
            tool,
            success,
            summary,
            ..
        } => {
            let text = single_line(&format!("{tool}: {summary}"), SUMMARY_CHARS_MAX);
            Some(if *success {
                EventLine::new(TextStyle::Faint, "did", text)
            } else {
                EventLine::new(TextStyle::Warn, "failed", text)
            })
        }
        ToolEvent::ServerProgress { .. } => None,
    }
}

fn coordination_line(event: &CoordinationEvent) -> Option<EventLine> {
    Some(match event {
        CoordinationEvent::Answered { label, .. } => {
            EventLine::new(TextStyle::Good, "answers", format!("as {label}:"))
        }
        CoordinationEvent::Voted {
            candidate,
            label,
            reason,
            ..
        } => {
            let text = format!("for {candidate} ({label}): {reason}");
            EventLine::new(TextStyle::Good, "votes", text)
        }
        CoordinationEvent::SubmissionRejected { reason, .. } => {
            let cause = rejection_cause(reason).to_owned();
            EventLine::new(TextStyle::Warn, "decision not counted:", cause)
        }
        CoordinationEvent::AnswersShown { labels, .. } => {
            EventLine::new(TextStyle::Faint, "sees", join_with_commas(labels))
        }
        CoordinationEvent::DroppedOut {
            reason, timed_out, ..
        } => {
            let verb = if *timed_out {
                "timed out:"
            } else {
                "drops out:"
            };
            EventLine::new(TextStyle::Bad, verb, reason.clone())
        }
        CoordinationEvent::VotesVoided { .. } | CoordinationEvent::WinnerSelected { .. } => {
            return None;
        }
    })
}

fn delivery_line(event: &DeliveryEvent) -> Option<EventLine> {
    match event {
        DeliveryEvent::Checking { check, .. } => Some(EventLine::new(
            TextStyle::Faint,
            "is checked by",
            check.clone(),
        )),
        DeliveryEvent::Checked { finding, .. } => Some(check_line(finding)),
        DeliveryEvent::FinalStarted { .. } => Some(EventLine::new(
            TextStyle::Strong,
            "presents",
            "the final answer".to_owned(),
        )),
        DeliveryEvent::AnswerKept { reason, .. } => Some(EventLine::new(
            TextStyle::Warn,
            "keeps",
            format!("the answer that was voted on: {reason}"),
        )),
        DeliveryEvent::FinalAnswer { .. } | DeliveryEvent::Delivered { .. } => None,
    }
}

/// Describes an approval request, or its answer.
fn approval_line(tool: &str, answer: Option<ApprovalAnswer>) -> EventLine {
    match answer {
        None => EventLine::new(TextStyle::Warn, "waits", format!("for approval of {tool}")),
        Some(answer) if answer.is_yes() => {
            EventLine::new(TextStyle::Good, "may use", format!("{tool} ({answer})"))
        }
        Some(answer) => EventLine::new(TextStyle::Bad, "may not use", format!("{tool} ({answer})")),
    }
}

/// Describes the decision of a hook.
fn hook_line(event: &str, command: &str, decision: &str, reason: Option<&str>) -> EventLine {
    let (style, verb) = match decision {
        "deny" => (TextStyle::Bad, "is denied by"),
        "failed" => (TextStyle::Bad, "is blocked by a failure of"),
        "ask" | "defer" => (TextStyle::Warn, "needs approval because of"),
        _ => (TextStyle::Faint, "passes"),
    };
    let suffix = reason
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    EventLine::new(
        style,
        verb,
        format!("the hook `{command}` ({event}){suffix}"),
    )
}

/// Describes the result of a check of an agent's work.
fn check_line(finding: &CheckResult) -> EventLine {
    let CheckResult {
        check,
        verdict,
        elapsed_ms,
        ..
    } = finding;
    let text = format!(
        "{check} ({})",
        format_duration(Duration::from_millis(*elapsed_ms))
    );
    match verdict {
        CheckVerdict::Passed => EventLine::new(TextStyle::Good, "passes", text),
        CheckVerdict::Failed { failure } => {
            EventLine::new(TextStyle::Bad, "fails", format!("{text}: {failure}"))
        }
        CheckVerdict::NotRun { reason } => EventLine::new(
            TextStyle::Warn,
            "is not checked by",
            format!("{check}: {reason}"),
        ),
    }
}

/// Formats a duration for people: `9.4 s`, then `2 min 5 s`.
pub(crate) fn format_duration(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{:.1} s", elapsed.as_secs_f64()),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// Formats usage: tokens as counted by the vendors, and cost; `None` if there is neither.
pub(crate) fn usage_text(totals: &RequestTotals) -> Option<String> {
    let TokenUsage {
        input_tokens,
        output_tokens,
        ..
    } = totals.usage;
    let has_tokens = totals.usage.total_tokens() > 0;
    let tokens = has_tokens.then(|| format!("{input_tokens} tokens read, {output_tokens} written"));
    let parts: Vec<String> = [tokens, cost_text(totals)].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Returns what each of `agents` used, and then all, each after its name; `no_usage` for nothing.
pub(crate) fn usage_shares<'a>(
    totals: &'a UsageTotals,
    agents: &'a [AgentId],
    no_usage: &'a str,
) -> impl Iterator<Item = (&'a str, String)> {
    let shares = agents
        .iter()
        .map(|agent| (agent.as_str(), totals.agent(agent)));
    let all = ("all", totals.run());
    shares.chain([all]).map(|(name, used)| {
        let text = usage_text(&used).unwrap_or_else(|| no_usage.to_owned());
        (name, text)
    })
}

/// Formats the cost, as far as it is known; `None` if it is zero.
fn cost_text(totals: &RequestTotals) -> Option<String> {
    let dollars = totals.known_cost().round_up();
    match (dollars, totals.cost_is_complete) {
        (Money::ZERO, true) => None,
        (Money::ZERO, false) => Some("cost unknown".to_owned()),
        (_, true) => Some(format!("${dollars}")),
        (_, false) => Some(format!("at least ${dollars}")),
    }
}

fn tool_call_line(tool: &str, arguments: &str, denial_reason: Option<&str>) -> EventLine {
    let call = single_line(&format!("{tool} {arguments}"), SUMMARY_CHARS_MAX);
    match denial_reason {
        None => EventLine::new(TextStyle::Plain, "calls", call),
        Some(reason) => {
            let lines: Vec<&str> = reason.lines().collect();
            EventLine::new(
                TextStyle::Bad,
                "is denied",
                format!("{call}: {}", lines.join("; ")),
            )
        }
    }
}

/// Returns the path of a delivered file as it is shown, with the `note` on its outcome and what was
/// changed in addition to its content.
pub(crate) fn delivered_path(row: &DeliveryRow, note: &str) -> String {
    let details = match (&row.details, &row.outcome) {
        // The note on a mode says the same.
        (None, _) | (_, DeliveryOutcome::Mode { .. }) => String::new(),
        (Some(details), _) => format!(" ({details})"),
    };
    escape_name(&format!("{}{details}{note}", row.path))
}

/// Describes the outcome of one file.
pub(crate) fn delivery_outcome(outcome: &DeliveryOutcome) -> OutcomeText {
    match outcome {
        DeliveryOutcome::Created => OutcomeText::new(TextStyle::Good, "created", String::new()),
        DeliveryOutcome::Changed { hunks } => {
            let part = hunks.map(|hunks| format!(": {} of {} hunks", hunks.taken, hunks.total));
            OutcomeText::new(TextStyle::Good, "changed", part.unwrap_or_default())
        }
        DeliveryOutcome::Deleted => OutcomeText::new(TextStyle::Good, "deleted", String::new()),
        DeliveryOutcome::Mode { before, after } => mode_change(before.as_deref(), after),
        DeliveryOutcome::Declined => {
            OutcomeText::new(TextStyle::Faint, "not applied", String::new())
        }
        DeliveryOutcome::Denied { reason } => {
            OutcomeText::new(TextStyle::Bad, "denied", format!(": {reason}"))
        }
        DeliveryOutcome::Conflict { kept: kept_file } => {
            let note =
                format!(": you changed it in the meantime; the agents' version is in {kept_file}");
            OutcomeText::new(TextStyle::Warn, "conflict", note)
        }
        DeliveryOutcome::Failed { reason } => {
            OutcomeText::new(TextStyle::Bad, "failed", format!(": {reason}"))
        }
        DeliveryOutcome::Reverted { reason } => {
            OutcomeText::new(TextStyle::Bad, "reverted", format!(": {reason}"))
        }
    }
}

/// Describes changed permission bits of a directory. A directory that becomes world-writable is a
/// warning.
fn mode_change(before: Option<&str>, after: &str) -> OutcomeText {
    const WORLD_WRITABLE: u32 = 0o002;
    let is_world_writable =
        |mode: &str| u32::from_str_radix(mode, 8).is_ok_and(|mode| mode & WORLD_WRITABLE != 0);
    let note = match before {
        Some(before) => format!(": the directory's mode {before} becomes {after}"),
        None => format!(": a new directory of mode {after}"),
    };
    if is_world_writable(after) && !before.is_some_and(is_world_writable) {
        OutcomeText::new(
            TextStyle::Warn,
            "mode",
            format!("{note}; it is world-writable"),
        )
    } else {
        OutcomeText::new(TextStyle::Good, "mode", note)
    }
}
