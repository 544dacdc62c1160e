//! One tree of the user's under an overlay: its upper layer, or the copy that replaces it.

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RealPath};
use crate::permissions::grant::GrantScope;
use crate::sandbox_policy::OverlayLayer;
use crate::world::sandbox::obstacles::overlay_obstacle;
use crate::world::sandbox::overlay::{OverlaidTree, OverlayMethod};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::file_system_features::foreign_reachable_by_root;
use crate::world::sys::launch::overlay_request::{OverlayRoot, OverlaySource};
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::replica::TreeReplica;
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::upper_layer::supports_marks;

/// A tree under an overlay.
#[derive(Debug)]
pub(super) struct TreeOverlay {
    /// Its path.
    pub(super) root: RealPath,
    /// Handle on the user's own tree.
    pub(super) user_tree: DirectoryHandle,
    /// The only files that are overlaid; `None` for the whole tree.
    files: Option<Vec<RealPath>>,
    layer: OverlayLayer,
    /// Path of the copy, if one is made.
    copy_path: AbsPath,
    /// Directories inside it that do not belong to it.
    separate_paths: Vec<AbsPath>,
    /// How many overlays share the space for copies.
    copies: u64,
    copy: Option<TreeCopy>,
    /// Handle on the overlaid tree inside the mount namespace.
    mounted_tree: Option<DirectoryHandle>,
}

/// The copy that replaces a tree.
#[derive(Debug)]
struct TreeCopy {
    replica: TreeReplica,
    reason: String,
}

impl TreeOverlay {
    /// Creates the directories for changes of the tree `root` in `directory`, and opens the tree.
    pub(super) fn prepare(
        root: RealPath,
        files: Option<Vec<RealPath>>,
        directory: &AbsPath,
        separate_paths: &[AbsPath],
        copies: u64,
        between: Option<AbsPath>,
    ) -> Result<Self> {
        let user_tree = DirectoryHandle::open(&root).map_err(|error| open_error(&root, error))?;
        dir::create_all(directory, DirectoryAudience::User)?;
        // The kernel accepts no symlink in these paths.
        let directory = dir::resolve(directory)?.to_abs();
        let layer = create_layer(root.to_abs(), &directory, between)?;
        let paths_inside = separate_paths
            .iter()
            .filter(|path| path.is_within(&layer.root))
            .filter(|path| **path != layer.root);
        Ok(Self {
            user_tree,
            files,
            copy_path: directory.join("copy"),
            separate_paths: paths_inside.cloned().collect(),
            layer,
            root,
            copies,
            copy: None,
            mounted_tree: None,
        })
    }

    /// Creates another overlay of the same tree in `directory`.
    pub(super) fn prepare_again(&self, directory: &AbsPath) -> Result<Self> {
        let (root, files) = (self.root.clone(), self.files.clone());
        let between = self.layer.between.clone();
        Self::prepare(
            root,
            files,
            directory,
            &self.separate_paths,
            self.copies,
            between,
        )
    }

    /// Returns why no overlay can be mounted over it, as far as that is known without trying.
    pub(super) fn overlay_obstacle(&self) -> Result<Option<String>> {
        let trees = std::slice::from_ref(&self.layer.root);
        let check_error =
            |error| Error::io("cannot determine where overlays can be mounted", error);
        let obstacle = overlay_obstacle(trees).map_err(check_error)?;
        if obstacle.is_some() {
            return Ok(obstacle);
        }
        if let Some(path) = foreign_reachable_by_root(&self.layer.root).map_err(check_error)? {
            let reason = "belongs to another user or group, so it could not be changed through an \
                       overlay";
            return Ok(Some(format!("`{path}` {reason}")));
        }
        let upper = DirectoryHandle::open_own(&self.layer.upper)
            .map_err(|error| open_error(&self.root, error))?;
        let no_attributes =
            || "the file system of `.massgen` does not support user extended attributes".to_owned();
        Ok((!supports_marks(&upper)).then(no_attributes))
    }

    /// Replaces it by a copy, unless that was done already.
    pub(super) fn replace_with_copy(&mut self, reason: impl Into<String>) -> Result<()> {
        if self.copy.is_some() {
            return Ok(());
        }
        // A container that mounts an earlier copy still has this directory.
        if let Ok(earlier_copy) = DirectoryHandle::open_own(&self.copy_path) {
            clear::empty(&earlier_copy).map_err(|error| open_error(&self.root, error))?;
        }
        let replica = match &self.files {
            None => {
                let (root, separate_paths) = (&self.root, &self.separate_paths);
                TreeReplica::from_tree(root, &self.copy_path, separate_paths, self.copies)?
            }
            Some(files) => {
                let names: Vec<_> = files.iter().filter_map(RealPath::name).collect();
                TreeReplica::from_files(&self.user_tree, &names, &self.copy_path)?
            }
        };
        self.copy = Some(TreeCopy {
            replica,
            reason: reason.into(),
        });
        Ok(())
    }

    /// Removes entries from its copy, if it has one, which then do not count as changed.
    pub(super) fn remove_from_copy(&self, is_removed: impl Fn(&RealPath) -> bool) -> Result<()> {
        match &self.copy {
            Some(copy) => copy.replica.remove(|rel| is_removed(&self.root.join(rel))),
            None => Ok(()),
        }
    }

    /// Returns why it is copied, if it is.
    pub(super) fn copy_reason(&self) -> Option<&str> {
        self.copy.as_ref().map(|copy| copy.reason.as_str())
    }

    /// Returns whether `path` belongs to it.
    pub(super) fn contains(&self, path: &RealPath) -> bool {
        match &self.files {
            None => path.is_within(&self.root),
            Some(files) => *path == self.root || files.contains(path),
        }
    }

    /// Returns its part of the request for the mount namespace. A copy of single files is not
    /// mounted: a process that has such a file open would keep seeing the original.
    pub(super) fn overlay_root(&self) -> Option<OverlayRoot> {
        let source = match (&self.copy, &self.files) {
            (None, _) => OverlaySource::Layered(self.layer.clone()),
            (Some(_), None) => OverlaySource::Copied {
                root: self.layer.root.clone(),
                copy: self.copy_path.clone(),
            },
            (Some(_), Some(_)) => return None,
        };
        let identity = FileMetadata::from_handle(&self.user_tree).ok()?.identity();
        Some(OverlayRoot { identity, source })
    }

    /// Sets the handle on it inside the mount namespace.
    pub(super) fn set_directory(&mut self, mounted_tree: DirectoryHandle) {
        self.mounted_tree = Some(mounted_tree);
    }

    /// Returns whether it can serve a grant of this scope. A copy of single files serves only
    /// files.
    pub(super) fn serves_scope(&self, scope: GrantScope) -> bool {
        scope == GrantScope::File || self.copy.is_none() || self.files.is_none()
    }

    /// Returns whether commands see it at its path.
    pub(super) fn is_visible(&self) -> bool {
        self.mounted_tree.is_some()
    }

    /// Returns a handle on the overlaid tree.
    pub(super) fn directory(&self) -> std::result::Result<&DirectoryHandle, FileSystemError> {
        let copy = self.copy.as_ref().map(|copy| copy.replica.dir());
        self.mounted_tree
            .as_ref()
            .or(copy)
            .ok_or(FileSystemError::Missing)
    }

    /// Returns its path and that of its copy, if the whole tree is copied.
    pub(super) fn whole_tree_copy(&self) -> Option<(AbsPath, AbsPath)> {
        let is_whole = self.copy.is_some() && self.files.is_none();
        is_whole.then(|| (self.layer.root.clone(), self.copy_path.clone()))
    }

    /// Brings the upper layer of a copy up to date.
    pub(super) fn sync_layer(&self) -> Result<()> {
        match &self.copy {
            Some(copy) => copy.replica.write_layer(&self.layer.upper),
            None => Ok(()),
        }
    }

    /// Replaces the upper layer of a copy by one with the changes since the last time.
    pub(super) fn sync_next_layer(&self) -> Result<()> {
        match &self.copy {
            Some(copy) => copy.replica.write_next_layer(&self.layer.upper),
            None => Ok(()),
        }
    }

    /// Takes the present state of a copy for that of the tree.
    pub(super) fn rebase(&self) -> Result<()> {
        match &self.copy {
            Some(copy) => copy.replica.rebase(),
            None => Ok(()),
        }
    }

    /// Returns the layer that holds its changes.
    pub(super) fn layer(&self) -> &OverlayLayer {
        &self.layer
    }

    /// Returns its public description.
    pub(super) fn overlaid_tree(&self) -> OverlaidTree<'_> {
        OverlaidTree {
            root: &self.root,
            upper: &self.layer.upper,
            between: self.layer.between.as_ref(),
            kind: match self.copy {
                Some(_) => OverlayMethod::Copy,
                None => OverlayMethod::Overlay,
            },
        }
    }
}

/// Creates the directories of a layer over `root` in `directory`, with `between` below it.
pub(super) fn create_layer(
    root: AbsPath,
    directory: &AbsPath,
    between: Option<AbsPath>,
) -> Result<OverlayLayer> {
    let layer = OverlayLayer {
        between,
        ..OverlayLayer::new(root, directory)
    };
    // The kernel accepts no work directory that was used before.
    clear::remove(&layer.work)?;
    for path in [&layer.upper, &layer.work] {
        dir::create_all(path, DirectoryAudience::User)?;
    }
    Ok(layer)
}

pub(super) fn open_error(root: &RealPath, error: FileSystemError) -> Error {
    let message = format!("cannot prepare the write path `{root}`: {error}");
    Error::new(ErrorKind::Environment, message)
}
