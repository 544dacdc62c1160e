//! The plan of an agent: the steps of its work in order, each with its status. An update replaces
//! the whole plan, so the last one is the plan. Its entries are bounded in number and length.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::single_line;

/// The maximum number of entries of a plan, whatever the config says.
pub const PLAN_ENTRIES_MAX: usize = 100;

/// The maximum length of an entry, in characters; a longer one is cut there and ends with `…`.
pub const PLAN_ENTRY_CHARS_MAX: usize = 500;

/// A plan; it may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct TaskPlan {
    /// The steps, in order.
    pub entries: Vec<PlanEntry>,
}

/// A step of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanEntry {
    /// What is to be done: one line.
    pub content: String,
    /// How far it is.
    pub status: PlanEntryStatus,
}

/// The status of a step, with the words of the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlanEntryStatus {
    /// It has not begun.
    Pending,
    /// The agent works on it.
    InProgress,
    /// It is done.
    Completed,
}

impl PlanEntryStatus {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Pending, Self::InProgress, Self::Completed];

    /// Returns the word in calls and events.
    pub fn word(self) -> &'static str {
        match self {
            PlanEntryStatus::Pending => "pending",
            PlanEntryStatus::InProgress => "in_progress",
            PlanEntryStatus::Completed => "completed",
        }
    }

    /// Returns the status that this word names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.word() == word)
    }

    /// Returns the sign of the status in one line of text.
    pub fn sign(self) -> &'static str {
        match self {
            PlanEntryStatus::Pending => "[ ]",
            PlanEntryStatus::InProgress => "[>]",
            PlanEntryStatus::Completed => "[x]",
        }
    }
}

impl TaskPlan {
    /// Returns the plan that an external agent reports, as pairs of content and status. Entries
    /// without content and those beyond [`PLAN_ENTRIES_MAX`] are left out, long ones are shortened,
    /// and an unknown status counts as pending: the plan is only shown.
    pub fn from_reported<'e>(entries: impl IntoIterator<Item = (&'e str, &'e str)>) -> Self {
        let all_entries = entries.into_iter().map(|(content, status)| PlanEntry {
            content: single_line(content, PLAN_ENTRY_CHARS_MAX),
            status: PlanEntryStatus::parse(status).unwrap_or(PlanEntryStatus::Pending),
        });
        let entries = all_entries.filter(|entry| !entry.content.is_empty());
        Self {
            entries: entries.take(PLAN_ENTRIES_MAX).collect(),
        }
    }

    /// Returns the number of completed entries.
    pub fn completed_count(&self) -> usize {
        let is_completed = |entry: &&PlanEntry| entry.status == PlanEntryStatus::Completed;
        self.entries.iter().filter(is_completed).count()
    }

    /// Returns the first entry that the agent works on.
    pub fn current_entry(&self) -> Option<&PlanEntry> {
        let mut entries = self.entries.iter();
        entries.find(|entry| entry.status == PlanEntryStatus::InProgress)
    }
}

/// The progress as people read it: `2 of 5 done: write the tests`.
impl fmt::Display for TaskPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (done_count, entry_count) = (self.completed_count(), self.entries.len());
        write!(f, "{done_count} of {entry_count} done")?;
        match self.current_entry() {
            Some(entry) => write!(f, ": {}", entry.content),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reported_plan_is_bounded() {
        let many = (0..PLAN_ENTRIES_MAX + 5).map(|_| ("a\nb", "done"));
        let plan = TaskPlan::from_reported(many.chain([("", "completed")]));
        assert_eq!(plan.entries.len(), PLAN_ENTRIES_MAX);
        assert_eq!(plan.entries[0].content, "a b");
        assert_eq!(plan.entries[0].status, PlanEntryStatus::Pending);
        let long = "x".repeat(PLAN_ENTRY_CHARS_MAX * 2);
        let plan = TaskPlan::from_reported([(long.as_str(), "completed"), (" \t", "pending")]);
        assert_eq!(plan.entries.len(), 1);
        assert_eq!(
            plan.entries[0].content.chars().count(),
            PLAN_ENTRY_CHARS_MAX + 1
        );
        assert_eq!(plan.to_string(), "1 of 1 done");
    }
}
