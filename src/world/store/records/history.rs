//! The history of a coordination, event by event: `coordination_events.json`, and the table of it
//! for people. Streamed text and tool calls are not part of it.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::event::{CoordinationEvent, DeliveryEvent, Event, RunEvent};
use crate::id::AgentId;
use crate::text::{count_noun, join_with_commas, single_line};
use crate::world::io::clock::LocalDateTime;
use crate::world::store::records::coordination_progress::CoordinationProgress;

/// An event of a coordination.
#[derive(Debug, Serialize)]
struct HistoryEntry {
    #[serde(rename = "timestamp", serialize_with = "unix_seconds")]
    time: LocalDateTime,
    event_type: &'static str,
    agent_id: Option<AgentId>,
    details: String,
    context: Value,
}

fn unix_seconds<S: Serializer>(time: &LocalDateTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.unix_seconds())
}

/// All events of one coordination, in order.
#[derive(Debug, Default)]
pub(crate) struct CoordinationHistory {
    entries: Vec<HistoryEntry>,
}

impl CoordinationHistory {
    /// Applies the next event.
    pub(crate) fn apply(&mut self, event: &Event, time: &LocalDateTime) {
        if let Some((event_type, details)) = describe(event) {
            self.entries.push(HistoryEntry {
                time: time.clone(),
                event_type,
                agent_id: event.agent().cloned(),
                details,
                context: context(event),
            });
        }
    }

    /// Returns the content of `coordination_events.json`.
    pub(crate) fn json(&self, progress: &CoordinationProgress) -> Value {
        let last_entry = self.entries.last();
        let session_end = last_entry.filter(|last| last.event_type == "session_end");
        json!({
            "session_metadata": {
                "user_prompt": progress.question,
                "agent_ids": progress.agents.keys().collect::<Vec<_>>(),
                "start_time": progress.started.unix_seconds(),
                "end_time": session_end.map(|session_end| session_end.time.unix_seconds()),
                "final_winner": progress.winner,
            },
            "events": self.entries,
        })
    }

    /// Returns the content of `coordination_table.txt`.
    pub(crate) fn table(&self) -> String {
        let name = |entry: &HistoryEntry| {
            let agent = entry.agent_id.as_ref();
            agent.map_or_else(|| "-".to_owned(), AgentId::to_string)
        };
        let names = self.entries.iter().map(|entry| name(entry).len());
        let width = names.max().unwrap_or(0);
        let rows = self.entries.iter().map(|entry| {
            let (time, agent) = (entry.time.time_format(), name(entry));
            let (event_type, details) = (
                entry.event_type,
                single_line(&entry.details, DETAILS_CHARS_MAX),
            );
            format!("{time}  {agent:width$}  {event_type:20}  {details}")
        });
        let mut lines: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        lines.push(String::new());
        lines.join("\n")
    }
}

/// The most characters of a free text that the table shows.
const DETAILS_CHARS_MAX: usize = 100;

/// Returns the fields of `event` that no other field holds; answers have files of their own.
fn context(event: &Event) -> Value {
    let mut context = serde_json::to_value(event).unwrap_or_default();
    if let Some(fields) = context.as_object_mut() {
        fields.retain(|name, _| !matches!(name.as_str(), "type" | "agent" | "content"));
    }
    context
}

/// Returns the type and the details of `event`, if it is part of a coordination's history.
fn describe(event: &Event) -> Option<(&'static str, String)> {
    let description = if let Event::Run(RunEvent::RunStarted { restart, .. }) = event {
        ("session_start", format!("restart {restart}"))
    } else if let Event::Run(RunEvent::CoordinationRestarted { reason, .. }) = event {
        ("restart_triggered", reason.clone())
    } else if let Event::Run(RunEvent::SandboxSelected { by, .. }) = event {
        ("commands", by.to_string())
    } else if let Event::Run(RunEvent::InstructionsRead { path, .. }) = event {
        ("instructions_read", path.clone())
    } else if let Event::Run(RunEvent::SkillsOffered { skills, .. }) = event {
        let names: Vec<&String> = skills.iter().map(|skill| &skill.name).collect();
        ("skills_offered", join_with_commas(&names))
    } else if let Event::Run(RunEvent::MemoryRead { files, .. }) = event {
        ("memory_read", join_with_commas(files))
    } else if let Event::Run(RunEvent::MemorySaved { files, .. }) = event {
        ("memory_saved", join_with_commas(files))
    } else if let Event::Run(RunEvent::CoordinationStopped { .. }) = event {
        ("cut_short", String::new())
    } else if let Event::Run(RunEvent::UserMessage { text, .. }) = event {
        ("user_message", text.to_string())
    } else if let Event::Run(RunEvent::UserMessagesShown { numbers, .. }) = event {
        ("user_messages_shown", join_with_commas(numbers))
    } else if let Event::Run(RunEvent::Warning { message }) = event {
        ("warning", message.clone())
    } else if let Event::Run(RunEvent::RunEnded { summary, .. }) = event {
        ("session_end", summary.clone())
    } else if let Event::Coordination(CoordinationEvent::Answered { label, .. }) = event {
        ("new_answer", label.to_string())
    } else if let Event::Coordination(CoordinationEvent::Voted { label, reason, .. }) = event {
        ("vote_cast", format!("for {label}: {reason}"))
    } else if let Event::Coordination(CoordinationEvent::VotesVoided { voters, .. }) = event {
        ("votes_voided", join_with_commas(voters))
    } else if let Event::Coordination(CoordinationEvent::SubmissionRejected { reason, .. }) = event
    {
        ("refused", reason.clone())
    } else if let Event::Coordination(CoordinationEvent::AnswersShown { labels, .. }) = event {
        ("update_injected", join_with_commas(labels))
    } else if let Event::Coordination(CoordinationEvent::DroppedOut {
        reason, timed_out, ..
    }) = event
    {
        let event_type = if *timed_out {
            "agent_timeout"
        } else {
            "agent_error"
        };
        (event_type, reason.clone())
    } else if let Event::Coordination(CoordinationEvent::WinnerSelected { label, .. }) = event {
        ("final_agent_selected", label.to_string())
    } else if let Event::Delivery(DeliveryEvent::FinalStarted { .. }) = event {
        ("final_round_start", String::new())
    } else if let Event::Delivery(DeliveryEvent::FinalAnswer { .. }) = event {
        ("final_answer", String::new())
    } else if let Event::Delivery(DeliveryEvent::Delivered { rows, .. }) = event {
        let delivered_rows = rows.iter().filter(|row| row.outcome.is_delivered());
        ("delivered", count_noun(delivered_rows.count(), "file"))
    } else if let Event::Delivery(DeliveryEvent::Checked { finding, .. }) = event {
        let details = format!("{}: {}", finding.check, finding.verdict);
        ("checked", details)
    } else {
        return None;
    };
    Some(description)
}
