//! One step at one path: swaps what exists there with its slot, if both are still what was
//! inspected. A step that was interrupted at any point can be applied again.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::delivery::path_state::PathState;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::journal::{DeliveryStep, StepDirection};
use crate::world::delivery::read_state::read_state;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::slot;

/// The suffix of the slot that temporarily holds a file which has been moved away before its
/// replacement is in place; only used if the file system cannot exchange two names atomically.
const DISPLACED_SUFFIX: &str = ".leaving";

/// One of the user's trees, with the slots of its steps.
#[derive(Debug)]
pub(super) struct DeliveryTree {
    /// The path of the tree.
    pub(super) path: AbsPath,
    /// The tree.
    pub(super) root: DirectoryHandle,
    /// The directory of the slots while steps are applied.
    pub(super) slots: DirectoryHandle,
    /// The parent directory of the last step's path.
    parent: Option<(RelPath, DirectoryHandle)>,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SwapOutcome {
    /// It was applied.
    Done,
    /// It was not applied, because what exists there is not what was inspected.
    Changed,
    /// It was not applied, because the directory contains names that are not part of the delivery.
    NotEmpty,
}

impl DeliveryTree {
    /// Creates the tree `root` at `path`, with the directory of its slots.
    pub(super) fn new(path: AbsPath, root: DirectoryHandle, slots: DirectoryHandle) -> Self {
        Self {
            path,
            root,
            slots,
            parent: None,
        }
    }

    /// Returns what exists at the path of `step`: nothing, if its parent does not exist or is not a
    /// directory any more.
    pub(super) fn current_state(
        &mut self,
        step: &DeliveryStep,
    ) -> Result<PathState, FileSystemError> {
        match self.parent_of(&step.rel) {
            Ok((parent, name)) => state_at(parent, &name),
            Err(error) if error.is_absence() => Ok(PathState::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Returns the kind of the pipe, socket or device at the path of `step`, if there is one.
    pub(super) fn special_file(
        &mut self,
        step: &DeliveryStep,
    ) -> Result<Option<FileKind>, FileSystemError> {
        match self.parent_of(&step.rel) {
            Ok((parent, name)) => match read_state(parent, &name) {
                Ok(_) => Ok(None),
                Err(FileSystemError::NotRegular(kind)) => Ok(Some(kind)),
                Err(error) => Err(error),
            },
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applies `step` in this direction, unless it has been applied already.
    pub(super) fn swap(
        &mut self,
        step: &DeliveryStep,
        direction: StepDirection,
    ) -> Result<SwapOutcome, FileSystemError> {
        let (from, to) = step.before_and_after(direction);
        let slot = OsString::from(step.slot());
        let slots = self.slots.try_clone()?;
        let (parent, name) = match self.parent_of(&step.rel) {
            Ok(parent_and_name) => parent_and_name,
            Err(error) if error.is_absence() => {
                return Ok(SwapOutcome::Changed);
            }
            Err(error) => return Err(error),
        };
        let outcome = match (from, to) {
            (PathState::Directory { .. }, PathState::Directory { mode }) => {
                change_mode(parent, &name, from, to, *mode)
            }
            _ => SlotExchange {
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
        outcome
    }

    /// Returns the parent directory of `rel`, which stays open for subsequent steps in it.
    fn parent_of(
        &mut self,
        rel: &RelPath,
    ) -> Result<(&DirectoryHandle, OsString), FileSystemError> {
        let (parent_rel, name) = match (rel.parent(), rel.name()) {
            (Some(parent_rel), Some(name)) => (parent_rel, name.to_owned()),
            _ => return Err(FileSystemError::IsDirectory),
        };
        let is_open = matches!(&self.parent, Some((open_rel, _)) if *open_rel == parent_rel);
        if !is_open {
            let dir = self.root.dir(&parent_rel)?;
            self.parent = Some((parent_rel, dir));
        }
        match &self.parent {
            Some((_, dir)) => Ok((dir, name)),
            None => Err(FileSystemError::Missing),
        }
    }
}

pub(super) fn state_at(dir: &DirectoryHandle, name: &OsStr) -> Result<PathState, FileSystemError> {
    match read_state(dir, name) {
        Ok((state, _)) => Ok(state),
        // A pipe, a socket or a device is never what was inspected: no symlink has an empty target.
        Err(FileSystemError::NotRegular(_)) => Ok(PathState::Link {
            target: PathBuf::new(),
        }),
        Err(error) => Err(error),
    }
}

fn change_mode(
    parent: &DirectoryHandle,
    name: &OsStr,
    from: &PathState,
    to: &PathState,
    mode: u32,
) -> Result<SwapOutcome, FileSystemError> {
    let current_state = state_at(parent, name)?;
    if to.is_unchanged(&current_state) {
        return Ok(SwapOutcome::Done);
    }
    if !from.is_unchanged(&current_state) {
        return Ok(SwapOutcome::Changed);
    }
    slot::set_dir_mode(parent, name, Mode::from_raw_mode(mode))?;
    Ok(SwapOutcome::Done)
}

/// Returns whether removing `name`, which is in this state, loses nothing that is not part of the
/// delivery.
fn may_remove(
    dir: &DirectoryHandle,
    name: &OsStr,
    state: &PathState,
) -> Result<bool, FileSystemError> {
    if !state.is_directory() {
        return Ok(true);
    }
    let rel = RelPath::default()
        .child(name)
        .ok_or(FileSystemError::Missing)?;
    // Earlier steps have removed what the delivery removes from it.
    Ok(dir.dir(&rel)?.entries_up_to(1)?.is_empty())
}

/// A path and its slot.
struct SlotExchange<'a> {
    slots: &'a DirectoryHandle,
    slot: &'a OsStr,
    parent: &'a DirectoryHandle,
    name: &'a OsStr,
}

impl SlotExchange<'_> {
    /// Exchanges the path, which is expected to be in the state `from`, with its slot, which is
    /// expected to be in the state `to`.
    fn carry_out(&self, from: &PathState, to: &PathState) -> Result<SwapOutcome, FileSystemError> {
        self.finish_exchange()?;
        let (current_state, slot_state) = (
            state_at(self.parent, self.name)?,
            state_at(self.slots, self.slot)?,
        );
        if to.is_unchanged(&current_state) && from.is_unchanged(&slot_state) {
            return Ok(SwapOutcome::Done);
        }
        if !from.is_unchanged(&current_state) || !to.is_unchanged(&slot_state) {
            return Ok(SwapOutcome::Changed);
        }
        match (from.is_absent(), to.is_absent()) {
            (true, true) => Ok(SwapOutcome::Done),
            (true, false) => match self.slots.rename_new(self.slot, self.parent, self.name) {
                Ok(()) => Ok(SwapOutcome::Done),
                Err(FileSystemError::Exists) => Ok(SwapOutcome::Changed),
                Err(error) => Err(error),
            },
            (false, true) => {
                if !may_remove(self.parent, self.name, from)? {
                    return Ok(SwapOutcome::NotEmpty);
                }
                match self.parent.rename_new(self.name, self.slots, self.slot) {
                    Ok(()) => {}
                    Err(FileSystemError::Missing) => return Ok(SwapOutcome::Changed),
                    Err(error) => return Err(error),
                }
                self.verify_slot(from, |this| {
                    this.slots.rename_new(this.slot, this.parent, this.name)
                })
            }
            (false, false) => {
                if !may_remove(self.parent, self.name, from)? {
                    return Ok(SwapOutcome::NotEmpty);
                }
                match self.exchange() {
                    Ok(()) => {}
                    Err(FileSystemError::Missing) => return Ok(SwapOutcome::Changed),
                    Err(error) => return Err(error),
                }
                self.verify_slot(from, Self::exchange)
            }
        }
    }

    /// Checks that what was moved to the slot is what was inspected; otherwise `put_back` moves it
    /// back.
    fn verify_slot(
        &self,
        expected: &PathState,
        put_back: impl Fn(&Self) -> Result<(), FileSystemError>,
    ) -> Result<SwapOutcome, FileSystemError> {
        if !expected.is_unchanged(&state_at(self.slots, self.slot)?) {
            put_back(self)?;
            return Ok(SwapOutcome::Changed);
        }
        if !may_remove(self.slots, self.slot, expected)? {
            put_back(self)?;
            return Ok(SwapOutcome::NotEmpty);
        }
        Ok(SwapOutcome::Done)
    }

    /// Exchanges the path with its slot, atomically if the file system can do that.
    fn exchange(&self) -> Result<(), FileSystemError> {
        match self.slots.exchange_names(self.slot, self.parent, self.name) {
            Err(FileSystemError::System(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP)) => {
                let displaced = self.displaced_name();
                self.parent.rename_new(self.name, self.slots, &displaced)?;
                self.finish_exchange()
            }
            result => result,
        }
    }

    /// Completes an exchange that was interrupted on a file system without atomic exchange.
    fn finish_exchange(&self) -> Result<(), FileSystemError> {
        let displaced = self.displaced_name();
        if state_at(self.slots, &displaced)?.is_absent() {
            return Ok(());
        }
        if state_at(self.parent, self.name)?.is_absent() {
            self.slots.rename_new(self.slot, self.parent, self.name)?;
        }
        self.slots.rename_new(&displaced, self.slots, self.slot)
    }

    fn displaced_name(&self) -> OsString {
        let mut name = self.slot.to_owned();
        name.push(DISPLACED_SUFFIX);
        name
    }
}
