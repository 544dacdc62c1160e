//! Copies the changed paths of a tree into a layer of their own, which can be delivered to another
//! copy of the same tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::delivery_dir::delivery_error;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};
use crate::world::sys::state_files::clear;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::upper_layer::create_whiteout;

/// Creates the layer `to` with `paths` as they are in the tree `root` now; what is missing there is
/// marked as deleted. An earlier layer is replaced. Returns the number of paths.
pub fn create_portable_layer(
    root: &AbsPath,
    paths: &BTreeSet<RelPath>,
    to: &AbsPath,
) -> Result<usize> {
    clear::remove(to)?;
    dir::create_all(to, DirectoryAudience::User)?;
    let open_dir = |path: &AbsPath| {
        DirectoryHandle::open_own(path).map_err(|error| delivery_error("open", path, error))
    };
    let (tree, layer) = (open_dir(root)?, open_dir(to)?);
    for path in paths {
        copy_path(&tree, path, &layer)
            .map_err(|error| delivery_error("copy", &root.join(path.as_path()), error))?;
    }
    Ok(paths.len())
}

/// Copies one path into the layer.
fn copy_path(
    tree: &DirectoryHandle,
    path: &RelPath,
    layer: &DirectoryHandle,
) -> std::result::Result<(), FileSystemError> {
    let meta = match tree.meta(path) {
        Err(FileSystemError::Missing | FileSystemError::NotDirectory) => {
            return add_whiteout(path, layer);
        }
        meta => meta?,
    };
    match meta.kind {
        FileKind::Directory => layer.make_dirs(path).map(drop),
        FileKind::Link => {
            let (parent, name) = layer.make_parent_of(path)?;
            parent.symlink(name, &tree.link_target(path)?)
        }
        FileKind::File => {
            let (content, meta) = tree.open_file(path)?;
            let (parent, name) = layer.make_parent_of(path)?;
            let mut file = StagedFile::new_private(&parent)?;
            file.copy(&content, meta.version.size_bytes)?;
            file.set_mode(meta.bits_without_setid())?;
            file.place_at(name, ReplacePolicy::Nothing, PlacementDurability::Lazy)
                .map(drop)
        }
        // A delivery has no such entries.
        FileKind::Fifo | FileKind::Socket | FileKind::Device => Ok(()),
    }
}

/// Marks a path as deleted in the layer.
fn add_whiteout(
    path: &RelPath,
    layer: &DirectoryHandle,
) -> std::result::Result<(), FileSystemError> {
    let (parent, name): (DirectoryHandle, &OsStr) = match layer.make_parent_of(path) {
        // A parent is marked as deleted already, and the path with it.
        Err(FileSystemError::NotDirectory) => return Ok(()),
        result => result?,
    };
    create_whiteout(&parent, name)
}
