//! Captures what a delivery would change into layers of its own, which later changes on the overlay
//! do not reach.

use crate::answer_changes::{ChangeLayer, ChangeLayers};
use crate::delivery::path_state::PathState;
use crate::delivery::plan::{DeliveryEntry, DeliveryPlan};
use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::sandbox::overlay::WriteOverlay;
use crate::world::sandbox::overlay::tree::open_error;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::slot::duplicate;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirectoryAudience, StagingDirectory};
use crate::world::sys::upper_layer::{
    copy_origin_mark, create_whiteout, is_new, make_parents_over, mark_applied,
};

/// Prefix of the names of captured layers in their directory; a number follows.
const LAYER_PREFIX: &str = "changes";

/// How files get into a captured layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentTransfer {
    /// They are copied, and share blocks with the original where the file system can do that.
    Copy,
    /// They get a second name, so that they show later changes.
    Link,
}

/// Captured changes that do not count yet. They are removed on drop.
#[derive(Debug)]
pub struct StagedChanges {
    staging: StagingDirectory,
    directory: AbsPath,
    layers: ChangeLayers,
}

impl StagedChanges {
    /// Publishes the changes, and returns their layers. They survive a power failure. No changes
    /// have no directory.
    ///
    /// # Errors
    /// They cannot be published.
    pub fn publish(self) -> Result<ChangeLayers> {
        if self.layers.is_empty() {
            return Ok(self.layers);
        }
        // A process that was killed before the answer counted may have published it.
        clear::discard(&self.directory)?;
        let staged_path = self.staging.path().clone();
        self.staging.publish(&self.directory)?;
        Ok(self.layers.moved(&staged_path, &self.directory))
    }
}

impl WriteOverlay {
    /// Copies the changes of `plan`, each root of which is a tree of the overlay, to layers that are
    /// to become the directory `directory`.
    ///
    /// # Errors
    /// The changes cannot be read or written.
    pub fn stage_changes(&self, plan: &DeliveryPlan, directory: &AbsPath) -> Result<StagedChanges> {
        let parent = directory.parent().unwrap_or_else(AbsPath::root);
        dir::create_all(&parent, DirectoryAudience::User)?;
        let staging = StagingDirectory::new(&parent)?;
        let layers = self.capture(plan, staging.path(), ContentTransfer::Copy)?;
        Ok(StagedChanges {
            staging,
            directory: directory.clone(),
            layers,
        })
    }

    /// Writes the changes of `plan`, whose content is in the layers of this overlay, to layers in
    /// `directory`. Each root of the plan is a tree of the overlay; what the user's own changes
    /// prevent is left out.
    ///
    /// # Errors
    /// The changes cannot be read or written.
    pub(super) fn capture(
        &self,
        plan: &DeliveryPlan,
        directory: &AbsPath,
        transfer: ContentTransfer,
    ) -> Result<ChangeLayers> {
        let mut layers = Vec::new();
        for (number, tree) in self.0.trees.iter().enumerate() {
            let root = tree.root.to_abs();
            let root_number = plan.roots.iter().position(|planned| *planned == root);
            let entries = plan.entries.iter();
            let entries: Vec<_> = entries
                .filter(|entry| Some(entry.root) == root_number)
                .collect();
            if entries.is_empty() {
                continue;
            }
            let path = directory.join(format!("{LAYER_PREFIX}{number}"));
            dir::create_all(&path, DirectoryAudience::User)?;
            let write_layer = || {
                let between = tree.layer().between.as_ref();
                let between = between.map(DirectoryHandle::open_own).transpose()?;
                let writer = LayerWriter {
                    source: &DirectoryHandle::open_own(&tree.layer().upper)?,
                    tree: &tree.user_tree,
                    layer: &DirectoryHandle::open_own(&path)?,
                    between: between.as_ref(),
                    transfer,
                };
                writer.write(entries)
            };
            write_layer().map_err(|error| open_error(&tree.root, error))?;
            layers.push(ChangeLayer { root, path });
        }
        Ok(ChangeLayers(layers))
    }
}

/// Writes changes to an empty layer.
struct LayerWriter<'a> {
    /// The layer that has the content.
    source: &'a DirectoryHandle,
    /// The user's tree.
    tree: &'a DirectoryHandle,
    /// The new layer.
    layer: &'a DirectoryHandle,
    /// The layer between the tree and `source`, if there is one.
    between: Option<&'a DirectoryHandle>,
    transfer: ContentTransfer,
}

impl LayerWriter<'_> {
    /// Writes `entries`, each directory before what is in it.
    fn write(&self, entries: Vec<&DeliveryEntry>) -> std::result::Result<(), FileSystemError> {
        let mut last_leaf: Option<&RelPath> = None;
        for entry in entries {
            let is_below_leaf = last_leaf.is_some_and(|leaf| entry.rel.is_within(leaf));
            if entry.conflict.is_some() || is_below_leaf {
                continue;
            }
            if !entry.ours.is_directory() {
                last_leaf = Some(&entry.rel);
            }
            self.write_entry(entry)?;
        }
        Ok(())
    }

    fn write_entry(&self, entry: &DeliveryEntry) -> std::result::Result<(), FileSystemError> {
        let rel = &entry.rel;
        make_parents_over(self.tree, self.layer, rel)?;
        let (dir, name) = self.layer.parent_of(rel)?;
        match (&entry.ours, self.transfer) {
            (PathState::Nothing, _) => create_whiteout(&dir, name),
            (PathState::Directory { .. }, _) => {
                dir.make_dir(name, &self.source.meta(rel)?)?;
                match entry.theirs {
                    // The new permission bits are for the user's directory.
                    PathState::Directory { .. } => mark_applied(self.layer, rel),
                    PathState::Nothing | PathState::File(_) | PathState::Link { .. } => Ok(()),
                }
            }
            (PathState::File(_) | PathState::Link { .. }, ContentTransfer::Link) => {
                let (source_dir, source_name) = self.source.parent_of(rel)?;
                source_dir.link(source_name, &dir, name)
            }
            (PathState::File(_) | PathState::Link { .. }, ContentTransfer::Copy) => {
                let (source_dir, _) = self.source.parent_of(rel)?;
                duplicate(&source_dir, &dir, name)?;
                match self.between.filter(|layer| is_new(layer, rel)) {
                    // The user's tree has no such file.
                    Some(_) => Ok(()),
                    None => copy_origin_mark(self.source, self.layer, rel),
                }
            }
        }
    }
}
