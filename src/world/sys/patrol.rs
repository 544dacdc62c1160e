//! Owns the walk over a tree that a command wrote to, which may be as deep, as full and as closed as
//! the command made it. Each name is shown at once, beneath the handle of its directory; nothing is
//! kept but the way there. Links are shown and never followed.

use std::ffi::{OsStr, OsString};
use std::ops::ControlFlow;
use std::rc::Rc;

use crate::path::RelPath;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;

/// How many directories a handle is used for on the way down. A walk holds one for each so many.
const NAMES_A_HANDLE: usize = 32;

/// One name that a patrol came upon.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'p> {
    /// The directory that holds it.
    pub(crate) dir: &'p Dir,
    /// Its name there.
    pub(crate) name: &'p OsStr,
    /// Where it is, seen from the start.
    pub(crate) rel: &'p RelPath,
    /// What it is.
    pub(crate) kind: Kind,
}

/// How a patrol goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// What is in the directory is looked at.
    Inside,
    /// The walk goes on behind it.
    Past,
    /// The walk ends.
    Home,
}

/// Who is shown what a patrol comes upon.
pub(crate) trait Watch {
    /// A name. It may be gone afterwards.
    fn see(&mut self, sight: Sight<'_>) -> Turn;

    /// The directory `rel` cannot be looked into, or not to its end.
    fn barred(&mut self, rel: &RelPath, fault: Fault) -> Turn;
}

/// Shows all that is below `start`, the names of a directory before what is in them.
pub(crate) fn patrol(start: &Dir, watch: &mut dyn Watch) -> Result<(), Fault> {
    let start = Post {
        dir: Rc::new(start.try_clone()?),
        names: 0,
        below: RelPath::default(),
        rel: RelPath::default(),
    };
    let mut way = Vec::new();
    let mut next = Some(start);
    loop {
        if let Some(post) = next.take() {
            match post.look(watch) {
                ControlFlow::Continue(stop) => way.extend(stop),
                ControlFlow::Break(()) => return Ok(()),
            }
        }
        let Some(Stop { post, ahead }) = way.last_mut() else {
            return Ok(());
        };
        match ahead.pop() {
            Some(name) => next = post.inside(&name),
            None => drop(way.pop()),
        }
    }
}

/// A directory on the way, and what is still to be looked at in it.
struct Stop {
    post: Post,
    ahead: Vec<OsString>,
}

/// Where a directory is.
struct Post {
    /// A handle on a directory above it, or on itself.
    dir: Rc<Dir>,
    /// How many names lead from there to it.
    names: usize,
    /// These names.
    below: RelPath,
    /// Where it is, seen from the start.
    rel: RelPath,
}

impl Post {
    fn inside(&self, name: &OsStr) -> Option<Self> {
        Some(Self {
            dir: Rc::clone(&self.dir),
            names: self.names.saturating_add(1),
            below: self.below.child(name)?,
            rel: self.rel.child(name)?,
        })
    }

    /// A directory that nobody may look into cannot be opened from within, but the handle on it holds.
    fn open(&self) -> Result<Rc<Dir>, Fault> {
        if self.below.is_root() {
            return Ok(Rc::clone(&self.dir));
        }
        self.dir.dir(&self.below).map(Rc::new)
    }

    /// Shows what is in it, and gives the directories that are to be looked into.
    fn look(mut self, watch: &mut dyn Watch) -> ControlFlow<(), Option<Stop>> {
        let dir = match self.open() {
            Ok(dir) => dir,
            Err(Fault::Missing | Fault::NotDirectory) => return ControlFlow::Continue(None),
            Err(fault) => {
                let turn = watch.barred(&self.rel, fault);
                return turn.onward().map_continue(|()| None);
            }
        };
        if self.names >= NAMES_A_HANDLE {
            (self.dir, self.names, self.below) = (Rc::clone(&dir), 0, RelPath::default());
        }
        let mut ahead = Vec::new();
        if let Err(fault) = self.show(&dir, &mut ahead, watch)? {
            watch.barred(&self.rel, fault).onward()?;
        }
        ahead.sort_by(|one, other| other.cmp(one));
        ControlFlow::Continue(Some(Stop { post: self, ahead }))
    }

    fn show(
        &self,
        dir: &Dir,
        ahead: &mut Vec<OsString>,
        watch: &mut dyn Watch,
    ) -> ControlFlow<(), Result<(), Fault>> {
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
            let sight = Sight {
                dir,
                name: &entry.name,
                rel: &rel,
                kind: entry.kind,
            };
            let turn = watch.see(sight);
            turn.onward()?;
            if turn == Turn::Inside && entry.kind == Kind::Directory {
                ahead.push(entry.name);
            }
        }
        ControlFlow::Continue(Ok(()))
    }
}

impl Turn {
    fn onward(self) -> ControlFlow<()> {
        match self {
            Turn::Inside | Turn::Past => ControlFlow::Continue(()),
            Turn::Home => ControlFlow::Break(()),
        }
    }
}
