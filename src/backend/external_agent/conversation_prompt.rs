//! Renders the conversation as a prompt for an external agent: in full, or only the new messages.

use crate::backend::conversation::ChatMessage;
use crate::prompts::external_agents::{INSTRUCTIONS, previous_reply, previous_result};
use crate::prompts::media_notes::{omitted_files_note, omitted_images_note};

/// Separator between two messages.
const SEPARATOR: &str = "\n\n";

/// Renders the whole conversation, for a process that knows nothing of it.
pub(super) fn render_all(system: &str, messages: &[ChatMessage]) -> String {
    let head = [system.trim().to_owned(), INSTRUCTIONS.trim().to_owned()];
    let rendered_messages = messages.iter().map(|message| match message {
        ChatMessage::User(text) => text.trim().to_owned(),
        ChatMessage::Assistant { text, calls, .. } => {
            let calls: Vec<(&str, &str)> = calls
                .iter()
                .map(|call| (call.name.as_str(), call.arguments.as_str()))
                .collect();
            previous_reply(text, &calls)
        }
        ChatMessage::CallResult { content, .. } => previous_result(content),
        ChatMessage::Images { images, .. } => omitted_images_note(images.len()),
        ChatMessage::Files { files, .. } => omitted_files_note(files.len()),
    });
    let sections: Vec<String> = head.into_iter().chain(rendered_messages).collect();
    sections.join(SEPARATOR)
}

/// Renders massgen's own messages among `messages`, without the results of calls for which
/// `is_waiting` returns true, which are answered over the agent socket together with images.
/// Returns an empty string if there are none.
pub(super) fn render_new(messages: &[ChatMessage], is_waiting: impl Fn(&str) -> bool) -> String {
    let is_answer = |message: &ChatMessage| match message {
        ChatMessage::CallResult { call_id, .. } => is_waiting(call_id),
        ChatMessage::User(_)
        | ChatMessage::Assistant { .. }
        | ChatMessage::Images { .. }
        | ChatMessage::Files { .. } => false,
    };
    let has_answers = messages.iter().any(is_answer);
    let rendered_messages = messages.iter().filter_map(|message| match message {
        ChatMessage::User(text) => Some(text.trim().to_owned()),
        ChatMessage::Assistant { .. } => None,
        ChatMessage::CallResult { call_id, content } => {
            (!is_waiting(call_id)).then(|| previous_result(content))
        }
        ChatMessage::Images { text, .. } if has_answers => Some(text.clone()),
        ChatMessage::Images { images, .. } => Some(omitted_images_note(images.len())),
        ChatMessage::Files { files, .. } => Some(omitted_files_note(files.len())),
    });
    let sections: Vec<String> = rendered_messages.collect();
    sections.join(SEPARATOR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::CallRequest;

    fn conversation() -> Vec<ChatMessage> {
        let call = CallRequest {
            id: "c1".to_owned(),
            name: "new_answer".to_owned(),
            arguments: "{\"content\":\"x\"}".to_owned(),
        };
        vec![
            ChatMessage::User("<task>".into()),
            ChatMessage::Assistant {
                text: "I think.".to_owned(),
                calls: vec![call],
                echo: None,
            },
            ChatMessage::CallResult {
                call_id: "c1".to_owned(),
                content: "refused".to_owned(),
            },
            ChatMessage::User("Go on.".into()),
        ]
    }

    #[test]
    fn a_new_process_gets_the_whole_conversation() {
        let rendered = render_all("You are agent1.", &conversation());
        assert!(rendered.starts_with("You are agent1.\n\nYou work with tools of your own"));
        let rest = rendered.split_once("<task>").unwrap().1;
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
    fn a_running_process_gets_only_new_messages() {
        #[track_caller]
        fn check(from: usize, waiting: &str, expected: &str) {
            assert_eq!(
                render_new(&conversation()[from..], |id| id == waiting),
                expected
            );
        }

        check(1, "", "<tool_result>\nrefused\n</tool_result>\n\nGo on.");
        check(1, "c1", "Go on.");
        check(4, "", "");
    }
}
