//! Merge bases of an agent's work: the versions of the user's files that the agent read, kept so
//! that the user's later changes and the agent's can be merged.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::delivery::line_diff::MERGE_BYTES_MAX;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::history::FileFingerprint;
use crate::text::to_hex;
use crate::world::sys::content::FileContent;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;

/// Largest total size of the contents that are kept, in bytes.
const BASES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Versions that an agent read of those of the user's files that it may write to. A clone is the
/// same.
#[derive(Clone, Debug)]
pub struct MergeBases(Arc<Mutex<MergeBaseStore>>);

#[derive(Debug)]
struct MergeBaseStore {
    dir: AbsPath,
    /// The total size of the contents that are kept.
    total_bytes: u64,
    by_path: BTreeMap<RealPath, MergeBase>,
    /// A file that changed after this time, in nanoseconds since 1970, does not count as read.
    until_ns: Option<i128>,
}

/// The version of a file that was read.
#[derive(Clone, Debug)]
pub(in crate::world) struct MergeBase {
    /// Its fingerprint.
    version: FileFingerprint,
    /// Its content, if it was kept.
    content: Option<AbsPath>,
}

/// Why a file is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum FileAccessReason {
    /// The agent reads it.
    Read,
    /// The agent is about to change it; an earlier read takes precedence.
    Change,
}

impl MergeBases {
    /// Starts empty; contents will be kept in `dir`. On resume, `until_ns` is the time up to which
    /// the agent's reads are repeated, in nanoseconds since 1970; a file that changed later counts
    /// as unread.
    pub fn new(dir: AbsPath, until_ns: Option<i128>) -> Self {
        Self(Arc::new(Mutex::new(MergeBaseStore {
            dir,
            total_bytes: 0,
            by_path: BTreeMap::new(),
            until_ns,
        })))
    }

    /// Records that the agent has read, or is about to change, the version of `path` with this
    /// fingerprint, and keeps its content if there is room. Only the user's own file counts, not
    /// what the agent itself created there. A content that cannot be kept is missed only if the
    /// user changes the same file.
    pub(in crate::world) fn record(
        &self,
        path: &RealPath,
        fingerprint: &FileFingerprint,
        reason: FileAccessReason,
    ) {
        let mut bases = self.0.lock();
        let stored_base = bases.by_path.get(path);
        if stored_base.is_some_and(|base| {
            reason == FileAccessReason::Change || base.matches_version(fingerprint)
        }) {
            return;
        }
        let Ok((content, version)) = open_user_file(path) else {
            return;
        };
        if bases
            .until_ns
            .is_some_and(|until| version.changed_ns > until)
        {
            return;
        }
        let size_and_time = |version: &FileFingerprint| (version.size_bytes, version.modified_ns);
        if size_and_time(&version) == size_and_time(fingerprint) {
            let content = bases.store(version.size_bytes, content);
            bases
                .by_path
                .insert(path.clone(), MergeBase { version, content });
        }
    }

    /// Returns the version of `path` that was recorded last.
    pub(in crate::world) fn get(&self, path: &RealPath) -> Option<MergeBase> {
        let bases = self.0.lock();
        bases.by_path.get(path).cloned()
    }
}

/// Opens the user's own file, whatever the agent sees at its path.
fn open_user_file(path: &RealPath) -> Result<(FileContent, FileFingerprint), FileSystemError> {
    let parent = path.parent().ok_or(FileSystemError::IsDirectory)?;
    let name = path.name().and_then(|name| RelPath::default().child(name));
    let (content, meta) =
        DirectoryHandle::open(&parent)?.open_file(&name.ok_or(FileSystemError::Missing)?)?;
    Ok((content, meta.version))
}

impl MergeBase {
    /// Returns whether the file is unchanged since it was read. The device is ignored, because a
    /// file seen through an overlay is on another one.
    pub(in crate::world) fn matches_version(&self, version: &FileFingerprint) -> bool {
        let device = version.device;
        FileFingerprint {
            device,
            ..self.version
        }
        .has_content_of(version)
    }

    /// Returns its content, if it was kept.
    pub(in crate::world) fn content(&self) -> Option<Vec<u8>> {
        let bytes_max = u64::try_from(MERGE_BYTES_MAX).unwrap_or(u64::MAX);
        file::read_regular_capped(self.content.as_ref()?, bytes_max).ok()?
    }
}

impl MergeBaseStore {
    fn store(&mut self, size_bytes: u64, mut content: FileContent) -> Option<AbsPath> {
        let total_bytes = self.total_bytes.checked_add(size_bytes)?;
        let fits = usize::try_from(size_bytes).is_ok_and(|size| size <= MERGE_BYTES_MAX);
        if !fits || total_bytes > BASES_BYTES_MAX {
            return None;
        }
        let mut bytes_read = Vec::new();
        content
            .by_ref()
            .take(size_bytes)
            .read_to_end(&mut bytes_read)
            .ok()?;
        let path = self.dir.join(to_hex(&Sha256::digest(&bytes_read)));
        dir::create_all(&self.dir, DirectoryAudience::User).ok()?;
        file::replace_unsynced(&path, &bytes_read).ok()?;
        self.total_bytes = total_bytes;
        Some(path)
    }
}
