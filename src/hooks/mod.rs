//! The user's hooks: which command runs on which event and for which tools, the JSON that it reads,
//! and the meaning of its answer. This module starts no process.

pub mod answer;
pub mod matcher;
pub mod request;
pub mod verdict;

use std::fmt;

use crate::hooks::matcher::ToolMatcher;
use crate::sandbox_policy::NetworkPolicy;

/// The maximum number of hooks per event and agent; all that match run at the same time.
pub const HOOKS_MAX: usize = 16;
/// The default timeout of a hook, in seconds.
pub const TIMEOUT_SECONDS_DEFAULT: u64 = 60;
/// The longest timeout that the config can set, in seconds.
pub const TIMEOUT_SECONDS_MAX: u64 = 600;

/// The events on which hooks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// Before a tool call.
    PreToolUse,
    /// After a tool call.
    PostToolUse,
    /// When an agent submits an answer.
    AnswerSubmitted,
    /// When an agent votes.
    VoteCast,
    /// Before files are delivered.
    BeforeDelivery,
    /// After files were delivered, or were not.
    AfterDelivery,
}

impl HookEvent {
    /// All events.
    pub const ALL: [Self; 6] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::AnswerSubmitted,
        Self::VoteCast,
        Self::BeforeDelivery,
        Self::AfterDelivery,
    ];

    /// Returns its name in configs and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::AnswerSubmitted => "AnswerSubmitted",
            Self::VoteCast => "VoteCast",
            Self::BeforeDelivery => "BeforeDelivery",
            Self::AfterDelivery => "AfterDelivery",
        }
    }

    /// Returns whether the event waits for its hooks, so that a hook that fails blocks it.
    pub fn is_blocking(self) -> bool {
        match self {
            Self::PreToolUse | Self::AnswerSubmitted | Self::VoteCast | Self::BeforeDelivery => {
                true
            }
            Self::PostToolUse | Self::AfterDelivery => false,
        }
    }
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A user's command that runs on an event.
#[derive(Clone, Debug)]
pub struct Hook {
    /// The event.
    pub event: HookEvent,
    /// The tools it applies to; hooks of events that concern no tool match all.
    pub matcher: ToolMatcher,
    /// The command line passed to the shell.
    pub command: String,
    /// The timeout, in seconds.
    pub timeout_seconds: u64,
    /// Its network access.
    pub network: NetworkPolicy,
}

/// The hooks of one agent: those for all agents and its own.
#[derive(Clone, Debug, Default)]
pub struct HookList(Vec<Hook>);

impl HookList {
    /// Creates a list of these hooks.
    pub fn new(hooks: Vec<Hook>) -> Self {
        Self(hooks)
    }

    /// Returns these hooks followed by `others`.
    #[must_use]
    pub fn extended_by(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// Iterates over the hooks.
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        self.0.iter()
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the hooks for `event`, only those that match `tool` if it concerns a tool call.
    pub fn matching(&self, event: HookEvent, tool: Option<&str>) -> Vec<&Hook> {
        let matches = |hook: &&Hook| {
            hook.event == event && tool.is_none_or(|tool| hook.matcher.matches(tool))
        };
        self.0.iter().filter(matches).collect()
    }
}
