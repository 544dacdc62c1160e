//! Owns the conversation with a model, as every backend sees it. It grows at its end; whoever
//! changes what was said before makes it another conversation.

use std::sync::Arc;

use serde_json::Value;

use crate::tools::request::CallRequest;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
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
}

/// Messages, oldest first.
#[derive(Debug, Default)]
pub struct Conversation {
    messages: Vec<Message>,
    version: Version,
}

/// Tells a conversation from every other one, and from itself before it was rewritten.
#[derive(Clone, Debug, Default)]
pub struct Version(Arc<()>);

impl Version {
    /// Whether what was true of the beginning then is still true.
    pub fn is(&self, other: &Version) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Conversation {
    /// A conversation that begins with these messages.
    pub fn of(messages: Vec<Message>) -> Self {
        Self {
            messages,
            version: Version::default(),
        }
    }

    /// Adds what was said last.
    pub fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// All that was said, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether the model has made a call with this id.
    pub fn has_call(&self, id: &str) -> bool {
        self.messages.iter().any(|message| match message {
            Message::Assistant { calls, .. } => calls.iter().any(|call| call.id == id),
            Message::User(_) | Message::CallResult { .. } => false,
        })
    }

    /// Which conversation it is: the same as long as it only grows.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Changes what was said before.
    pub fn rewrite(&mut self, change: impl FnOnce(&mut Vec<Message>)) {
        change(&mut self.messages);
        self.version = Version::default();
    }
}
