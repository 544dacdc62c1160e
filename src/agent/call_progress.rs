//! Counts replies whose tool calls bring nothing new. The model reads a note about them, and then its
//! agent stops, because each further request costs money.

use std::hash::{DefaultHasher, Hash, Hasher};

use crate::agent::recorded_conversation::ToolResultContent;
use crate::prompts::call_answers;
use crate::tools::CallRequest;
use crate::tools::served::SERVED_PREFIX;

/// The number of replies in a row that bring nothing new that have a note: all their calls fail, or
/// have the results of the calls before, such as the same file for other numbers of lines.
const FRUITLESS_UNTIL_TOLD: u32 = 4;
/// The number of them after which the agent stops.
const FRUITLESS_MAX: u32 = 10;
/// The number of replies in a row with the same calls and the same results that have a note.
const REPEATS_UNTIL_TOLD: u32 = 2;
/// The number of them after which the agent stops.
const REPEATS_MAX: u32 = 4;

/// The number of a conversation's last replies that brought nothing new.
#[derive(Clone, Debug, Default)]
pub struct CallProgress {
    /// The number of the last replies that brought nothing new.
    fruitless: u32,
    /// The results of the last reply, as a hash.
    last_contents: u64,
    /// The calls of the last reply and their results, as a hash.
    last_results: u64,
    /// How many replies in a row had these.
    repeats: u32,
}

impl CallProgress {
    /// Counts the results of a reply, and returns the note that its model reads, if there is one. Calls
    /// that wait for something outside may repeat, and a failed command can bring news.
    pub fn count_results(
        &mut self,
        results: &[(CallRequest, ToolResultContent)],
    ) -> Option<&'static str> {
        let is_command = |(request, _): &(CallRequest, ToolResultContent)| {
            request.name.contains("command") || request.name.starts_with(SERVED_PREFIX)
        };
        let contents = hash(
            results
                .iter()
                .map(|(request, result)| (&request.name, &result.content)),
        );
        let is_known = contents == self.last_contents;
        self.last_contents = contents;
        let is_fruitless = is_known || results.iter().all(|(_, result)| result.has_failed);
        self.fruitless = if is_fruitless && !results.is_empty() && !results.iter().any(is_command) {
            self.fruitless.saturating_add(1)
        } else {
            0
        };
        self.count_repeats(results);
        if self.repeats >= REPEATS_UNTIL_TOLD {
            Some(call_answers::calls_repeated())
        } else {
            (self.fruitless >= FRUITLESS_UNTIL_TOLD).then(call_answers::calls_fruitless)
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
        let calls = results
            .iter()
            .map(|(request, result)| (&request.name, &request.arguments, &result.content));
        let these_results = hash(calls);
        self.repeats = if these_results == self.last_results {
            self.repeats.saturating_add(1)
        } else {
            1
        };
        self.last_results = these_results;
    }

    /// Returns why the conversation ends here, if it does.
    pub fn stop_reason(&self) -> Option<String> {
        if self.fruitless >= FRUITLESS_MAX {
            return Some(format!(
                "its tool calls brought nothing new in {FRUITLESS_MAX} replies in a row"
            ));
        }
        (self.repeats >= REPEATS_MAX).then(|| {
            format!("it made the same calls with the same results {REPEATS_MAX} times in a row")
        })
    }
}

fn hash(parts: impl Iterator<Item = impl Hash>) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.for_each(|part| part.hash(&mut hasher));
    hasher.finish()
}
