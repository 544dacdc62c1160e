//! Owns the parts of a pipeline: who may do what, in which order, who reads what of whom, and when it
//! is over. It holds no agents and starts nothing; roles lower to grants like everything else.

pub mod context;
pub mod progress;
mod prompts;
pub mod sections;
pub mod built_in;
pub mod journal;
pub mod verdict;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::AgentId;
use crate::path::RelPath;
use crate::roles::built_in::UNDERSTAND;

/// The longest name of a role, in bytes.
const NAME_BYTES_MAX: usize = 32;
/// Names in a pipeline that are no role's.
const RESERVED: &[&str] = &["main", "supervisor", "head", "shared"];

/// The name of a role, which its directory and its branch have too: lower-case letters, digits and
/// `-`, beginning with a letter.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoleName(String);

/// Why a text is no name of a role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it is no name for a role: expected 1 to {NAME_BYTES_MAX} lower-case letters, digits and `-`, \
     beginning with a letter, and none of `main`, `supervisor`, `head` and `shared`"
)]
pub struct InvalidRoleName;

impl RoleName {
    /// Accepts a name that a directory and a branch can have.
    pub fn parse(text: &str) -> Result<Self, InvalidRoleName> {
        let is_known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_name = text.len() <= NAME_BYTES_MAX
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.ends_with('-')
            && text.chars().all(is_known)
            && !RESERVED.contains(&text);
        if is_name {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidRoleName)
        }
    }

    /// The name.
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

/// What a role may do. It may always read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleRight {
    /// Make and replace files in its own directories.
    Write,
    /// Change parts of files there.
    Edit,
    /// Run commands.
    Bash,
}

impl RoleRight {
    /// All of them, in the order of tables.
    pub const ALL: [RoleRight; 3] = [RoleRight::Write, RoleRight::Edit, RoleRight::Bash];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            RoleRight::Write => "write",
            RoleRight::Edit => "edit",
            RoleRight::Bash => "bash",
        }
    }

    /// The right of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|right| right.name() == name)
    }
}

/// Where a role writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleWriteAccess {
    /// In the directory that has its name.
    OwnDirectory,
    /// In that, and in these directories of the shared tree.
    OwnAndListed(Vec<RelPath>),
    /// Where the pipeline works on a project, everywhere in it but in the directories of other roles;
    /// where it began empty, in its own.
    Project,
}

/// Whose outputs a role is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleReadAccess {
    /// Those of all stages before its own.
    AllEarlier,
    /// Those of these roles.
    Only(Vec<RoleName>),
}

/// A part in a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineRole {
    /// Its name.
    pub name: RoleName,
    /// What it is for, in a few words for people.
    pub purpose: String,
    /// What its agents are told of their part; that of the table of the same name, without one.
    pub prompt: Option<String>,
    /// What it may do beside reading.
    pub rights: BTreeSet<RoleRight>,
    /// Where it may do that.
    pub writes: RoleWriteAccess,
    /// Whose outputs it is told.
    pub reads: RoleReadAccess,
    /// The file in its own directory that later stages read; none if its answer is all that it gives.
    pub output: Option<String>,
}

impl PipelineRole {
    /// A role that only reads, and leaves nothing but its answer.
    pub fn empty(name: RoleName) -> Self {
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

    /// Whether it may do this.
    pub fn has_right(&self, right: RoleRight) -> bool {
        self.rights.contains(&right)
    }
}

/// A place in the order of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineStage {
    /// The role that works.
    pub role: PipelineRole,
    /// The agents that work in it; several vote on whose work counts. Never empty.
    pub agents: Vec<AgentId>,
    /// How many copies of the role work at the same time, each on a part of the plan and on a branch
    /// of its own. At least one.
    pub copies: u32,
}

/// What a pipeline is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineSpec {
    /// The stages in their order; no role stands in two of them. Never empty.
    pub stages: Vec<PipelineStage>,
    /// How often the stages may be gone through. At least once.
    pub iterations_max: u32,
    /// The role whose word ends it; without one, it ends after one iteration.
    pub until: Option<RoleName>,
    /// How much of earlier outputs a stage is told, in tokens.
    pub context_tokens_max: u64,
}

impl PipelineSpec {
    /// The stage of this number, from 0.
    pub fn stage(&self, number: usize) -> Option<&PipelineStage> {
        self.stages.get(number)
    }

    /// The stage with which another iteration begins: the first, unless that only finds out what is
    /// asked.
    pub fn loop_start(&self) -> usize {
        let mut stages = self.stages.iter();
        let works = |stage: &PipelineStage| stage.role.name.as_str() != UNDERSTAND;
        stages.position(works).unwrap_or_default()
    }

    /// The stages whose outputs the stage of this number is told, in their order.
    pub fn context_stages(&self, number: usize) -> Vec<&PipelineStage> {
        let Some(stage) = self.stage(number) else {
            return Vec::new();
        };
        let earlier = self.stages.iter().take(number);
        match &stage.role.reads {
            RoleReadAccess::AllEarlier => earlier.collect(),
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
        let check = |text: &str, good| assert_eq!(RoleName::parse(text).is_ok(), good, "{text}");
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
