//! The JSON that a hook reads on its standard input: the fields that Claude Code gives its hooks,
//! plus massgen's own. The reader is the user's own program, so agents appear under their real ids.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::hooks::HookEvent;
use crate::id::{AgentId, AnswerLabel};
use crate::path::AbsPath;
use crate::permissions::grant::Phase;

/// The version of this format. It is incremented when the meaning of a field changes.
const SCHEMA_VERSION: u32 = 1;
/// The permission mode, in the words of Claude Code. massgen has no other: the grants decide about
/// access.
const PERMISSION_MODE: &str = "default";

/// The part that is the same in all requests about one agent.
#[derive(Clone, Debug)]
pub struct HookContext {
    /// The session of the run; `None` for a single call.
    pub session_id: Option<String>,
    /// The directory in which massgen was started.
    pub project: AbsPath,
    /// The agent; `None` for a caller whose grants are read from a file.
    pub agent: Option<AgentId>,
    /// The agent's workspace.
    pub workspace: Option<AbsPath>,
}

/// The subject of a request.
#[derive(Clone, Copy, Debug)]
pub enum HookSubject<'a> {
    /// A tool call before it is carried out.
    Call(HookToolCall<'a>),
    /// A tool call that was carried out, and its result.
    Result(HookToolCall<'a>, &'a str),
    /// An answer, with the label that it would get.
    Answer(AnswerLabel, &'a str),
    /// A vote.
    Vote {
        /// The agent voted for.
        candidate: &'a AgentId,
        /// The answer voted for.
        label: AnswerLabel,
        /// The reason, in the voter's words.
        reason: &'a str,
    },
    /// Files to be delivered, each with its planned change.
    Delivery(&'a [HookFile]),
    /// Files that were delivered or not, each with its outcome.
    Delivered(&'a [HookFile]),
}

/// A file of a delivery.
#[derive(Clone, Debug, Serialize)]
pub struct HookFile {
    /// Its path.
    pub path: String,
    /// The planned change or the outcome, as in the event log.
    pub status: &'static str,
    /// What changes in addition to the content, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
}

/// A tool call.
#[derive(Clone, Copy, Debug)]
pub struct HookToolCall<'a> {
    /// The name of the tool.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// The id of the call in its conversation, if it has one.
    pub id: Option<&'a str>,
}

impl HookSubject<'_> {
    /// Returns the event of this subject.
    pub fn event(&self) -> HookEvent {
        match self {
            Self::Call(_) => HookEvent::PreToolUse,
            Self::Result(..) => HookEvent::PostToolUse,
            Self::Answer(..) => HookEvent::AnswerSubmitted,
            Self::Vote { .. } => HookEvent::VoteCast,
            Self::Delivery(_) => HookEvent::BeforeDelivery,
            Self::Delivered(_) => HookEvent::AfterDelivery,
        }
    }

    /// Returns the tool call, if the subject is one.
    pub fn call(&self) -> Option<&HookToolCall<'_>> {
        match self {
            Self::Call(call) | Self::Result(call, _) => Some(call),
            Self::Answer(..) | Self::Vote { .. } | Self::Delivery(_) | Self::Delivered(_) => None,
        }
    }

    /// Returns the fields that only this event has.
    fn fields(&self) -> Value {
        match self {
            Self::Call(call) => call.fields(),
            Self::Result(call, response) => {
                let mut fields = call.fields();
                if let Value::Object(fields) = &mut fields {
                    fields.insert("tool_response".to_owned(), json!(response));
                }
                fields
            }
            Self::Answer(label, text) => json!({ "label": label, "text": text }),
            Self::Vote {
                candidate,
                label,
                reason,
            } => json!({ "candidate": candidate, "label": label, "reason": reason }),
            Self::Delivery(files) | Self::Delivered(files) => {
                json!({ "files": files })
            }
        }
    }
}

impl HookToolCall<'_> {
    fn fields(&self) -> Value {
        json!({ "tool_name": self.tool, "tool_input": self.input, "tool_use_id": self.id })
    }
}

/// Returns the request for an agent's hooks about `subject` in `phase`; the round is `None` outside
/// of coordination.
pub fn build_request(
    context: &HookContext,
    phase: Phase,
    round: Option<u32>,
    subject: &HookSubject<'_>,
) -> Value {
    let common = json!({
        "schema_version": SCHEMA_VERSION,
        "session_id": context.session_id,
        "cwd": context.project,
        "permission_mode": PERMISSION_MODE,
        "hook_event_name": subject.event().name(),
        "agent_id": context.agent,
        "workspace": context.workspace,
        "phase": phase,
        "round": round,
    });
    // Both are objects: their fields become those of one object.
    let objects = [common, subject.fields()].into_iter();
    let fields = objects.filter_map(|value| match value {
        Value::Object(fields) => Some(fields),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            None
        }
    });
    Value::Object(fields.flatten().collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_fields_of_claude_code_and_those_of_massgen() {
        let context = HookContext {
            session_id: Some("s1".to_owned()),
            project: AbsPath::new("/p").unwrap(),
            agent: Some(AgentId::parse("worker").unwrap()),
            workspace: AbsPath::new("/p/w"),
        };
        let input = json!({ "path": "a" });
        let call = HookToolCall {
            tool: "write_file",
            input: &input,
            id: Some("call_1"),
        };
        let check = |subject: HookSubject<'_>, own_fields: Value| {
            let request = build_request(&context, Phase::Coordination, Some(2), &subject);
            let mut expected = json!({
                "schema_version": 1, "session_id": "s1", "cwd": "/p",
                "permission_mode": "default", "hook_event_name": subject.event().name(),
                "agent_id": "worker", "workspace": "/p/w", "phase": "coordination", "round": 2,
            });
            for (name, value) in own_fields.as_object().unwrap() {
                expected[name] = value.clone();
            }
            assert_eq!(request, expected);
        };
        let called = json!({
            "tool_name": "write_file", "tool_input": {"path": "a"}, "tool_use_id": "call_1",
        });
        check(HookSubject::Call(call), called.clone());
        let mut answered = called;
        answered["tool_response"] = json!("done");
        check(HookSubject::Result(call, "done"), answered);
        let file = |path: &str, details: Option<&str>| HookFile {
            path: path.to_owned(),
            status: "created",
            details: details.map(str::to_owned),
        };
        let files = [file("/p/a", None), file("/p/b", Some("mode 755"))];
        let listed = json!({ "files": [
            {"path": "/p/a", "status": "created"},
            {"path": "/p/b", "status": "created", "details": "mode 755"},
        ] });
        check(HookSubject::Delivery(&files), listed.clone());
        check(HookSubject::Delivered(&files), listed);
    }
}
