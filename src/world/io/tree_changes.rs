//! Whether anything in directories of the user has changed since a time.

use crate::path::{AbsPath, RealPath, RelPath};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::untrusted_walk::{TreeVisitor, WalkAction, WalkEntry, walk_untrusted};

/// The most names that are visited; that takes about a second.
const NAMES_MAX: usize = 500_000;

/// Directories of the user whose changes matter.
#[derive(Clone, Debug)]
pub struct WatchedTrees {
    /// The directories.
    pub roots: Vec<RealPath>,
    /// A directory in them whose changes do not matter.
    pub except: AbsPath,
    /// The time since which they matter, in nanoseconds since 1970.
    pub since_ns: i128,
}

impl WatchedTrees {
    /// Returns whether nothing in them has changed since then. What cannot be read, or is too much,
    /// counts as changed.
    pub fn are_unchanged(&self) -> bool {
        let mut names_left = NAMES_MAX;
        self.roots.iter().all(|root| {
            let Ok(dir) = DirectoryHandle::open(root) else {
                return false;
            };
            let mut visitor = ChangeVisitor {
                except: self.except.below(&root.to_abs()),
                since_ns: self.since_ns,
                names_left: &mut names_left,
                has_changed: false,
            };
            let meta = FileMetadata::from_handle(&dir);
            visitor.is_older(meta)
                && walk_untrusted(&dir, &mut visitor).is_ok()
                && !visitor.has_changed
        })
    }
}

struct ChangeVisitor<'a> {
    except: Option<RelPath>,
    since_ns: i128,
    names_left: &'a mut usize,
    has_changed: bool,
}

impl ChangeVisitor<'_> {
    fn is_older(&self, meta: Result<FileMetadata, FileSystemError>) -> bool {
        meta.is_ok_and(|meta| meta.version.changed_ns < self.since_ns)
    }
}

impl TreeVisitor for ChangeVisitor<'_> {
    fn visit(&mut self, entry: WalkEntry<'_>) -> WalkAction {
        if self.except.as_ref() == Some(entry.rel) {
            return WalkAction::Skip;
        }
        let is_older = self.is_older(FileMetadata::from_name(entry.dir, entry.name));
        match self.names_left.checked_sub(1) {
            Some(names_left) if is_older => *self.names_left = names_left,
            Some(_) | None => {
                self.has_changed = true;
                return WalkAction::Stop;
            }
        }
        if entry.kind == FileKind::Directory {
            WalkAction::Descend
        } else {
            WalkAction::Skip
        }
    }

    fn visit_unreadable(&mut self, _: &RelPath, _: FileSystemError) -> WalkAction {
        self.has_changed = true;
        WalkAction::Stop
    }
}
