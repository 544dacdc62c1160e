//! Owns what a guest is told of a conversation: all of it as one text, or what it does not know yet.

use crate::backend::conversation::Message;
use crate::brief::guests::{MANNERS, result_before, said_before};
use crate::brief::images::left_out;

/// What is between two messages.
const BETWEEN: &str = "\n\n";

/// The whole conversation, for a process that knows nothing of it.
pub(super) fn whole(system: &str, messages: &[Message]) -> String {
    let head = [system.trim().to_owned(), MANNERS.trim().to_owned()];
    let told = messages.iter().map(|message| match message {
        Message::User(text) => text.trim().to_owned(),
        Message::Assistant { text, calls, .. } => {
            let calls = calls.iter();
            let calls: Vec<(&str, &str)> = calls
                .map(|call| (call.name.as_str(), call.arguments.as_str()))
                .collect();
            said_before(text, &calls)
        }
        Message::CallResult { content, .. } => result_before(content),
        Message::Images { images, .. } => left_out(images.len()),
    });
    let all: Vec<String> = head.into_iter().chain(told).collect();
    all.join(BETWEEN)
}

/// What massgen has said in `messages`, without the results of the calls that `is_waiting` says are
/// answered otherwise, and images with them. Empty where there is nothing.
pub(super) fn news(messages: &[Message], is_waiting: impl Fn(&str) -> bool) -> String {
    let is_answer = |message: &Message| match message {
        Message::CallResult { call_id, .. } => is_waiting(call_id),
        Message::User(_) | Message::Assistant { .. } | Message::Images { .. } => false,
    };
    let answers = messages.iter().any(is_answer);
    let told = messages.iter().filter_map(|message| match message {
        Message::User(text) => Some(text.trim().to_owned()),
        Message::Assistant { .. } => None,
        Message::CallResult { call_id, content } => {
            (!is_waiting(call_id)).then(|| result_before(content))
        }
        Message::Images { text, .. } if answers => Some(text.clone()),
        Message::Images { images, .. } => Some(left_out(images.len())),
    });
    let all: Vec<String> = told.collect();
    all.join(BETWEEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::request::CallRequest;

    fn conversation() -> Vec<Message> {
        let call = CallRequest {
            id: "c1".to_owned(),
            name: "new_answer".to_owned(),
            arguments: "{\"content\":\"x\"}".to_owned(),
        };
        vec![
            Message::User("<task>".into()),
            Message::Assistant {
                text: "I think.".to_owned(),
                calls: vec![call],
                echo: None,
            },
            Message::CallResult {
                call_id: "c1".to_owned(),
                content: "refused".to_owned(),
            },
            Message::User("Go on.".into()),
        ]
    }

    #[test]
    fn a_new_process_is_told_everything() {
        let told = whole("You are agent1.", &conversation());
        assert!(told.starts_with("You are agent1.\n\nYou work with tools of your own"));
        let rest = told.split_once("<task>").unwrap().1;
        insta::assert_snapshot!(rest, @r#"

        <earlier from="you">
        I think.
        You called new_answer {"content":"x"}
        </earlier>

        <tool_result>
        refused
        </tool_result>

        Go on.
        "#);
    }

    #[test]
    fn a_process_that_knows_the_rest_is_told_what_is_new() {
        #[track_caller]
        fn check(from: usize, waiting: &str, expected: &str) {
            assert_eq!(news(&conversation()[from..], |id| id == waiting), expected);
        }

        check(1, "", "<tool_result>\nrefused\n</tool_result>\n\nGo on.");
        check(1, "c1", "Go on.");
        check(4, "", "");
    }
}
