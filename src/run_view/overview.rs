//! The run as a whole: its task, phase, usage, warnings and end.

use std::sync::Arc;

use serde::Serialize;
use strum::IntoStaticStr;

use crate::error::ExitStatus;
use crate::id::AgentId;
use crate::spending::totals::RequestTotals;

/// Maximum number of messages of the user that are kept; a run takes no more.
pub const MESSAGES_KEPT_MAX: usize = 256;

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum RunPhase {
    /// No agent works yet.
    #[default]
    Starting,
    /// The agents work, answer and vote.
    Coordinating,
    /// The winner presents the final answer.
    Presenting,
    /// The final answer is there; its files are checked, reviewed and delivered.
    Delivering,
    /// The run has ended.
    Ended,
}

impl RunPhase {
    /// Returns the phase in one word for people.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

/// The run as a whole.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunOverview {
    /// The task as the agents read it.
    pub task: Arc<str>,
    /// The agents, in the order of the config.
    pub agents: Vec<AgentId>,
    /// The number of restarts of the coordination.
    pub restart: u32,
    /// How far the run is.
    pub phase: RunPhase,
    /// Whether the coordination was stopped early.
    pub is_stopped: bool,
    /// How the process ends; `None` before the end.
    pub status: Option<ExitStatus>,
    /// The outcome in one sentence; `None` before the end.
    pub summary: Option<String>,
    /// When the last event happened, in milliseconds after the start.
    pub elapsed_ms: u64,
    /// What all requests used.
    pub usage: RequestTotals,
    /// The number of tool calls, without answers and votes.
    pub tool_calls: u64,
    /// The messages of the user to the agents, at most [`MESSAGES_KEPT_MAX`].
    pub messages: Vec<SentMessage>,
    /// The first warnings.
    pub warnings: Vec<String>,
    /// The number of warnings after those.
    pub more_warnings: u64,
    /// How the commands of the agents are isolated.
    pub sandbox: Vec<SandboxNote>,
    /// The last progress message of an MCP server.
    pub server_progress: Option<String>,
    /// The directory of the user.
    #[serde(skip)]
    pub cwd: Option<Arc<str>>,
}

/// A message of the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SentMessage {
    /// Its number in the run, from 1.
    pub number: u32,
    /// The agent that it is for; `None` for all.
    pub agent: Option<AgentId>,
    /// The text.
    pub text: Arc<str>,
    /// The agents that were shown it, in the order in which they were.
    pub shown_to: Vec<AgentId>,
}

/// How the commands of some agents are isolated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxNote {
    /// The agents.
    pub agents: Vec<AgentId>,
    /// The sandbox.
    pub isolation: String,
    /// What it does not protect, one item each.
    pub leaves_open: Vec<String>,
}

impl RunOverview {
    /// Starts a coordination.
    pub(super) fn start(&mut self, task: &Arc<str>, agents: &[AgentId], restart: u32) {
        self.task = Arc::clone(task);
        self.agents = agents.to_vec();
        self.restart = restart;
        self.phase = RunPhase::Coordinating;
        self.is_stopped = false;
        self.status = None;
        self.summary = None;
    }

    /// Adds a message of the user.
    pub(super) fn add_message(&mut self, number: u32, agent: Option<&AgentId>, text: &Arc<str>) {
        if self.messages.len() < MESSAGES_KEPT_MAX {
            self.messages.push(SentMessage {
                number,
                agent: agent.cloned(),
                text: Arc::clone(text),
                shown_to: Vec::new(),
            });
        }
    }

    /// Marks messages as shown to `agent`.
    pub(super) fn show_messages(&mut self, agent: &AgentId, numbers: &[u32]) {
        for message in &mut self.messages {
            if numbers.contains(&message.number) && !message.shown_to.contains(agent) {
                message.shown_to.push(agent.clone());
            }
        }
    }

    /// Returns the number of messages for `agent` that it was not shown.
    pub fn unread_count(&self, agent: &AgentId) -> usize {
        let messages = self.messages.iter();
        let messages = messages.filter(|message| {
            let is_recipient = message.agent.as_ref().is_none_or(|to| to == agent);
            is_recipient && !message.shown_to.contains(agent)
        });
        messages.count()
    }

    /// Adds how commands are isolated; each coordination reports it again.
    pub(super) fn add_sandbox(&mut self, note: SandboxNote) {
        if !self.sandbox.contains(&note) {
            self.sandbox.push(note);
        }
    }

    /// Ends the run.
    pub(super) fn end(&mut self, status: ExitStatus, summary: &str) {
        self.phase = RunPhase::Ended;
        self.status = Some(status);
        self.summary = Some(summary.to_owned());
        self.server_progress = None;
    }
}
