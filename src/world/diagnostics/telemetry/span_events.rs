//! Maps run events to span events: retries, answers, votes and other instantaneous events. Their
//! names begin with `massgen.`, because the conventions define none. Also maps events to the error
//! of the request before them. Pure.

use crate::check_results::{CheckResult, CheckVerdict};
use crate::event::{DeliveryRow, Event};
use crate::id::{AgentId, AnswerLabel};
use crate::text::join_with_commas;
use crate::world::diagnostics::telemetry::content_filter::ContentFilter;
use crate::world::diagnostics::telemetry::otlp::{KeyValue, attribute};

/// An event of an agent's span, or of the run's span.
#[derive(Debug)]
pub(crate) struct TelemetryEvent<'e> {
    /// The agent whose span it belongs to; `None` for the run's span.
    pub(crate) agent: Option<&'e AgentId>,
    /// Its name.
    pub(crate) name: &'static str,
    /// Its attributes.
    pub(crate) attributes: Vec<KeyValue>,
}

/// Returns the span event for `event`, if there is one.
pub(crate) fn event_note<'e>(
    event: &'e Event,
    words: &ContentFilter,
) -> Option<TelemetryEvent<'e>> {
    let (name, attributes) = describe_event(event, words)?;
    // The winner is an event of the run, because it concludes the work of all agents.
    let of_run = matches!(event, Event::WinnerSelected { .. });
    Some(TelemetryEvent {
        agent: event.agent().filter(|_| !of_run),
        name,
        attributes,
    })
}

/// Name and attributes of a span event.
type NamedAttributes = (&'static str, Vec<KeyValue>);

fn describe_event(event: &Event, words: &ContentFilter) -> Option<NamedAttributes> {
    let reason = |text: &str| words.text_attribute("massgen.reason", text);
    let reasons = |text: &str| reason(text).into_iter().collect();
    Some(match event {
        Event::Retrying {
            reason: why,
            wait_ms,
            ..
        } => ("massgen.retry", wait_attributes(*wait_ms, reason(why))),
        Event::Held { wait_ms, .. } => ("massgen.held", wait_attributes(*wait_ms, None)),
        Event::FellBack {
            from,
            to,
            reason: why,
            ..
        } => (
            "massgen.fallback",
            fallback_attributes(from, to, reason(why)),
        ),
        Event::Shortened { .. } => ("massgen.shortened", Vec::new()),
        Event::LimitMet { limit, .. } => {
            let limit = attribute("massgen.limit", limit.as_str());
            ("massgen.limit_met", vec![limit])
        }
        Event::Answered { label, content, .. } => {
            let text = words.text_attribute("massgen.content", content);
            ("massgen.answer", answer_attributes(*label, text))
        }
        Event::Voted {
            candidate,
            label,
            reason: why,
            ..
        } => {
            let vote = choice_attributes("massgen.candidate", candidate, *label).into_iter();
            ("massgen.vote", vote.chain(reason(why)).collect())
        }
        Event::Refused { reason: why, .. } => ("massgen.refused", reasons(why)),
        Event::Informed { labels, .. } => {
            let labels = attribute("massgen.labels", join_with_commas(labels));
            ("massgen.informed", vec![labels])
        }
        Event::WinnerSelected { agent, label, .. } => {
            let winner = choice_attributes("massgen.winner", agent, *label);
            ("massgen.winner_selected", winner)
        }
        Event::Checked { finding, .. } => ("massgen.checked", check_attributes(finding)),
        Event::Delivered { rows } => ("massgen.delivered", delivery_attributes(rows)),
        Event::Restarting { reason: why, .. } => ("massgen.restart", reasons(why)),
        Event::RunStarted { .. }
        | Event::Asking { .. }
        | Event::Text { .. }
        | Event::Reasoning { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Failed { .. }
        | Event::Confined { .. }
        | Event::CutShort { .. }
        | Event::PersonAsked { .. }
        | Event::OwnTool { .. }
        | Event::HookRan { .. }
        | Event::Pipeline { .. }
        | Event::ServerWorks { .. }
        | Event::ToolCalled { .. }
        | Event::ToolFinished { .. }
        | Event::VotesVoided { .. }
        | Event::DroppedOut { .. }
        | Event::Checking { .. }
        | Event::FinalStarted { .. }
        | Event::FinalAnswer { .. }
        | Event::Warning { .. }
        | Event::RunEnded { .. } => return None,
    })
}

/// Returns the error type of the agent's last request, if `event` shows that it gave no complete
/// reply.
pub(crate) fn fault_of_request(event: &Event) -> Option<&'static str> {
    match event {
        Event::Retrying { .. } => Some("transient"),
        Event::Shortened { .. } => Some("context_too_long"),
        Event::FellBack { .. }
        | Event::Failed { .. }
        | Event::DroppedOut {
            timed_out: false, ..
        } => Some("permanent"),
        Event::DroppedOut {
            timed_out: true, ..
        } => Some("timeout"),
        // A new request or phase begins, so no reply to the old request is expected any more.
        Event::Asking { .. } | Event::FinalStarted { .. } => Some("cancelled"),
        Event::RunStarted { .. }
        | Event::Text { .. }
        | Event::Reasoning { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Held { .. }
        | Event::LimitMet { .. }
        | Event::PersonAsked { .. }
        | Event::OwnTool { .. }
        | Event::HookRan { .. }
        | Event::Pipeline { .. }
        | Event::ServerWorks { .. }
        | Event::ToolCalled { .. }
        | Event::ToolFinished { .. }
        | Event::Answered { .. }
        | Event::Voted { .. }
        | Event::VotesVoided { .. }
        | Event::Refused { .. }
        | Event::Informed { .. }
        | Event::Checking { .. }
        | Event::Checked { .. }
        | Event::WinnerSelected { .. }
        | Event::FinalAnswer { .. }
        | Event::Delivered { .. }
        | Event::Restarting { .. }
        | Event::Confined { .. }
        | Event::CutShort { .. }
        | Event::Warning { .. }
        | Event::RunEnded { .. } => None,
    }
}

fn check_attributes(finding: &CheckResult) -> Vec<KeyValue> {
    let verdict = match finding.verdict {
        CheckVerdict::Passed => "passed",
        CheckVerdict::Failed { .. } => "failed",
        CheckVerdict::NotRun { .. } => "not_run",
    };
    vec![
        attribute("massgen.check", finding.check.as_str()),
        attribute("massgen.verdict", verdict),
    ]
}

fn answer_attributes(label: AnswerLabel, text: Option<KeyValue>) -> Vec<KeyValue> {
    let label = attribute("massgen.label", label.to_string());
    std::iter::once(label).chain(text).collect()
}

fn wait_attributes(wait_ms: u64, reason: Option<KeyValue>) -> Vec<KeyValue> {
    let wait = attribute("massgen.wait_ms", wait_ms);
    std::iter::once(wait).chain(reason).collect()
}

fn fallback_attributes(from: &str, to: &str, reason: Option<KeyValue>) -> Vec<KeyValue> {
    let models = [
        attribute("massgen.from_model", from),
        attribute("massgen.to_model", to),
    ];
    models.into_iter().chain(reason).collect()
}

fn choice_attributes(key: &str, agent: &AgentId, label: AnswerLabel) -> Vec<KeyValue> {
    vec![
        attribute(key, agent.as_str()),
        attribute("massgen.label", label.to_string()),
    ]
}

/// Counts the files, without naming them.
fn delivery_attributes(rows: &[DeliveryRow]) -> Vec<KeyValue> {
    let delivered = rows.iter().filter(|row| row.outcome.is_delivered()).count();
    let refused = rows.len().saturating_sub(delivered);
    let count = |key, number| attribute(key, u64::try_from(number).unwrap_or(u64::MAX));
    vec![
        count("massgen.files_delivered", delivered),
        count("massgen.files_refused", refused),
    ]
}
