//! Owns the conversation with a model, as every backend sees it. It grows at its end; whoever
//! changes what was said before makes it another conversation.

use std::sync::Arc;

use serde_json::Value;

use crate::tools::image::ModelImage;
use crate::tools::request::CallRequest;

/// As how long a text an image counts, in bytes: vendors count about 1,600 tokens for a large one.
/// <https://platform.claude.com/docs/en/build-with-claude/vision>
const IMAGE_BYTES: usize = 6 * 1024;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatMessage {
    /// What massgen says.
    User(Arc<str>),
    /// What the model said.
    Assistant {
        /// Its text; may be empty.
        text: String,
        /// The calls that it made, in order.
        calls: Vec<CallRequest>,
        /// What the vendor wants to have back with this message; only the wire that it came over
        /// looks into it.
        echo: Option<Value>,
    },
    /// What a call gave. Every call of the last assistant message has exactly one.
    CallResult {
        /// The id of the call.
        call_id: String,
        /// What the model reads.
        content: String,
    },
    /// Images that belong to results of the last calls. They follow all of these.
    Images {
        /// What they are.
        text: String,
        /// They themselves; at least one.
        images: Vec<ModelImage>,
    },
}

impl ChatMessage {
    /// How long its texts are, in bytes; an image counts as a text that costs as much.
    pub fn bytes(&self) -> usize {
        match self {
            ChatMessage::User(text) => text.len(),
            ChatMessage::Assistant { text, calls, .. } => {
                let arguments = calls.iter().map(|call| call.arguments.len());
                text.len().saturating_add(arguments.sum())
            }
            ChatMessage::CallResult { content, .. } => content.len(),
            ChatMessage::Images { text, images } => {
                let images = images.len().saturating_mul(IMAGE_BYTES);
                text.len().saturating_add(images)
            }
        }
    }
}

/// Messages, oldest first.
#[derive(Debug, Default)]
pub struct Conversation {
    messages: Vec<ChatMessage>,
    bytes: usize,
    version: ConversationVersion,
}

/// Tells a conversation from every other one, and from itself before it was rewritten.
#[derive(Clone, Debug, Default)]
pub struct ConversationVersion(Arc<()>);

impl ConversationVersion {
    /// Whether what was true of the beginning then is still true.
    pub fn is_same(&self, other: &ConversationVersion) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Conversation {
    /// A conversation that begins with these messages.
    pub fn from_messages(messages: Vec<ChatMessage>) -> Self {
        Self {
            bytes: messages.iter().map(ChatMessage::bytes).sum(),
            messages,
            version: ConversationVersion::default(),
        }
    }

    /// Adds what was said last.
    pub fn push(&mut self, message: ChatMessage) {
        self.bytes = self.bytes.saturating_add(message.bytes());
        self.messages.push(message);
    }

    /// All that was said, oldest first.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// Whether a call of this id was made.
    fn has_call(&self, id: &str) -> bool {
        self.messages.iter().any(|message| match message {
            ChatMessage::Assistant { calls, .. } => calls.iter().any(|call| call.id == id),
            ChatMessage::User(_) | ChatMessage::CallResult { .. } | ChatMessage::Images { .. } => {
                false
            }
        })
    }

    /// The id of the next call in the reply to this conversation that has made the calls of
    /// `earlier` so far: the one that the vendor gave, or another if it is empty or in use.
    pub fn call_id(&self, given: &str, earlier: &[CallRequest]) -> String {
        let is_free = |id: &str| !self.has_call(id) && earlier.iter().all(|call| call.id != id);
        if !given.is_empty() && is_free(given) {
            return given.to_owned();
        }
        let turn = self.messages.len();
        let mut ids = (earlier.len()..).map(|number| format!("call_{turn}_{number}"));
        ids.find(|id| is_free(id)).unwrap_or_default()
    }

    /// Which conversation it is: the same as long as it only grows.
    pub fn version(&self) -> &ConversationVersion {
        &self.version
    }

    /// How long all of it is, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes what was said before, and gives what `change` gives.
    pub fn rewrite<T>(&mut self, change: impl FnOnce(&mut Vec<ChatMessage>) -> T) -> T {
        let changed = change(&mut self.messages);
        self.bytes = self.messages.iter().map(ChatMessage::bytes).sum();
        self.version = ConversationVersion::default();
        changed
    }

    /// Leaves out what only the wire understands that the conversation went over so far.
    pub fn drop_echoes(&mut self) {
        self.rewrite(|messages| {
            for message in messages {
                if let ChatMessage::Assistant { echo, .. } = message {
                    *echo = None;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> CallRequest {
        CallRequest {
            id: id.to_owned(),
            name: "f".to_owned(),
            arguments: "{}".to_owned(),
        }
    }

    #[test]
    fn a_call_has_an_id_that_no_other_has() {
        #[track_caller]
        fn check(given: &str, earlier: &[&str], expected: &str) {
            let said = ChatMessage::Assistant {
                text: String::new(),
                calls: vec![call("a"), call("call_1_1")],
                echo: None,
            };
            let earlier: Vec<_> = earlier.iter().copied().map(call).collect();
            let conversation = Conversation::from_messages(vec![said]);
            assert_eq!(conversation.call_id(given, &earlier), expected);
        }

        check("b", &[], "b");
        check("", &[], "call_1_0");
        check("a", &[], "call_1_0");
        check("b", &["b"], "call_1_2");
        // The vendor counts as we do, in this reply or in an earlier one.
        check("", &["call_1_2", "b"], "call_1_3");
        check("", &["b"], "call_1_2");
    }
}
