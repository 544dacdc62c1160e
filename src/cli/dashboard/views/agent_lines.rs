//! How an agent is described in one line: its state, its checks, its tool calls. Every state has a
//! sign and words, so that no colour is needed to tell them apart.

use crate::check_results::CheckVerdict;
use crate::cli::cell_text::clean_line;
use crate::cli::output::{StyledLine, TextStyle};
use crate::cli::terminal_text::clean_text;
use crate::run_view::RunView;
use crate::run_view::agent::{AgentActivity, AgentView};
use crate::run_view::ballot::BallotAnswer;
use crate::run_view::overview::RunPhase;
use crate::run_view::tool_call::{ToolCallOutcome, ToolCallView};
use crate::text::count_noun;
use crate::tools::task_plan::{PlanEntry, PlanEntryStatus, TaskPlan};

/// The state of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentState {
    pub(super) style: TextStyle,
    /// The sign, one character.
    pub(super) sign: &'static str,
    /// The words.
    pub(super) text: String,
}

/// Returns the state of `agent`.
pub(super) fn agent_state(agent: &AgentView, now_ms: u64) -> AgentState {
    let (style, sign, is_timed) = match &agent.activity {
        AgentActivity::Idle if agent.vote.is_some() || agent.answer.is_some() => {
            (TextStyle::Good, "+", false)
        }
        AgentActivity::Idle | AgentActivity::WaitingForTurn => (TextStyle::Faint, ".", false),
        AgentActivity::WaitingForPreparation(_) => (TextStyle::Faint, ".", true),
        AgentActivity::WaitingForModel
        | AgentActivity::Writing
        | AgentActivity::Reasoning
        | AgentActivity::Preparing(_)
        | AgentActivity::RunningTool(_)
        | AgentActivity::Submitting(_)
        | AgentActivity::Checking(_) => (TextStyle::Plain, ">", true),
        AgentActivity::WaitingForApproval(_) => (TextStyle::Warn, "?", true),
        AgentActivity::QueuedForApproval(_) => (TextStyle::Plain, "?", true),
        AgentActivity::Retrying { .. } | AgentActivity::RateLimited { .. } => {
            (TextStyle::Warn, "!", false)
        }
        AgentActivity::DroppedOut(_) => (TextStyle::Bad, "x", false),
    };
    let mut text = clean_line(&agent.state_text());
    if is_timed {
        let seconds = now_ms.saturating_sub(agent.since_ms) / 1000;
        text = format!("{text}  {seconds} s");
    }
    AgentState { style, sign, text }
}

/// Returns the mark of the agent that has won; `None` for others, and before the ballot is closed.
pub(super) fn winner_mark(run: &RunView, agent: &AgentView) -> Option<(TextStyle, &'static str)> {
    run.is_winner(&agent.id)
        .then_some((TextStyle::Good, "* winner"))
}

/// Returns the current answer of `agent`, if it has one.
pub(super) fn current_answer<'r>(run: &'r RunView, agent: &AgentView) -> Option<&'r BallotAnswer> {
    let mut answers = run.ballot().current_answers();
    answers.find(|answer| answer.agent == agent.id)
}

/// Returns how many checks an answer passed; `None` if it has no checks.
pub(super) fn checks_text(answer: &BallotAnswer) -> Option<(TextStyle, String)> {
    let checks = &answer.checks.as_ref()?.checks;
    if checks.is_empty() {
        return None;
    }
    let passed_checks = checks
        .iter()
        .filter(|check| check.verdict == CheckVerdict::Passed);
    let (passed_count, check_count) = (passed_checks.count(), checks.len());
    Some(if answer.fails_checks() {
        (
            TextStyle::Bad,
            format!("checks {passed_count}/{check_count} failed"),
        )
    } else {
        (
            TextStyle::Good,
            format!("checks {passed_count}/{check_count}"),
        )
    })
}

/// Returns the state of `agent` with its sign, and its answer, vote and checks.
pub(super) fn state_line(run: &RunView, agent: &AgentView, now_ms: u64) -> StyledLine {
    let state = agent_state(agent, now_ms);
    let mut line = vec![(state.style, format!("{} {}", state.sign, state.text))];
    if agent.activity != AgentActivity::Idle {
        if let Some(vote) = agent.vote_text() {
            let vote = clean_line(&vote);
            line.push((TextStyle::Faint, format!("  voted for {vote}")));
        } else if let Some(label) = agent.answer {
            line.push((TextStyle::Faint, format!("  answered {label}")));
        }
    }
    if let Some((style, text)) = current_answer(run, agent).and_then(checks_text) {
        line.push((style, format!("  {text}")));
    }
    line
}

/// Returns how many messages of the user `agent` has not read and may still read; `None` without
/// one.
pub(super) fn unread_text(run: &RunView, agent: &AgentView) -> Option<(TextStyle, String)> {
    let is_out = matches!(agent.activity, AgentActivity::DroppedOut(_));
    let count = run.run().unread_count(&agent.id);
    if is_out || count == 0 || run.run().phase == RunPhase::Ended {
        return None;
    }
    let messages = count_noun(count, "message");
    Some((TextStyle::Warn, format!("{messages} not read yet")))
}

/// Returns the progress of the plan of `agent`, with the step that it works on; `None` without a
/// plan.
pub(super) fn plan_line(agent: &AgentView) -> Option<StyledLine> {
    let plan = agent.plan.as_ref()?;
    let mut line = vec![(TextStyle::Plain, format!("plan {}", plan_progress(plan)))];
    if let Some(entry) = plan.current_entry() {
        line.push((
            TextStyle::Faint,
            format!("  {}", clean_line(&entry.content)),
        ));
    }
    Some(line)
}

/// Returns how many steps of a plan are done: `2/5`.
pub(super) fn plan_progress(plan: &TaskPlan) -> String {
    format!("{}/{}", plan.completed_count(), plan.entries.len())
}

/// Returns the progress of the plan of `agent` and at most `rows_max` of its steps, among them the
/// one that it works on; nothing without a plan.
pub(super) fn plan_lines(agent: &AgentView, rows_max: usize) -> Vec<StyledLine> {
    let Some(plan) = &agent.plan else {
        return Vec::new();
    };
    let is_open = |entry: &PlanEntry| entry.status != PlanEntryStatus::Completed;
    let next_step = plan.entries.iter().position(is_open).unwrap_or_default();
    let first_max = plan.entries.len().saturating_sub(rows_max);
    // The step before the first open one is shown, too.
    let first_step = next_step.saturating_sub(1).min(first_max);
    let mut lines = vec![vec![(
        TextStyle::Plain,
        format!("plan {}", plan_progress(plan)),
    )]];
    for entry in plan.entries.iter().skip(first_step).take(rows_max) {
        let style = match entry.status {
            PlanEntryStatus::Pending => TextStyle::Plain,
            PlanEntryStatus::InProgress => TextStyle::Strong,
            PlanEntryStatus::Completed => TextStyle::Faint,
        };
        let text = format!("{} {}", entry.status.sign(), clean_line(&entry.content));
        lines.push(vec![(style, text)]);
    }
    lines
}

/// Returns a tool call with its outcome.
pub(super) fn call_line(call: &ToolCallView) -> StyledLine {
    let (sign, style, note_style) = match &call.outcome {
        ToolCallOutcome::Running => ('>', TextStyle::Plain, TextStyle::Plain),
        ToolCallOutcome::Succeeded { .. } => ('+', TextStyle::Plain, TextStyle::Faint),
        ToolCallOutcome::Failed { .. } => ('!', TextStyle::Warn, TextStyle::Plain),
        ToolCallOutcome::Denied { .. } => ('x', TextStyle::Bad, TextStyle::Plain),
    };
    vec![
        (style, format!("{sign} {}", clean_text(&call.text))),
        (note_style, clean_text(&call.spaced_note()).into_owned()),
    ]
}
