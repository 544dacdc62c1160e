//! Makes trees accessible that commands wrote and closed to their owner, so that massgen can read
//! and change their content.

use crate::path::{AbsPath, RelPath};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::tree_listing::{EntrySelection, TreeListing};
use crate::world::sys::upper_layer::make_readable;

/// Lets the owner read all files in `root`, and change the names in all of its directories. No
/// symlink is followed. What cannot be opened stays as it is: its later use reports the error.
pub(crate) fn make_accessible(root: &AbsPath) -> Result<(), FileSystemError> {
    let parent = DirectoryHandle::open_own(&root.parent().unwrap_or_else(AbsPath::root))?;
    let name = root
        .as_path()
        .file_name()
        .and_then(RelPath::new)
        .unwrap_or_default();
    make_readable(&parent, &name)?;
    let root = parent.dir(&name)?;
    TreeListing::list(&root, &mut |entry| {
        let _read_result = make_readable(&root, &entry.rel);
        EntrySelection::Deep
    });
    Ok(())
}
