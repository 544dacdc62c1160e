//! Snapshots of a run: one for each answer, taken while its author waits for the response, so that
//! the workspace does not change meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::answer_changes::AnswerChanges;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::error::{Error, ErrorKind, Result};
use crate::id::{AgentId, AnswerLabel};
use crate::orchestrator::attempts::{Attempt, CapturedAnswer, shown_path};
use crate::path::{AbsPath, RealPath};
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::store::snapshot::{
    AgentSnapshots, CapturedFile, Snapshot, WorkspaceSeed, keep_only,
};

/// The file with the whole diff of an answer, in the copy of its files.
const CHANGES_FILE: &str = "CHANGES.diff";

/// Handling of the files that agents create in their workspaces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotMode {
    /// They are copied with each answer, and the copy stays in the session.
    #[default]
    Copied,
    /// They stay where they are, for the caller of massgen; agents that see each other's answers
    /// see copies nevertheless.
    InPlace,
}

/// The snapshots of all agents of a run.
#[derive(Debug)]
pub struct SnapshotStore {
    /// The directory of the snapshots, which all agents may read.
    shared: AbsPath,
    /// The directory of links to each agent's newest snapshot.
    storage: AbsPath,
    by_agent: BTreeMap<AgentId, AgentSnapshots>,
    /// The recorded answers of a resumed run that are still to come.
    recorded: VecDeque<RecordedAnswer>,
    /// Whether snapshots are disabled.
    is_disabled: bool,
}

/// A recorded answer, with its snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedAnswer {
    /// The answer.
    pub label: AnswerLabel,
    /// The path of its snapshot, if there is one.
    pub snapshot: Option<AbsPath>,
}

/// The snapshot of an answer.
#[derive(Debug, Default)]
pub struct AnswerSnapshot {
    /// Its path; `None` if the answer has no files.
    pub path: Option<RealPath>,
    /// What the answer changes, if it was made in an attempt.
    pub changes: Option<AnswerChanges>,
    /// What is missing in it, one sentence each.
    pub omissions: Vec<String>,
    /// Notes for the user about it, one sentence each.
    pub notes: Vec<String>,
}

impl SnapshotStore {
    /// Creates an empty store. Snapshots go to `shared`, which must exist; in `storage` each
    /// agent's id links to its newest one.
    pub fn new(shared: AbsPath, storage: AbsPath) -> Self {
        Self {
            shared,
            storage,
            by_agent: BTreeMap::new(),
            recorded: VecDeque::new(),
            is_disabled: false,
        }
    }

    /// Creates a store that takes no snapshots, for files that no other agent reads.
    pub fn disabled() -> Self {
        Self {
            is_disabled: true,
            ..Self::new(AbsPath::root(), AbsPath::root())
        }
    }

    /// Sets the initial contents of the workspaces, so that files that have not changed since are
    /// stored only once.
    pub fn set_seeds(&mut self, seeds: Vec<(AgentId, WorkspaceSeed)>) {
        for (agent, seed) in seeds {
            let mut snapshots = self.take_agent_snapshots(&agent);
            snapshots.start_from(seed);
            self.by_agent.insert(agent, snapshots);
        }
    }

    /// Restores the snapshots of the `recorded` answers. Other snapshots are removed: their answers
    /// were never accepted.
    pub fn restore(&mut self, recorded: VecDeque<RecordedAnswer>) -> Result<()> {
        let known_labels: BTreeSet<String> = recorded
            .iter()
            .map(|answer| answer.label.to_string())
            .collect();
        keep_only(&self.shared, &known_labels)?;
        self.recorded = recorded;
        Ok(())
    }

    /// Returns the snapshot for the answer `label`: the recorded one, or one that is taken now, of
    /// what it changes in `attempt`, or otherwise of the workspace.
    pub async fn take(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
        workspace: Option<&AbsPath>,
        attempt: Option<&Attempt>,
    ) -> Result<AnswerSnapshot> {
        if let Some(recorded_answer) = self
            .recorded
            .pop_front_if(|recorded| recorded.label == label)
        {
            return recorded_snapshot(recorded_answer.snapshot.as_ref());
        }
        if let Some(attempt) = attempt {
            return self.take_from_attempt(agent, label, attempt).await;
        }
        match workspace.filter(|_| !self.is_disabled) {
            None => Ok(AnswerSnapshot::default()),
            Some(workspace) => self.take_from_workspace(agent, label, workspace).await,
        }
    }

    /// Captures the answer, and copies its new and changed files.
    async fn take_from_attempt(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
        attempt: &Attempt,
    ) -> Result<AnswerSnapshot> {
        let CapturedAnswer {
            changes,
            plan,
            patch,
            notes,
        } = attempt.capture(label).await?;
        let files = changed_files(&plan);
        let take = move |snapshots: &mut AgentSnapshots| {
            snapshots.take_files(&files, (CHANGES_FILE, &patch), label)
        };
        Ok(AnswerSnapshot {
            path: self.with_agent(agent, take).await?,
            changes: Some(changes),
            omissions: Vec::new(),
            notes,
        })
    }

    async fn take_from_workspace(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
        workspace: &AbsPath,
    ) -> Result<AnswerSnapshot> {
        let workspace = workspace.clone();
        let take = move |snapshots: &mut AgentSnapshots| snapshots.take(&workspace, label);
        let snapshot = self.with_agent(agent, take).await?;
        let answer_snapshot = |snapshot: Snapshot| AnswerSnapshot {
            path: Some(snapshot.path),
            changes: None,
            omissions: snapshot.omissions,
            notes: snapshot.notes,
        };
        Ok(snapshot.map(answer_snapshot).unwrap_or_default())
    }

    /// Does blocking work with the snapshots of one agent.
    async fn with_agent<T: Send + 'static>(
        &mut self,
        agent: &AgentId,
        work: impl FnOnce(&mut AgentSnapshots) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut snapshots = self.take_agent_snapshots(agent);
        let blocking_work = move || {
            let result = work(&mut snapshots);
            (snapshots, result)
        };
        let work_result = tokio::task::spawn_blocking(blocking_work).await;
        let (snapshots, result) =
            work_result.map_err(|_| Error::bug("a snapshot failed unexpectedly"))?;
        self.by_agent.insert(agent.clone(), snapshots);
        result
    }

    /// Takes the snapshots of one agent out of the store.
    pub fn take_agent_snapshots(&mut self, agent: &AgentId) -> AgentSnapshots {
        self.by_agent.remove(agent).unwrap_or_else(|| {
            AgentSnapshots::new(agent.clone(), self.shared.clone(), self.storage.clone())
        })
    }
}

fn recorded_snapshot(path: Option<&AbsPath>) -> Result<AnswerSnapshot> {
    let path = match path {
        None => None,
        Some(path) => match locate(path)? {
            LocatedPath::Directory(path) => Some(path),
            LocatedPath::File(_) | LocatedPath::Missing(_) => {
                let message = format!("`{path}` no longer exists");
                return Err(Error::new(ErrorKind::Environment, message));
            }
        },
    };
    Ok(AnswerSnapshot {
        path,
        ..AnswerSnapshot::default()
    })
}

/// Returns the new and changed files of `plan`, with the directory that each is copied from and its
/// path in the copy.
fn changed_files(plan: &DeliveryPlan) -> Vec<CapturedFile> {
    let entries = plan.entries.iter();
    let changed = entries.filter(|entry| entry.is_file() && !entry.ours.is_absent());
    let file = |entry: &DeliveryEntry| {
        Some(CapturedFile {
            layer: plan.source_dirs.get(entry.root)?.clone()?,
            rel: entry.rel.clone(),
            shown: shown_path(plan, entry),
        })
    };
    changed.filter_map(file).collect()
}
