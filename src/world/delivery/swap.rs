//! Owns one step at one name: what stands there and what is in its slot change places, if it is still
//! what was looked at. A step that was broken off anywhere can be taken again.

use std::ffi::{OsStr, OsString};

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::delivery::stand::Stand;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::journal::{Step, Way};
use crate::world::delivery::standing::standing;
use crate::world::sys::dir::Dir;
use crate::world::sys::fault::Fault;
use crate::world::sys::meta::Kind;
use crate::world::sys::slot;

/// What the name of a file ends with that has left its place while the one that takes it is not there
/// yet; only where the file system cannot exchange two names.
const LEAVING: &str = ".leaving";

/// One of the user's trees, with the slots of the steps below it.
#[derive(Debug)]
pub(super) struct Site {
    /// Where it is.
    pub(super) path: AbsPath,
    /// The tree.
    pub(super) root: Dir,
    /// Where slots are while steps are taken.
    pub(super) slots: Dir,
    /// The directory of the last step.
    parent: Option<(RelPath, Dir)>,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swapped {
    /// It is taken.
    Done,
    /// It is not, because something else stands there than what was looked at.
    Foreign,
    /// It is not, because the directory holds names that are no part of the delivery.
    NotEmpty,
}

impl Site {
    /// The tree `root` at `path`, and where slots for it are.
    pub(super) fn new(path: AbsPath, root: Dir, slots: Dir) -> Self {
        Self {
            path,
            root,
            slots,
            parent: None,
        }
    }

    /// What stands at the name of `step`. Where its directory is gone or is none any more, nothing.
    pub(super) fn standing(&mut self, step: &Step) -> Result<Stand, Fault> {
        match self.parent_of(&step.rel) {
            Ok((parent, name)) => stand(parent, &name),
            Err(Fault::Missing | Fault::NotDirectory | Fault::Replaced) => Ok(Stand::Nothing),
            Err(fault) => Err(fault),
        }
    }

    /// The pipe, socket or device that stands at the name of `step`, if one does.
    pub(super) fn special(&mut self, step: &Step) -> Result<Option<Kind>, Fault> {
        match self.parent_of(&step.rel) {
            Ok((parent, name)) => match standing(parent, &name) {
                Ok(_) => Ok(None),
                Err(Fault::NotRegular(kind)) => Ok(Some(kind)),
                Err(fault) => Err(fault),
            },
            Err(Fault::Missing | Fault::NotDirectory | Fault::Replaced) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Takes `step` in this direction, unless it is taken already.
    pub(super) fn swap(&mut self, step: &Step, way: Way) -> Result<Swapped, Fault> {
        let (from, to) = step.ends(way);
        let slot = OsString::from(step.slot());
        let slots = self.slots.try_clone()?;
        let (parent, name) = match self.parent_of(&step.rel) {
            Ok(found) => found,
            Err(Fault::Missing | Fault::NotDirectory | Fault::Replaced) => {
                return Ok(Swapped::Foreign);
            }
            Err(fault) => return Err(fault),
        };
        let done = match (from, to) {
            (Stand::Directory { .. }, Stand::Directory { mode }) => {
                change_mode(parent, &name, from, to, *mode)
            }
            _ => Exchange {
                slots: &slots,
                slot: &slot,
                parent,
                name: &name,
            }
            .carry_out(from, to),
        };
        if from.is_directory() || to.is_directory() {
            self.parent = None;
        }
        done
    }

    /// The directory that holds `rel`, opened once for all steps in it that follow each other.
    fn parent_of(&mut self, rel: &RelPath) -> Result<(&Dir, OsString), Fault> {
        let (above, name) = match (rel.parent(), rel.name()) {
            (Some(above), Some(name)) => (above, name.to_owned()),
            _ => return Err(Fault::IsDirectory),
        };
        let is_open = matches!(&self.parent, Some((open, _)) if *open == above);
        if !is_open {
            let dir = self.root.dir(&above)?;
            self.parent = Some((above, dir));
        }
        match &self.parent {
            Some((_, dir)) => Ok((dir, name)),
            None => Err(Fault::Missing),
        }
    }
}

fn stand(dir: &Dir, name: &OsStr) -> Result<Stand, Fault> {
    match standing(dir, name) {
        Ok((stand, _)) => Ok(stand),
        // Whatever it is, it is not what was looked at.
        Err(Fault::NotRegular(_)) => Ok(Stand::Link { target: "/".into() }),
        Err(fault) => Err(fault),
    }
}

fn change_mode(
    parent: &Dir,
    name: &OsStr,
    from: &Stand,
    to: &Stand,
    mode: u32,
) -> Result<Swapped, Fault> {
    let now = stand(parent, name)?;
    if to.is_still(&now) {
        return Ok(Swapped::Done);
    }
    if !from.is_still(&now) {
        return Ok(Swapped::Foreign);
    }
    slot::set_dir_mode(parent, name, Mode::from_raw_mode(mode))?;
    Ok(Swapped::Done)
}

/// Whether nothing is lost with it that is no part of the delivery.
fn may_go(dir: &Dir, name: &OsStr, what: &Stand) -> Result<bool, Fault> {
    if !what.is_directory() {
        return Ok(true);
    }
    let rel = RelPath::default().child(name).ok_or(Fault::Missing)?;
    Ok(dir.dir(&rel)?.some_entries(1)?.is_empty())
}

/// A name and its slot.
struct Exchange<'a> {
    slots: &'a Dir,
    slot: &'a OsStr,
    parent: &'a Dir,
    name: &'a OsStr,
}

impl Exchange<'_> {
    fn carry_out(&self, from: &Stand, to: &Stand) -> Result<Swapped, Fault> {
        self.finish_leaving()?;
        let (now, waiting) = (
            stand(self.parent, self.name)?,
            stand(self.slots, self.slot)?,
        );
        if to.is_still(&now) && from.is_still(&waiting) {
            return Ok(Swapped::Done);
        }
        if !from.is_still(&now) || !to.is_still(&waiting) {
            return Ok(Swapped::Foreign);
        }
        match (from.is_nothing(), to.is_nothing()) {
            (true, true) => Ok(Swapped::Done),
            (true, false) => match self.slots.rename_new(self.slot, self.parent, self.name) {
                Ok(()) => Ok(Swapped::Done),
                Err(Fault::Exists) => Ok(Swapped::Foreign),
                Err(fault) => Err(fault),
            },
            (false, true) => {
                if !may_go(self.parent, self.name, from)? {
                    return Ok(Swapped::NotEmpty);
                }
                match self.parent.rename_new(self.name, self.slots, self.slot) {
                    Ok(()) => {}
                    Err(Fault::Missing) => return Ok(Swapped::Foreign),
                    Err(fault) => return Err(fault),
                }
                self.expect_in_slot(from, |this| {
                    this.slots.rename_new(this.slot, this.parent, this.name)
                })
            }
            (false, false) => {
                if !may_go(self.parent, self.name, from)? {
                    return Ok(Swapped::NotEmpty);
                }
                match self.slots.exchange(self.slot, self.parent, self.name) {
                    Ok(()) => {}
                    Err(Fault::Missing) => return Ok(Swapped::Foreign),
                    Err(Fault::System(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)) => {
                        let leaving = self.leaving();
                        self.parent.rename_new(self.name, self.slots, &leaving)?;
                        self.finish_leaving()?;
                    }
                    Err(fault) => return Err(fault),
                }
                self.expect_in_slot(from, |this| {
                    this.slots.exchange(this.slot, this.parent, this.name)
                })
            }
        }
    }

    /// What left the place must be what was looked at; otherwise it is put back.
    fn expect_in_slot(
        &self,
        expected: &Stand,
        put_back: impl Fn(&Self) -> Result<(), Fault>,
    ) -> Result<Swapped, Fault> {
        if !expected.is_still(&stand(self.slots, self.slot)?) {
            put_back(self)?;
            return Ok(Swapped::Foreign);
        }
        if !may_go(self.slots, self.slot, expected)? {
            put_back(self)?;
            return Ok(Swapped::NotEmpty);
        }
        Ok(Swapped::Done)
    }

    /// Goes on where two names could not be exchanged in one step and the process ended in between.
    fn finish_leaving(&self) -> Result<(), Fault> {
        let leaving = self.leaving();
        if stand(self.slots, &leaving)?.is_nothing() {
            return Ok(());
        }
        if stand(self.parent, self.name)?.is_nothing() {
            self.slots.rename_new(self.slot, self.parent, self.name)?;
        }
        self.slots.rename_new(&leaving, self.slots, self.slot)
    }

    fn leaving(&self) -> OsString {
        let mut name = self.slot.to_owned();
        name.push(LEAVING);
        name
    }
}
