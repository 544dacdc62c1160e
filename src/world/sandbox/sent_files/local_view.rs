//! Reads what a command may read on this machine, to be sent: the trees of its policy without
//! hidden names. Nothing that the policy does not open is read.

use std::collections::BTreeSet;
use std::io::Read;

use rustix::io::Errno;
use sha2::{Digest, Sha256};

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::permissions::grant::{GrantScope, Permission};
use crate::permissions::history::FileFingerprint;
use crate::sandbox_policy::AccessiblePath;
use crate::world::sandbox::reachable_paths::ReachablePaths;
use crate::world::sandbox::sent_files::local_trees::LocalTrees;
use crate::world::sandbox::sent_files::{RemoteEntry, SentEntries, SentEntry};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::{EntrySelection, TreeListing};

/// The most names that are sent.
const ENTRIES_MAX: usize = 200_000;
/// The most content that is sent, in bytes.
const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Permission bits of a directory that commands may not change.
const READ_ONLY_DIRECTORY_BITS: u32 = 0o755;
/// Permission bits for reading a file.
const READ_ONLY_FILE_BITS: u32 = 0o444;
/// Permission bits for executing a file.
const EXECUTE_BITS: u32 = 0o111;
/// Permission bits that a writable directory always has.
const OWNER_BITS: u32 = 0o700;
/// Size of a chunk that is read, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads the names, and the digests of files. Files that have not changed since `earlier` are not
/// read again.
pub(super) fn read_view(reachable: &ReachablePaths, earlier: &SentEntries) -> Result<SentEntries> {
    let mut trees = LocalTrees::new(reachable);
    let mut reader = ViewReader {
        reachable,
        earlier,
        hidden: reachable.hidden.iter().collect(),
        masked: reachable.masked.iter().collect(),
        roots: reachable
            .open
            .iter()
            .map(|open_path| &open_path.path)
            .collect(),
        view: SentEntries::new(),
        content_bytes: 0,
    };
    for open_path in &reachable.open {
        let read_failure = |error| read_error(&open_path.path, error);
        let (dir, rel) = match trees.locate(&open_path.path) {
            Err(FileSystemError::Missing) => continue,
            locate_result => locate_result.map_err(read_failure)?,
        };
        match open_path.scope {
            GrantScope::Tree => reader.add_tree(open_path, dir)?,
            GrantScope::File => {
                match reader.add(&open_path.path, dir, &rel, open_path.permission) {
                    Ok(()) | Err(ViewError::Name(FileSystemError::Missing)) => {}
                    Err(ViewError::Name(error)) => return Err(read_failure(error)),
                    Err(ViewError::TooLarge) => return Err(too_large_error(&open_path.path)),
                }
            }
        }
    }
    Ok(reader.view)
}

/// Reads the open paths one after another into one view.
struct ViewReader<'a> {
    reachable: &'a ReachablePaths,
    earlier: &'a SentEntries,
    hidden: BTreeSet<&'a AbsPath>,
    masked: BTreeSet<&'a AbsPath>,
    /// The paths that are opened by themselves.
    roots: BTreeSet<&'a AbsPath>,
    view: SentEntries,
    /// The content of all files in the view, in bytes.
    content_bytes: u64,
}

/// Why one name was not added.
enum ViewError {
    Name(FileSystemError),
    TooLarge,
}

impl From<FileSystemError> for ViewError {
    fn from(error: FileSystemError) -> Self {
        ViewError::Name(error)
    }
}

impl ViewReader<'_> {
    fn add_tree(&mut self, open_path: &AccessiblePath, dir: &DirectoryHandle) -> Result<()> {
        let root = &open_path.path;
        if self.reachable.hides(root) {
            return Ok(());
        }
        let listing = TreeListing::list(dir, &mut |entry| {
            let path = root.join(entry.rel.as_path());
            if self.hidden.contains(&path) || self.roots.contains(&path) {
                EntrySelection::Excluded
            } else {
                EntrySelection::Deep
            }
        });
        if let Some(limit) = listing.reached_limit {
            return Err(read_error(root, FileSystemError::Limit(limit)));
        }
        // Directories that cannot be read are sent empty: commands here could not read them either.
        let mut masked_top: Option<AbsPath> = None;
        let root_rel = std::iter::once(RelPath::default());
        for rel in root_rel.chain(listing.entries.into_iter().map(|entry| entry.rel)) {
            let path = root.join(rel.as_path());
            if self.masked.contains(&path)
                && !masked_top.as_ref().is_some_and(|top| path.is_within(top))
            {
                masked_top = Some(path.clone());
            }
            let is_masked = masked_top.as_ref().is_some_and(|top| path.is_within(top));
            let permission = if is_masked {
                Permission::Read
            } else {
                open_path.permission
            };
            match self.add(&path, dir, &rel, permission) {
                Ok(()) => {}
                Err(ViewError::TooLarge) => return Err(too_large_error(root)),
                // It was removed meanwhile.
                Err(ViewError::Name(FileSystemError::Missing)) if !rel.is_root() => {}
                Err(ViewError::Name(error)) => return Err(read_error(&path, error)),
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        path: &AbsPath,
        dir: &DirectoryHandle,
        rel: &RelPath,
        permission: Permission,
    ) -> std::result::Result<(), ViewError> {
        let meta = dir.meta(rel)?;
        let bits = meta.bits_without_setid().bits();
        let is_read_only = permission == Permission::Read;
        let mut local_version = None;
        let remote_entry = match meta.kind {
            FileKind::Directory if is_read_only => RemoteEntry::Directory {
                bits: READ_ONLY_DIRECTORY_BITS,
            },
            FileKind::Directory => RemoteEntry::Directory {
                bits: bits | OWNER_BITS,
            },
            FileKind::Link => RemoteEntry::Link {
                target: dir.link_target(rel)?,
            },
            FileKind::File => {
                let earlier_entry = self
                    .earlier
                    .get(path)
                    .filter(|sent_entry| sent_entry.local_version == Some(meta.version));
                let (digest, version) =
                    match earlier_entry.map(|sent_entry| &sent_entry.remote_entry) {
                        Some(RemoteEntry::File { digest, .. }) => (*digest, meta.version),
                        Some(
                            RemoteEntry::Directory { .. }
                            | RemoteEntry::Link { .. }
                            | RemoteEntry::Refused
                            | RemoteEntry::Unsent,
                        )
                        | None => match digest_of(dir, rel)? {
                            Some(digest_and_version) => digest_and_version,
                            None => return Ok(()),
                        },
                    };
                local_version = Some(version);
                self.content_bytes = self.content_bytes.saturating_add(version.size_bytes);
                let bits = if is_read_only {
                    READ_ONLY_FILE_BITS | (bits & EXECUTE_BITS)
                } else {
                    bits
                };
                RemoteEntry::File { digest, bits }
            }
            FileKind::Fifo | FileKind::Socket | FileKind::Device => return Ok(()),
        };
        let entry = SentEntry {
            remote_entry,
            permission,
            local_version,
        };
        self.view.insert(path.clone(), entry);
        if self.view.len() > ENTRIES_MAX || self.content_bytes > BYTES_MAX {
            return Err(ViewError::TooLarge);
        }
        Ok(())
    }
}

/// Returns the digest of a file with its version; `None` if the user may not read it.
fn digest_of(
    dir: &DirectoryHandle,
    rel: &RelPath,
) -> std::result::Result<Option<([u8; 32], FileFingerprint)>, FileSystemError> {
    let (content, meta) = match dir.open_file(rel) {
        Err(FileSystemError::System(errno)) if errno == Errno::ACCESS => return Ok(None),
        open_result => open_result?,
    };
    let mut digest = Sha256::new();
    let mut content = content.take(meta.version.size_bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = content.read(&mut chunk)?;
        if count == 0 {
            return Ok(Some((digest.finalize().into(), meta.version)));
        }
        digest.update(chunk.get(..count).unwrap_or_default());
    }
}

fn read_error(path: &AbsPath, error: FileSystemError) -> Error {
    let message = format!("`{path}` cannot be read to be sent to the container: {error}");
    Error::new(ErrorKind::Environment, message)
}

fn too_large_error(path: &AbsPath) -> Error {
    let message = format!(
        "what the agent may read is too much to be sent to the container: with `{path}` it is more than \
         {ENTRIES_MAX} names or 4 GiB"
    );
    Error::new(ErrorKind::Environment, message)
        .with_hint("grant a smaller directory, or use an engine on this machine")
}
