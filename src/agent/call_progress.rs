//! Counts replies whose tool calls bring nothing new. The model reads a note about them, and then its
//! agent stops, because each further request costs money.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::agent::recorded_conversation::ToolResultContent;
use crate::tools::request::CallRequest;
use crate::tools::served::SERVED_PREFIX;

/// Maximum number of replies in a row all calls of which are invalid.
const INVALID_REPLIES_MAX: u32 = 10;
/// The number of replies in a row with the same calls and the same results that have a note.
const REPEATS_UNTIL_TOLD: u32 = 2;
/// The number of them after which the agent stops.
const REPEATS_MAX: u32 = 4;

/// The number of a conversation's last replies that brought nothing new.
#[derive(Clone, Debug, Default)]
pub struct CallProgress {
    /// The number of the last replies that have calls, none of which is valid.
    invalid_replies: u32,
    /// The calls of the last reply and their results, as a hash.
    last_results: u64,
    /// How many replies in a row had these.
    repeats: u32,
}

impl CallProgress {
    /// Counts a reply with calls.
    pub fn count_reply(&mut self, has_valid_calls: bool) {
        self.invalid_replies = if has_valid_calls {
            0
        } else {
            self.invalid_replies.saturating_add(1)
        };
    }

    /// Counts the results of a reply. Returns whether a note says that they repeat those before.
    /// Results of calls that wait for something outside may repeat.
    pub fn count_results(&mut self, results: &[(CallRequest, ToolResultContent)]) -> bool {
        let waits = |(request, _): &(CallRequest, ToolResultContent)| {
            request.name.contains("background") || request.name.starts_with(SERVED_PREFIX)
        };
        if results.is_empty() || results.iter().any(waits) {
            self.repeats = 0;
            return false;
        }
        let mut hasher = DefaultHasher::new();
        for (request, result) in results {
            (&request.name, &request.arguments, &result.content).hash(&mut hasher);
        }
        let these_results = hasher.finish();
        self.repeats = if these_results == self.last_results {
            self.repeats.saturating_add(1)
        } else {
            1
        };
        self.last_results = these_results;
        self.repeats >= REPEATS_UNTIL_TOLD
    }

    /// Returns why the conversation ends here, if it does.
    pub fn stop_reason(&self) -> Option<String> {
        if self.invalid_replies >= INVALID_REPLIES_MAX {
            return Some(format!(
                "none of its tool calls in {INVALID_REPLIES_MAX} replies in a row is valid"
            ));
        }
        (self.repeats >= REPEATS_MAX).then(|| {
            format!("it made the same calls with the same results {REPEATS_MAX} times in a row")
        })
    }
}
