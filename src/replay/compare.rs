//! Compares two runs: they are the same if they made the same decisions in the same order, each by
//! an agent that had been shown the same answers before. Pure. Times, tokens, tool calls and
//! deliveries do not count.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::error::ExitStatus;
use crate::event::Event;
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
}

/// The first difference between two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayDifference {
    /// The number of the event among those that count, from 1.
    pub place: usize,
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
    names: &PathAliases,
) -> Vec<ComparedEvent> {
    let mut shown: BTreeMap<AgentId, Vec<AnswerLabel>> = BTreeMap::new();
    let mut happenings = Vec::new();
    for event in events {
        if let Event::Informed { agent, labels } = event {
            let shown = shown.entry(agent.clone()).or_default();
            shown.extend(labels);
        }
        if let Some(event) = compared_form(event, names) {
            let agent = event.agent();
            let shown = agent.and_then(|agent| shown.remove(agent));
            happenings.push(ComparedEvent {
                event,
                shown: shown.unwrap_or_default(),
            });
        }
        // Answers that an agent was shown before it did nothing more have influenced no decision.
        if let Event::RunStarted { .. } | Event::CutShort { .. } = event {
            shown.clear();
        }
    }
    happenings
}

/// Returns the first difference. Events after the end of an interrupted record are not a
/// difference.
pub fn first_difference(
    recorded: &[ComparedEvent],
    replayed: &[ComparedEvent],
    record: RecordCompleteness,
) -> Option<ReplayDifference> {
    let compared = match record {
        RecordCompleteness::Complete => recorded.len().max(replayed.len()),
        RecordCompleteness::Interrupted => recorded.len(),
    };
    let mut places = 0..compared;
    let place = places.find(|place| recorded.get(*place) != replayed.get(*place))?;
    Some(ReplayDifference {
        place: place.saturating_add(1),
        recorded: recorded.get(place).cloned(),
        replayed: replayed.get(place).cloned(),
    })
}

/// Completeness of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordCompleteness {
    /// It does.
    Complete,
    /// It is truncated.
    Interrupted,
}

/// Returns the form of `event` that is compared, if it counts: without what differs from run to
/// run.
fn compared_form(event: &Event, names: &PathAliases) -> Option<Event> {
    let mut event = event.clone();
    match &mut event {
        Event::RunStarted { question: text, .. } | Event::FinalAnswer { content: text, .. } => {
            *text = names.replace_paths(text).into();
        }
        Event::Answered {
            content, snapshot, ..
        } => {
            *content = names.replace_paths(content).into();
            *snapshot = None;
        }
        Event::Voted { reason, .. }
        | Event::Refused { reason, .. }
        | Event::DroppedOut { reason, .. } => *reason = names.replace_paths(reason),
        Event::Restarting {
            reason,
            instructions,
        } => {
            *reason = names.replace_paths(reason);
            *instructions = names.replace_paths(instructions);
        }
        Event::CutShort { status } => *status = ExitStatus::Interrupted,
        Event::VotesVoided { .. } | Event::WinnerSelected { .. } | Event::FinalStarted { .. } => {}
        Event::Asking { .. }
        | Event::Text { .. }
        | Event::Reasoning { .. }
        | Event::Asked { .. }
        | Event::Replied { .. }
        | Event::Failed { .. }
        | Event::Retrying { .. }
        // Their results are part of the answers.
        | Event::Checking { .. }
        | Event::Checked { .. }
        | Event::Held { .. }
        | Event::FellBack { .. }
        | Event::Shortened { .. }
        | Event::OwnTool { .. }
        | Event::LimitMet { .. }
        | Event::PersonAsked { .. }
        | Event::HookRan { .. }
        | Event::Pipeline { .. }
        | Event::ServerWorks { .. }
        | Event::ToolCalled { .. }
        | Event::ToolFinished { .. }
        | Event::Informed { .. }
        | Event::Delivered { .. }
        | Event::Confined { .. }
        | Event::Warning { .. }
        | Event::RunEnded { .. } => return None,
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks whether the winner of a run counts as informed of another's answer, if `between`
    /// happens after it was shown that answer.
    #[track_caller]
    fn check(between: &str, expected: bool) {
        let lines = [
            r#"{"type":"informed","agent":"a","labels":["agent2.1"]}"#,
            between,
            r#"{"type":"winner_selected","agent":"a","label":"agent1.1","votes":[]}"#,
        ];
        let events = lines.map(|line| serde_json::from_str::<Event>(line).unwrap());
        let happenings = compared_events(&events, &PathAliases::default());
        let winner = happenings.last().unwrap();
        assert_eq!(!winner.shown.is_empty(), expected, "{between}");
    }

    #[test]
    fn what_an_agent_was_shown_when_the_run_was_cut_short_decided_nothing() {
        check(r#"{"type":"cut_short","status":"interrupted"}"#, false);
        check(r#"{"type":"asking","agent":"a","model":"m"}"#, true);
    }
}
