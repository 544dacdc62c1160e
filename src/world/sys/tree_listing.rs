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
    Excluded,
}

/// One name below the start of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedEntry {
    /// Its path, relative to the start.
    pub(crate) rel: RelPath,
    pub(crate) kind: FileKind,
}

/// The result of a walk: parents before children, and names in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct TreeListing {
    /// The names.
    pub(crate) entries: Vec<ListedEntry>,
    /// Directories that could not be read, and why.
    pub(crate) unreadable: Vec<(RelPath, FileSystemError)>,
    /// The limit that ended the walk early, if one did.
    pub(crate) reached_limit: Option<&'static str>,
}

impl TreeListing {
    /// Lists everything below `start`; `select` decides about each name.
    pub(crate) fn list(
        start: &DirectoryHandle,
        select: &mut dyn FnMut(&ListedEntry) -> EntrySelection,
    ) -> Self {
        let mut listing = Self::default();
        listing.visit(start, &RelPath::default(), 0, select);
        listing
    }

    /// Lists everything below the directory `dir_rel` of `start`, which is `depth` levels deep.
    fn visit(
        &mut self,
        start: &DirectoryHandle,
        dir_rel: &RelPath,
        depth: usize,
        select: &mut dyn FnMut(&ListedEntry) -> EntrySelection,
    ) {
        let entries = match start.dir(dir_rel).and_then(|dir| dir.entries()) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable.push((dir_rel.clone(), error)),
        };
        for entry in entries {
            if self.entries.len() == TREE_ENTRIES_MAX {
                self.reached_limit = Some("it holds more than 500000 names");
                return;
            }
            let Some(rel) = dir_rel.child(&entry.name) else {
                continue;
            };
            let listed_entry = ListedEntry {
                rel,
                kind: entry.kind,
            };
            let selection = select(&listed_entry);
            if selection == EntrySelection::Excluded {
                continue;
            }
            let is_entered =
                selection == EntrySelection::Deep && listed_entry.kind == FileKind::Directory;
            let entered_rel = is_entered.then(|| listed_entry.rel.clone());
            self.entries.push(listed_entry);
            if let Some(entered_rel) = entered_rel {
                if depth == TREE_DEPTH_MAX {
                    self.reached_limit = Some("it is more than 128 directories deep");
                } else {
                    self.visit(start, &entered_rel, depth + 1, select);
                }
            }
        }
    }
}
