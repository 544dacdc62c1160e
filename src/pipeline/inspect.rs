//! Owns the look at a pipeline from outside, whether or not somebody works on it: its branches, and all
//! that was committed to the shared one. Nothing is changed by it.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::pipeline::repository::{base_commit, main_branch};
use crate::roles::journal::JournalEntry;
use crate::world::git::GitProgram;
use crate::world::git::history::{GitCommit, HistoryTraversal};
use crate::world::git::hub::{ChangedFile, Hub};
use crate::world::git::object::{BranchName, ObjectId};
use crate::world::store::pipelines::{PipelineDir, PipelineRecord};

/// A pipeline that is looked at.
#[derive(Debug)]
pub struct PipelineView {
    /// Its directory.
    pub dir: PipelineDir,
    /// How it began.
    pub record: PipelineRecord,
    hub: Hub,
}

/// A branch beside the shared one.
#[derive(Clone, Debug)]
pub struct BranchStatus {
    /// Its name.
    pub branch: BranchName,
    /// Its newest commit.
    pub tip: GitCommit,
    /// How many commits it has that the shared branch has not.
    pub ahead: u64,
    /// How many commits of the shared branch it lacks.
    pub behind: u64,
    /// Where its files lie: one directory for each agent that works on it.
    pub checkouts: Vec<AbsPath>,
}

/// A commit of the shared branch, or one that was merged into it.
#[derive(Clone, Debug)]
pub struct PipelineCommit {
    /// What was committed.
    pub commit: GitCommit,
    /// What massgen says with it of the course; `None` for a commit of a role's.
    pub entry: Option<JournalEntry>,
    /// In which iteration it belongs; `None` before the first.
    pub iteration: Option<u32>,
    /// The files that it changed.
    pub changed: Vec<ChangedFile>,
}

impl PipelineView {
    /// Opens what there is of a pipeline.
    pub async fn open(dir: PipelineDir, env: &BTreeMap<String, String>) -> Result<Self> {
        let record = dir.record()?;
        let git = GitProgram::find(env).await?;
        Ok(Self {
            hub: Hub::open(git, dir.hub()),
            dir,
            record,
        })
    }

    /// All its branches by name, the shared one among them.
    pub async fn branches(&self) -> Result<Vec<BranchStatus>> {
        let branches = self.hub.branches().await?;
        let shared = main_branch()?;
        let shared = branches.iter().find(|(branch, _)| *branch == shared);
        let (_, shared) = shared.ok_or_else(|| self.no_shared_branch())?;
        let names = PipelineDir::checkouts(&self.record.workspace)?;
        let prefix = format!("massgen/{}/", self.dir.short());
        let mut standings = Vec::new();
        for (branch, id) in &branches {
            let (ahead, behind) = self.hub.distance(id, shared).await?;
            let name = branch.to_string();
            let seat = name.strip_prefix(&prefix);
            let its = names
                .iter()
                .filter(|name| Some(instance_name(name)) == seat);
            standings.push(BranchStatus {
                branch: branch.clone(),
                tip: self.hub.read_commit(id).await?,
                ahead,
                behind,
                checkouts: its.map(|name| self.record.workspace.join(name)).collect(),
            });
        }
        Ok(standings)
    }

    /// All that was committed since it began, newest first. What a merge brought follows it.
    pub async fn commits(&self) -> Result<Vec<PipelineCommit>> {
        let shared = main_branch()?;
        if self.hub.tip(&shared).await?.is_none() {
            return Err(self.no_shared_branch());
        }
        let before = base_commit(&self.record);
        let history = |line| self.hub.history(&shared, before.as_ref(), line);
        // A role writes its own messages, so what it says there of the course is not believed.
        let own = history(HistoryTraversal::First).await?;
        let own: BTreeMap<&ObjectId, Option<(JournalEntry, &str)>> = own
            .iter()
            .map(|commit| (&commit.id, JournalEntry::parse(&commit.message)))
            .collect();
        let mut iteration = None;
        let mut steps = Vec::new();
        for commit in history(HistoryTraversal::All).await?.into_iter().rev() {
            let said = own.get(&commit.id);
            if let Some(said) = said {
                iteration = said.as_ref().and_then(|(entry, _)| entry.iteration());
            }
            let entry = said.and_then(|said| said.as_ref().map(|(entry, _)| entry.clone()));
            let parent = match commit.parents.first() {
                Some(parent) => parent.clone(),
                None => self.hub.empty_tree().await?,
            };
            steps.push(PipelineCommit {
                changed: self.hub.changed_files(&parent, &commit.tree).await?,
                commit,
                entry,
                iteration,
            });
        }
        Ok(steps)
    }

    fn no_shared_branch(&self) -> Error {
        let name = self.dir.name();
        let message = format!("the repository of `{name}` has no shared branch");
        Error::new(ErrorKind::Environment, message)
            .with_hint(format!("if nobody needs it, remove `{}`", self.dir.dir()))
    }
}

/// The seat that a checkout belongs to: one of several agents has its number behind a dot.
pub(super) fn instance_name(checkout: &str) -> &str {
    checkout.split_once('.').map_or(checkout, |(seat, _)| seat)
}
