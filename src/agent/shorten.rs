//! Owns how a conversation that is too long for its model is made shorter: images first, older
//! results of tools after them, then earlier steps as a summary in their place. What massgen said is
//! kept whole: the task and the others' answers are in it. Pure.

use crate::agent::images::leave_out;
use crate::backend::conversation::Message;
use crate::brief::shortened::{EarlierStep, earlier_steps, shortened_result};
use crate::tools::request::CallRequest;
use crate::wording::{beginning, counted};

/// Replies of the model at the end whose steps stay as they are, as long as that is enough.
const RECENT_STEPS: usize = 3;
/// Characters that a shortened result keeps.
const RESULT_CHARS_KEPT: usize = 400;
/// A shortening counts if it takes away at least one part of this many.
const LEAST_GAIN: usize = 8;

/// Makes a conversation shorter by the gentlest way that makes a difference, and says in one
/// sentence what was left out; `None` if nothing is left to leave out.
pub(super) fn shorten(messages: &mut Vec<Message>) -> Option<String> {
    let all = messages.len();
    let images = leave_out(messages, all);
    if images > 0 {
        return Some(counted(images, "image"));
    }
    let before = length(messages);
    let recent = recent_from(messages, RECENT_STEPS);
    let older = shorten_results(messages, recent);
    if is_gain(before, length(messages)) {
        return Some(format!(
            "the middle of {}",
            counted(older, "older tool result")
        ));
    }
    let steps = summarise(messages, recent);
    if is_gain(before, length(messages)) {
        return Some(format!("the wording of {}", counted(steps, "earlier step")));
    }
    let newest = shorten_results(messages, all);
    is_gain(before, length(messages))
        .then(|| format!("the middle of {}", counted(newest, "new tool result")))
}

fn is_gain(before: usize, after: usize) -> bool {
    before.saturating_sub(after) >= before / LEAST_GAIN && after < before
}

fn length(messages: &[Message]) -> usize {
    messages.iter().map(Message::bytes).sum()
}

/// Where the last `steps` replies of the model begin.
fn recent_from(messages: &[Message], steps: usize) -> usize {
    let replies = messages.iter().enumerate().rev();
    let mut replies = replies.filter(|(_, message)| matches!(message, Message::Assistant { .. }));
    let first = replies.nth(steps.saturating_sub(1));
    first.map_or(0, |(position, _)| position)
}

/// Cuts the results of calls before the message at `end`. Gives how many.
fn shorten_results(messages: &mut [Message], end: usize) -> usize {
    let mut shortened = 0_usize;
    for message in messages.iter_mut().take(end) {
        let Message::CallResult { content, .. } = message else {
            continue;
        };
        let kept = beginning(content, RESULT_CHARS_KEPT);
        let left_out = content.chars().count().saturating_sub(RESULT_CHARS_KEPT);
        let shorter = shortened_result(&kept, left_out);
        if left_out > 0 && shorter.len() < content.len() {
            *content = shorter;
            shortened = shortened.saturating_add(1);
        }
    }
    shortened
}

/// Puts a summary in the place of each run of steps before the message at `end`. Gives how many
/// steps there were.
fn summarise(messages: &mut Vec<Message>, end: usize) -> usize {
    let recent = messages.split_off(end.min(messages.len()));
    let older = std::mem::take(messages);
    let mut steps = 0_usize;
    let mut run: Vec<Message> = Vec::new();
    for message in older {
        if let Message::User(_) = message {
            close_run(messages, &mut run, &mut steps);
            messages.push(message);
        } else {
            run.push(message);
        }
    }
    close_run(messages, &mut run, &mut steps);
    messages.extend(recent);
    steps
}

/// Ends a run of steps: a summary stands in its place.
fn close_run(messages: &mut Vec<Message>, run: &mut Vec<Message>, steps: &mut usize) {
    let run = std::mem::take(run);
    let told: Vec<EarlierStep<'_>> = run.iter().filter_map(|step| told(step, &run)).collect();
    if !told.is_empty() {
        *steps = steps.saturating_add(told.len());
        messages.push(Message::User(earlier_steps(&told).into()));
    }
}

/// What a summary holds of a reply, whose results are in `run`.
fn told<'m>(reply: &'m Message, run: &'m [Message]) -> Option<EarlierStep<'m>> {
    let Message::Assistant { text, calls, .. } = reply else {
        return None;
    };
    let result = |call: &CallRequest| {
        run.iter().find_map(|message| match message {
            Message::CallResult { call_id, content } if *call_id == call.id => Some(&**content),
            Message::CallResult { .. }
            | Message::User(_)
            | Message::Images { .. }
            | Message::Assistant { .. } => None,
        })
    };
    let calls = calls.iter().map(|call| {
        let result = result(call).unwrap_or_default();
        (call.name.as_str(), call.arguments.as_str(), result)
    });
    Some(EarlierStep {
        text,
        calls: calls.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Message {
        Message::User(text.into())
    }

    /// A reply with one call, and its result.
    fn step(number: usize, result: &str) -> [Message; 2] {
        let call = CallRequest {
            id: format!("c{number}"),
            name: "read_text_file".to_owned(),
            arguments: format!("{{\"path\":\"{number}.md\"}}"),
        };
        let reply = Message::Assistant {
            text: format!("I read {number}."),
            calls: vec![call],
            echo: None,
        };
        let result = Message::CallResult {
            call_id: format!("c{number}"),
            content: result.to_owned(),
        };
        [reply, result]
    }

    fn conversation(steps: usize, result: &str) -> Vec<Message> {
        let mut messages = vec![user("the task")];
        messages.extend((0..steps).flat_map(|number| step(number, result)));
        messages
    }

    /// The kinds of the messages, and the result of each call.
    fn shape(messages: &[Message]) -> String {
        let kind = |message: &Message| match message {
            Message::User(text) if text.starts_with('[') => "summary",
            Message::User(_) => "user",
            Message::Images { .. } => "images",
            Message::Assistant { .. } => "reply",
            Message::CallResult { content, .. } if content.contains("[massgen: shortened:") => {
                "cut"
            }
            Message::CallResult { .. } => "result",
        };
        messages.iter().map(kind).collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    fn check(messages: &mut Vec<Message>, how: Option<&str>, expected: &str) {
        assert_eq!(shorten(messages).as_deref(), how);
        assert_eq!(shape(messages), expected);
    }

    #[test]
    fn older_results_go_first_then_earlier_steps_then_new_results() {
        let long = "x".repeat(5_000);
        let mut messages = conversation(5, &long);
        let cut = "user reply cut reply cut reply result reply result reply result";
        check(
            &mut messages,
            Some("the middle of 2 older tool results"),
            cut,
        );
        // The recent results are still most of it; the earlier steps are no eighth of the rest.
        let bare = "user summary reply cut reply cut reply cut";
        check(
            &mut messages,
            Some("the middle of 3 new tool results"),
            bare,
        );
        check(&mut messages, None, bare);
    }

    #[test]
    fn many_short_steps_become_a_summary_and_what_massgen_said_stays() {
        let mut messages = conversation(30, &"word ".repeat(60));
        messages.insert(5, user("an answer of another agent"));
        let expected = "user summary user summary reply result reply result reply result";
        check(
            &mut messages,
            Some("the wording of 27 earlier steps"),
            expected,
        );
        let Message::User(summary) = &messages[1] else {
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
    fn a_task_that_is_too_long_by_itself_cannot_be_shortened() {
        check(&mut vec![user(&"x".repeat(9_000))], None, "user");
    }
}
