//! Lists which names are below a directory. Symlinks are listed and never followed, one directory
//! is open at a time, and depth and number of names are limited.

use crate::path::RelPath;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;

/// How many directories deep a walk goes.
pub(crate) const TREE_DEPTH_MAX: usize = 128;

/// How many names a walk lists.
const TREE_ENTRIES_MAX: usize = 500_000;

/// How a walk treats one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntrySelection {
    /// It is listed, and if it is a directory, so is its content.
    Deep,
    /// It is listed, but its content is not.
    Shallow,
    /// It is neither listed nor entered.
    Not,
}

/// One name below the start of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedEntry {
    /// Its path, relative to the start.
    pub(crate) rel: RelPath,
    /// Its kind.
    pub(crate) kind: FileKind,
}

/// The result of a walk: parents before children, and names in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeListing {
    /// The names.
    pub(crate) found: Vec<ListedEntry>,
    /// Directories that could not be read, and why.
    pub(crate) unreadable: Vec<(RelPath, FileSystemError)>,
    /// The limit that ended the walk early, if one did.
    pub(crate) cut: Option<&'static str>,
}

impl TreeListing {
    /// Lists everything below `start`; `keep` decides about each name.
    pub(crate) fn list(
        start: &DirectoryHandle,
        keep: &mut dyn FnMut(&ListedEntry) -> EntrySelection,
    ) -> Self {
        let mut listing = Self::default();
        listing.visit(start, &RelPath::default(), 0, keep);
        listing
    }

    fn visit(
        &mut self,
        start: &DirectoryHandle,
        at: &RelPath,
        depth: usize,
        keep: &mut dyn FnMut(&ListedEntry) -> EntrySelection,
    ) {
        let entries = match start.dir(at).and_then(|dir| dir.entries()) {
            Ok(entries) => entries,
            Err(fault) => return self.unreadable.push((at.clone(), fault)),
        };
        for entry in entries {
            if self.found.len() == TREE_ENTRIES_MAX {
                self.cut = Some("it holds more than 500000 names");
                return;
            }
            let Some(rel) = at.child(&entry.name) else {
                continue;
            };
            let found = ListedEntry {
                rel,
                kind: entry.kind,
            };
            let keep_it = keep(&found);
            if keep_it == EntrySelection::Not {
                continue;
            }
            let inside = (keep_it == EntrySelection::Deep && found.kind == FileKind::Directory)
                .then(|| found.rel.clone());
            self.found.push(found);
            if let Some(inside) = inside {
                if depth == TREE_DEPTH_MAX {
                    self.cut = Some("it is more than 128 directories deep");
                } else {
                    self.visit(start, &inside, depth + 1, keep);
                }
            }
        }
    }
}
