//! The events of tool calls: the calls, approvals, hooks, progress and results.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, VariantNames};

use crate::id::AgentId;
use crate::tools::image::ModelImage;
use crate::tools::task_plan::TaskPlan;

/// An event of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, VariantNames)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ToolEvent {
    /// An agent called a tool, and the gate allowed or denied it.
    ToolCalled {
        /// The agent.
        agent: AgentId,
        /// The id of the call in the conversation.
        call_id: String,
        /// The tool.
        tool: String,
        /// The arguments as the model wrote them, shortened.
        arguments: String,
        /// Why the call was denied; `None` if it was allowed.
        denied: Option<String>,
        /// The rule that denied it; `None` for a call that could not be parsed.
        rule: Option<String>,
    },
    /// An allowed tool call has ended.
    ToolFinished {
        /// The agent.
        agent: AgentId,
        /// The id of the call in the conversation.
        call_id: String,
        /// The tool.
        tool: String,
        /// Whether the call succeeded.
        success: bool,
        /// Whether a rule that depends on the state of the disk denied it after all.
        denied: bool,
        /// The result for the model, shortened; for a command, its exit and the first line of its
        /// output.
        summary: String,
        /// The size of a result that succeeded, such as `120 lines` or `+3 −1`; `None` if it says
        /// nothing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        measure: Option<String>,
        /// The whole result for the model, if the summary is shortened; only in the event log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        content: Option<Arc<str>>,
        /// The images of the result, in base64; only in the event log.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(with = "Vec<String>")]
        images: Vec<ModelImage>,
        /// The first denied calls among those that the call made itself, as a program does.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<NestedRefusal>,
        /// The duration in milliseconds.
        elapsed_ms: u64,
    },
    /// An external agent used one of its native tools, or was denied it.
    NativeToolCall {
        /// The agent.
        agent: AgentId,
        /// The tool, as the external agent names it.
        tool: String,
        /// What it was used for, shortened.
        detail: String,
        /// Why it was denied; `None` if it was allowed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denied: Option<String>,
    },
    /// An agent wrote or updated its plan, with the tool for it or, as an external agent, by
    /// reporting it.
    PlanUpdated {
        /// The agent.
        agent: AgentId,
        /// The id of the call in the conversation; `None` for a plan that an external agent
        /// reports.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call_id: Option<String>,
        /// The whole plan, which replaces the previous one.
        entries: TaskPlan,
    },
    /// A call waits until the user is asked to approve it, because another request comes first; or
    /// it waits no longer.
    ApprovalQueued {
        /// The agent that makes the call.
        agent: AgentId,
        /// The id of the call in the conversation.
        call_id: Option<String>,
        /// The tool.
        tool: String,
        /// Whether it waits. Afterwards the user is asked, or an earlier answer holds for the call.
        /// A request that is withdrawn while it waits has only an `approval` without an answer.
        waiting: bool,
    },
    /// The user is asked to approve a call, or has answered.
    Approval {
        /// The agent that makes the call.
        agent: AgentId,
        /// The id of the call in the conversation.
        call_id: Option<String>,
        /// The tool.
        tool: String,
        /// The effects of the call, one each.
        effects: Vec<String>,
        /// Why approval is required.
        reason: String,
        /// The answer; `None` when the user is being asked.
        answer: Option<ApprovalAnswer>,
        /// Where the answer came from; `None` without an answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<InputChannel>,
    },
    /// One of the user's hooks ran.
    HookRan {
        /// The agent whose action triggered it.
        agent: AgentId,
        /// The hook event.
        event: String,
        /// The tool, if the hook ran for a call.
        tool: Option<String>,
        /// The id of that call in the conversation.
        call_id: Option<String>,
        /// The command of the hook, shortened.
        command: String,
        /// Its decision: `nothing`, `allow`, `ask`, `defer`, `deny`, or `failed`.
        decision: String,
        /// The reason that it gave, or how it failed; shortened.
        reason: Option<String>,
        /// The tool input that it substituted, as JSON, shortened.
        updated_input: Option<String>,
        /// The duration in milliseconds.
        elapsed_ms: u64,
    },
    /// An MCP server reports progress of a request.
    ServerProgress {
        /// The name of the server.
        server: String,
        /// The progress message of the server.
        text: String,
    },
}

impl ToolEvent {
    /// Returns the agent whose call it is. Progress of a server has none.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            ToolEvent::ToolCalled { agent, .. }
            | ToolEvent::ToolFinished { agent, .. }
            | ToolEvent::NativeToolCall { agent, .. }
            | ToolEvent::PlanUpdated { agent, .. }
            | ToolEvent::ApprovalQueued { agent, .. }
            | ToolEvent::Approval { agent, .. }
            | ToolEvent::HookRan { agent, .. } => Some(agent),
            ToolEvent::ServerProgress { .. } => None,
        }
    }
}

/// A denied call within another, such as one that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NestedRefusal {
    /// The rule that denied it.
    pub rule: String,
    /// The reason for the model, shortened.
    pub reason: String,
}

/// Where something that the user decided or wrote came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputChannel {
    /// The terminal in which the run was started.
    Terminal,
    /// The page of `massgen web`.
    Web,
    /// The program that listens at `--approval-socket`.
    ApprovalSocket,
    /// A file in the directory of `--inbox-dir`.
    InboxDir,
}

/// The answer to an approval request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Display)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ApprovalAnswer {
    /// Yes, this time.
    Once,
    /// Yes, and the same for the rest of the session.
    #[strum(serialize = "for this session")]
    Session,
    /// Yes, and the same from now on in this project.
    Always,
    /// No.
    No,
    /// No answer: there is no user, or the user did not answer in time. It counts as no.
    #[serde(rename = "nobody")]
    #[strum(serialize = "no answer")]
    NoAnswer,
}

impl ApprovalAnswer {
    /// Returns whether the call may be made.
    pub fn is_yes(self) -> bool {
        match self {
            ApprovalAnswer::Once | ApprovalAnswer::Session | ApprovalAnswer::Always => true,
            ApprovalAnswer::No | ApprovalAnswer::NoAnswer => false,
        }
    }
}
