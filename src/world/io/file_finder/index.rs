//! Index of the files in a tree, up to a limit: a walk in the background adds its entries. Files that git ignores and massgen's state are left out.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use crate::config::storage_path::STATE_DIR;
use crate::path::AbsPath;
use crate::world::io::file_finder::SearchExtent;
use crate::world::io::file_finder::git_index::TrackedNames;
use crate::world::sys::state_files::listing::{IndexEntry, IndexEntryKind};
use crate::world::sys::state_files::{file, listing};

/// Largest number of entries of a tree.
const ENTRIES_MAX: usize = 500_000;
/// Largest total size of their paths, in bytes.
const NAME_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Largest depth to which a tree is walked.
const DEPTH_MAX: usize = 64;
/// Largest git index that is read, in bytes.
const GIT_INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Largest number of directories that are searched for a repository, from the base upwards.
const PARENTS_MAX: usize = 64;
/// Name of a repository's git directory.
pub(super) const GIT_DIR: &str = ".git";

/// Index of a tree. Its walk is cancelled on drop.
#[derive(Debug)]
pub(super) struct FileIndex {
    shared: Arc<SharedIndex>,
}

#[derive(Debug)]
struct SharedIndex {
    entries: Mutex<IndexedEntries>,
    /// Notified when entries are added, and when the walk ends.
    changed: Condvar,
    entry_count: AtomicUsize,
    byte_count: AtomicUsize,
    is_cancelled: AtomicBool,
    repository: OnceLock<EnclosingRepository>,
}

#[derive(Debug)]
struct IndexedEntries {
    batches: Vec<Arc<[IndexEntry]>>,
    /// Entries of an earlier walk; `None` once this walk has ended.
    earlier_entries: Option<Vec<Arc<[IndexEntry]>>>,
    is_walking: bool,
}

/// The entries of a tree that are known.
#[derive(Clone, Debug)]
pub(super) struct AvailableEntries {
    /// The entries.
    pub(super) batches: Vec<Arc<[IndexEntry]>>,
    /// Whether they are all entries of the tree.
    pub(super) extent: SearchExtent,
}

/// The repository that the base belongs to.
#[derive(Debug, Default)]
struct EnclosingRepository {
    tracked: TrackedNames,
    /// Path of the base in the repository: empty, or with a slash at the end.
    base: String,
}

impl FileIndex {
    /// Starts walking `base`. Until the walk has ended, queries see the entries of the walk
    /// `earlier`, if it had ended, and otherwise those found so far.
    pub(super) fn start(base: &AbsPath, earlier: Option<Arc<FileIndex>>) -> Arc<Self> {
        let earlier_entries = earlier.and_then(|index| index.shared.lock().complete_entries());
        let entries = IndexedEntries {
            batches: Vec::new(),
            earlier_entries,
            is_walking: true,
        };
        let shared_index = Arc::new(SharedIndex {
            entries: Mutex::new(entries),
            changed: Condvar::new(),
            entry_count: AtomicUsize::new(0),
            byte_count: AtomicUsize::new(0),
            is_cancelled: AtomicBool::new(false),
            repository: OnceLock::new(),
        });
        let (walked_index, probed_index) = (Arc::clone(&shared_index), Arc::clone(&shared_index));
        let (walk_base, probe_base) = (base.clone(), base.clone());
        std::thread::spawn(move || walked_index.walk(&walk_base));
        std::thread::spawn(move || {
            probed_index
                .repository
                .set(EnclosingRepository::find_around(&probe_base))
        });
        Arc::new(Self {
            shared: shared_index,
        })
    }

    /// Returns whether the walk is still running.
    pub(super) fn is_walking(&self) -> bool {
        self.shared.lock().is_walking
    }

    /// Returns the available entries, waiting at most `time_max` until a walk has ended.
    pub(super) fn entries_within(&self, time_max: Duration) -> AvailableEntries {
        let entries = self.shared.lock();
        let is_incomplete = |entries: &mut IndexedEntries| entries.complete_entries().is_none();
        let wait_result = self
            .shared
            .changed
            .wait_timeout_while(entries, time_max, is_incomplete);
        let (entries, _) = wait_result.unwrap_or_else(PoisonError::into_inner);
        match entries.complete_entries() {
            Some(batches) => AvailableEntries {
                batches,
                extent: SearchExtent::Whole,
            },
            None => AvailableEntries {
                batches: entries.batches.clone(),
                extent: SearchExtent::Part,
            },
        }
    }

    /// Returns whether git tracks `path` below the base; `false` until git's index has been read.
    pub(super) fn is_tracked(&self, path: &str, kind: IndexEntryKind) -> bool {
        self.shared.repository.get().is_some_and(|repository| {
            let name = format!("{}{path}", repository.base);
            match kind {
                IndexEntryKind::File => repository.tracked.contains_file(&name),
                IndexEntryKind::Directory => repository.tracked.contains_directory(&name),
            }
        })
    }
}

impl Drop for FileIndex {
    fn drop(&mut self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl IndexedEntries {
    /// Returns the entries of a walk that has ended, if there is one.
    fn complete_entries(&self) -> Option<Vec<Arc<[IndexEntry]>>> {
        if self.is_walking {
            self.earlier_entries.clone()
        } else {
            Some(self.batches.clone())
        }
    }
}

impl SharedIndex {
    fn lock(&self) -> MutexGuard<'_, IndexedEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn walk(&self, base: &AbsPath) {
        let excluded_names = [GIT_DIR, STATE_DIR];
        listing::walk(base, &excluded_names, DEPTH_MAX, &|batch| self.add(batch));
        let mut entries = self.lock();
        entries.is_walking = false;
        entries.earlier_entries = None;
        self.changed.notify_all();
    }

    /// Adds entries and returns whether the walk should continue.
    fn add(&self, batch: Vec<IndexEntry>) -> listing::WalkContinuation {
        let path_bytes: usize = batch.iter().map(|entry| entry.path.len()).sum();
        let entries_before = self.entry_count.fetch_add(batch.len(), Ordering::Relaxed);
        let bytes_before = self.byte_count.fetch_add(path_bytes, Ordering::Relaxed);
        if self.is_cancelled.load(Ordering::Relaxed)
            || entries_before > ENTRIES_MAX
            || bytes_before > NAME_BYTES_MAX
        {
            return listing::WalkContinuation::Stop;
        }
        self.lock().batches.push(batch.into());
        self.changed.notify_all();
        listing::WalkContinuation::Continue
    }
}

impl EnclosingRepository {
    /// Finds the repository around `base`; without one, nothing is tracked.
    fn find_around(base: &AbsPath) -> Self {
        let mut top = base.clone();
        for _ in 0..PARENTS_MAX {
            let index = top.join(GIT_DIR).join("index");
            if let Ok(Some(bytes)) = file::read_regular_capped(&index, GIT_INDEX_BYTES_MAX) {
                let below = base.below(&top).filter(|below| !below.is_root());
                return Self {
                    tracked: TrackedNames::parse(&bytes),
                    base: below.map(|below| format!("{below}/")).unwrap_or_default(),
                };
            }
            match top.parent() {
                Some(parent) => top = parent,
                None => break,
            }
        }
        Self::default()
    }
}
