//! The events of a run as a whole: its coordinations, its sandbox, its limits and its end.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::VariantNames;

use crate::check_results::{CheckResult, CheckVerdict};
use crate::error::ExitStatus;
use crate::event::InputChannel;
use crate::id::{AgentId, AnswerLabel};
use crate::sandbox_policy::sandbox_level::ExecutionIsolation;

/// An event of the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, VariantNames)]
#[serde(tag = "type", rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunEvent {
    /// A coordination starts: the first one of the turn, or one after a restart.
    RunStarted {
        /// The task as the agents read it.
        question: Arc<str>,
        /// All agents, in the order of the config.
        agents: Vec<AgentId>,
        /// The number of restarts before it; 0 for the first coordination.
        restart: u32,
        /// The directory of the user, to which people read paths relative.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<Arc<str>>,
    },
    /// The setup command begins to run, before any agent works.
    SetupStarted {
        /// The command.
        command: String,
    },
    /// The checks begin to run on the user's trees as they are, before any agent works.
    BaselineStarted {
        /// The names of the checks.
        checks: Vec<String>,
    },
    /// One of these checks has ended.
    BaselineChecked {
        /// The result.
        finding: CheckResult,
    },
    /// A limit on cost, tokens or tool calls is reached.
    LimitMet {
        /// The agent whose limit it is; `None` for a limit of the run.
        agent: Option<AgentId>,
        /// The limit, in one sentence.
        limit: String,
    },
    /// The final agent rejected its own answer and asked for another coordination.
    CoordinationRestarted {
        /// Why it rejected the answer.
        reason: String,
        /// What the agents should do differently.
        instructions: String,
    },
    /// The sandbox that restricts the commands of some agents to their grants.
    SandboxSelected {
        /// The agents that it restricts.
        agents: Vec<AgentId>,
        /// The sandbox.
        by: ExecutionIsolation,
        /// What the sandbox does not restrict, one item each.
        leaves_open: Vec<String>,
    },
    /// Agents were given instructions that a project keeps for them.
    InstructionsRead {
        /// The agents.
        agents: Vec<AgentId>,
        /// The absolute path of the file.
        path: String,
        /// How much of it they were given, in bytes.
        size_bytes: u64,
        /// Whether that was only the beginning.
        is_truncated: bool,
    },
    /// Agents are offered skills, whose files they may read.
    SkillsOffered {
        /// The agents.
        agents: Vec<AgentId>,
        /// The skills, in the order in which the agents read of them.
        skills: Vec<OfferedSkill>,
    },
    /// Agents are given the notes of earlier sessions.
    MemoryRead {
        /// The directory in which they can read them.
        directory: String,
        /// The notes, as paths below it.
        files: Vec<String>,
    },
    /// Notes of the winner were kept for later sessions.
    MemorySaved {
        /// The directory of the project's notes.
        directory: String,
        /// The notes that are new or changed, as paths below it.
        files: Vec<String>,
    },
    /// The coordination stops early; the answers so far count.
    CoordinationStopped {
        /// How the process will end.
        status: ExitStatus,
    },
    /// The user sent a message to the agents while they worked.
    UserMessage {
        /// Its number in the run, from 1.
        number: u32,
        /// The agent that it is for; `None` for all agents.
        agent: Option<AgentId>,
        /// The message.
        text: Arc<str>,
        /// Where it came from.
        by: InputChannel,
    },
    /// An agent was shown messages of the user, before its next request.
    UserMessagesShown {
        /// The agent.
        agent: AgentId,
        /// The numbers of the messages.
        numbers: Vec<u32>,
    },
    /// Something that the user should know and that does not end the run.
    Warning {
        /// The text of the warning.
        message: String,
    },
    /// The judge has measured an answer, or what was delivered.
    Judged {
        /// The answer; `None` for what was delivered.
        label: Option<AnswerLabel>,
        /// The verdict.
        #[serde(flatten)]
        verdict: CheckVerdict,
    },
    /// The run has ended; no event follows.
    RunEnded {
        /// How the process will end.
        status: ExitStatus,
        /// The outcome in one sentence for people.
        summary: String,
    },
}

/// A skill that agents are offered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OfferedSkill {
    /// Its name.
    pub name: String,
    /// The absolute path of its `SKILL.md`.
    pub path: String,
}

impl RunEvent {
    /// Returns the agent that the event is about, if there is one.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            RunEvent::LimitMet { agent, .. } | RunEvent::UserMessage { agent, .. } => {
                agent.as_ref()
            }
            RunEvent::UserMessagesShown { agent, .. } => Some(agent),
            RunEvent::RunStarted { .. }
            | RunEvent::SetupStarted { .. }
            | RunEvent::BaselineStarted { .. }
            | RunEvent::BaselineChecked { .. }
            | RunEvent::CoordinationRestarted { .. }
            | RunEvent::SandboxSelected { .. }
            | RunEvent::InstructionsRead { .. }
            | RunEvent::SkillsOffered { .. }
            | RunEvent::MemoryRead { .. }
            | RunEvent::MemorySaved { .. }
            | RunEvent::CoordinationStopped { .. }
            | RunEvent::Judged { .. }
            | RunEvent::Warning { .. }
            | RunEvent::RunEnded { .. } => None,
        }
    }
}
