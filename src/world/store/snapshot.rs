//! Snapshots of an agent's workspace: one directory per answer, immutable once it has appeared, and
//! shared by all readers. The workspace itself is never linked, moved or changed.
//!
//! Files of a snapshot have no write permission, because unchanged ones are hard links to those of
//! the previous snapshot. Directories stay writable for the user, so that `rm -r` works.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::id::{AgentId, AnswerLabel};
use crate::path::{AbsPath, RealPath};
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::file;
use crate::world::sys::state_files::tree::{
    self, CopyMethod, CopyReport, PreviousCopy, TreeLimits,
};

/// The largest workspace that is copied: 200,000 entries, 4 GiB of new bytes, 64 levels of
/// directories. A checkout of the Linux kernel has half as many entries.
const WORKSPACE_MAX: TreeLimits = TreeLimits {
    entries: 200_000,
    bytes: 4 * 1024 * 1024 * 1024,
    depth: 64,
};

/// Takes the snapshots of one agent in one run.
#[derive(Debug)]
pub struct AgentSnapshots {
    agent: AgentId,
    shared: AbsPath,
    storage: AbsPath,
    last: Option<PreviousCopy>,
}

/// A copy of a workspace.
#[derive(Debug)]
pub struct Snapshot {
    /// Its path.
    pub path: RealPath,
    /// The number of regular files in it.
    pub files: u64,
    /// How many of them are shared with the previous snapshot.
    pub reused: u64,
    /// The number of newly stored bytes.
    pub stored_bytes: u64,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

impl AgentSnapshots {
    /// Starts without a snapshot. Snapshots are created in `shared` (the temp workspace of this
    /// run, which must exist), and a symlink named `agent` in `storage` (`snapshot_storage`) points
    /// to the newest.
    pub fn new(agent: AgentId, shared: AbsPath, storage: AbsPath) -> Self {
        Self {
            agent,
            shared,
            storage,
            last: None,
        }
    }

    /// Shares files that are unchanged since `seed` with it.
    pub fn start_from(&mut self, seed: WorkspaceSeed) {
        self.last = Some(seed.0);
    }

    /// Copies `workspace` to a new directory named after `label`; `None` if it contains no file.
    pub fn take(&mut self, workspace: &AbsPath, label: AnswerLabel) -> Result<Option<Snapshot>> {
        let stage = StagingDirectory::new(self.shared.parent().as_ref().unwrap_or(&self.shared))?;
        let copied = self.copy(workspace, stage.path())?;
        if is_empty(&copied) {
            return Ok(None);
        }
        let dir = self.shared.join(label.to_string());
        stage.publish(&dir)?;
        let path = dir::resolve(&dir)?;
        let mut notes = notes(&copied, workspace);
        if let Err(error) = self.point_at(&path) {
            notes.push(pointer_note(&error));
        }
        let snapshot = Snapshot {
            path,
            files: copied.files,
            reused: copied.reused,
            stored_bytes: copied.stored_bytes,
            notes,
        };
        self.last = Some(PreviousCopy {
            dir,
            manifest: copied.manifest,
        });
        Ok(Some(snapshot))
    }

    /// Copies `workspace` into the existing directory `into`, sharing what has not changed since
    /// the last snapshot. Returns notes for the user.
    pub(crate) fn save(&self, workspace: &AbsPath, into: &AbsPath) -> Result<Vec<String>> {
        let copied = self.copy(workspace, into)?;
        Ok(notes(&copied, workspace))
    }

    fn copy(&self, workspace: &AbsPath, into: &AbsPath) -> Result<CopyReport> {
        let last = self.last.as_ref();
        let except = [&self.shared, &self.storage];
        tree::copy(
            workspace,
            into,
            CopyMethod::Frozen { last },
            WORKSPACE_MAX,
            &except,
        )
    }

    /// Points the agent's symlink in the snapshot storage to `newest`.
    fn point_at(&self, newest: &RealPath) -> Result<()> {
        dir::create_all(&self.storage, DirectoryAudience::User)?;
        let storage = dir::resolve(&self.storage)?;
        let link = storage.to_abs().join(self.agent.as_str());
        file::replace_link(&link, &relative_path(&storage, newest))
    }
}

/// The files that a workspace started with, and where they are stored.
#[derive(Debug)]
pub struct WorkspaceSeed(PreviousCopy);

/// Copies a snapshot, or the workspace of an earlier turn, into a workspace that massgen has just
/// created. The copies belong to the workspace and can be changed.
pub(crate) fn restore(from: &RealPath, into: &AbsPath) -> Result<WorkspaceSeed> {
    let dir = from.to_abs();
    let CopyReport { manifest, .. } =
        tree::copy(&dir, into, CopyMethod::Writable, WORKSPACE_MAX, &[])?;
    Ok(WorkspaceSeed(PreviousCopy { dir, manifest }))
}

/// Removes all snapshots in `shared` except those with these names.
pub fn keep_only(shared: &AbsPath, names: &BTreeSet<String>) -> Result<()> {
    for name in dir::names(shared)? {
        if !names.contains(&name) {
            clear::remove(&shared.join(name))?;
        }
    }
    Ok(())
}

fn is_empty(copied: &CopyReport) -> bool {
    copied.files == 0 && copied.links == 0
}

/// Returns the relative path from one directory to another.
fn relative_path(from: &RealPath, to: &RealPath) -> PathBuf {
    let from_names: Vec<_> = from.as_path().iter().collect();
    let to_names: Vec<_> = to.as_path().iter().collect();
    let shared = from_names
        .iter()
        .zip(&to_names)
        .take_while(|(left, right)| left == right)
        .count();
    let up = from_names.iter().skip(shared).map(|_| "..".as_ref());
    up.chain(to_names.into_iter().skip(shared)).collect()
}

fn notes(copied: &CopyReport, workspace: &AbsPath) -> Vec<String> {
    let left_out = [
        (
            copied.special,
            "are not regular files (pipes, sockets, devices)",
        ),
        (copied.unreadable, "cannot be read"),
        (
            copied.swapped,
            "were replaced or removed while they were copied",
        ),
    ];
    left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, why)| format!("left {count} out of the copy of `{workspace}` that {why}"))
        .collect()
}

fn pointer_note(error: &Error) -> String {
    format!("cannot create the symlink to the newest snapshot: {error:#}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::relative_path;
    use crate::path::RealPath;

    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "tests have no kernel to ask")]
    fn check(from: &str, to: &str, expected: &str) {
        let got = relative_path(&RealPath::vouch(from), &RealPath::vouch(to));
        assert_eq!(got, Path::new(expected));
    }

    #[test]
    fn the_way_between_two_directories_is_relative() {
        check(
            "/p/.massgen/snapshots",
            "/p/.massgen/temp/run/agent1.1",
            "../temp/run/agent1.1",
        );
        check("/a/b", "/c", "../../c");
        check("/a", "/a/b", "b");
    }
}
