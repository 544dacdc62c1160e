//! Counts replies whose tool calls bring nothing new. The model reads a note about them, and then its
//! agent stops, because each further request costs money.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::agent::recorded_conversation::ToolResultContent;
use crate::prompts::call_answers;
use crate::tools::request::CallRequest;
use crate::tools::served::SERVED_PREFIX;

/// The number of replies in a row all calls of which fail that have a note.
const FAILURES_UNTIL_TOLD: u32 = 4;
/// The number of them after which the agent stops.
const FAILURES_MAX: u32 = 10;
/// The number of replies in a row with the same calls and the same results that have a note.
const REPEATS_UNTIL_TOLD: u32 = 2;
/// The number of them after which the agent stops.
const REPEATS_MAX: u32 = 4;

/// The number of a conversation's last replies that brought nothing new.
#[derive(Clone, Debug, Default)]
pub struct CallProgress {
    /// The number of the last replies that have calls, all of which failed.
    failures: u32,
    /// The calls of the last reply and their results, as a hash.
    last_results: u64,
    /// How many replies in a row had these.
    repeats: u32,
}

impl CallProgress {
    /// Counts the results of a reply. Returns what its model is told about them, if anything. Calls that
    /// wait for something outside may repeat, and a command that fails says something.
    pub fn count_results(
        &mut self,
        results: &[(CallRequest, ToolResultContent)],
    ) -> Option<&'static str> {
        let is_command = |(request, _): &(CallRequest, ToolResultContent)| {
            request.name.contains("command") || request.name.starts_with(SERVED_PREFIX)
        };
        let has_failed = !results.is_empty() && results.iter().all(|(_, result)| result.has_failed);
        self.failures = if has_failed && !results.iter().any(is_command) {
            self.failures.saturating_add(1)
        } else {
            0
        };
        self.count_repeats(results);
        if self.repeats >= REPEATS_UNTIL_TOLD {
            Some(call_answers::calls_repeated())
        } else {
            (self.failures >= FAILURES_UNTIL_TOLD).then(call_answers::calls_failing)
        }
    }

    fn count_repeats(&mut self, results: &[(CallRequest, ToolResultContent)]) {
        let waits = |(request, _): &(CallRequest, ToolResultContent)| {
            request.name.contains("background") || request.name.starts_with(SERVED_PREFIX)
        };
        if results.is_empty() || results.iter().any(waits) {
            self.repeats = 0;
            return;
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
    }

    /// Returns why the conversation ends here, if it does.
    pub fn stop_reason(&self) -> Option<String> {
        if self.failures >= FAILURES_MAX {
            return Some(format!(
                "all of its tool calls failed in {FAILURES_MAX} replies in a row"
            ));
        }
        (self.repeats >= REPEATS_MAX).then(|| {
            format!("it made the same calls with the same results {REPEATS_MAX} times in a row")
        })
    }
}
