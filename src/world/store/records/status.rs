//! The format of `status.json`, which automation polls. Its field names are those that
//! MassGen's users know; `finish_reason` is a word of [`crate::error::ExitStatus`].

use serde_json::{Map, Value, json};

use crate::spending::totals::{RequestTotals, UsageKey};
use crate::world::io::clock::LocalDateTime;
use crate::world::store::records::coordination_progress::{AgentProgress, CoordinationProgress};
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
    pub(crate) time: &'a LocalDateTime,
    pub(crate) elapsed_seconds: f64,
    /// Redacts texts before they are truncated, so that no part of a secret remains.
    pub(crate) redactor: &'a Redactor,
}

/// Returns the content of `status.json`.
pub(crate) fn status(progress: &CoordinationProgress, context: StatusContext<'_>) -> Value {
    let agents: Map<String, Value> = progress
        .agents
        .iter()
        .map(|(agent, agent_progress)| {
            let spent = progress.spent.agent(agent);
            let calls = progress.spent.tool_calls_of(agent);
            let status = agent_status(agent_progress, spent, calls, context.redactor);
            (agent.to_string(), status)
        })
        .collect();
    let votes: Map<String, Value> = progress
        .tally()
        .into_iter()
        .map(|(label, count)| (label.to_string(), count.into()))
        .collect();
    let spent = progress.spent.entries();
    let models = spent.map(|(key, totals)| model_usage(key, totals));
    json!({
        "meta": {
            "last_updated": context.time.iso_format(),
            "session_id": context.session_id,
            "log_dir": context.log_dir,
            "question": progress.question,
            "start_time": progress.started.iso_format(),
            "elapsed_seconds": context.elapsed_seconds,
        },
        "is_complete": progress.exit_status.is_some(),
        "finish_reason": progress.exit_status,
        "coordination": {
            "phase": progress.phase(),
            "active_agent": progress.active,
            "completion_percentage": progress.completion_percentage,
            "is_final_presentation": progress.is_presenting,
            "restart": progress.restart,
        },
        "agents": agents,
        "token_usage": {
            "run": progress.spent.run(),
            "models": models.collect::<Vec<_>>(),
        },
        "tool_calls": progress.spent.tool_calls(),
        "results": {
            "votes": votes,
            "winner": progress.winner,
            "final_answer_preview": progress
                .final_answer
                .as_deref()
                .map(|answer| preview(&context.redactor.text(answer), ANSWER_PREVIEW_CHARS)),
            "delivered": progress.delivery_rows,
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
