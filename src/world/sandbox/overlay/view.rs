//! A view of an overlay: the user's trees with the changes that a delivery would make, and nothing
//! else of what is on the overlay.

use std::ffi::OsStr;

use crate::delivery::path_state::PathState;
use crate::delivery::plan::DeliveryEntry;
use crate::path::{AbsPath, RelPath};
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::state_files::clear;
use crate::world::sys::upper_layer::{create_whiteout, make_parents_over};

/// A view of an overlay. Its directory is removed on drop.
#[derive(Debug)]
pub(in crate::world) struct OverlayView {
    /// `None` only while it is dropped.
    pub(super) overlay: Option<WriteOverlay>,
    /// Its layers and copies.
    pub(super) directory: AbsPath,
}

impl OverlayView {
    /// Returns the overlay that shows it. Nothing may write to it.
    pub(in crate::world) fn overlay(&self) -> Option<&WriteOverlay> {
        self.overlay.as_ref()
    }
}

impl Drop for OverlayView {
    fn drop(&mut self) {
        // Its mounts end before what they show is removed.
        drop(self.overlay.take());
        if let Err(error) = clear::remove(&self.directory) {
            tracing::warn!("{error:#}");
        }
    }
}

/// Changes to a tree, with their content.
#[derive(Debug)]
pub(super) struct PlannedChanges {
    /// The layer that has the content.
    pub(super) source: DirectoryHandle,
    /// The changes, each directory before what is in it.
    pub(super) entries: Vec<DeliveryEntry>,
}

impl PlannedChanges {
    /// Writes the changes to `upper`, an empty layer over `tree`.
    pub(super) fn write_layer(
        &self,
        tree: &DirectoryHandle,
        upper: &DirectoryHandle,
    ) -> Result<(), FileSystemError> {
        self.for_each(|rel, entry| {
            make_parents_over(tree, upper, rel)?;
            let (dir, name) = upper.parent_of(rel)?;
            match entry.ours {
                PathState::Nothing => create_whiteout(&dir, name),
                PathState::Directory { .. } => self.make_directory(rel, &dir, name),
                PathState::File(_) | PathState::Link { .. } => self.link(rel, &dir, name),
            }
        })
    }

    /// Makes the changes in `copy`, a copy of the tree.
    pub(super) fn apply(&self, copy: &DirectoryHandle) -> Result<(), FileSystemError> {
        self.for_each(|rel, entry| {
            let (dir, name) = copy.make_parent_of(rel)?;
            let existing = match copy.meta(rel) {
                Ok(meta) => Some(meta.kind),
                Err(FileSystemError::Missing) => None,
                Err(error) => return Err(error),
            };
            let stays = matches!(entry.ours, PathState::Directory { .. })
                && existing == Some(FileKind::Directory);
            match existing {
                Some(FileKind::Directory) if !stays => {
                    clear::empty(&copy.dir(rel)?)?;
                    dir.remove_dir(name)?;
                }
                Some(FileKind::Directory) | None => {}
                Some(_) => dir.unlink(name)?,
            }
            match entry.ours {
                PathState::Directory { .. } if !stays => self.make_directory(rel, &dir, name),
                PathState::Directory { .. } | PathState::Nothing => Ok(()),
                PathState::File(_) | PathState::Link { .. } => self.link(rel, &dir, name),
            }
        })
    }

    /// Visits the changes that the user's own changes do not prevent, without those in directories
    /// that no longer exist.
    fn for_each(
        &self,
        mut visit: impl FnMut(&RelPath, &DeliveryEntry) -> Result<(), FileSystemError>,
    ) -> Result<(), FileSystemError> {
        let mut last_leaf: Option<&RelPath> = None;
        for entry in self.entries.iter().filter(|entry| entry.conflict.is_none()) {
            if last_leaf.is_some_and(|leaf| entry.rel.is_within(leaf)) {
                continue;
            }
            if !entry.ours.is_directory() {
                last_leaf = Some(&entry.rel);
            }
            visit(&entry.rel, entry)?;
        }
        Ok(())
    }

    fn make_directory(
        &self,
        rel: &RelPath,
        dir: &DirectoryHandle,
        name: &OsStr,
    ) -> Result<(), FileSystemError> {
        dir.make_dir(name, &self.source.meta(rel)?)
    }

    /// Gives the file of the layer a second name, so that its content is not copied. Nothing writes
    /// to a view.
    fn link(
        &self,
        rel: &RelPath,
        dir: &DirectoryHandle,
        name: &OsStr,
    ) -> Result<(), FileSystemError> {
        let (source_dir, source_name) = self.source.parent_of(rel)?;
        source_dir.link(source_name, dir, name)
    }
}
