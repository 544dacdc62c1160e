//! The messages of the user that a role was given in runs that ended without an answer, as when the
//! user stopped them: the role begins again, and is given them again.

use std::collections::BTreeSet;

use crate::agent::user_messages::{UserMessage, UserMessageSender};
use crate::error::Result;
use crate::event::{Event, RunEvent};
use crate::layout::{RunLayout, RunName};
use crate::orchestrator::recorded_messages::RecordedMessages;
use crate::path::AbsPath;
use crate::pipeline::PipelineRun;
use crate::pipeline::stage_run::{RunEnd, read_events, run_end};
use crate::world::store::runs::{self, RunDir};
use crate::world::store::sessions::{self, SessionDir};

impl PipelineRun {
    /// Returns the messages in the logs of the runs that have their sessions below `sessions_dir`
    /// and ended without an answer, in the order in which they were sent. A message that several of
    /// these runs were given is returned once.
    pub(super) fn earlier_messages(&self, sessions_dir: &AbsPath) -> Result<Vec<UserMessage>> {
        let sessions = sessions::list(sessions_dir)?;
        let session_ids: BTreeSet<String> = sessions.iter().map(SessionDir::id).collect();
        if session_ids.is_empty() {
            return Ok(Vec::new());
        }
        let logs = RunLayout::plan(&self.config, &self.context.state_parent, RunName::new(0)).logs;
        let run_ids = self.repository.dir.runs()?;
        let mut runs = runs::list(&logs)?;
        runs.retain(|run| {
            let is_of_stage_run = |run: &RunDir| {
                let metadata = run.metadata();
                metadata.is_some_and(|metadata| session_ids.contains(&metadata.session_id))
            };
            run_ids.contains(&run.name()) && is_of_stage_run(run)
        });
        let mut messages: Vec<UserMessage> = Vec::new();
        // The oldest first.
        for run in runs.iter().rev() {
            let events = read_events(run)?;
            if let RunEnd::Failed = run_end(&events) {
                let new_messages = missing_messages(sent_messages(&events), &messages);
                messages.extend(new_messages);
            }
        }
        Ok(messages)
    }

    /// Sends `messages` to a stage run again, before those that wait for it. Warns about each one
    /// that it rejects.
    pub(super) async fn resend(&self, messages: Vec<UserMessage>, sender: &UserMessageSender) {
        for message in messages {
            if let Err(rejection) = sender.send(message) {
                let message =
                    format!("an earlier message of yours was not sent again: {rejection}");
                self.events.emit(RunEvent::Warning { message }).await;
            }
        }
    }
}

/// Returns those of `messages` that are not among `sent`.
pub(super) fn missing_messages(
    mut messages: Vec<UserMessage>,
    sent: &[UserMessage],
) -> Vec<UserMessage> {
    messages.retain(|message| !sent.contains(message));
    messages
}

/// Returns the messages that a run with these events took, in their order.
pub(super) fn sent_messages(events: &[Event]) -> Vec<UserMessage> {
    let sent_messages = RecordedMessages::from_events(events).messages.into_iter();
    sent_messages.map(|sent| sent.message).collect()
}
