//! Copies the changed paths of a tree into a layer of their own, which can be delivered to another
//! copy of the same tree.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::delivery_dir::{delivery_error, open_root};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::{clear, file};
use crate::world::sys::upper_layer::{create_whiteout, mark_opaque};

/// Creates the layer `to` with `paths` as they are in the tree `root` now; what is missing there is
/// marked as deleted. An earlier layer is replaced. Returns the number of paths.
pub fn create_portable_layer(
    root: &AbsPath,
    paths: &BTreeSet<RelPath>,
    to: &AbsPath,
) -> Result<usize> {
    clear::remove(to)?;
    dir::create_all(to, DirectoryAudience::User)?;
    let (tree, layer) = (open_root(root)?, open_root(to)?);
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

/// Returns when the layer `upper` was created, by the clock of file timestamps, in nanoseconds
/// since 1970.
pub fn layer_created_ns(upper: &AbsPath) -> Result<i64> {
    let metadata = DirectoryHandle::open_own(upper).and_then(FileMetadata::from_handle);
    let metadata = metadata.map_err(|error| delivery_error("open", upper, error))?;
    Ok(i64::try_from(metadata.version.changed_ns).unwrap_or_default())
}

/// Marks these files as deleted in the layer `upper`.
pub fn remove_from_layer(upper: &AbsPath, paths: &[RelPath]) -> Result<()> {
    let layer = open_root(upper)?;
    for path in paths {
        let result = match layer_replacement(upper, path)? {
            LayerReplacement::Nothing => add_whiteout_below(&layer, upper, path)?,
            LayerReplacement::Directory => mark_opaque(&layer, path),
            LayerReplacement::File => Ok(()),
        };
        result.map_err(|error| delivery_error("write to", &upper.join(path.as_path()), error))?;
    }
    Ok(())
}

fn add_whiteout_below(
    layer: &DirectoryHandle,
    upper: &AbsPath,
    path: &RelPath,
) -> Result<std::result::Result<(), FileSystemError>> {
    let parent = path.parent().unwrap_or_default();
    dir::create_all(&upper.join(parent.as_path()), DirectoryAudience::Umask)?;
    let name = path.name().unwrap_or_default();
    Ok(layer
        .dir(&parent)
        .and_then(|dir| create_whiteout(&dir, name)))
}

/// What a layer contains in place of a deleted file.
enum LayerReplacement {
    Nothing,
    Directory,
    /// A file or a symlink, at the path of the file or of one of its parent directories.
    File,
}

fn layer_replacement(upper: &AbsPath, path: &RelPath) -> Result<LayerReplacement> {
    let mut next_path = Some(path.clone());
    while let Some(ancestor) = next_path.filter(|ancestor| !ancestor.is_root()) {
        let layer_path = upper.join(ancestor.as_path());
        if file::is_directory(&layer_path)? {
            return Ok(if ancestor == *path {
                LayerReplacement::Directory
            } else {
                LayerReplacement::Nothing
            });
        }
        if file::exists(&layer_path)? {
            return Ok(LayerReplacement::File);
        }
        next_path = ancestor.parent();
    }
    Ok(LayerReplacement::Nothing)
}
