//! Messages of the user to the agents of a run that is in progress: from the inbox directory of
//! `--inbox-dir` to the run.

use std::future::pending;

use crate::agent::user_messages::{
    MessageRecipient, UserMessage, UserMessageSender, user_message_channel,
};
use crate::id::AgentId;
use crate::text::escape_name;
use crate::world::io::message_inbox::{InboxItem, InboxMessage, MessageInbox};

/// Where messages to a run come from.
#[derive(Debug)]
pub(crate) struct SteeringInput {
    /// Sends them to the run.
    pub(crate) sender: UserMessageSender,
    /// The inbox directory, if there is one.
    pub(crate) inbox: Option<MessageInbox>,
}

impl SteeringInput {
    /// Creates the input of a run that takes no messages.
    pub(crate) fn disabled() -> Self {
        Self {
            sender: user_message_channel([]).0,
            inbox: None,
        }
    }

    /// Sends the next message of the inbox, and returns warnings about what was not sent. Waits
    /// forever if there is no inbox. Cancel-safe.
    pub(crate) async fn forward_inbox(&mut self) -> Vec<String> {
        let item = match &mut self.inbox {
            Some(inbox) => inbox.next().await,
            None => pending().await,
        };
        match item {
            InboxItem::Message(message) => self.send_to_targets(message),
            InboxItem::Warning(warning) => vec![warning],
        }
    }

    /// Sends a message to each of its recipients.
    fn send_to_targets(&self, message: InboxMessage) -> Vec<String> {
        let InboxMessage {
            content,
            target_agents,
            file,
        } = message;
        let to_agent = |name: String| {
            let agent = AgentId::parse(&name);
            agent
                .map(MessageRecipient::Agent)
                .map_err(|error| error.to_string())
        };
        let recipients = match target_agents {
            None => vec![Ok(MessageRecipient::All)],
            Some(names) => names.into_iter().map(to_agent).collect(),
        };
        let sent = recipients.into_iter().map(|to| {
            let text = content.as_str().into();
            let message = UserMessage { to: to?, text };
            self.sender.send(message).map_err(|error| error.to_string())
        });
        let refused = sent.filter_map(Result::err);
        let file = escape_name(&file);
        refused
            .map(|why| format!("`{file}` in the inbox was not sent: {}", escape_name(&why)))
            .collect()
    }
}
