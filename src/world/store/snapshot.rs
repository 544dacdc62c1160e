//! Snapshots of an agent's workspace: one directory per answer, immutable once it has appeared, and
//! shared by all readers. The workspace itself is never linked, moved or changed.
//!
//! Files of a snapshot have no write permission, because unchanged ones are hard links to those of
//! the previous snapshot. Directories stay writable for the user, so that `rm -r` works.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::id::{AgentId, AnswerLabel};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::slot::duplicate;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::state_files::tree::{
    self, CopyMethod, CopyReport, PreviousCopy, TreeLimits,
};
use crate::world::sys::state_files::{clear, file};

/// The largest workspace that is copied: 200,000 entries, 4 GiB of new bytes, 64 levels of
/// directories. A checkout of the Linux kernel has half as many entries.
const WORKSPACE_LIMITS: TreeLimits = TreeLimits {
    entries: 200_000,
    bytes: 4 * 1024 * 1024 * 1024,
    depth: 64,
};

/// Takes the snapshots of one agent in one run.
#[derive(Debug)]
pub struct AgentSnapshots {
    agent: AgentId,
    snapshots_dir: AbsPath,
    storage_dir: AbsPath,
    last_copy: Option<PreviousCopy>,
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
    /// What is missing in it, one sentence each.
    pub omissions: Vec<String>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
}

/// A file of an answer that was made in an attempt.
#[derive(Debug)]
pub struct CapturedFile {
    /// The layer that holds it.
    pub layer: AbsPath,
    /// Its path there.
    pub rel: RelPath,
    /// Its path in the snapshot.
    pub shown: RelPath,
}

impl AgentSnapshots {
    /// Starts without a snapshot. Snapshots are created in `snapshots_dir` (the temp workspace
    /// of this run, which must exist), and a symlink named `agent` in `storage_dir` points to the
    /// newest.
    pub fn new(agent: AgentId, snapshots_dir: AbsPath, storage_dir: AbsPath) -> Self {
        Self {
            agent,
            snapshots_dir,
            storage_dir,
            last_copy: None,
        }
    }

    /// Shares files that are unchanged since `seed` with it.
    pub fn start_from(&mut self, seed: WorkspaceSeed) {
        self.last_copy = Some(seed.0);
    }

    /// Copies `workspace` to a new directory named after `label`; `None` if it contains no file. It
    /// is an error if it contains files, and none that can be copied.
    pub fn take(&mut self, workspace: &AbsPath, label: AnswerLabel) -> Result<Option<Snapshot>> {
        let staging = StagingDirectory::new(
            self.snapshots_dir
                .parent()
                .as_ref()
                .unwrap_or(&self.snapshots_dir),
        )?;
        let report = self.copy(workspace, staging.path())?;
        let omissions = omissions(&report, workspace);
        if is_empty(&report) {
            return match omissions.as_slice() {
                [] => Ok(None),
                omissions => Err(Error::new(ErrorKind::Environment, omissions.join("; "))),
            };
        }
        let dir = self.snapshots_dir.join(label.to_string());
        staging.publish(&dir)?;
        let path = dir::resolve(&dir)?;
        let mut notes: Vec<String> = special_note(&report, workspace).into_iter().collect();
        if let Err(error) = self.point_at(&path) {
            notes.push(pointer_note(&error));
        }
        let snapshot = Snapshot {
            path,
            files: report.files,
            reused: report.reused,
            stored_bytes: report.stored_bytes,
            omissions,
            notes,
        };
        self.last_copy = Some(PreviousCopy {
            dir,
            manifest: report.manifest,
        });
        Ok(Some(snapshot))
    }

    /// Copies `files` to a new directory named after `label`, with a file of this name and text;
    /// `None` if the text is empty.
    pub fn take_files(
        &mut self,
        files: &[CapturedFile],
        (name, text): (&str, &str),
        label: AnswerLabel,
    ) -> Result<Option<RealPath>> {
        if text.is_empty() {
            return Ok(None);
        }
        let parent = self.snapshots_dir.parent();
        let staging = StagingDirectory::new(parent.as_ref().unwrap_or(&self.snapshots_dir))?;
        let copy_files = || -> std::result::Result<(), FileSystemError> {
            let to = DirectoryHandle::open_own(staging.path())?;
            for file in files {
                let layer = DirectoryHandle::open_own(&file.layer)?;
                let (from_dir, from_name) = layer.parent_of(&file.rel)?;
                let (to_dir, _) = to.make_parent_of(&file.shown)?;
                // Nothing writes to the layer, so its files need no copies on the same file system.
                let linked = from_dir.link(from_name, &to_dir, from_name);
                linked.or_else(|_| duplicate(&from_dir, &to_dir, from_name))?;
            }
            Ok(())
        };
        copy_files().map_err(|error| {
            let message = format!("cannot copy the files of {label}: {error}");
            Error::new(ErrorKind::Io, message)
        })?;
        let description = staging.path().join(name);
        if !file::exists(&description)? {
            file::replace_unsynced(&description, text.as_bytes())?;
        }
        let dir = self.snapshots_dir.join(label.to_string());
        staging.publish(&dir)?;
        let path = dir::resolve(&dir)?;
        self.point_at(&path)?;
        Ok(Some(path))
    }

    /// Copies `workspace` into the existing directory `into`, sharing what has not changed since
    /// the last snapshot. Returns notes for the user.
    pub(crate) fn save(&self, workspace: &AbsPath, into: &AbsPath) -> Result<Vec<String>> {
        let report = self.copy(workspace, into)?;
        let mut notes = omissions(&report, workspace);
        notes.extend(special_note(&report, workspace));
        Ok(notes)
    }

    fn copy(&self, workspace: &AbsPath, into: &AbsPath) -> Result<CopyReport> {
        let last = self.last_copy.as_ref();
        let excluded_dirs = [&self.snapshots_dir, &self.storage_dir];
        tree::copy(
            workspace,
            into,
            CopyMethod::Frozen { last },
            WORKSPACE_LIMITS,
            &excluded_dirs,
        )
    }

    /// Points the agent's symlink in the snapshot storage to `newest`.
    fn point_at(&self, newest: &RealPath) -> Result<()> {
        dir::create_all(&self.storage_dir, DirectoryAudience::User)?;
        let storage_dir = dir::resolve(&self.storage_dir)?;
        let link = storage_dir.to_abs().join(self.agent.as_str());
        file::replace_link(&link, &relative_path(&storage_dir, newest))
    }
}

/// The files that a workspace started with, and where they are stored.
#[derive(Debug)]
pub struct WorkspaceSeed(PreviousCopy);

/// Returns whether `path` is an empty directory, or does not exist.
pub(crate) fn is_free(path: &AbsPath) -> Result<bool> {
    Ok(dir::names_if_exists(path)?.is_empty())
}

/// Copies a snapshot, or the workspace of an earlier turn, into a workspace that massgen has just
/// created. The copies belong to the workspace and can be changed.
pub(crate) fn restore(from: &RealPath, into: &AbsPath) -> Result<WorkspaceSeed> {
    let dir = from.to_abs();
    let CopyReport { manifest, .. } =
        tree::copy(&dir, into, CopyMethod::Writable, WORKSPACE_LIMITS, &[])?;
    Ok(WorkspaceSeed(PreviousCopy { dir, manifest }))
}

/// Removes all snapshots in `snapshots_dir` except those with these names.
pub fn keep_only(snapshots_dir: &AbsPath, names: &BTreeSet<String>) -> Result<()> {
    for name in dir::names(snapshots_dir)? {
        if !names.contains(&name) {
            clear::remove(&snapshots_dir.join(name))?;
        }
    }
    Ok(())
}

fn is_empty(report: &CopyReport) -> bool {
    report.files == 0 && report.links == 0
}

/// Returns the relative path from one directory to another.
fn relative_path(from: &RealPath, to: &RealPath) -> PathBuf {
    let from_names: Vec<_> = from.as_path().iter().collect();
    let to_names: Vec<_> = to.as_path().iter().collect();
    let common_count = from_names
        .iter()
        .zip(&to_names)
        .take_while(|(left, right)| left == right)
        .count();
    let up = from_names.iter().skip(common_count).map(|_| "..".as_ref());
    up.chain(to_names.into_iter().skip(common_count)).collect()
}

/// Returns what is missing in a copy of `workspace`, one sentence each.
fn omissions(report: &CopyReport, workspace: &AbsPath) -> Vec<String> {
    let unreadable = omission(report.unreadable, "cannot be read", workspace);
    let replaced = "were replaced or removed while they were copied";
    let replaced = omission(report.swapped, replaced, workspace);
    unreadable.into_iter().chain(replaced).collect()
}

/// Returns the note about pipes, sockets and devices in `workspace`. A copy without them is complete:
/// they are never delivered.
fn special_note(report: &CopyReport, workspace: &AbsPath) -> Option<String> {
    let reason = "are not regular files (pipes, sockets, devices)";
    omission(report.special, reason, workspace)
}

fn omission(count: u64, reason: &str, workspace: &AbsPath) -> Option<String> {
    (count > 0).then(|| format!("left {count} out of the copy of `{workspace}` that {reason}"))
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
    #[expect(clippy::disallowed_methods, reason = "paths in tests need not exist")]
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
