//! Owns what a run tells the outside while it goes on: one closed list of events. The event log,
//! `status.json` and what the terminal shows are all derived from it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check_results::{CheckResult, CheckResults};
use crate::error::ExitStatus;
use crate::id::{AgentId, AnswerLabel};
use crate::permissions::grant::Phase;
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;
use crate::spending::TokenUsage;
use crate::spending::money::Money;
use crate::spending::totals::{UsageKey, UsageTotals};
use crate::tools::image::ModelImage;
use crate::tools::request::CallRequest;

/// A call that was refused within another, such as one that a program made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NestedRefusal {
    /// The rule that forbids it.
    pub rule: String,
    /// Why, as the model reads it, shortened.
    pub reason: String,
}

/// Something that happened in a run. Its JSON form is what a line of the event
/// log, and of the stream for scripts, tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run begins.
    RunStarted {
        /// The task as the agents read it.
        question: Arc<str>,
        /// All agents, in the order of the config.
        agents: Vec<AgentId>,
        /// The attempt, from 1; more than 1 after a restart of the whole coordination.
        attempt: u32,
    },
    /// A pipeline of roles has got further.
    Pipeline {
        /// How.
        #[serde(flatten)]
        step: PipelineStep,
    },
    /// An agent's model is being asked.
    Asking {
        /// Who.
        agent: AgentId,
        /// The model.
        model: Arc<str>,
    },
    /// An agent's model wrote text.
    Text {
        /// Who.
        agent: AgentId,
        /// A piece of it, as it streamed.
        text: String,
    },
    /// An agent's model showed reasoning.
    Reasoning {
        /// Who.
        agent: AgentId,
        /// A piece of it, as it streamed.
        text: String,
    },
    /// A request to a model ended, with a whole reply or without.
    Asked {
        /// Who.
        agent: AgentId,
        /// The model.
        model: Arc<str>,
        /// The phase of the agent.
        phase: Phase,
        /// What the vendor counted, as far as it has said so.
        #[serde(flatten)]
        usage: TokenUsage,
        /// What it cost; nothing is said where the price is not known.
        cost_usd: Option<Money>,
        /// How long it took, in milliseconds.
        elapsed_ms: u64,
    },
    /// A model gave a whole reply, which counts.
    Replied {
        /// Who.
        agent: AgentId,
        /// Its text; empty in the event log, where the `text` events before it hold it.
        #[serde(default, skip_serializing_if = "is_empty")]
        text: Arc<str>,
        /// Its calls, in order.
        calls: Vec<CallRequest>,
        /// Why it stopped.
        stop: StopReason,
        /// What the vendor wants to have back with it; only the event log has it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        echo: Option<Value>,
    },
    /// A request failed for good: no model of the agent gives a whole reply.
    Failed {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
    },
    /// A model could not be asked and will be asked again.
    Retrying {
        /// Who.
        agent: AgentId,
        /// Why the last try failed.
        reason: String,
        /// How long it waits before it asks again, in milliseconds.
        wait_ms: u64,
    },
    /// A request waits because a limit of requests or tokens in a time is met.
    Held {
        /// Who.
        agent: AgentId,
        /// Which limit.
        reason: String,
        /// How long it waits, in milliseconds.
        wait_ms: u64,
    },
    /// An agent goes on with another model.
    FellBack {
        /// Who.
        agent: AgentId,
        /// The model so far.
        from: Arc<str>,
        /// The model from now on.
        to: Arc<str>,
        /// Why.
        reason: String,
    },
    /// A conversation was too long for its model and was shortened.
    Shortened {
        /// Who.
        agent: AgentId,
        /// What was left out, in one sentence.
        how: String,
    },
    /// A limit of money, tokens or tool calls was met.
    LimitMet {
        /// Whose limit; the run's if it is nobody's.
        agent: Option<AgentId>,
        /// Which limit, in one sentence.
        limit: String,
    },
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
    OwnTool {
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
    PersonAsked {
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
    /// An answer was accepted.
    Answered {
        /// Who.
        agent: AgentId,
        /// Its name.
        label: AnswerLabel,
        /// The whole answer.
        content: Arc<str>,
        /// The path of the snapshot of the agent's workspace, if it has files.
        snapshot: Option<String>,
        /// How the checks of the config ended on it; nothing without checks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        evidence: Option<CheckResults>,
    },
    /// A vote was accepted.
    Voted {
        /// Who voted.
        agent: AgentId,
        /// For whom.
        candidate: AgentId,
        /// For which of the candidate's answers.
        label: AnswerLabel,
        /// Why, in the voter's words.
        reason: String,
    },
    /// Votes lost their meaning because a new answer came.
    VotesVoided {
        /// Whose votes.
        voters: Vec<AgentId>,
    },
    /// An answer or vote was not accepted; the agent was told why.
    Refused {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
        /// Why in the words of the user's hooks, if they refused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<String>,
    },
    /// An agent was shown answers that it did not know.
    Informed {
        /// Who.
        agent: AgentId,
        /// Which answers.
        labels: Vec<AnswerLabel>,
    },
    /// An agent drops out of the run.
    DroppedOut {
        /// Who.
        agent: AgentId,
        /// Why.
        reason: String,
        /// Whether a timeout ended it.
        timed_out: bool,
    },
    /// The ballot is closed.
    WinnerSelected {
        /// Who presents.
        agent: AgentId,
        /// The answer that won.
        label: AnswerLabel,
        /// The votes for each agent that has an answer, in the order of the config.
        votes: Vec<(AgentId, u32)>,
    },
    /// The final agent begins to present.
    FinalStarted {
        /// Who.
        agent: AgentId,
    },
    /// The final answer.
    FinalAnswer {
        /// Who.
        agent: AgentId,
        /// All of it.
        content: Arc<str>,
    },
    /// What became of the files that were to be delivered.
    Delivered {
        /// One row a file.
        rows: Vec<DeliveryRow>,
    },
    /// A check of the config begins.
    Checking {
        /// Whose work it looks at.
        agent: AgentId,
        /// The check's name.
        check: String,
    },
    /// A check of the config has ended.
    Checked {
        /// Whose work it looked at.
        agent: AgentId,
        /// What of it.
        subject: CheckedTree,
        /// How it ended.
        finding: CheckResult,
    },
    /// The final agent judged its own answer and asks for another attempt.
    Restarting {
        /// Why.
        reason: String,
        /// What should be different.
        instructions: String,
    },
    /// How the commands of some agents are held to their grants.
    Confined {
        /// Whose.
        agents: Vec<AgentId>,
        /// By what.
        by: ExecutionIsolation,
        /// What that leaves open, one thing each.
        leaves_open: Vec<String>,
    },
    /// The run may not go on: what there is by now counts as it stands.
    CutShort {
        /// How the process will end.
        status: ExitStatus,
    },
    /// A foreign server says how far it has got with what it was asked for.
    ServerWorks {
        /// Its name.
        server: String,
        /// What it says, in its own words.
        text: String,
    },
    /// Something that the user should know and that ends nothing.
    Warning {
        /// What.
        message: String,
    },
    /// The run has ended; nothing follows.
    RunEnded {
        /// How the process will end.
        status: ExitStatus,
        /// One sentence for people.
        summary: String,
    },
}

impl Event {
    /// Whom it is about, if it is about one agent.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Event::Asking { agent, .. }
            | Event::Text { agent, .. }
            | Event::Reasoning { agent, .. }
            | Event::Asked { agent, .. }
            | Event::Replied { agent, .. }
            | Event::Failed { agent, .. }
            | Event::Held { agent, .. }
            | Event::FellBack { agent, .. }
            | Event::Shortened { agent, .. }
            | Event::OwnTool { agent, .. }
            | Event::Retrying { agent, .. }
            | Event::ToolCalled { agent, .. }
            | Event::ToolFinished { agent, .. }
            | Event::PersonAsked { agent, .. }
            | Event::HookRan { agent, .. }
            | Event::Answered { agent, .. }
            | Event::Voted { agent, .. }
            | Event::Refused { agent, .. }
            | Event::Informed { agent, .. }
            | Event::DroppedOut { agent, .. }
            | Event::WinnerSelected { agent, .. }
            | Event::FinalStarted { agent }
            | Event::Checking { agent, .. }
            | Event::Checked { agent, .. }
            | Event::FinalAnswer { agent, .. } => Some(agent),
            Event::LimitMet { agent, .. } => agent.as_ref(),
            Event::RunStarted { .. }
            | Event::Pipeline { .. }
            | Event::VotesVoided { .. }
            | Event::Delivered { .. }
            | Event::Restarting { .. }
            | Event::Confined { .. }
            | Event::CutShort { .. }
            | Event::ServerWorks { .. }
            | Event::Warning { .. }
            | Event::RunEnded { .. } => None,
        }
    }
}

impl Event {
    /// The event without what only the event log has, so that a run can be gone on with.
    pub fn without_log_fields(&self) -> Cow<'_, Self> {
        if !matches!(self, Event::Replied { .. } | Event::ToolFinished { .. }) {
            return Cow::Borrowed(self);
        }
        let mut event = self.clone();
        if let Event::Replied { echo, .. } = &mut event {
            *echo = None;
        }
        if let Event::ToolFinished {
            content, images, ..
        } = &mut event
        {
            *content = None;
            images.clear();
        }
        Cow::Owned(event)
    }
}

fn is_empty(text: &str) -> bool {
    text.is_empty()
}

impl Event {
    /// Enters what was used into `books`, if the event tells of anything.
    pub fn add_to_totals(&self, books: &mut UsageTotals) {
        if let Event::Asked {
            agent,
            model,
            phase,
            usage,
            cost_usd,
            ..
        } = self
        {
            let post = UsageKey {
                agent: agent.clone(),
                model: Arc::clone(model),
                phase: *phase,
            };
            books.charge(post, *usage, *cost_usd);
        }
        if let Event::ToolCalled { agent, .. } = self {
            books.count_tool_call(agent);
        }
    }
}

/// How a pipeline of roles has got further.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum PipelineStep {
    /// A role begins to work.
    Works {
        /// In which iteration, from 1.
        iteration: u32,
        /// Which role; copies of one have a number behind its name.
        role: String,
        /// Which stage, from 1.
        stage: usize,
        /// How many stages there are.
        stages: usize,
        /// The agents of the role.
        agents: Vec<AgentId>,
    },
    /// The work of a role is part of what all roles share.
    Merged {
        /// In which iteration, from 1.
        iteration: u32,
        /// Which role; copies of one have a number behind its name.
        role: String,
        /// The commit of the shared branch.
        commit: String,
        /// How many files the role changed.
        files: usize,
    },
    /// The work of a role cannot become part of what all roles share, and goes back to it.
    Refused {
        /// Which role; copies of one have a number behind its name.
        role: String,
        /// Why.
        reason: String,
        /// Which try that was, from 1.
        tried: u32,
        /// How many tries there may be.
        tries_max: u32,
    },
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

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopReason {
    /// It had said all, or it waits for its tool calls.
    #[default]
    Done,
    /// The vendor's limit of output tokens was met.
    Length,
    /// The vendor held content back, or the model refused.
    Filtered,
    /// The vendor wants to be asked again, with the reply as it stands.
    Paused,
}

/// What a model's stream carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyTextKind {
    /// Text of the reply.
    Text,
    /// Reasoning that the vendor shows.
    Reasoning,
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckedTree {
    /// The user's trees as an answer would leave them.
    Answer,
    /// The user's trees as the delivery has left them.
    Delivery,
}

/// What became of one file of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeliveryRow {
    /// The file in the user's tree; of a refused write, the path as the agent wrote it.
    pub path: String,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: DeliveryOutcome,
    /// The SHA-256 of what stood there after the delivery, in hexadecimal digits; nothing for a
    /// file that was not delivered, and for what is no file any more.
    pub sha256: Option<String>,
    /// How much stood there, in bytes.
    pub bytes: Option<u64>,
}

impl DeliveryRow {
    /// A file of which nobody has looked yet at what stands on the disk.
    pub fn new(path: String, outcome: DeliveryOutcome) -> Self {
        Self {
            path,
            outcome,
            sha256: None,
            bytes: None,
        }
    }
}

impl DeliveryOutcome {
    /// Whether the file is now as the agents want it.
    pub fn is_delivered(&self) -> bool {
        match self {
            DeliveryOutcome::Created
            | DeliveryOutcome::Changed
            | DeliveryOutcome::Deleted
            | DeliveryOutcome::Mode { .. } => true,
            DeliveryOutcome::Declined
            | DeliveryOutcome::Denied { .. }
            | DeliveryOutcome::Conflict { .. }
            | DeliveryOutcome::Failed { .. }
            | DeliveryOutcome::TakenBack { .. } => false,
        }
    }
}

/// What became of one file of a delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum DeliveryOutcome {
    /// It did not exist before.
    Created,
    /// It existed and was replaced.
    Changed,
    /// It was removed.
    Deleted,
    /// It is a directory that got other permission bits, or a new one that everybody may write to.
    Mode {
        /// The bits before, in octal digits; nothing of a new one.
        before: Option<String>,
        /// The bits now, in octal digits.
        after: String,
    },
    /// The user looked at it and did not take it; it can still be applied.
    Declined,
    /// It was refused by the gate.
    Denied {
        /// Why.
        reason: String,
    },
    /// The user changed it while the run went on; it was left alone.
    Conflict {
        /// The path of our version.
        kept: String,
    },
    /// It could not be written; the winner's workspace still has it.
    Failed {
        /// Why.
        reason: String,
    },
    /// It was delivered and taken back, because a check failed after that.
    TakenBack {
        /// Which check.
        reason: String,
    },
}
