//! Owns the versions of the user's files that an agent's work is based on: what it read, kept as it
//! was then, so that the user's later changes and the agent's can become one.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use crate::delivery::merge::MERGE_BYTES_MAX;
use crate::path::{AbsPath, RealPath, RelPath};
use crate::permissions::history::FileFingerprint;
use crate::text::to_hex;
use crate::world::sys::content::FileContent;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file::{self, FileDurability};

/// How much is kept of what was read, in bytes, all files together.
const BASES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What an agent read of the user's files that it may write to. A clone is the same.
#[derive(Clone, Debug)]
pub struct MergeBases(Arc<Mutex<MergeBaseStore>>);

#[derive(Debug)]
struct MergeBaseStore {
    dir: AbsPath,
    bytes: u64,
    by_path: BTreeMap<RealPath, MergeBase>,
    /// What was changed later than this is not what the agent has seen, in nanoseconds since 1970.
    until_ns: Option<i128>,
}

/// What was read of one file.
#[derive(Clone, Debug)]
pub(in crate::world) struct MergeBase {
    /// The state of the file then.
    version: FileFingerprint,
    /// Its content then, if it was kept.
    content: Option<AbsPath>,
}

/// Why a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::world) enum FileAccessReason {
    /// The agent reads it.
    Read,
    /// The agent is about to change it; what it read before counts more.
    Change,
}

impl MergeBases {
    /// Begins with nothing; contents will be kept in `dir`. Where an agent is told again what it read
    /// before `until_ns`, in nanoseconds since 1970, what somebody has changed since counts as unread.
    pub fn new(dir: AbsPath, until_ns: Option<i128>) -> Self {
        Self(Arc::new(Mutex::new(MergeBaseStore {
            dir,
            bytes: 0,
            by_path: BTreeMap::new(),
            until_ns,
        })))
    }

    /// Notes that the agent has seen `path` in this version, and keeps its content if there is room.
    /// What the agent itself made there counts for nothing: only the user's own file does. What cannot
    /// be kept is only missed when the user changes the same file.
    pub(in crate::world) fn record(
        &self,
        path: &RealPath,
        seen: &FileFingerprint,
        occasion: FileAccessReason,
    ) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.by_path.get(path);
        if known
            .is_some_and(|base| occasion == FileAccessReason::Change || base.matches_version(seen))
        {
            return;
        }
        let Ok((content, version)) = open_user_file(path) else {
            return;
        };
        if kept
            .until_ns
            .is_some_and(|until| version.changed_ns > until)
        {
            return;
        }
        let state = |version: &FileFingerprint| (version.size_bytes, version.modified_ns);
        if state(&version) == state(seen) {
            let content = kept.store(version.size_bytes, content);
            kept.by_path
                .insert(path.clone(), MergeBase { version, content });
        }
    }

    /// What was last read of `path`.
    pub(in crate::world) fn get(&self, path: &RealPath) -> Option<MergeBase> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.by_path.get(path).cloned()
    }
}

/// The user's own file, whatever the agent sees at its path.
fn open_user_file(path: &RealPath) -> Result<(FileContent, FileFingerprint), FileSystemError> {
    let parent = path.parent().ok_or(FileSystemError::IsDirectory)?;
    let name = path.name().and_then(|name| RelPath::default().child(name));
    let (content, meta) =
        DirectoryHandle::open(&parent)?.open_file(&name.ok_or(FileSystemError::Missing)?)?;
    Ok((content, meta.version))
}

impl MergeBase {
    /// Whether the file is still as it was read. The device does not count: a file is seen on another
    /// one through an overlay.
    pub(in crate::world) fn matches_version(&self, version: &FileFingerprint) -> bool {
        let device = version.device;
        FileFingerprint {
            device,
            ..self.version
        }
        .has_content_of(version)
    }

    /// Its content, if it was kept.
    pub(in crate::world) fn content(&self) -> Option<Vec<u8>> {
        let bytes_max = u64::try_from(MERGE_BYTES_MAX).unwrap_or(u64::MAX);
        file::read_regular_capped(self.content.as_ref()?, bytes_max).ok()?
    }
}

impl MergeBaseStore {
    fn store(&mut self, size_bytes: u64, mut content: FileContent) -> Option<AbsPath> {
        let bytes = self.bytes.checked_add(size_bytes)?;
        let fits = usize::try_from(size_bytes).is_ok_and(|size| size <= MERGE_BYTES_MAX);
        if !fits || bytes > BASES_BYTES_MAX {
            return None;
        }
        let mut text = Vec::new();
        content
            .by_ref()
            .take(size_bytes)
            .read_to_end(&mut text)
            .ok()?;
        let path = self.dir.join(to_hex(&Sha256::digest(&text)));
        dir::create_all(&self.dir, DirectoryAudience::User).ok()?;
        file::replace(&path, &text, FileDurability::Process).ok()?;
        self.bytes = bytes;
        Some(path)
    }
}
