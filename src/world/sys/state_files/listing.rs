//! Lists names in the user's trees for the user: everything below a directory, or the entries of
//! one directory. No file is opened, symlinks are not followed, and unreadable entries are left
//! out.

use std::fs;
use std::num::NonZero;

use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkBuilder, WalkState};

use crate::path::AbsPath;

/// How many entries are passed on in one batch.
const BATCH_ENTRIES: usize = 512;
/// The most threads of a walk.
const THREADS_MAX: usize = 8;

/// Whether a walk continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkContinuation {
    /// It continues.
    Continue,
    /// It ends.
    Stop,
}

/// How entries that git ignores are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IgnoredEntries {
    /// They are left out.
    Hidden,
    /// They are listed like all others.
    Listed,
}

/// Walks everything in `root` that git does not ignore, and passes entries on as they are found,
/// from several threads and in no particular order. Names in `excluded_names` are left out at any
/// depth.
pub(crate) fn walk(
    root: &AbsPath,
    excluded_names: &[&'static str],
    depth_max: usize,
    on_batch: &(dyn Fn(Vec<IndexEntry>) -> WalkContinuation + Sync),
) {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut walk = WalkBuilder::new(root.as_path());
    // Names with a leading dot are listed, and `.gitignore` also counts outside a repository.
    walk.hidden(false)
        .require_git(false)
        .max_depth(Some(depth_max))
        .threads(cores.min(THREADS_MAX));
    let excluded_names = excluded_names.to_vec();
    walk.filter_entry(move |entry| {
        let name = entry.file_name();
        entry.depth() == 0
            || !excluded_names
                .iter()
                .any(|excluded_name| name == *excluded_name)
    });
    walk.build_parallel()
        .visit(&mut EntryVisitorBuilder { root, on_batch });
}

struct EntryVisitorBuilder<'t> {
    root: &'t AbsPath,
    on_batch: &'t (dyn Fn(Vec<IndexEntry>) -> WalkContinuation + Sync),
}

impl<'t> ParallelVisitorBuilder<'t> for EntryVisitorBuilder<'t> {
    fn build(&mut self) -> Box<dyn ParallelVisitor + 't> {
        Box::new(EntryVisitor {
            root: self.root,
            on_batch: self.on_batch,
            batch: Vec::with_capacity(BATCH_ENTRIES),
        })
    }
}

/// What one thread of a walk has found and not passed on yet.
struct EntryVisitor<'t> {
    root: &'t AbsPath,
    on_batch: &'t (dyn Fn(Vec<IndexEntry>) -> WalkContinuation + Sync),
    batch: Vec<IndexEntry>,
}

impl ParallelVisitor for EntryVisitor<'_> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        let entry = entry.ok().filter(|entry| entry.depth() > 0);
        self.batch
            .extend(entry.and_then(|entry| index_entry(&entry, self.root)));
        if self.batch.len() < BATCH_ENTRIES {
            return WalkState::Continue;
        }
        match (self.on_batch)(std::mem::take(&mut self.batch)) {
            WalkContinuation::Continue => WalkState::Continue,
            WalkContinuation::Stop => WalkState::Quit,
        }
    }
}

impl Drop for EntryVisitor<'_> {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            (self.on_batch)(std::mem::take(&mut self.batch));
        }
    }
}

/// Converts an entry; one whose name is not valid UTF-8 is left out.
fn index_entry(entry: &DirEntry, root: &AbsPath) -> Option<IndexEntry> {
    let path = entry.path().strip_prefix(root.as_path()).ok()?;
    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
    Some(IndexEntry {
        path: path.to_str()?.into(),
        kind: if is_directory {
            IndexEntryKind::Directory
        } else {
            IndexEntryKind::File
        },
    })
}

/// Returns the entries of one directory, at most `count_max`; none if it cannot be read.
pub(crate) fn children(
    directory: &AbsPath,
    ignored: IgnoredEntries,
    count_max: usize,
) -> Vec<IndexEntry> {
    let respects_gitignore = ignored == IgnoredEntries::Hidden;
    let mut walk = WalkBuilder::new(directory.as_path());
    walk.standard_filters(respects_gitignore)
        .hidden(false)
        .require_git(false)
        .max_depth(Some(1));
    let children = walk
        .build()
        .filter_map(Result::ok)
        .filter(|entry| entry.depth() == 1);
    let index_entries = children.filter_map(|child| {
        let mut entry = index_entry(&child, directory)?;
        let target_is_dir = || fs::metadata(child.path()).is_ok_and(|target| target.is_dir());
        if child.path_is_symlink() && target_is_dir() {
            entry.kind = IndexEntryKind::Directory;
        }
        Some(entry)
    });
    index_entries.take(count_max).collect()
}

/// Returns the size of the file at `path` in bytes, following symlinks; `None` if there is no file.
pub(crate) fn size(path: &AbsPath) -> Option<u64> {
    let metadata = fs::metadata(path.as_path()).ok()?;
    metadata.is_file().then_some(metadata.len())
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexEntryKind {
    /// A directory.
    Directory,
    /// A file, or anything else that is not a directory.
    File,
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// Its path below the tree's root.
    pub(crate) path: Box<str>,
    pub(crate) kind: IndexEntryKind,
}
