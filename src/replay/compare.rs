//! Compares two runs: they are the same if they made the same decisions in the same order, each by
//! an agent that had been shown the same answers and messages of the user before. Times,
//! tokens, tool calls and deliveries do not count.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ExitStatus;
use crate::event::{CoordinationEvent, DeliveryEvent, Event, RunEvent};
use crate::id::{AgentId, AnswerLabel};
use crate::path::AbsPath;
use crate::prompts::rewrite_paths;

/// An event that counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedEvent {
    /// The event.
    #[serde(flatten)]
    pub event: Event,
    /// The answers that the agent was shown since its previous event that counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<AnswerLabel>,
    /// The numbers of the messages of the user that it was shown since then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<u32>,
}

/// The first difference between two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayDifference {
    /// The number of the event among those that count, from 1.
    #[serde(rename = "place")]
    pub event_number: usize,
    /// The event in the record; `None` if the record had ended.
    pub recorded: Option<ComparedEvent>,
    /// The event in the replay; `None` if the replay has ended.
    pub replayed: Option<ComparedEvent>,
}

/// Paths that differ from run to run, each with a name that replaces it in all runs.
#[derive(Clone, Debug, Default)]
pub struct PathAliases(pub Vec<(AbsPath, String)>);

impl PathAliases {
    /// Returns `text` with the paths replaced by the names.
    fn replace_paths(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (path, name) in &self.0 {
            text = rewrite_paths(&text, path, name);
        }
        text
    }
}

/// Returns those of `events` that count.
pub fn compared_events<'e>(
    events: impl IntoIterator<Item = &'e Event>,
    aliases: &PathAliases,
) -> Vec<ComparedEvent> {
    let mut shown: BTreeMap<AgentId, Vec<AnswerLabel>> = BTreeMap::new();
    let mut messages: BTreeMap<AgentId, Vec<u32>> = BTreeMap::new();
    let mut compared = Vec::new();
    for event in events {
        if let Event::Coordination(CoordinationEvent::AnswersShown { agent, labels }) = event {
            shown.entry(agent.clone()).or_default().extend(labels);
        } else if let Event::Run(RunEvent::UserMessagesShown { agent, numbers }) = event {
            messages.entry(agent.clone()).or_default().extend(numbers);
        }
        if let Some(event) = compared_form(event, aliases) {
            let agent = event.agent();
            let shown = agent.and_then(|agent| shown.remove(agent));
            let messages = agent.and_then(|agent| messages.remove(agent));
            compared.push(ComparedEvent {
                event,
                shown: shown.unwrap_or_default(),
                messages: messages.unwrap_or_default(),
            });
        }
        // Answers and messages that an agent was shown before it did nothing more have influenced
        // no decision.
        if let Event::Run(RunEvent::RunStarted { .. } | RunEvent::CoordinationStopped { .. }) =
            event
        {
            shown.clear();
            messages.clear();
        }
    }
    compared
}

/// Returns the first difference. Events after the end of an interrupted record are not a
/// difference.
pub fn first_difference(
    recorded: &[ComparedEvent],
    replayed: &[ComparedEvent],
    record: RecordCompleteness,
) -> Option<ReplayDifference> {
    let count = match record {
        RecordCompleteness::Complete => recorded.len().max(replayed.len()),
        RecordCompleteness::Interrupted => recorded.len(),
    };
    let mut indexes = 0..count;
    let index = indexes.find(|index| recorded.get(*index) != replayed.get(*index))?;
    Some(ReplayDifference {
        event_number: index.saturating_add(1),
        recorded: recorded.get(index).cloned(),
        replayed: replayed.get(index).cloned(),
    })
}

/// Completeness of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCompleteness {
    /// It has the end of the run.
    Complete,
    /// It is truncated.
    Interrupted,
}

/// Returns the form of `event` that is compared, if it counts: without what differs from run to
/// run.
fn compared_form(event: &Event, aliases: &PathAliases) -> Option<Event> {
    let mut event = event.clone();
    let is_compared = match &mut event {
        Event::Run(event) => normalize_run_event(event, aliases),
        Event::Coordination(event) => normalize_coordination_event(event, aliases),
        Event::Delivery(event) => normalize_delivery_event(event, aliases),
        Event::Model(_) | Event::Tool(_) | Event::Subagent(_) | Event::Pipeline(_) => false,
    };
    is_compared.then_some(event)
}

/// Removes from an event what differs from run to run. Returns whether the event counts.
fn normalize_run_event(event: &mut RunEvent, aliases: &PathAliases) -> bool {
    if let RunEvent::RunStarted { question, cwd, .. } = event {
        *question = aliases.replace_paths(question).into();
        *cwd = None;
    } else if let RunEvent::CoordinationRestarted {
        reason,
        instructions,
    } = event
    {
        *reason = aliases.replace_paths(reason);
        *instructions = aliases.replace_paths(instructions);
    } else if let RunEvent::CoordinationStopped { status } = event {
        // A replay stops at the end of the record, whatever ended the recorded run.
        *status = ExitStatus::Interrupted;
    } else {
        return false;
    }
    true
}

/// Does the same as [`normalize_run_event`]. That answers were shown counts only with the next
/// event of the agent, as [`ComparedEvent::shown`].
fn normalize_coordination_event(event: &mut CoordinationEvent, aliases: &PathAliases) -> bool {
    match event {
        CoordinationEvent::Answered {
            content,
            snapshot,
            plan,
            ..
        } => {
            *content = aliases.replace_paths(content).into();
            *snapshot = None;
            // External agents report plans that a replay does not repeat.
            *plan = None;
        }
        CoordinationEvent::Voted { reason, .. }
        | CoordinationEvent::SubmissionRejected { reason, .. }
        | CoordinationEvent::DroppedOut { reason, .. } => *reason = aliases.replace_paths(reason),
        CoordinationEvent::VotesVoided { .. } | CoordinationEvent::WinnerSelected { .. } => {}
        CoordinationEvent::AnswersShown { .. } => return false,
    }
    true
}

/// Does the same as [`normalize_run_event`]. Events of checks do not count; their results are part
/// of the answers.
fn normalize_delivery_event(event: &mut DeliveryEvent, aliases: &PathAliases) -> bool {
    if let DeliveryEvent::FinalAnswer { content, .. } = event {
        *content = aliases.replace_paths(content).into();
        true
    } else {
        matches!(event, DeliveryEvent::FinalStarted { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether the winner of a run counts as informed of another's answer, if `between`
    /// happens after it was shown that answer.
    #[track_caller]
    fn check(between: &str, expected: bool) {
        let lines = [
            r#"{"type":"answers_shown","agent":"a","labels":["agent2.1"]}"#,
            between,
            r#"{"type":"winner_selected","agent":"a","label":"agent1.1","reason":"only_answer","votes":[]}"#,
        ];
        let events = lines.map(|line| serde_json::from_str::<Event>(line).unwrap());
        let compared = compared_events(&events, &PathAliases::default());
        let winner = compared.last().unwrap();
        assert_eq!(!winner.shown.is_empty(), expected, "{between}");
    }

    #[test]
    fn answers_shown_as_the_run_was_interrupted_are_not_compared() {
        check(
            r#"{"type":"coordination_stopped","status":"interrupted"}"#,
            false,
        );
        check(
            r#"{"type":"model_request_started","agent":"a","model":"m"}"#,
            true,
        );
    }
}
