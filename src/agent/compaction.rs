//! Compacts a conversation that exceeds its model's context: first removes images, then cuts older
//! tool results, then replaces earlier steps by a summary, and at last cuts new results. massgen's
//! own messages are kept whole: they contain the task with its files, and the others' answers.

use crate::agent::images::replace_images_by_notes;
use crate::backend::conversation::ChatMessage;
use crate::prompts::compaction::{CompactedCall, CompactedStep, compacted_steps, truncated_result};
use crate::text::{count_noun, truncate};
use crate::tools::CallRequest;

/// Number of the model's last replies whose steps stay unchanged, as long as that suffices.
const RECENT_STEPS: usize = 3;
/// Number of characters that a cut result keeps.
const RESULT_CHARS_KEPT: usize = 400;
/// A compaction succeeds if it removes at least one byte in this many.
const GAIN_DIVISOR: usize = 8;

/// Compacts a conversation in the least destructive way that makes a difference. Returns what was
/// removed, as a noun phrase; `None` if nothing is left to remove. As long as that suffices, the
/// newest steps stay unchanged: the share `recent_share` of them, or the last few without it.
pub(super) fn compact(
    messages: &mut Vec<ChatMessage>,
    recent_share: Option<f64>,
) -> Option<String> {
    let end = messages.len();
    let images = replace_images_by_notes(messages, end);
    if images > 0 {
        return Some(count_noun(images, "image"));
    }
    let bytes_before = total_bytes(messages);
    let recent_start = recent_start(messages, recent_steps(messages, recent_share));
    let older_count = truncate_results(messages, recent_start);
    if is_much_shorter(bytes_before, total_bytes(messages)) {
        return Some(format!(
            "the end of {}",
            count_noun(older_count, "older tool result")
        ));
    }
    let step_count = summarize(messages, recent_start);
    if is_much_shorter(bytes_before, total_bytes(messages)) {
        return Some(format!(
            "the wording of {}",
            count_noun(step_count, "earlier step")
        ));
    }
    let end = messages.len();
    let newer_count = truncate_results(messages, end);
    is_much_shorter(bytes_before, total_bytes(messages))
        .then(|| format!("the end of {}", count_noun(newer_count, "new tool result")))
}

/// Returns whether enough was removed, in bytes. What was cut stays cut in any case.
fn is_much_shorter(before: usize, after: usize) -> bool {
    before.saturating_sub(after) >= before / GAIN_DIVISOR && after < before
}

fn total_bytes(messages: &[ChatMessage]) -> usize {
    messages.iter().map(ChatMessage::bytes).sum()
}

/// Returns how many of the last steps stay unchanged: with a `share` at least one.
fn recent_steps(messages: &[ChatMessage], share: Option<f64>) -> usize {
    let Some(share) = share else {
        return RECENT_STEPS;
    };
    let replies = messages
        .iter()
        .filter(|message| matches!(message, ChatMessage::Assistant { .. }));
    let reply_count = u32::try_from(replies.count()).unwrap_or(u32::MAX);
    let count_min = f64::from(reply_count) * share;
    // Rounds up by counting: a float becomes an integer only by a cast, which may lose its value.
    let count = (1..=reply_count).find(|count| f64::from(*count) >= count_min);
    count
        .and_then(|count| usize::try_from(count).ok())
        .unwrap_or(1)
}

/// Returns the position of the first of the last `steps` replies of the model.
fn recent_start(messages: &[ChatMessage], steps: usize) -> usize {
    let mut replies = messages
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, message)| matches!(message, ChatMessage::Assistant { .. }));
    let first_recent = replies.nth(steps.saturating_sub(1));
    first_recent.map_or(0, |(position, _)| position)
}

/// Cuts the results of calls before the message at `end`. Returns how many it cut.
fn truncate_results(messages: &mut [ChatMessage], end: usize) -> usize {
    let mut truncated_count = 0_usize;
    for message in messages.iter_mut().take(end) {
        let ChatMessage::CallResult { content, .. } = message else {
            continue;
        };
        let beginning = truncate(content, RESULT_CHARS_KEPT);
        let left_out = content.chars().count().saturating_sub(RESULT_CHARS_KEPT);
        let shorter = truncated_result(&beginning, left_out);
        if left_out > 0 && shorter.len() < content.len() {
            *content = shorter;
            truncated_count = truncated_count.saturating_add(1);
        }
    }
    truncated_count
}

/// Replaces each sequence of steps before the message at `end` by a summary. Returns the number of
/// steps.
fn summarize(messages: &mut Vec<ChatMessage>, end: usize) -> usize {
    let recent_messages = messages.split_off(end.min(messages.len()));
    let older_messages = std::mem::take(messages);
    let mut steps = 0_usize;
    let mut sequence: Vec<ChatMessage> = Vec::new();
    for message in older_messages {
        if let ChatMessage::User(_) | ChatMessage::Files { .. } = message {
            replace_sequence(messages, &mut sequence, &mut steps);
            messages.push(message);
        } else {
            sequence.push(message);
        }
    }
    replace_sequence(messages, &mut sequence, &mut steps);
    messages.extend(recent_messages);
    steps
}

/// Ends a sequence of steps, and adds its summary.
fn replace_sequence(
    messages: &mut Vec<ChatMessage>,
    sequence: &mut Vec<ChatMessage>,
    steps: &mut usize,
) {
    let sequence = std::mem::take(sequence);
    let steps_in_sequence: Vec<CompactedStep<'_>> = sequence
        .iter()
        .filter_map(|message| compacted_step(message, &sequence))
        .collect();
    if !steps_in_sequence.is_empty() {
        *steps = steps.saturating_add(steps_in_sequence.len());
        messages.push(ChatMessage::User(
            compacted_steps(&steps_in_sequence).into(),
        ));
    }
}

/// Returns the summary of a reply of the model; `None` for another message. The results of its
/// calls are in `sequence`.
fn compacted_step<'m>(
    message: &'m ChatMessage,
    sequence: &'m [ChatMessage],
) -> Option<CompactedStep<'m>> {
    let ChatMessage::Assistant { text, calls, .. } = message else {
        return None;
    };
    let result = |call: &CallRequest| {
        sequence.iter().find_map(|message| match message {
            ChatMessage::CallResult { call_id, content } if *call_id == call.id => Some(&**content),
            ChatMessage::CallResult { .. }
            | ChatMessage::User(_)
            | ChatMessage::Images { .. }
            | ChatMessage::Files { .. }
            | ChatMessage::Assistant { .. } => None,
        })
    };
    let calls = calls.iter().map(|call| {
        let result = result(call).unwrap_or_default();
        CompactedCall {
            tool: &call.name,
            arguments: &call.arguments,
            result,
        }
    });
    Some(CompactedStep {
        text,
        calls: calls.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::model_file::{ModelFile, ModelFileClass};

    fn user(text: &str) -> ChatMessage {
        ChatMessage::User(text.into())
    }

    /// Returns a reply with one call, and its result.
    fn step(number: usize, result: &str) -> [ChatMessage; 2] {
        let call = CallRequest {
            id: format!("c{number}"),
            name: "read_text_file".to_owned(),
            arguments: format!("{{\"path\":\"{number}.md\"}}"),
        };
        let reply = ChatMessage::Assistant {
            text: format!("I read {number}."),
            calls: vec![call],
            echo: None,
        };
        let result = ChatMessage::CallResult {
            call_id: format!("c{number}"),
            content: result.to_owned(),
        };
        [reply, result]
    }

    fn conversation(steps: usize, result: &str) -> Vec<ChatMessage> {
        let mut messages = vec![user("the task")];
        messages.extend((0..steps).flat_map(|number| step(number, result)));
        messages
    }

    /// Returns the kinds of the messages, and the result of each call.
    fn shape(messages: &[ChatMessage]) -> String {
        let kind = |message: &ChatMessage| match message {
            ChatMessage::User(text) if text.starts_with('[') => "summary",
            ChatMessage::User(_) => "user",
            ChatMessage::Images { .. } => "images",
            ChatMessage::Files { .. } => "files",
            ChatMessage::Assistant { .. } => "reply",
            ChatMessage::CallResult { content, .. } if content.contains("[massgen: shortened:") => {
                "cut"
            }
            ChatMessage::CallResult { .. } => "result",
        };
        messages.iter().map(kind).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(messages: &mut Vec<ChatMessage>, removed: Option<&str>, expected: &str) {
        assert_eq!(compact(messages, None).as_deref(), removed);
        assert_eq!(shape(messages), expected);
    }

    #[test]
    fn older_results_go_first_then_earlier_steps_then_new_results() {
        let long = "x".repeat(5_000);
        let mut messages = conversation(5, &long);
        let cut = "user reply cut reply cut reply result reply result reply result";
        check(&mut messages, Some("the end of 2 older tool results"), cut);
        // The recent results still make up most of the conversation; the earlier steps are less
        // than an eighth of the rest.
        let bare = "user summary reply cut reply cut reply cut";
        check(&mut messages, Some("the end of 3 new tool results"), bare);
        check(&mut messages, None, bare);
    }

    #[test]
    fn many_short_steps_are_summarized_and_massgens_messages_stay() {
        let mut messages = conversation(30, &"word ".repeat(60));
        messages.insert(5, user("an answer of another agent"));
        let expected = "user summary user summary reply result reply result reply result";
        check(
            &mut messages,
            Some("the wording of 27 earlier steps"),
            expected,
        );
        let ChatMessage::User(summary) = &messages[1] else {
            panic!("{messages:?}");
        };
        insta::assert_snapshot!(summary, @r#"
        [2 earlier steps of yours were left out here because the conversation is too long for the model. In short, they were:
        - you said: I read 0.
        - you called `read_text_file {"path":"0.md"}`: "word word word word word word word word word word word word word word word word word word word word …"
        - you said: I read 1.
        - you called `read_text_file {"path":"1.md"}`: "word word word word word word word word word word word word word word word word word word word word …"
        Your files are as you left them. Go on from here.]
        "#);
    }

    #[test]
    fn the_files_of_the_task_stay() {
        let bytes = b"%PDF-1.7\n";
        let file = ModelFile::from_bytes(ModelFileClass::Document, "a.pdf", bytes).unwrap();
        let files = ChatMessage::Files {
            text: "the files".to_owned(),
            files: vec![file.clone(), file],
        };
        let mut messages = conversation(30, &"word ".repeat(75));
        messages.insert(1, files);
        let expected = "user files summary reply result reply result reply result";
        check(
            &mut messages,
            Some("the wording of 27 earlier steps"),
            expected,
        );
        messages.truncate(2);
        check(&mut messages, None, "user files");
    }

    #[test]
    fn a_share_of_the_steps_is_recent() {
        let messages = conversation(10, "");
        let steps = |share| recent_steps(&messages, share);
        let shares = [None, Some(0.0), Some(0.2), Some(0.21), Some(1.0)];
        assert_eq!(shares.map(steps), [3, 1, 2, 3, 10]);
        assert_eq!(recent_steps(&[], Some(0.5)), 1);
        let mut messages = conversation(10, &"x".repeat(5_000));
        let removed = compact(&mut messages, Some(0.8)).unwrap();
        assert_eq!(removed, "the end of 2 older tool results");
    }

    #[test]
    fn a_task_that_is_too_long_by_itself_cannot_be_shortened() {
        check(&mut vec![user(&"x".repeat(9_000))], None, "user");
    }
}
