//! The format of `status.json`, which automation polls. Its field names are those that
//! MassGen's users know; `finish_reason` is a word of [`crate::error::ExitStatus`].

use serde_json::{Map, Value, json};

use crate::spending::totals::{RequestTotals, UsageKey};
use crate::world::io::clock::LocalDateTime;
use crate::world::store::records::view::{AgentProgress, AttemptProgress};
use crate::world::store::redact::Redactor;

/// How many characters of the final answer are shown.
const ANSWER_PREVIEW_CHARS: usize = 200;

/// How many characters of a vote's reason are shown.
const REASON_PREVIEW_CHARS: usize = 100;

/// The parts of `status.json` that are not in the state of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusContext<'a> {
    pub(crate) session_id: &'a str,
    pub(crate) log_dir: &'a str,
    pub(crate) at: &'a LocalDateTime,
    pub(crate) elapsed_seconds: f64,
    /// Redacts texts before they are truncated, so that no part of a secret remains.
    pub(crate) redactor: &'a Redactor,
}

/// Returns the content of `status.json`.
pub(crate) fn status(view: &AttemptProgress, context: StatusContext<'_>) -> Value {
    let agents: Map<String, Value> = view
        .agents
        .iter()
        .map(|(agent, progress)| {
            let (spent, calls) = (view.spent.agent(agent), view.spent.tool_calls_of(agent));
            let status = agent_status(progress, spent, calls, context.redactor);
            (agent.to_string(), status)
        })
        .collect();
    let votes: Map<String, Value> = view
        .tally()
        .into_iter()
        .map(|(label, count)| (label.to_string(), count.into()))
        .collect();
    let spent = view.spent.entries();
    let models = spent.map(|(key, totals)| model_usage(key, totals));
    json!({
        "meta": {
            "last_updated": context.at.iso_format(),
            "session_id": context.session_id,
            "log_dir": context.log_dir,
            "question": view.question,
            "start_time": view.started.iso_format(),
            "elapsed_seconds": context.elapsed_seconds,
        },
        "is_complete": view.exit_status.is_some(),
        "finish_reason": view.exit_status,
        "coordination": {
            "phase": view.phase(),
            "active_agent": view.active,
            "completion_percentage": view.completion_percentage,
            "is_final_presentation": view.presents,
            "attempt": view.attempt,
        },
        "agents": agents,
        "token_usage": {
            "run": view.spent.run(),
            "models": models.collect::<Vec<_>>(),
        },
        "tool_calls": view.spent.tool_calls(),
        "results": {
            "votes": votes,
            "winner": view.winner,
            "final_answer_preview": view
                .final_answer
                .as_deref()
                .map(|answer| preview(&context.redactor.text(answer), ANSWER_PREVIEW_CHARS)),
            "delivered": view.delivered,
        },
    })
}

/// Returns the usage of an agent's requests to one model in one phase.
fn model_usage(key: &UsageKey, spent: &RequestTotals) -> Value {
    json!({
        "agent": key.agent,
        "model": key.model,
        "phase": key.phase,
        "token_usage": spent,
    })
}

fn agent_status(
    progress: &AgentProgress,
    spent: RequestTotals,
    tool_calls: u64,
    redactor: &Redactor,
) -> Value {
    let vote = progress.vote.as_ref().map(|vote| {
        json!({
            "voted_for_agent": vote.candidate,
            "voted_for_label": vote.label,
            "reason_preview": preview(&redactor.text(&vote.reason), REASON_PREVIEW_CHARS),
        })
    });
    json!({
        "status": progress.status,
        "answer_count": progress.answer_count,
        "latest_answer_label": progress.latest_label,
        "vote_cast": vote,
        "times_restarted": progress.times_informed,
        "last_activity": progress.last_activity.as_ref().map(LocalDateTime::iso_format),
        "error": progress.error,
        "token_usage": spent,
        "tool_calls": tool_calls,
    })
}

fn preview(text: &str, chars_max: usize) -> String {
    text.chars().take(chars_max).collect()
}
