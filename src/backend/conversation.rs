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

impl Message {
    /// How long its texts are, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Message::User(text) => text.len(),
            Message::Assistant { text, calls, .. } => {
                let arguments = calls.iter().map(|call| call.arguments.len());
                text.len().saturating_add(arguments.sum())
            }
            Message::CallResult { content, .. } => content.len(),
        }
    }
}

/// Messages, oldest first.
#[derive(Debug, Default)]
pub struct Conversation {
    messages: Vec<Message>,
    bytes: usize,
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
            bytes: messages.iter().map(Message::bytes).sum(),
            messages,
            version: Version::default(),
        }
    }

    /// Adds what was said last.
    pub fn push(&mut self, message: Message) {
        self.bytes = self.bytes.saturating_add(message.bytes());
        self.messages.push(message);
    }

    /// All that was said, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Whether a call of this id was made.
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

    /// How long all of it is, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes what was said before, and gives what `change` gives.
    pub fn rewrite<T>(&mut self, change: impl FnOnce(&mut Vec<Message>) -> T) -> T {
        let changed = change(&mut self.messages);
        self.bytes = self.messages.iter().map(Message::bytes).sum();
        self.version = Version::default();
        changed
    }

    /// Leaves out what only the wire understands that the conversation went over so far.
    pub fn forget_echoes(&mut self) {
        self.rewrite(|messages| {
            for message in messages {
                if let Message::Assistant { echo, .. } = message {
                    *echo = None;
                }
            }
        });
    }
}
