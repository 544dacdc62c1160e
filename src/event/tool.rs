//! Owns the events of tool calls: what agents call, what persons and hooks say of it, and how it
//! ends.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::tools::image::ModelImage;

/// Something that happened around a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToolEvent {
    /// An agent called a tool; the gate has answered.
    ToolCalled {
        /// Who.
        agent: AgentId,
        /// The call's id in the conversation.
        call_id: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them, shortened.
        arguments: String,
        /// Why it was not carried out, if it was not.
        denied: Option<String>,
        /// The rule that forbids it; a call that could not be understood breaks none.
        rule: Option<String>,
    },
    /// A tool call that was allowed has ended.
    ToolFinished {
        /// Who.
        agent: AgentId,
        /// The call's id in the conversation.
        call_id: String,
        /// The tool.
        tool: String,
        /// Whether it did what was asked.
        success: bool,
        /// Whether it was refused after all, by a rule that is known only on the disk.
        denied: bool,
        /// What the model reads, shortened; of a command, how it ended and the first line of its
        /// output.
        summary: String,
        /// All that the model reads, where the summary is not all of it; only the event log has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Arc<str>>,
        /// The images that it gave, in base64; only the event log has them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(with = "Vec<String>")]
        images: Vec<ModelImage>,
        /// What was refused of the calls that it made itself, as a program does; the first of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<NestedRefusal>,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
    /// An agent that is a program of its own has used a tool of its own, or was refused it.
    #[serde(alias = "own_tool")]
    NativeToolCall {
        /// Who.
        agent: AgentId,
        /// The tool, as the program calls it.
        tool: String,
        /// What it was used on, shortened.
        detail: String,
        /// Why it was refused, if it was.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<String>,
    },
    /// A person is asked whether an agent may make a call, or has answered.
    #[serde(alias = "person_asked")]
    Approval {
        /// Whose call.
        agent: AgentId,
        /// Its id in the conversation.
        call_id: Option<String>,
        /// The tool.
        tool: String,
        /// What it would do, one thing each.
        deeds: Vec<String>,
        /// Why it is asked.
        reason: String,
        /// What the person says; nothing as long as they are asked.
        answer: Option<ApprovalAnswer>,
    },
    /// A hook of the user's was asked about what an agent does, or told of it.
    HookRan {
        /// Whose deed.
        agent: AgentId,
        /// The event of the hook.
        event: String,
        /// The tool, where it is about a call.
        tool: Option<String>,
        /// The id of the call in its conversation.
        call_id: Option<String>,
        /// The hook's command, shortened.
        command: String,
        /// What it said: `nothing`, `allow`, `ask`, `defer`, `deny`, or `failed`.
        decision: String,
        /// Why, in its words, or how it failed; shortened.
        reason: Option<String>,
        /// What it had the tool given instead, as JSON, shortened.
        updated_input: Option<String>,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
    /// A foreign server says how far it has got with what it was asked for.
    #[serde(alias = "server_works")]
    ServerProgress {
        /// Its name.
        server: String,
        /// What it says, in its own words.
        text: String,
    },
}

impl ToolEvent {
    /// The agent whose call it is; a server that reports progress names none.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            ToolEvent::ToolCalled { agent, .. }
            | ToolEvent::ToolFinished { agent, .. }
            | ToolEvent::NativeToolCall { agent, .. }
            | ToolEvent::Approval { agent, .. }
            | ToolEvent::HookRan { agent, .. } => Some(agent),
            ToolEvent::ServerProgress { .. } => None,
        }
    }
}

/// A call that was refused within another, such as one that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NestedRefusal {
    /// The rule that forbids it.
    pub rule: String,
    /// Why, as the model reads it, shortened.
    pub reason: String,
}

/// What a person says who is asked about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalAnswer {
    /// Yes, this time.
    Once,
    /// Yes, and the same for the rest of the session.
    Session,
    /// Yes, and the same from now on in this project.
    Always,
    /// No.
    No,
    /// Nothing: nobody is there, or nobody answered in time. It counts as no.
    Nobody,
}

impl fmt::Display for ApprovalAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ApprovalAnswer::Once => "once",
            ApprovalAnswer::Session => "for this session",
            ApprovalAnswer::Always => "always",
            ApprovalAnswer::No => "no",
            ApprovalAnswer::Nobody => "nobody answered",
        })
    }
}

impl ApprovalAnswer {
    /// Whether the call may be made.
    pub fn is_yes(self) -> bool {
        match self {
            ApprovalAnswer::Once | ApprovalAnswer::Session | ApprovalAnswer::Always => true,
            ApprovalAnswer::No | ApprovalAnswer::Nobody => false,
        }
    }
}
