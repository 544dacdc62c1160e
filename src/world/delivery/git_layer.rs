//! The layer of a delivery that comes from a git tree: when it was created, and the files that it
//! marks as deleted.

use crate::error::Result;
use crate::path::{AbsPath, RelPath};
use crate::world::delivery::delivery_dir::delivery_error;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::FileMetadata;
use crate::world::sys::state_files::dir::{self, DirectoryAudience};
use crate::world::sys::state_files::file;
use crate::world::sys::upper_layer::{create_whiteout, mark_opaque};

/// Returns when the layer `upper` was created, by the clock of file timestamps, in nanoseconds
/// since 1970.
pub fn layer_created_ns(upper: &AbsPath) -> Result<i64> {
    let metadata = DirectoryHandle::open_own(upper).and_then(FileMetadata::from_handle);
    let metadata = metadata.map_err(|error| delivery_error("open", upper, error))?;
    Ok(i64::try_from(metadata.version.changed_ns).unwrap_or_default())
}

/// Marks these files as deleted in the layer `upper`.
pub fn remove_from_layer(upper: &AbsPath, paths: &[RelPath]) -> Result<()> {
    let layer =
        DirectoryHandle::open_own(upper).map_err(|error| delivery_error("open", upper, error))?;
    for path in paths {
        let result = match layer_replacement(upper, path)? {
            LayerReplacement::Nothing => add_whiteout(&layer, upper, path)?,
            LayerReplacement::Directory => mark_opaque(&layer, path),
            LayerReplacement::File => Ok(()),
        };
        result.map_err(|error| delivery_error("write to", &upper.join(path.as_path()), error))?;
    }
    Ok(())
}

fn add_whiteout(
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
