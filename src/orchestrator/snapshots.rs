//! Snapshots of a run: one for each answer, taken while its author waits for the response, so that
//! the workspace does not change meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::error::{Error, ErrorKind, Result};
use crate::id::{AgentId, AnswerLabel};
use crate::path::{AbsPath, RealPath};
use crate::world::io::locate::{LocatedPath, locate};
use crate::world::store::snapshot::{AgentSnapshots, Snapshot, WorkspaceSeed, keep_only};

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
#[derive(Debug)]
pub struct AnswerSnapshot {
    /// Its path.
    pub path: RealPath,
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

    /// Returns the snapshot for the answer `label`: the recorded one, or one that is taken now;
    /// `None` if the workspace is empty, or if snapshots are disabled.
    pub async fn take(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
        workspace: &AbsPath,
    ) -> Result<Option<AnswerSnapshot>> {
        if self.is_disabled {
            return Ok(None);
        }
        if let Some(recorded_answer) = self
            .recorded
            .pop_front_if(|recorded| recorded.label == label)
        {
            return recorded_answer
                .snapshot
                .as_ref()
                .map(recorded_snapshot)
                .transpose();
        }
        let mut snapshots = self.take_agent_snapshots(agent);
        let workspace = workspace.clone();
        let work = move || {
            let snapshot = snapshots.take(&workspace, label);
            (snapshots, snapshot)
        };
        let work_result = tokio::task::spawn_blocking(work).await;
        let (snapshots, snapshot) =
            work_result.map_err(|_| Error::bug("a snapshot failed unexpectedly"))?;
        self.by_agent.insert(agent.clone(), snapshots);
        let answer_snapshot = |snapshot: Snapshot| AnswerSnapshot {
            path: snapshot.path,
            omissions: snapshot.omissions,
            notes: snapshot.notes,
        };
        Ok(snapshot?.map(answer_snapshot))
    }

    /// Takes the snapshots of one agent out of the store.
    pub fn take_agent_snapshots(&mut self, agent: &AgentId) -> AgentSnapshots {
        self.by_agent.remove(agent).unwrap_or_else(|| {
            AgentSnapshots::new(agent.clone(), self.shared.clone(), self.storage.clone())
        })
    }
}

fn recorded_snapshot(path: &AbsPath) -> Result<AnswerSnapshot> {
    match locate(path)? {
        LocatedPath::Directory(path) => Ok(AnswerSnapshot {
            path,
            omissions: Vec::new(),
            notes: Vec::new(),
        }),
        LocatedPath::File(_) | LocatedPath::Missing(_) => {
            let message = format!("`{path}` no longer exists");
            Err(Error::new(ErrorKind::Environment, message))
        }
    }
}
