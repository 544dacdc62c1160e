//! The roles of a pipeline: who may do what, in which order, who reads whose output, and when the
//! pipeline ends. This module starts nothing; the rights of a role become grants of its agents.

pub mod context;
pub mod progress;
mod prompts;
pub mod sections;
pub mod built_in;
pub mod journal;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::path::RelPath;
use crate::roles::built_in::UNDERSTAND;

/// The longest name of a role, in bytes.
const NAME_BYTES_MAX: usize = 32;
/// Names that are reserved in a pipeline and cannot be a role's.
const RESERVED_NAMES: &[&str] = &["main", "supervisor", "head", "shared"];

/// The name of a role, also used for its directory and branch: lower-case letters, digits and `-`,
/// beginning with a letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoleName(String);

/// The reason why a string is not a valid role name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a role name: expected 1 to {NAME_BYTES_MAX} lower-case letters, digits and `-`, starting \
     with a letter, and not `main`, `supervisor`, `head` or `shared`"
)]
pub struct InvalidRoleName;

impl RoleName {
    /// Parses a name that is valid for a directory and a branch.
    pub fn parse(text: &str) -> Result<Self, InvalidRoleName> {
        let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = text.len() <= NAME_BYTES_MAX
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.chars().all(is_allowed)
            && !RESERVED_NAMES.contains(&text);
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidRoleName)
        }
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for RoleName {
    type Error = InvalidRoleName;

    fn try_from(text: String) -> Result<Self, InvalidRoleName> {
        Self::parse(&text)
    }
}

impl From<RoleName> for String {
    fn from(name: RoleName) -> Self {
        name.0
    }
}

impl fmt::Display for RoleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a role may do in addition to reading, which it always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleRight {
    /// Create and replace files in its own directories.
    Write,
    /// Edit files there.
    Edit,
    /// Run commands.
    Bash,
}

impl RoleRight {
    /// All rights, in the order of tables.
    pub const ALL: [RoleRight; 3] = [RoleRight::Write, RoleRight::Edit, RoleRight::Bash];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            RoleRight::Write => "write",
            RoleRight::Edit => "edit",
            RoleRight::Bash => "bash",
        }
    }

    /// Returns the right with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

/// Where a role may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleWriteAccess {
    /// In its own directory, named after the role.
    OwnDirectory,
    /// In its own directory and in these directories of the shared tree.
    OwnAndListed(Vec<RelPath>),
    /// In a pipeline on a project, everywhere except in the directories of other roles; in a
    /// pipeline that started empty, in its own directory.
    Project,
}

/// The roles whose output a role reads in its prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleReadAccess {
    /// The roles of all earlier stages.
    AllEarlier,
    /// These roles.
    Only(Vec<RoleName>),
}

/// A role in a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineRole {
    /// Its name.
    pub name: RoleName,
    /// Its purpose, in a few words for people.
    pub purpose: String,
    /// The prompt for its agents; `None` uses that of the built-in role of the same name.
    pub prompt: Option<String>,
    /// Its rights in addition to reading.
    pub rights: BTreeSet<RoleRight>,
    /// Where it may use them.
    pub writes: RoleWriteAccess,
    /// The roles whose output it reads in its prompt.
    pub reads: RoleReadAccess,
    /// The file in its own directory that later stages read; `None` if its answer is its only
    /// output.
    pub output: Option<String>,
}

impl PipelineRole {
    /// Returns a role that only reads, and whose answer is its only output.
    pub fn read_only(name: RoleName) -> Self {
        Self {
            purpose: format!("does the part of {name}"),
            name,
            prompt: None,
            rights: BTreeSet::new(),
            writes: RoleWriteAccess::OwnDirectory,
            reads: RoleReadAccess::AllEarlier,
            output: None,
        }
    }

    /// Returns whether it has this right.
    pub fn has_right(&self, right: RoleRight) -> bool {
        self.rights.contains(&right)
    }
}

/// A stage of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineStage {
    /// The role that works.
    pub role: PipelineRole,
    /// Its agents; several vote on whose work counts. Never empty.
    pub agents: Vec<AgentId>,
    /// The number of copies of the role that work at the same time, each on one part of the plan
    /// and on its own branch. At least one.
    pub copies: u32,
}

/// The definition of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineSpec {
    /// The stages in order; each role occurs once. Never empty.
    pub stages: Vec<PipelineStage>,
    /// The maximum number of iterations. At least one.
    pub iterations_max: u32,
    /// The role whose verdict ends the pipeline; `None` ends it after one iteration.
    pub until: Option<RoleName>,
    /// The token budget for earlier output in a stage's prompt.
    pub context_tokens_max: u64,
}

impl PipelineSpec {
    /// Returns the stage of this number, from 0.
    pub fn stage(&self, number: usize) -> Option<&PipelineStage> {
        self.stages.get(number)
    }

    /// Returns the stage at which further iterations start: the first, or the one after
    /// `understand`.
    pub fn loop_start(&self) -> usize {
        let mut stages = self.stages.iter();
        let is_repeated = |stage: &PipelineStage| stage.role.name.as_str() != UNDERSTAND;
        stages.position(is_repeated).unwrap_or_default()
    }

    /// Returns the stages whose output the stage of this number reads, in order.
    pub fn context_stages(&self, number: usize) -> Vec<&PipelineStage> {
        let Some(stage) = self.stage(number) else {
            return Vec::new();
        };
        let earlier_stages = self.stages.iter().take(number);
        match &stage.role.reads {
            RoleReadAccess::AllEarlier => earlier_stages.collect(),
            RoleReadAccess::Only(names) => {
                let is_named = |other: &&PipelineStage| names.contains(&other.role.name);
                self.stages.iter().filter(is_named).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_can_name_a_directory_and_a_branch() {
        let check = |text: &str, is_name| {
            assert_eq!(RoleName::parse(text).is_ok(), is_name, "{text}");
        };
        check("planner", true);
        check("tester-2", true);
        for text in [
            "", "-a", "a-", "2nd", "Main", "main", "a/b", "a b", "..", "ä", "a_b", "a.b", ".git",
        ] {
            check(text, false);
        }
        check(&"a".repeat(NAME_BYTES_MAX), true);
        check(&"a".repeat(NAME_BYTES_MAX + 1), false);
    }
}
