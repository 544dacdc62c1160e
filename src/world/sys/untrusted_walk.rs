//! Owns the walk over a tree that a command wrote to, which may be as deep, as full and as closed as
//! the command made it. Each name is shown at once, beneath the handle of its directory; nothing is
//! kept but the way there. Links are shown and never followed.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::path::RelPath;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileKind;

/// How many directories a handle is used for on the way down. A walk holds one for each so many.
const NAMES_A_HANDLE: usize = 32;

/// One name that a patrol came upon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WalkEntry<'p> {
    /// The directory that holds it.
    pub(crate) dir: &'p DirectoryHandle,
    /// Its name there.
    pub(crate) name: &'p OsStr,
    /// Where it is, seen from the start.
    pub(crate) rel: &'p RelPath,
    /// What it is.
    pub(crate) kind: FileKind,
}

/// How a patrol goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkAction {
    /// What is in the directory is looked at.
    Descend,
    /// The walk goes on behind it.
    Skip,
    /// The walk ends.
    Stop,
}

/// Who is shown what a patrol comes upon.
pub(crate) trait TreeVisitor {
    /// A name. It may be gone afterwards.
    fn visit(&mut self, sight: WalkEntry<'_>) -> WalkAction;

    /// The directory `rel` cannot be looked into, or not to its end.
    fn visit_unreadable(&mut self, rel: &RelPath, fault: FileSystemError) -> WalkAction;
}

/// Shows all that is below `start`, the names of a directory before what is in them.
pub(crate) fn walk_untrusted(
    start: &DirectoryHandle,
    watch: &mut dyn TreeVisitor,
) -> Result<(), FileSystemError> {
    let start = DirectoryCursor {
        dir: Rc::new(start.try_clone()?),
        names: 0,
        below: RelPath::default(),
        rel: RelPath::default(),
    };
    let mut way = Vec::new();
    let mut next = Some(start);
    loop {
        if let Some(post) = next.take() {
            match post.enter(watch) {
                ControlFlow::Continue(stop) => way.extend(stop),
                ControlFlow::Break(()) => return Ok(()),
            }
        }
        let Some(PendingDirectory {
            cursor: post,
            pending: ahead,
        }) = way.last_mut()
        else {
            return Ok(());
        };
        match ahead.pop() {
            Some(name) => next = post.descend(&name),
            None => drop(way.pop()),
        }
    }
}

/// A directory on the way, and what is still to be looked at in it.
struct PendingDirectory {
    cursor: DirectoryCursor,
    pending: Vec<OsString>,
}

/// Where a directory is.
struct DirectoryCursor {
    /// A handle on a directory above it, or on itself.
    dir: Rc<DirectoryHandle>,
    /// How many names lead from there to it.
    names: usize,
    /// These names.
    below: RelPath,
    /// Where it is, seen from the start.
    rel: RelPath,
}

impl DirectoryCursor {
    fn descend(&self, name: &OsStr) -> Option<Self> {
        Some(Self {
            dir: Rc::clone(&self.dir),
            names: self.names.saturating_add(1),
            below: self.below.child(name)?,
            rel: self.rel.child(name)?,
        })
    }

    /// A directory that nobody may look into cannot be opened from within, but the handle on it holds.
    fn open(&self) -> Result<Rc<DirectoryHandle>, FileSystemError> {
        if self.below.is_root() {
            return Ok(Rc::clone(&self.dir));
        }
        self.dir.dir(&self.below).map(Rc::new)
    }

    /// Shows what is in it, and gives the directories that are to be looked into.
    fn enter(mut self, watch: &mut dyn TreeVisitor) -> ControlFlow<(), Option<PendingDirectory>> {
        let dir = match self.open() {
            Ok(dir) => dir,
            Err(FileSystemError::Missing | FileSystemError::NotDirectory) => {
                return ControlFlow::Continue(None);
            }
            Err(fault) => {
                let turn = watch.visit_unreadable(&self.rel, fault);
                return turn.into_control_flow().map_continue(|()| None);
            }
        };
        if self.names >= NAMES_A_HANDLE {
            (self.dir, self.names, self.below) = (Rc::clone(&dir), 0, RelPath::default());
        }
        let mut ahead = Vec::new();
        if let Err(fault) = self.visit_entries(&dir, &mut ahead, watch)? {
            watch
                .visit_unreadable(&self.rel, fault)
                .into_control_flow()?;
        }
        ahead.sort_by(|one, other| other.cmp(one));
        ControlFlow::Continue(Some(PendingDirectory {
            cursor: self,
            pending: ahead,
        }))
    }

    fn visit_entries(
        &self,
        dir: &DirectoryHandle,
        ahead: &mut Vec<OsString>,
        watch: &mut dyn TreeVisitor,
    ) -> ControlFlow<(), Result<(), FileSystemError>> {
        let entries = match dir.listing() {
            Ok(entries) => entries,
            Err(fault) => return ControlFlow::Continue(Err(fault)),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(fault) => return ControlFlow::Continue(Err(fault)),
            };
            let Some(rel) = self.rel.child(&entry.name) else {
                continue;
            };
            let sight = WalkEntry {
                dir,
                name: &entry.name,
                rel: &rel,
                kind: entry.kind,
            };
            let turn = watch.visit(sight);
            turn.into_control_flow()?;
            if turn == WalkAction::Descend && entry.kind == FileKind::Directory {
                ahead.push(entry.name);
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
