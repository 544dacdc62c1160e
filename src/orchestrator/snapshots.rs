//! Owns the snapshots of a run: one for each answer, taken while its author waits for its verdict,
//! so that nobody writes to the workspace meanwhile.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::id::{AgentId, AnswerLabel};
use crate::path::AbsPath;
use crate::world::store::snapshot::{Snapshot, Snapshots};

/// The snapshots of all agents of a run.
#[derive(Debug)]
pub struct SnapshotStore {
    shared: AbsPath,
    storage: AbsPath,
    by_agent: BTreeMap<AgentId, Snapshots>,
}

impl SnapshotStore {
    /// Begins with none. They will lie in `shared`, which must exist; in `storage` each agent's id
    /// leads to its newest.
    pub fn new(shared: AbsPath, storage: AbsPath) -> Self {
        Self {
            shared,
            storage,
            by_agent: BTreeMap::new(),
        }
    }

    /// Takes the snapshot that belongs to the answer `label`; `None` if the workspace is empty.
    pub async fn take(
        &mut self,
        agent: &AgentId,
        label: AnswerLabel,
        workspace: &AbsPath,
    ) -> Result<Option<Snapshot>> {
        let mut snapshots = self.of(agent);
        let workspace = workspace.clone();
        let work = move || {
            let taken = snapshots.take(&workspace, label);
            (snapshots, taken)
        };
        let done = tokio::task::spawn_blocking(work).await;
        let (snapshots, taken) = done.map_err(|_| Error::bug("a snapshot broke off"))?;
        self.by_agent.insert(agent.clone(), snapshots);
        taken
    }

    /// The snapshots of one agent, taken out for use.
    pub fn of(&mut self, agent: &AgentId) -> Snapshots {
        self.by_agent.remove(agent).unwrap_or_else(|| {
            Snapshots::new(agent.clone(), self.shared.clone(), self.storage.clone())
        })
    }
}
