//! A copy of a tree that is changed instead of that tree. Its initial state is recorded, so that
//! later changes can be written as an upper layer over the tree.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::PathBuf;

use parking_lot::Mutex;
use rustix::fs::Mode;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::history::FileFingerprint;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::slot::{duplicate, set_dir_mode};
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{DirectoryAudience, create_all};
use crate::world::sys::state_files::tree::{CopyMethod, TreeLimits, copy};
use crate::world::sys::tree_listing::{EntrySelection, TREE_DEPTH_MAX, TreeListing};
use crate::world::sys::upper_layer::{
    UpperEntry, create_whiteout, make_readable, mark_applied, read_upper_entry,
};

/// Limits on a tree that is copied.
const LIMITS: TreeLimits = TreeLimits {
    entries: 200_000,
    bytes: 4 * 1024 * 1024 * 1024,
    depth: TREE_DEPTH_MAX,
};

/// A copy of a tree.
#[derive(Debug)]
pub(crate) struct TreeReplica {
    dir: DirectoryHandle,
    /// Its initial entries.
    baseline: Mutex<BTreeMap<RelPath, ReplicaEntry>>,
}

/// One entry of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReplicaEntry {
    Directory(Mode),
    File(FileFingerprint),
    Link(PathBuf),
    Special,
}

impl TreeReplica {
    /// Copies the directory `tree` to `at`, which is created; `copies` share the limits. The
    /// `excluded` directories are created empty.
    pub(crate) fn from_tree(
        tree: &RealPath,
        at: &AbsPath,
        excluded: &[AbsPath],
        copies: u64,
    ) -> Result<Self> {
        create_all(at, DirectoryAudience::User)?;
        let tree = tree.to_abs();
        let excluded_paths: Vec<&AbsPath> = excluded.iter().collect();
        let limits = TreeLimits {
            entries: LIMITS.entries.checked_div(copies).unwrap_or_default(),
            bytes: LIMITS.bytes.checked_div(copies).unwrap_or_default(),
            ..LIMITS
        };
        copy(&tree, at, CopyMethod::Writable, limits, &excluded_paths)?;
        let dir = DirectoryHandle::open_own(at).map_err(|error| replica_error(at, error))?;
        for excluded_rel in excluded.iter().filter_map(|path| path.below(&tree)) {
            let creation = dir.make_dirs(&excluded_rel);
            drop(creation.map_err(|error| replica_error(at, error))?);
        }
        copy_directory_modes(&tree, &dir).map_err(|error| replica_error(at, error))?;
        Self::with_baseline(dir).map_err(|error| replica_error(at, error))
    }

    /// Copies those of these files that exist from the directory `from` to `at`, which is created.
    pub(crate) fn from_files(
        from: &DirectoryHandle,
        names: &[&OsStr],
        at: &AbsPath,
    ) -> Result<Self> {
        create_all(at, DirectoryAudience::User)?;
        let dir = DirectoryHandle::open_own(at).map_err(|error| replica_error(at, error))?;
        for name in names {
            match copy_file(from, name, &dir) {
                Ok(()) | Err(FileSystemError::Missing) => {}
                Err(error) => return Err(replica_error(at, error)),
            }
        }
        Self::with_baseline(dir).map_err(|error| replica_error(at, error))
    }

    fn with_baseline(dir: DirectoryHandle) -> std::result::Result<Self, FileSystemError> {
        let baseline = Mutex::new(read_entries(&dir)?);
        Ok(Self { dir, baseline })
    }

    /// Removes entries. Later layers say nothing of them.
    pub(crate) fn remove(&self, is_removed: impl Fn(&RelPath) -> bool) -> Result<()> {
        let mut baseline = self.baseline.lock();
        for (rel, _) in baseline.extract_if(.., |rel, _| is_removed(rel)) {
            let removal = match self.dir.parent_of(&rel) {
                Ok((parent, name)) => {
                    remove_existing(&self.dir, &rel, &parent, name, false).map(drop)
                }
                // The directory around it was removed before.
                Err(FileSystemError::Missing) => Ok(()),
                Err(error) => Err(error),
            };
            removal.map_err(|error| {
                let message = format!("`{rel}` cannot be left out of a copy: {error}");
                Error::new(ErrorKind::Io, message)
            })?;
        }
        Ok(())
    }

    /// Returns the directory of the copy.
    pub(crate) fn dir(&self) -> &DirectoryHandle {
        &self.dir
    }

    /// Takes the present state as the baseline, so that later layers say nothing of earlier changes.
    pub(crate) fn rebase(&self) -> Result<()> {
        let entries = read_entries(&self.dir);
        *self.baseline.lock() = entries.map_err(|error| {
            let message = format!("cannot read a copy: {error}");
            Error::new(ErrorKind::Io, message)
        })?;
        Ok(())
    }

    /// Writes all changes since the baseline to `upper`, as a layer over the tree, replacing what
    /// `upper` held. The copy must not change meanwhile.
    pub(crate) fn write_layer(&self, upper: &AbsPath) -> Result<()> {
        self.write_upper(upper).map(drop)
    }

    /// Like [`TreeReplica::write_layer`], but makes the current state the new baseline, so that the
    /// next layer holds only later changes. The copy may change meanwhile; such changes are written
    /// with the next layer.
    pub(crate) fn write_next_layer(&self, upper: &AbsPath) -> Result<()> {
        let new_baseline = self.write_upper(upper)?;
        *self.baseline.lock() = new_baseline;
        Ok(())
    }

    fn write_upper(&self, upper: &AbsPath) -> Result<BTreeMap<RelPath, ReplicaEntry>> {
        clear::remove(upper)?;
        create_all(upper, DirectoryAudience::User)?;
        let result = DirectoryHandle::open_own(upper).and_then(|upper| self.write_changes(&upper));
        result.map_err(|error| replica_error(upper, error))
    }

    /// Writes the changes and returns the entries at that time.
    fn write_changes(
        &self,
        upper: &DirectoryHandle,
    ) -> std::result::Result<BTreeMap<RelPath, ReplicaEntry>, FileSystemError> {
        let current_entries = read_entries(&self.dir)?;
        let baseline = self.baseline.lock();
        for (rel, entry) in &current_entries {
            let before = baseline.get(rel);
            if before != Some(entry) {
                self.write_change(rel, before, entry, upper)?;
            }
        }
        for rel in baseline
            .keys()
            .filter(|rel| !current_entries.contains_key(*rel))
        {
            // The whiteout of a directory also hides what was in it.
            let parent = rel.parent().unwrap_or_default();
            if parent.is_root()
                || matches!(
                    current_entries.get(&parent),
                    Some(ReplicaEntry::Directory(_))
                )
            {
                let (dir, name) = upper.make_parent_of(rel)?;
                create_whiteout(&dir, name)?;
            }
        }
        drop(baseline);
        Ok(current_entries)
    }

    fn write_change(
        &self,
        rel: &RelPath,
        before: Option<&ReplicaEntry>,
        entry: &ReplicaEntry,
        upper: &DirectoryHandle,
    ) -> std::result::Result<(), FileSystemError> {
        let (dir, name) = upper.make_parent_of(rel)?;
        match entry {
            ReplicaEntry::Directory(_) => {
                match dir.make_dir(name, &self.dir.meta(rel)?) {
                    Err(FileSystemError::Exists) => {}
                    result => result?,
                }
                match before {
                    // It is the user's directory with other permission bits.
                    Some(ReplicaEntry::Directory(_)) => mark_applied(upper, rel),
                    _ => Ok(()),
                }
            }
            ReplicaEntry::File(_) => {
                // A hard link, so that the content is not copied again.
                let (from, name) = self.dir.parent_of(rel)?;
                from.link(name, &dir, name)
            }
            ReplicaEntry::Link(target) => dir.symlink(name, target),
            ReplicaEntry::Special => {
                let meta = self.dir.meta(rel)?;
                if meta.kind == FileKind::Fifo {
                    return dir.make_pipe(name, meta.permission_bits().bits());
                }
                // Sockets and devices are left out.
                Ok(())
            }
        }
    }
}

/// Lists all entries of a copy by path.
fn read_entries(
    dir: &DirectoryHandle,
) -> std::result::Result<BTreeMap<RelPath, ReplicaEntry>, FileSystemError> {
    let listing = TreeListing::list(dir, &mut |entry| {
        if entry.kind == FileKind::Directory {
            // If it still cannot be read, the listing reports that.
            let _read_result = make_readable(dir, &entry.rel);
        }
        EntrySelection::Deep
    });
    if let Some(limit) = listing.reached_limit {
        return Err(FileSystemError::Limit(limit));
    }
    if let Some((_, error)) = listing.unreadable.into_iter().next() {
        return Err(error);
    }
    let mut entries = BTreeMap::new();
    for listed_entry in listing.entries {
        let meta = dir.meta(&listed_entry.rel)?;
        let entry = match meta.kind {
            FileKind::Directory => ReplicaEntry::Directory(meta.bits_without_setid()),
            FileKind::File => ReplicaEntry::File(meta.version),
            FileKind::Link => ReplicaEntry::Link(dir.link_target(&listed_entry.rel)?),
            FileKind::Fifo | FileKind::Socket | FileKind::Device => ReplicaEntry::Special,
        };
        entries.insert(listed_entry.rel, entry);
    }
    Ok(entries)
}

/// Gives the directories of a copy the permission bits that they have in the tree at `tree_path`;
/// the owner always has all permissions.
fn copy_directory_modes(
    tree_path: &AbsPath,
    copy: &DirectoryHandle,
) -> std::result::Result<(), FileSystemError> {
    let tree = DirectoryHandle::open_own(tree_path)?;
    for (rel, _) in read_entries(copy)? {
        let Ok(original_meta) = tree.meta(&rel) else {
            continue;
        };
        if original_meta.kind == FileKind::Directory {
            let (parent, name) = copy.parent_of(&rel)?;
            set_dir_mode(
                &parent,
                name,
                original_meta.bits_without_setid() | Mode::RWXU,
            )?;
        }
    }
    Ok(())
}

fn copy_file(
    from: &DirectoryHandle,
    name: &OsStr,
    to: &DirectoryHandle,
) -> std::result::Result<(), FileSystemError> {
    let rel = RelPath::default()
        .child(name)
        .ok_or(FileSystemError::Missing)?;
    let (content, meta) = from.open_file(&rel)?;
    let mut staged_file = StagedFile::new_private(to)?;
    staged_file.copy(&content, meta.version.size_bytes)?;
    staged_file.set_mode(meta.bits_without_setid())?;
    staged_file.set_modified(meta.version.modified_ns)?;
    let _placed: FileMetadata =
        staged_file.place_at(name, ReplacePolicy::Nothing, PlacementDurability::Lazy)?;
    Ok(())
}

/// Makes the changes of `layer` in `copy`, a copy of the tree below it.
pub(crate) fn apply_layer(
    layer: &DirectoryHandle,
    copy: &DirectoryHandle,
) -> std::result::Result<(), FileSystemError> {
    let listing = TreeListing::list(layer, &mut |_| EntrySelection::Deep);
    if let Some(limit) = listing.reached_limit {
        return Err(FileSystemError::Limit(limit));
    }
    if let Some((_, error)) = listing.unreadable.into_iter().next() {
        return Err(error);
    }
    for entry in listing.entries {
        let rel = &entry.rel;
        let (dir, name) = copy.make_parent_of(rel)?;
        let entry = read_upper_entry(layer, rel)?;
        let is_directory = matches!(
            entry,
            UpperEntry::MergedDirectory(_) | UpperEntry::NewDirectory(_)
        );
        let stays = remove_existing(copy, rel, &dir, name, is_directory)?;
        match entry {
            UpperEntry::Removed | UpperEntry::Special(_) => {}
            UpperEntry::MergedDirectory(_) | UpperEntry::NewDirectory(_) if stays => {}
            UpperEntry::MergedDirectory(meta)
            | UpperEntry::NewDirectory(meta)
            | UpperEntry::OpaqueDirectory(meta) => dir.make_dir(name, &meta)?,
            UpperEntry::File(_) | UpperEntry::Link => {
                let (source_dir, _) = layer.parent_of(rel)?;
                duplicate(&source_dir, &dir, name)?;
            }
        }
    }
    Ok(())
}

/// Removes what exists at `rel` in `copy`, unless it is a directory and `keeps_directory`. Returns
/// whether it stays.
fn remove_existing(
    copy: &DirectoryHandle,
    rel: &RelPath,
    dir: &DirectoryHandle,
    name: &OsStr,
    keeps_directory: bool,
) -> std::result::Result<bool, FileSystemError> {
    let meta = match copy.meta(rel) {
        Err(FileSystemError::Missing) => return Ok(false),
        meta => meta?,
    };
    if meta.kind != FileKind::Directory {
        dir.unlink(name)?;
        return Ok(false);
    }
    if keeps_directory {
        return Ok(true);
    }
    clear::empty(&copy.dir(rel)?)?;
    dir.remove_dir(name)?;
    Ok(false)
}

fn replica_error(at: &AbsPath, error: FileSystemError) -> Error {
    let message = format!("the copy `{at}` of what is to be written cannot be made: {error}");
    Error::new(ErrorKind::Io, message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test makes its own tree")]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn copies_share_the_limits() {
        let disk = tempfile::tempdir().unwrap();
        let at = disk.path().canonicalize().unwrap();
        fs::create_dir_all(at.join("tree/a/b")).unwrap();
        let path = |name: &str| AbsPath::new(at.join(name)).unwrap();
        let tree = RealPath::vouch(at.join("tree"));
        let copy = |copies| TreeReplica::from_tree(&tree, &path("copy"), &[], copies);
        assert!(copy(LIMITS.entries).is_err());
        fs::remove_dir_all(at.join("copy")).unwrap();
        assert!(copy(1).is_ok());
    }

    #[test]
    fn directories_keep_their_permission_bits_and_take_others() {
        let disk = tempfile::tempdir().unwrap();
        let at = disk.path().canonicalize().unwrap();
        let path = |name: &str| AbsPath::new(at.join(name)).unwrap();
        let bits = |name: &str, mode: u32| {
            fs::set_permissions(at.join(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        let mode = |name: &str| fs::metadata(at.join(name)).unwrap().permissions().mode() & 0o7777;
        for (name, mode) in [("tree", 0o755), ("tree/a", 0o750), ("tree/b", 0o755)] {
            fs::create_dir(at.join(name)).unwrap();
            bits(name, mode);
        }
        fs::write(at.join("tree/b/file"), "old").unwrap();
        let tree = RealPath::vouch(at.join("tree"));
        let replica = TreeReplica::from_tree(&tree, &path("copy"), &[], 1).unwrap();
        assert_eq!((mode("copy/a"), mode("copy/b")), (0o750, 0o755));
        bits("copy/a", 0o777);
        fs::write(at.join("copy/b/file"), "new").unwrap();
        fs::create_dir(at.join("copy/c")).unwrap();
        bits("copy/c", 0o777);
        replica.write_layer(&path("upper")).unwrap();
        let upper = DirectoryHandle::open_own(&path("upper")).unwrap();
        let traced = |name: &str| read_upper_entry(&upper, &RelPath::new(name).unwrap()).unwrap();
        assert!(
            matches!(traced("a"), UpperEntry::MergedDirectory(_)),
            "its bits changed"
        );
        assert!(
            matches!(traced("b"), UpperEntry::NewDirectory(_)),
            "only a file in it changed"
        );
        assert!(
            matches!(traced("c"), UpperEntry::NewDirectory(_)),
            "it is new"
        );
        assert_eq!((mode("upper/a"), mode("upper/c")), (0o777, 0o777));
    }

    #[test]
    fn changes_in_a_replica_become_a_layer_over_the_tree() {
        let disk = tempfile::tempdir().unwrap();
        let at = disk.path().canonicalize().unwrap();
        let path = |name: &str| AbsPath::new(at.join(name)).unwrap();
        fs::create_dir_all(at.join("tree/kept/inner")).unwrap();
        fs::create_dir_all(at.join("tree/gone/inner")).unwrap();
        for name in [
            "same",
            "old",
            "removed",
            "kept/inner/a",
            "gone/inner/b",
            "turned",
        ] {
            fs::write(at.join("tree").join(name), name).unwrap();
        }
        symlink("same", at.join("tree/link")).unwrap();
        let tree = RealPath::vouch(at.join("tree"));
        let kept = [path("tree/kept")];
        let replica = TreeReplica::from_tree(&tree, &path("copy"), &kept, 1).unwrap();
        assert!(at.join("copy/kept").is_dir());
        assert!(!at.join("copy/kept/inner").exists());
        replica.write_layer(&path("upper")).unwrap();
        assert_eq!(fs::read_dir(at.join("upper")).unwrap().count(), 0);
        fs::write(at.join("copy/old"), "changed").unwrap();
        fs::write(at.join("copy/new"), "new").unwrap();
        fs::remove_file(at.join("copy/removed")).unwrap();
        fs::remove_dir_all(at.join("copy/gone")).unwrap();
        fs::remove_file(at.join("copy/turned")).unwrap();
        fs::create_dir(at.join("copy/turned")).unwrap();
        fs::remove_file(at.join("copy/link")).unwrap();
        symlink("new", at.join("copy/link")).unwrap();
        // The layer describes the current state, however often it was written before.
        for _ in 0..2 {
            replica.write_layer(&path("upper")).unwrap();
        }
        let upper = DirectoryHandle::open_own(&path("upper")).unwrap();
        let entry_word = |name: &str| match read_upper_entry(&upper, &RelPath::new(name).unwrap()) {
            Ok(UpperEntry::Removed) => "removed",
            Ok(UpperEntry::NewDirectory(_)) => "made",
            Ok(UpperEntry::File(_)) => "file",
            Ok(UpperEntry::Link) => "link",
            Ok(
                UpperEntry::MergedDirectory(_)
                | UpperEntry::OpaqueDirectory(_)
                | UpperEntry::Special(_),
            ) => "other",
            Err(FileSystemError::Missing) => "-",
            Err(_) => "fault",
        };
        let expected = [
            ("gone", "removed"),
            ("kept", "-"),
            ("link", "link"),
            ("new", "file"),
            ("old", "file"),
            ("removed", "removed"),
            ("same", "-"),
            ("turned", "made"),
        ];
        for (name, expected) in expected {
            assert_eq!(entry_word(name), expected, "{name}");
        }
    }
}
