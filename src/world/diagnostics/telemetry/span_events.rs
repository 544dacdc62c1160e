//! Maps run events to span events: retries, answers, votes and other instantaneous events. Their
//! names begin with `massgen.`, because the conventions define none. Also maps events to the error
//! of the request before them.

use crate::check_results::{CheckResult, CheckVerdict};
use crate::event::{CoordinationEvent, DeliveryEvent, DeliveryRow, Event, ModelEvent, RunEvent};
use crate::id::{AgentId, AnswerLabel};
use crate::text::join_with_commas;
use crate::world::diagnostics::telemetry::content_filter::ContentFilter;
use crate::world::diagnostics::telemetry::otlp::{KeyValue, attribute};

/// An event of an agent's span, or of the run's span.
#[derive(Debug)]
pub(crate) struct TelemetryEvent<'e> {
    /// The agent whose span it belongs to; `None` for the run's span.
    pub(crate) agent: Option<&'e AgentId>,
    pub(crate) name: &'static str,
    pub(crate) attributes: Vec<KeyValue>,
}

/// Returns the span event for `event`, if there is one.
pub(crate) fn span_event<'e>(
    event: &'e Event,
    filter: &ContentFilter,
) -> Option<TelemetryEvent<'e>> {
    let (name, attributes) = describe_event(event, filter)?;
    // The winner is an event of the run, because it concludes the work of all agents.
    let is_of_run = matches!(
        event,
        Event::Coordination(CoordinationEvent::WinnerSelected { .. })
    );
    Some(TelemetryEvent {
        agent: event.agent().filter(|_| !is_of_run),
        name,
        attributes,
    })
}

/// Name and attributes of a span event.
type NamedAttributes = (&'static str, Vec<KeyValue>);

fn describe_event(event: &Event, filter: &ContentFilter) -> Option<NamedAttributes> {
    match event {
        Event::Run(event) => describe_run_event(event, filter),
        Event::Model(event) => describe_model_event(event, filter),
        Event::Coordination(event) => describe_coordination_event(event, filter),
        Event::Delivery(event) => describe_delivery_event(event),
        Event::Tool(_) | Event::Subagent(_) | Event::Pipeline(_) => None,
    }
}

fn describe_run_event(event: &RunEvent, filter: &ContentFilter) -> Option<NamedAttributes> {
    if let RunEvent::LimitMet { limit, .. } = event {
        let limit = attribute("massgen.limit", limit.as_str());
        Some(("massgen.limit_met", vec![limit]))
    } else if let RunEvent::CoordinationRestarted { reason, .. } = event {
        let reason = reason_attribute(filter, reason);
        Some(("massgen.restart", reason.into_iter().collect()))
    } else if let RunEvent::UserMessagesShown { numbers, .. } = event {
        let numbers = attribute("massgen.messages", join_with_commas(numbers));
        Some(("massgen.user_messages", vec![numbers]))
    } else {
        None
    }
}

fn describe_model_event(event: &ModelEvent, filter: &ContentFilter) -> Option<NamedAttributes> {
    if let ModelEvent::Retrying {
        reason, wait_ms, ..
    } = event
    {
        let reason = reason_attribute(filter, reason);
        Some(("massgen.retry", wait_attributes(*wait_ms, reason)))
    } else if let ModelEvent::RateLimited { wait_ms, .. } = event {
        Some(("massgen.rate_limited", wait_attributes(*wait_ms, None)))
    } else if let ModelEvent::ModelFallback {
        from, to, reason, ..
    } = event
    {
        let reason = reason_attribute(filter, reason);
        Some(("massgen.fallback", fallback_attributes(from, to, reason)))
    } else if let ModelEvent::ContextCompacted { .. } = event {
        Some(("massgen.context_compacted", Vec::new()))
    } else {
        None
    }
}

fn describe_coordination_event(
    event: &CoordinationEvent,
    filter: &ContentFilter,
) -> Option<NamedAttributes> {
    if let CoordinationEvent::Answered { label, content, .. } = event {
        let text = filter.text_attribute("massgen.content", content);
        Some(("massgen.answer", answer_attributes(*label, text)))
    } else if let CoordinationEvent::Voted {
        candidate,
        label,
        reason,
        ..
    } = event
    {
        let vote = choice_attributes("massgen.candidate", candidate, *label).into_iter();
        let reason = reason_attribute(filter, reason);
        Some(("massgen.vote", vote.chain(reason).collect()))
    } else if let CoordinationEvent::SubmissionRejected { reason, .. } = event {
        let reason = reason_attribute(filter, reason);
        Some(("massgen.submission_rejected", reason.into_iter().collect()))
    } else if let CoordinationEvent::AnswersShown { labels, .. } = event {
        let labels = attribute("massgen.labels", join_with_commas(labels));
        Some(("massgen.answers_shown", vec![labels]))
    } else if let CoordinationEvent::WinnerSelected { agent, label, .. } = event {
        let winner = choice_attributes("massgen.winner", agent, *label);
        Some(("massgen.winner_selected", winner))
    } else {
        None
    }
}

fn describe_delivery_event(event: &DeliveryEvent) -> Option<NamedAttributes> {
    if let DeliveryEvent::Checked { finding, .. } = event {
        Some(("massgen.checked", check_attributes(finding)))
    } else if let DeliveryEvent::Delivered { rows, .. } = event {
        Some(("massgen.delivered", delivery_attributes(rows)))
    } else {
        None
    }
}

/// Returns the error type of the agent's last request, if `event` shows that it gave no complete
/// reply.
pub(crate) fn request_error_type(event: &Event) -> Option<&'static str> {
    if let Event::Model(ModelEvent::Retrying { .. }) = event {
        Some("transient")
    } else if let Event::Model(ModelEvent::ContextCompacted { .. }) = event {
        Some("context_too_long")
    } else if let Event::Model(ModelEvent::ModelFallback { .. } | ModelEvent::Failed { .. }) = event
    {
        Some("permanent")
    } else if let Event::Coordination(CoordinationEvent::DroppedOut { timed_out, .. }) = event {
        Some(if *timed_out { "timeout" } else { "permanent" })
    } else if let Event::Model(ModelEvent::ModelRequestStarted { .. })
    | Event::Delivery(DeliveryEvent::FinalStarted { .. }) = event
    {
        // A new request or phase begins, so no reply to the old request is expected any more.
        Some("cancelled")
    } else {
        None
    }
}

fn reason_attribute(filter: &ContentFilter, reason: &str) -> Option<KeyValue> {
    filter.text_attribute("massgen.reason", reason)
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
    let delivered_count = rows.iter().filter(|row| row.outcome.is_delivered()).count();
    let refused_count = rows.len().saturating_sub(delivered_count);
    let count = |key, number| attribute(key, u64::try_from(number).unwrap_or(u64::MAX));
    vec![
        count("massgen.files_delivered", delivered_count),
        count("massgen.files_refused", refused_count),
    ]
}
