//! Walks a tree that a command wrote, which may be as deep, large and inaccessible as the command
//! made it. Each name is passed to the visitor immediately, with the handle of its directory; only
//! the path to it is kept in memory. Symlinks are visited and never followed.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::path::RelPath;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;

/// How many levels one handle serves on the way down. A walk holds one handle for each group of
/// levels.
const NAMES_PER_HANDLE: usize = 32;

/// One name that a walk found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkEntry<'p> {
    /// The directory that holds it.
    pub(crate) dir: &'p DirectoryHandle,
    /// Its name there.
    pub(crate) name: &'p OsStr,
    /// Its path, relative to the start.
    pub(crate) rel: &'p RelPath,
    pub(crate) kind: FileKind,
}

/// How a walk continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkAction {
    /// Visits the content of the directory.
    Descend,
    /// Continues with the next name.
    Skip,
    /// Ends the walk.
    Stop,
}

/// The receiver of what a walk finds.
pub(crate) trait TreeVisitor {
    /// Visits one name, which may no longer exist afterwards.
    fn visit(&mut self, entry: WalkEntry<'_>) -> WalkAction;

    /// Reports that the directory `rel` cannot be read, or only in part.
    fn visit_unreadable(&mut self, rel: &RelPath, error: FileSystemError) -> WalkAction;
}

/// Visits everything below `start`, the names of a directory before their content.
pub(crate) fn walk_untrusted(
    start: &DirectoryHandle,
    visitor: &mut dyn TreeVisitor,
) -> Result<(), FileSystemError> {
    let start = DirectoryCursor {
        dir: Rc::new(start.try_clone()?),
        handle_depth: 0,
        rel_to_handle: RelPath::default(),
        rel: RelPath::default(),
    };
    let mut path = Vec::new();
    let mut next = Some(start);
    loop {
        if let Some(cursor) = next.take() {
            match cursor.enter(visitor) {
                ControlFlow::Continue(stop) => path.extend(stop),
                ControlFlow::Break(()) => return Ok(()),
            }
        }
        let Some(PendingDirectory { cursor, pending }) = path.last_mut() else {
            return Ok(());
        };
        match pending.pop() {
            Some(name) => next = cursor.descend(&name),
            None => drop(path.pop()),
        }
    }
}

/// A directory on the current path, and its subdirectories that are still to be visited.
struct PendingDirectory {
    cursor: DirectoryCursor,
    pending: Vec<OsString>,
}

/// The location of a directory.
struct DirectoryCursor {
    /// A handle on a directory above it, or on itself.
    dir: Rc<DirectoryHandle>,
    /// How many names lead from that handle to it.
    handle_depth: usize,
    /// These names.
    rel_to_handle: RelPath,
    /// Its path, relative to the start.
    rel: RelPath,
}

impl DirectoryCursor {
    fn descend(&self, name: &OsStr) -> Option<Self> {
        Some(Self {
            dir: Rc::clone(&self.dir),
            handle_depth: self.handle_depth.saturating_add(1),
            rel_to_handle: self.rel_to_handle.child(name)?,
            rel: self.rel.child(name)?,
        })
    }

    /// Opens the directory. One without search permission cannot be opened from within, but its
    /// handle stays usable.
    fn open(&self) -> Result<Rc<DirectoryHandle>, FileSystemError> {
        if self.rel_to_handle.is_root() {
            return Ok(Rc::clone(&self.dir));
        }
        self.dir.dir(&self.rel_to_handle).map(Rc::new)
    }

    /// Visits its entries, and returns it with the subdirectories to enter.
    fn enter(mut self, visitor: &mut dyn TreeVisitor) -> ControlFlow<(), Option<PendingDirectory>> {
        let dir = match self.open() {
            Ok(dir) => dir,
            // It was removed or replaced since it was listed.
            Err(FileSystemError::Missing | FileSystemError::NotDirectory) => {
                return ControlFlow::Continue(None);
            }
            Err(error) => {
                let action = visitor.visit_unreadable(&self.rel, error);
                return action.into_control_flow().map_continue(|()| None);
            }
        };
        if self.handle_depth >= NAMES_PER_HANDLE {
            (self.dir, self.handle_depth, self.rel_to_handle) =
                (Rc::clone(&dir), 0, RelPath::default());
        }
        let mut pending = Vec::new();
        if let Err(error) = self.visit_entries(&dir, &mut pending, visitor)? {
            visitor
                .visit_unreadable(&self.rel, error)
                .into_control_flow()?;
        }
        // In reverse, because the last one is entered first.
        pending.sort_by(|one, other| other.cmp(one));
        ControlFlow::Continue(Some(PendingDirectory {
            cursor: self,
            pending,
        }))
    }

    fn visit_entries(
        &self,
        dir: &DirectoryHandle,
        pending: &mut Vec<OsString>,
        visitor: &mut dyn TreeVisitor,
    ) -> ControlFlow<(), Result<(), FileSystemError>> {
        let entries = match dir.listing() {
            Ok(entries) => entries,
            Err(error) => return ControlFlow::Continue(Err(error)),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return ControlFlow::Continue(Err(error)),
            };
            let Some(rel) = self.rel.child(&entry.name) else {
                continue;
            };
            let walk_entry = WalkEntry {
                dir,
                name: &entry.name,
                rel: &rel,
                kind: entry.kind,
            };
            let action = visitor.visit(walk_entry);
            action.into_control_flow()?;
            if action == WalkAction::Descend && entry.kind == FileKind::Directory {
                pending.push(entry.name);
            }
        }
        ControlFlow::Continue(Ok(()))
    }
}

impl WalkAction {
    fn into_control_flow(self) -> ControlFlow<()> {
        match self {
            WalkAction::Descend | WalkAction::Skip => ControlFlow::Continue(()),
            WalkAction::Stop => ControlFlow::Break(()),
        }
    }
}
