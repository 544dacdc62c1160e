//! The conversation with a model, as every backend sees it. It grows at its end; changing an
//! earlier message makes it another conversation.

use std::sync::Arc;

use serde_json::Value;

use crate::tools::CallRequest;
use crate::tools::image::ModelImage;
use crate::tools::model_file::ModelFile;

/// The text length that an image counts as, in bytes: vendors count about 1,600 tokens for a large
/// one. <https://platform.claude.com/docs/en/build-with-claude/vision>
const IMAGE_BYTES: usize = 6 * 1024;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatMessage {
    /// A message from massgen.
    User(Arc<str>),
    /// A reply of the model.
    Assistant {
        /// Its text; may be empty.
        text: String,
        /// Its tool calls, in order.
        calls: Vec<CallRequest>,
        /// What the vendor requires back with this message; only the wire format that it came over
        /// interprets it.
        echo: Option<Value>,
    },
    /// The result of a call. Every call of the last assistant message has exactly one.
    CallResult {
        /// The id of the call.
        call_id: String,
        /// What the model reads.
        content: String,
    },
    /// Images of the task, or of the results of the last calls; then they follow all of these.
    Images {
        /// Description of the images.
        text: String,
        /// The images; at least one.
        images: Vec<ModelImage>,
    },
    /// Documents, recordings and videos that belong to the task.
    Files {
        /// Description of the files.
        text: String,
        /// The files; at least one.
        files: Vec<ModelFile>,
    },
}

impl ChatMessage {
    /// Returns the length of its texts, in bytes; an image or a file counts as a text that
    /// costs as much.
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
            ChatMessage::Files { text, files } => {
                let files = files.iter().map(ModelFile::text_bytes);
                text.len().saturating_add(files.sum())
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

/// Identity of a conversation. It changes when earlier messages are rewritten.
#[derive(Clone, Debug, Default)]
pub struct ConversationVersion(Arc<()>);

impl ConversationVersion {
    /// Returns whether what was known about the earlier messages still holds.
    pub fn is_same(&self, other: &ConversationVersion) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Conversation {
    /// Creates a conversation that begins with these messages.
    pub fn from_messages(messages: Vec<ChatMessage>) -> Self {
        Self {
            bytes: messages.iter().map(ChatMessage::bytes).sum(),
            messages,
            version: ConversationVersion::default(),
        }
    }

    /// Appends a message.
    pub fn push(&mut self, message: ChatMessage) {
        self.bytes = self.bytes.saturating_add(message.bytes());
        self.messages.push(message);
    }

    /// Returns all messages, oldest first.
    pub fn messages(&self) -> &[ChatMessage] {
        &self.messages
    }

    /// Returns whether a call with this id was made.
    fn has_call(&self, id: &str) -> bool {
        self.messages.iter().any(|message| match message {
            ChatMessage::Assistant { calls, .. } => calls.iter().any(|call| call.id == id),
            ChatMessage::User(_)
            | ChatMessage::CallResult { .. }
            | ChatMessage::Images { .. }
            | ChatMessage::Files { .. } => false,
        })
    }

    /// Returns the id of the next call in the reply to this conversation, of which `earlier` are
    /// the calls so far: the vendor's id, or another if that is empty or in use.
    pub fn call_id(&self, vendor_id: &str, earlier: &[CallRequest]) -> String {
        let is_free = |id: &str| !self.has_call(id) && earlier.iter().all(|call| call.id != id);
        if !vendor_id.is_empty() && is_free(vendor_id) {
            return vendor_id.to_owned();
        }
        let turn = self.messages.len();
        let mut ids = (earlier.len()..).map(|number| format!("call_{turn}_{number}"));
        ids.find(|id| is_free(id)).unwrap_or_default()
    }

    /// Returns the version, which stays the same as long as the conversation only grows.
    pub fn version(&self) -> &ConversationVersion {
        &self.version
    }

    /// Returns the length of the whole conversation, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes earlier messages, and returns what `change` returns.
    pub fn rewrite<T>(&mut self, change: impl FnOnce(&mut Vec<ChatMessage>) -> T) -> T {
        let change_result = change(&mut self.messages);
        self.bytes = self.messages.iter().map(ChatMessage::bytes).sum();
        self.version = ConversationVersion::default();
        change_result
    }

    /// Removes the echoes, which only the wire format used so far can interpret.
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
        fn check(vendor_id: &str, earlier: &[&str], expected: &str) {
            let message = ChatMessage::Assistant {
                text: String::new(),
                calls: vec![call("a"), call("call_1_1")],
                echo: None,
            };
            let earlier: Vec<_> = earlier.iter().copied().map(call).collect();
            let conversation = Conversation::from_messages(vec![message]);
            assert_eq!(conversation.call_id(vendor_id, &earlier), expected);
        }

        check("b", &[], "b");
        check("", &[], "call_1_0");
        check("a", &[], "call_1_0");
        check("b", &["b"], "call_1_2");
        // The vendor uses the same numbering, in this reply or in an earlier one.
        check("", &["call_1_2", "b"], "call_1_3");
        check("", &["b"], "call_1_2");
    }
}
