//! Owns the user's hooks as the config gives them: which command is asked on which event, and about
//! which tools; what it is told, and what its answer means. Nothing is started here.

pub mod answer;
pub mod matcher;
pub mod request;
pub mod verdict;

use std::fmt;

use crate::hooks::matcher::ToolMatcher;
use crate::sandbox_policy::network::NetworkPolicy;

/// The most hooks of one event for one agent; all that fit run at the same time.
pub const HOOKS_MAX: usize = 16;
/// How long a hook may take where the config says nothing, in seconds.
pub const TIMEOUT_SECONDS_DEFAULT: u64 = 60;
/// The longest that the config can let a hook take, in seconds.
pub const TIMEOUT_SECONDS_MAX: u64 = 600;

/// What hooks are asked about or told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HookEvent {
    /// A call of a tool is about to be carried out.
    PreToolUse,
    /// A call of a tool was carried out.
    PostToolUse,
    /// An agent hands an answer in.
    AnswerSubmitted,
    /// An agent votes.
    VoteCast,
    /// Files are about to be delivered.
    BeforeDelivery,
    /// Files were delivered, or were not.
    AfterDelivery,
}

impl HookEvent {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::AnswerSubmitted,
        Self::VoteCast,
        Self::BeforeDelivery,
        Self::AfterDelivery,
    ];

    /// Its name in configs and requests.
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

    /// Whether something waits for a hook's word, so that one that fails keeps it from happening.
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

/// A command of the user's that is asked on an event.
#[derive(Clone, Debug)]
pub struct Hook {
    /// When.
    pub event: HookEvent,
    /// About which tools; the events that are about no tool have the one that takes all.
    pub matcher: ToolMatcher,
    /// What is given to the shell.
    pub command: String,
    /// How long it may take, in seconds.
    pub timeout_seconds: u64,
    /// What it reaches of the network.
    pub network: NetworkPolicy,
}

/// The hooks of one agent. Those for all agents and its own add up.
#[derive(Clone, Debug, Default)]
pub struct HookList(Vec<Hook>);

impl HookList {
    /// These hooks.
    pub fn new(hooks: Vec<Hook>) -> Self {
        Self(hooks)
    }

    /// These hooks and `others`.
    #[must_use]
    pub fn with(&self, others: &Self) -> Self {
        Self(self.0.iter().chain(&others.0).cloned().collect())
    }

    /// The hooks.
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those for an event, about a call of `tool` if it is about one.
    pub fn matching(&self, event: HookEvent, tool: Option<&str>) -> Vec<&Hook> {
        let fits = |hook: &&Hook| {
            hook.event == event && tool.is_none_or(|tool| hook.matcher.matches(tool))
        };
        self.0.iter().filter(fits).collect()
    }
}
