//! The names of agents, subagents and answers, as types that cannot hold an invalid name.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize, Serializer};

/// Maximum length of an agent id, in bytes: ids become directory names.
pub const AGENT_ID_BYTES_MAX: usize = 64;

/// An agent's own name from the YAML: letters, digits, `_`, `-` and `.`, not beginning with `.`.
/// Other agents never see it; they see an [`AgentNumber`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct AgentId(String);

/// Error that a string is not an agent id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not an agent id: expected 1 to {AGENT_ID_BYTES_MAX} letters, digits, `_`, `-` or \
     `.`, not starting with `.`"
)]
pub struct InvalidAgentId {
    text: String,
}

impl AgentId {
    /// Parses `text`, which must be usable as the name of an agent and its directories.
    pub fn parse(text: &str) -> Result<Self, InvalidAgentId> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let is_valid = (1..=AGENT_ID_BYTES_MAX).contains(&text.len())
            && !text.starts_with('.')
            && text.chars().all(is_allowed);
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidAgentId {
                text: text.chars().take(AGENT_ID_BYTES_MAX).collect(),
            })
        }
    }

    /// Returns the id as written in the YAML.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AgentId {
    type Error = InvalidAgentId;

    fn try_from(text: String) -> Result<Self, InvalidAgentId> {
        Self::parse(&text)
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for AgentId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AgentId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]*$",
            "maxLength": AGENT_ID_BYTES_MAX,
        })
    }
}

/// Maximum length of a subagent id, in bytes: ids become directory names.
pub const SUBAGENT_ID_BYTES_MAX: usize = 40;

/// The name that an agent gives to one of its subagents: lower-case letters, digits, `_` and `-`,
/// beginning with a letter or digit. Two ids differ on every file system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct SubagentId(String);

/// Error that a string is not a subagent id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a subagent id: expected 1 to {SUBAGENT_ID_BYTES_MAX} lower-case letters, \
     digits, `_` or `-`, starting with a letter or digit"
)]
pub struct InvalidSubagentId {
    text: String,
}

impl SubagentId {
    /// Parses `text`, which must be usable as the name of a directory.
    pub fn parse(text: &str) -> Result<Self, InvalidSubagentId> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let is_valid = (1..=SUBAGENT_ID_BYTES_MAX).contains(&text.len())
            && text.starts_with(is_plain)
            && text.chars().all(|c| is_plain(c) || matches!(c, '_' | '-'));
        if is_valid {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSubagentId {
                text: text.chars().take(SUBAGENT_ID_BYTES_MAX).collect(),
            })
        }
    }

    /// Returns the id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for SubagentId {
    type Error = InvalidSubagentId;

    fn try_from(text: String) -> Result<Self, InvalidSubagentId> {
        Self::parse(&text)
    }
}

impl fmt::Display for SubagentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for SubagentId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SubagentId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[a-z0-9][a-z0-9_-]*$",
            "maxLength": SUBAGENT_ID_BYTES_MAX,
        })
    }
}

/// An agent's anonymous number among the agents of a run, counted from 1 in the order of their
/// sorted ids. It is the only name by which agents know each other, and is printed as `agent2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentNumber(u16);

impl AgentNumber {
    /// Returns the number of the agent at `index` (from 0) of the sorted ids. It saturates at
    /// `u16::MAX`.
    pub fn from_index(index: usize) -> Self {
        Self(u16::try_from(index.saturating_add(1)).unwrap_or(u16::MAX))
    }

    /// Parses `agent2`; `None` for everything else.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("agent")?;
        let is_plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
        if is_plain {
            digits.parse().ok().map(Self)
        } else {
            None
        }
    }
}

impl fmt::Display for AgentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "agent{}", self.0)
    }
}

/// The name of one answer: `agent2.3` is the third answer of `agent2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct AnswerLabel {
    /// The agent that gave it.
    pub agent: AgentNumber,
    /// The number of the answer among this agent's, from 1.
    pub ordinal: u32,
}

/// Error that a string is not the name of an answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the name of an answer: expected one such as `agent2.3`")]
pub struct InvalidAnswerLabel {
    text: String,
}

impl TryFrom<String> for AnswerLabel {
    type Error = InvalidAnswerLabel;

    fn try_from(text: String) -> Result<Self, InvalidAnswerLabel> {
        let parts = text.split_once('.');
        let label = parts.and_then(|(agent, ordinal)| {
            Some(Self {
                agent: AgentNumber::parse(agent)?,
                ordinal: ordinal.parse().ok()?,
            })
        });
        label.ok_or(InvalidAnswerLabel { text })
    }
}

impl fmt::Display for AnswerLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.agent, self.ordinal)
    }
}

impl Serialize for AnswerLabel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for AnswerLabel {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnswerLabel".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^agent[0-9]+\\.[0-9]+$" })
    }
}
