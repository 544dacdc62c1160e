//! Inspects a pipeline, whether or not it is running: its branches, and all commits of the shared
//! one. It changes nothing.

use std::collections::BTreeMap;

use crate::error::Result;
use crate::path::AbsPath;
use crate::pipeline::repository::{base_commit, no_shared_branch_error, shared_branch};
use crate::roles::journal::JournalEntry;
use crate::world::git::GitProgram;
use crate::world::git::bare_repository::{BareRepository, ChangedFile};
use crate::world::git::history::{GitCommit, HistoryTraversal};
use crate::world::git::object::{BranchName, ObjectId};
use crate::world::store::pipelines::{PipelineDir, PipelineRecord};

/// A pipeline that is inspected.
#[derive(Debug)]
pub struct PipelineView {
    /// Its directory.
    pub dir: PipelineDir,
    /// The record of its start.
    pub record: PipelineRecord,
    bare_repository: BareRepository,
}

/// A branch, compared with the shared one.
#[derive(Clone, Debug)]
pub struct BranchStatus {
    /// Its name.
    pub branch: BranchName,
    /// Its newest commit.
    pub tip: GitCommit,
    /// The number of commits that it has and the shared branch does not.
    pub ahead: u64,
    /// The number of commits of the shared branch that it lacks.
    pub behind: u64,
    /// Its checkouts: one directory for each agent that works on it.
    pub checkouts: Vec<AbsPath>,
}

/// A commit of the shared branch, or one that was merged into it.
#[derive(Clone, Debug)]
pub struct PipelineCommit {
    /// What was committed.
    pub commit: GitCommit,
    /// The journal entry that massgen wrote with it; `None` for a commit of a role.
    pub entry: Option<JournalEntry>,
    /// The iteration that it belongs to; `None` before the first one, and after a commit of massgen
    /// that belongs to none, such as a revert.
    pub iteration: Option<u32>,
    /// The files that it changed.
    pub changed: Vec<ChangedFile>,
}

impl PipelineView {
    /// Opens a pipeline for inspection.
    pub async fn open(dir: PipelineDir, env: &BTreeMap<String, String>) -> Result<Self> {
        let record = dir.record()?;
        let git = GitProgram::find(env).await?;
        Ok(Self {
            bare_repository: BareRepository::open(git, dir.bare_repository()),
            dir,
            record,
        })
    }

    /// Returns all its branches by name, including the shared one.
    pub async fn branches(&self) -> Result<Vec<BranchStatus>> {
        let branches = self.bare_repository.branches().await?;
        let shared_branch = shared_branch()?;
        let branch_and_tip = branches.iter().find(|(branch, _)| *branch == shared_branch);
        let (_, shared_tip) = branch_and_tip.ok_or_else(|| no_shared_branch_error(&self.dir))?;
        let checkout_names = PipelineDir::checkouts(&self.record.workspace)?;
        let prefix = format!("massgen/{}/", self.dir.short_name());
        let mut statuses = Vec::new();
        for (branch, id) in &branches {
            let (ahead, behind) = self.bare_repository.distance(id, shared_tip).await?;
            let branch_name = branch.to_string();
            let instance = branch_name.strip_prefix(&prefix);
            let checkouts = checkout_names
                .iter()
                .filter(|name| Some(instance_name(name)) == instance);
            statuses.push(BranchStatus {
                branch: branch.clone(),
                tip: self.bare_repository.read_commit(id).await?,
                ahead,
                behind,
                checkouts: checkouts
                    .map(|name| self.record.workspace.join(name))
                    .collect(),
            });
        }
        Ok(statuses)
    }

    /// Returns all commits since the pipeline began, newest first. The commits of a merge follow
    /// it.
    pub async fn commits(&self) -> Result<Vec<PipelineCommit>> {
        let shared_branch = shared_branch()?;
        if self.bare_repository.tip(&shared_branch).await?.is_none() {
            return Err(no_shared_branch_error(&self.dir));
        }
        let base = base_commit(&self.record);
        let history = |traversal| {
            self.bare_repository
                .history(&shared_branch, base.as_ref(), traversal)
        };
        // A role writes its own commit messages, so journal entries in them are not trusted.
        let massgen_commits = history(HistoryTraversal::FirstParents).await?;
        let massgen_commits: BTreeMap<&ObjectId, Option<(JournalEntry, &str)>> = massgen_commits
            .iter()
            .map(|commit| (&commit.id, JournalEntry::parse(&commit.message)))
            .collect();
        let mut iteration = None;
        let mut commits = Vec::new();
        for commit in history(HistoryTraversal::All).await?.into_iter().rev() {
            let parsed_entry = massgen_commits.get(&commit.id);
            if let Some(parsed_entry) = parsed_entry {
                iteration = parsed_entry
                    .as_ref()
                    .and_then(|(entry, _)| entry.iteration());
            }
            let entry = parsed_entry
                .and_then(|parsed_entry| parsed_entry.as_ref().map(|(entry, _)| entry.clone()));
            let parent = match commit.parents.first() {
                Some(parent) => parent.clone(),
                None => self.bare_repository.empty_tree().await?,
            };
            commits.push(PipelineCommit {
                changed: self
                    .bare_repository
                    .changed_files(&parent, &commit.tree)
                    .await?,
                commit,
                entry,
                iteration,
            });
        }
        Ok(commits)
    }
}

/// Returns the role instance that a checkout belongs to: if it has several agents, their number
/// follows a dot.
pub(super) fn instance_name(checkout: &str) -> &str {
    checkout
        .split_once('.')
        .map_or(checkout, |(instance, _)| instance)
}
