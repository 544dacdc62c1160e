//! Owns what the gate asks others before it permits a call that rules and grants leave open: whether a
//! person agrees. It must never answer for them: whatever is no clear yes is a no.

use std::fmt;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::permissions::grant::Phase;

/// Who is asked about a call of one agent. Asking blocks.
pub trait Consult: fmt::Debug + Send + Sync {
    /// Asks a person whether the call may be made. The answer comes at the latest when `ended` is
    /// cancelled: then nobody waits for it any more.
    fn ask(&self, question: Question, ended: &CancellationToken) -> Answer;
}

/// What a person is asked about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The tool.
    pub tool: String,
    /// What it is given, with paths as they were written.
    pub input: Value,
    /// What the call would do, one thing each: a command, or an access to a path as it was followed.
    /// Two calls that would do the same are one for the memory.
    pub deeds: Vec<String>,
    /// Why it is asked: the rule, as the end of a sentence.
    pub reason: String,
    /// The phase that the agent is in.
    pub phase: Phase,
    /// The id of the call in its conversation, if it has one.
    pub call_id: Option<String>,
}

/// What somebody says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The call may be made.
    Agreed,
    /// It may not, for this reason, as the end of a sentence.
    Refused(String),
}
