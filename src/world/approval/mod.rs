//! Approval of calls that rules and grants leave open: the interface through which the gate asks a
//! person. It must never answer for them: anything but a clear yes is a no.

pub mod socket;

use std::fmt;

use futures_util::future::BoxFuture;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::path::RealPath;
use crate::permissions::grant::{Grant, GrantKind, Phase};
use crate::text::{to_hex, truncate};

/// Answers approval requests for calls of one agent. Requests block.
pub trait CallApprover: fmt::Debug + Send + Sync {
    /// Asks a person whether the call may be made. Returns at the latest when `cancellation` is
    /// cancelled, because the caller then no longer waits for the answer.
    fn request_approval(
        &self,
        request: ApprovalRequest,
        cancellation: &CancellationToken,
    ) -> ApprovalDecision;
}

/// Answers elicitation requests of an MCP server.
pub trait ElicitationResponder: fmt::Debug + Send + Sync {
    /// Returns a person's answer to `question`, which may be empty; `None` if they give none.
    /// `without_answer` tells them what both mean.
    fn elicit(&self, question: String, without_answer: String) -> BoxFuture<'_, Option<String>>;
}

/// What a person is asked about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequest {
    /// The tool.
    pub tool: String,
    /// The tool's input, with paths as they were written.
    pub input: Value,
    /// Effects of the call, one per entry: a command, or an access to a resolved path. Calls with
    /// equal effects count as the same call when decisions are remembered.
    pub effects: Vec<String>,
    /// Why approval is needed: the rule, as the end of a sentence.
    pub reason: String,
    /// The phase that the agent is in.
    pub phase: Phase,
    /// The id of the call in its conversation, if it has one.
    pub call_id: Option<String>,
}

/// Longest input that an effect repeats verbatim, in bytes.
const INPUT_BYTES_MAX: usize = 2000;

/// Renders a tool's whole input as one effect of a call. Different inputs never give equal strings.
pub(in crate::world) fn canonical_input(input: &Value) -> String {
    let text = input.to_string();
    if text.len() <= INPUT_BYTES_MAX {
        return text;
    }
    let digest = to_hex(&Sha256::digest(text.as_bytes()));
    let start = truncate(&text, INPUT_BYTES_MAX);
    format!("{start} ({} bytes, SHA-256 {digest})", text.len())
}

/// The name of a workspace in descriptions of files: they do not say whose workspace it is.
pub const WORKSPACE_NAME: &str = "the workspace";

/// Describes a path below a grant for an approval request, with the name of the workspace that it
/// may be in. The directory of a workspace differs between runs, so it is left out: an approval
/// also holds for the next run.
pub(in crate::world) fn describe_path(path: &RealPath, grant: &Grant, workspace: &str) -> String {
    if grant.kind != GrantKind::Workspace {
        return path.to_string();
    }
    match path.below(&grant.root) {
        Some(rel) if !rel.is_root() => format!("`{rel}` in {workspace}"),
        Some(_) | None => workspace.to_owned(),
    }
}

/// Decision on an approval request.
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
    fn different_inputs_have_different_canonical_forms() {
        assert_eq!(canonical_input(&json!({"sum": 1})), "{\"sum\":1}");
        let long_input = |end: &str| canonical_input(&json!({"text": "x".repeat(5000) + end}));
        assert!(long_input("a").len() < 2 * INPUT_BYTES_MAX);
        assert_eq!(long_input("a"), long_input("a"));
        assert_ne!(long_input("a"), long_input("b"));
    }
}
