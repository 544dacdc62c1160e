//! Writes here what commands have changed in a container on another machine. The policy of the
//! command decides about each change, names are opened without following symlinks, and a file that
//! was changed here meanwhile is kept.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::fs::Mode;

use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::Permission;
use crate::permissions::history::FileFingerprint;
use crate::sandbox_policy::returned_entry::ReturnRules;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::incoming::{IncomingContent, IncomingEntry, IncomingFiles};
use crate::world::sandbox::sent_files::local_trees::LocalTrees;
use crate::world::sandbox::sent_files::{RemoteEntry, SentEntries, SentEntry, is_within_any};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::slot::set_dir_mode;
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};

/// Size of a chunk that is copied, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;
/// Permission bits that a directory always has here.
const OWNER_BITS: u32 = 0o700;

/// Why a path is not fetched whose transfer was interrupted.
const UNSENT_REASON: &str = "sending it was interrupted; it is sent again before the next command";

/// Applies what differs from `sent_entries` below `roots`, and brings them up to date. Returns what
/// was refused, and why.
pub(super) fn apply_changes(
    reachable: &ReachablePaths,
    roots: &[AbsPath],
    sent_entries: &mut SentEntries,
    incoming: &IncomingFiles,
) -> Vec<(AbsPath, String)> {
    let rules = ReturnRules {
        open: &reachable.open,
        masked: &reachable.masked,
        hidden: &reachable.hidden,
    };
    let mut applier = ChangeApplier {
        rules,
        trees: LocalTrees::new(reachable),
        incoming,
        refused: Vec::new(),
    };
    // First, so that what has become something else can be written under the same name.
    for path in removed_paths(roots, sent_entries, incoming) {
        applier.remove(&path, sent_entries);
    }
    let unsent: BTreeSet<AbsPath> = sent_entries
        .iter()
        .filter(|(_, sent_entry)| sent_entry.remote_entry == RemoteEntry::Unsent)
        .map(|(path, _)| path.clone())
        .collect();
    for (path, entry) in incoming.entries() {
        if is_within_any(path, &unsent) {
            if unsent.contains(path) {
                applier
                    .refused
                    .push((path.clone(), UNSENT_REASON.to_owned()));
            }
            continue;
        }
        let is_unchanged = sent_entries
            .get(path)
            .is_some_and(|sent_entry| is_same(sent_entry, entry));
        let is_directory = matches!(entry.remote_entry, RemoteEntry::Directory { .. });
        // The engine creates the directories above what is sent.
        let is_above = || {
            let mut open = reachable.open.iter();
            !sent_entries.contains_key(path) && open.any(|open_path| open_path.path.is_within(path))
        };
        let is_implied = is_directory && (roots.contains(path) || is_above());
        if !is_unchanged && !is_implied {
            applier.write(path, entry, sent_entries);
        }
    }
    applier.refused
}

/// Returns the topmost paths below `roots` that were sent and not received, although the directory
/// that they were in was.
pub(super) fn missing_paths<'s>(
    roots: &[AbsPath],
    sent_entries: &'s SentEntries,
    incoming: &IncomingFiles,
) -> Vec<&'s AbsPath> {
    let mut missing: Vec<&AbsPath> = Vec::new();
    for (path, entry) in sent_entries {
        let is_below = roots
            .iter()
            .any(|root| path.is_within(root) && path != root);
        // Parents come before what is in them.
        let is_missing = is_below
            && entry.remote_entry != RemoteEntry::Unsent
            && !incoming.entries().contains_key(path)
            && !missing.last().is_some_and(|top| path.is_within(top));
        if is_missing && incoming.is_directory(path.parent().as_ref()) {
            missing.push(path);
        }
    }
    missing
}

/// Returns the paths that are gone or have become something else, what is in a directory first.
fn removed_paths(
    roots: &[AbsPath],
    sent_entries: &SentEntries,
    incoming: &IncomingFiles,
) -> Vec<AbsPath> {
    let is_gone = |path: &AbsPath, sent_entry: &SentEntry| {
        let entry = incoming.entries().get(path);
        !entry.is_some_and(|entry| entry.remote_entry.has_kind_of(&sent_entry.remote_entry))
    };
    let is_removed = |path: &AbsPath, sent_entry: &SentEntry| {
        let is_below = roots
            .iter()
            .any(|root| path.is_within(root) && path != root);
        is_below && sent_entry.remote_entry != RemoteEntry::Unsent && is_gone(path, sent_entry)
    };
    sent_entries
        .iter()
        .rev()
        .filter(|(path, sent_entry)| is_removed(path, sent_entry))
        .map(|(path, _)| path.clone())
        .collect()
}

/// Returns whether a name is as it was sent. The permission bits of what commands may only read
/// were not sent.
fn is_same(sent_entry: &SentEntry, entry: &IncomingEntry) -> bool {
    match (&sent_entry.remote_entry, &entry.remote_entry) {
        (
            RemoteEntry::File { digest: sent, .. },
            RemoteEntry::File {
                digest: received, ..
            },
        ) if sent_entry.permission == Permission::Read => sent == received,
        (RemoteEntry::Directory { .. }, RemoteEntry::Directory { .. })
            if sent_entry.permission == Permission::Read =>
        {
            true
        }
        (sent, received) => sent == received,
    }
}

/// Applies changes one at a time, and collects what was refused.
struct ChangeApplier<'a> {
    rules: ReturnRules<'a>,
    trees: LocalTrees<'a>,
    incoming: &'a IncomingFiles,
    refused: Vec<(AbsPath, String)>,
}

impl ChangeApplier<'_> {
    /// Removes here what is gone in the container. What the rules keep here is sent again before
    /// the next command; if the system fails to remove it, the next fetch tries again.
    fn remove(&mut self, path: &AbsPath, sent_entries: &mut SentEntries) {
        let Some(entry) = sent_entries.remove(path) else {
            return;
        };
        let removal = match self.rules.check_change(path) {
            Ok(()) => self.remove_here(path, &entry).map_err(|error| {
                if matches!(error, FileSystemError::System(_)) {
                    sent_entries.insert(path.clone(), entry);
                }
                error.to_string()
            }),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = removal {
            self.refused
                .push((path.clone(), format!("not deleted: {reason}")));
        }
    }

    fn remove_here(&mut self, path: &AbsPath, entry: &SentEntry) -> Result<(), FileSystemError> {
        let (dir, rel) = self.trees.locate(path)?;
        let meta = match dir.meta(&rel) {
            Err(FileSystemError::Missing) => return Ok(()),
            meta => meta?,
        };
        let (parent, name) = dir.parent_of(&rel)?;
        match &entry.remote_entry {
            RemoteEntry::Directory { .. } => parent.remove_dir(name),
            RemoteEntry::File { .. } if entry.local_version != Some(meta.version) => {
                Err(FileSystemError::Changed)
            }
            RemoteEntry::File { .. } => parent.unlink(name),
            RemoteEntry::Link { target } => {
                expect_link(dir, &rel, target)?;
                parent.unlink(name)
            }
            RemoteEntry::Refused | RemoteEntry::Unsent => Err(FileSystemError::Exists),
        }
    }

    /// Writes here what was created or changed in the container. What the rules refuse is removed
    /// there before the next command. What cannot be written here stays there, and the next fetch
    /// tries again.
    fn write(&mut self, path: &AbsPath, incoming: &IncomingEntry, sent_entries: &mut SentEntries) {
        let (remote_entry, local_version) = match self.rules.check_change(path) {
            Ok(()) => match self.write_here(path, incoming, sent_entries) {
                Ok(local_version) => (incoming.remote_entry.clone(), local_version),
                Err(error) => {
                    self.refused.push((path.clone(), write_failure(error)));
                    return;
                }
            },
            Err(error) => {
                self.refused.push((path.clone(), error.to_string()));
                (RemoteEntry::Refused, None)
            }
        };
        let entry = SentEntry {
            remote_entry,
            permission: Permission::Write,
            local_version,
        };
        sent_entries.insert(path.clone(), entry);
    }

    /// Returns the version of a file that was written.
    fn write_here(
        &mut self,
        path: &AbsPath,
        entry: &IncomingEntry,
        sent_entries: &SentEntries,
    ) -> Result<Option<FileFingerprint>, FileSystemError> {
        let earlier = sent_entries.get(path);
        match &entry.remote_entry {
            RemoteEntry::Directory { bits } => {
                let (dir, rel) = self.trees.locate(path)?;
                let (parent, name) = dir.parent_of(&rel)?;
                drop(dir.make_dirs(&rel)?);
                let bits = Mode::from_raw_mode(bits | OWNER_BITS);
                set_dir_mode(&parent, name, bits).map(|()| None)
            }
            RemoteEntry::Link { target } => self.write_link(path, target, earlier).map(|()| None),
            RemoteEntry::File { bits, .. } => {
                let file = IncomingFile {
                    path,
                    bits: *bits,
                    modified_ns: entry.modified_ns,
                    replaced_version: earlier.and_then(|earlier| earlier.local_version),
                };
                self.write_file(&file, &entry.content, sent_entries)
                    .map(Some)
            }
            RemoteEntry::Refused | RemoteEntry::Unsent => Err(FileSystemError::Missing),
        }
    }

    fn write_link(
        &mut self,
        path: &AbsPath,
        target: &Path,
        earlier: Option<&SentEntry>,
    ) -> Result<(), FileSystemError> {
        let (dir, rel) = self.trees.locate(path)?;
        let (parent, name) = dir.parent_of(&rel)?;
        if let Some(RemoteEntry::Link {
            target: sent_target,
        }) = earlier.map(|earlier| &earlier.remote_entry)
        {
            // What replaced the link here meanwhile is kept.
            expect_link(dir, &rel, sent_target)?;
            parent.unlink(name)?;
        }
        parent.symlink(name, target)
    }

    fn write_file(
        &mut self,
        file: &IncomingFile<'_>,
        content: &IncomingContent,
        sent_entries: &SentEntries,
    ) -> Result<FileFingerprint, FileSystemError> {
        let spool = self.incoming.spool();
        let original = match content {
            IncomingContent::AsSent(original_path) => {
                let (dir, rel) = self.trees.locate(original_path)?;
                let (original, meta) = dir.open_file(&rel)?;
                let sent_version = sent_entries
                    .get(original_path)
                    .and_then(|sent_entry| sent_entry.local_version);
                if sent_version != Some(meta.version) {
                    return Err(FileSystemError::Changed);
                }
                Some((original, meta.version.size_bytes))
            }
            IncomingContent::Spooled { .. } | IncomingContent::Nothing => None,
        };
        let (dir, rel) = self.trees.locate(file.path)?;
        let (parent, name) = dir.parent_of(&rel)?;
        let mut staged_file = StagedFile::new_private(&parent)?;
        if let Some((original, size_bytes)) = &original {
            staged_file.copy(original, *size_bytes)?;
        }
        if let IncomingContent::Spooled { offset, size_bytes } = content {
            let mut chunk = vec![0; CHUNK_BYTES];
            let mut copied_bytes = 0;
            while copied_bytes < *size_bytes {
                let bytes_left = usize::try_from(size_bytes.saturating_sub(copied_bytes));
                let count = bytes_left.unwrap_or(CHUNK_BYTES).min(CHUNK_BYTES);
                let buffer = chunk.get_mut(..count).unwrap_or_default();
                spool.read_at(buffer, offset.saturating_add(copied_bytes))?;
                staged_file.write(buffer)?;
                copied_bytes =
                    copied_bytes.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
            }
        }
        staged_file.set_mode(Mode::from_raw_mode(file.bits))?;
        staged_file.set_modified(file.modified_ns)?;
        let policy = file
            .replaced_version
            .as_ref()
            .map_or(ReplacePolicy::Nothing, ReplacePolicy::Only);
        let meta = staged_file.place_at(name, policy, PlacementDurability::Lazy)?;
        Ok(meta.version)
    }
}

/// Refuses to replace or remove anything but a symlink to `target`.
fn expect_link(dir: &DirectoryHandle, rel: &RelPath, target: &Path) -> Result<(), FileSystemError> {
    let is_link = dir.meta(rel)?.kind == FileKind::Link;
    if is_link && dir.link_target(rel)? == target {
        Ok(())
    } else {
        Err(FileSystemError::Changed)
    }
}

/// Describes why something was not written here.
fn write_failure(error: FileSystemError) -> String {
    if matches!(error, FileSystemError::System(_)) {
        format!("{error}; it is kept there, and fetched again after the next command")
    } else {
        error.to_string()
    }
}

/// A file to write.
struct IncomingFile<'a> {
    path: &'a AbsPath,
    bits: u32,
    modified_ns: i128,
    /// The version that it replaces; `None` if it is new.
    replaced_version: Option<FileFingerprint>,
}
