//! Owns what the gate asks others before it permits a call that rules and grants leave open: whether a
//! person agrees. It must never answer for them: whatever is no clear yes is a no.

pub mod socket;

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::path::RealPath;
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::text::{to_hex, truncate};

/// Who is asked about a call of one agent. Asking blocks.
pub trait CallApprover: fmt::Debug + Send + Sync {
    /// Asks a person whether the call may be made. The answer comes at the latest when `ended` is
    /// cancelled: then nobody waits for it any more.
    fn request_approval(
        &self,
        question: ApprovalRequest,
        ended: &CancellationToken,
    ) -> ApprovalDecision;
}

/// Who is asked what a server wants to know.
pub trait ElicitationResponder: fmt::Debug + Send + Sync {
    /// What a person answers to `question`, if they say anything; `otherwise` tells them what it means
    /// if they do not.
    fn elicit(&self, question: String, otherwise: String) -> BoxFuture<'_, Option<String>>;
}

/// What a person is asked about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
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

/// The longest input that a deed repeats, in bytes.
const INPUT_BYTES_MAX: usize = 2000;

/// All of what a tool is given, as one thing that a call would do: two inputs never come to the same.
pub(in crate::world) fn canonical_input(input: &Value) -> String {
    let text = input.to_string();
    if text.len() <= INPUT_BYTES_MAX {
        return text;
    }
    let digest = to_hex(&Sha256::digest(text.as_bytes()));
    let start = truncate(&text, INPUT_BYTES_MAX);
    format!("{start} ({} bytes, SHA-256 {digest})", text.len())
}

/// A path below a grant as people are asked about it. The name of a workspace is another in each run;
/// what is agreed to of its files is meant for the next run too.
pub(in crate::world) fn describe_path(path: &RealPath, grant: &Grant) -> String {
    if grant.kind != GrantKind::Workspace {
        return path.to_string();
    }
    match path.below(&grant.root) {
        Some(rel) if !rel.is_root() => format!("`{rel}` in the workspace"),
        Some(_) | None => "the workspace".to_owned(),
    }
}

/// What somebody says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The call may be made.
    Approved,
    /// It may not, for this reason, as the end of a sentence.
    Denied(String),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn no_two_inputs_are_one_deed() {
        assert_eq!(canonical_input(&json!({"sum": 1})), "{\"sum\":1}");
        let long = |end: &str| canonical_input(&json!({"text": "x".repeat(5000) + end}));
        assert!(long("a").len() < 2 * INPUT_BYTES_MAX);
        assert_eq!(long("a"), long("a"));
        assert_ne!(long("a"), long("b"));
    }
}
