//! Removes directories that commands wrote, however deep and inaccessible they made them. Nested
//! directories are first moved up, so that neither the depth nor the length of a path matters, and
//! no symlink is followed. An interrupted removal can be restarted.

use std::ffi::OsStr;

use crate::error::{Error, ErrorKind, Result};
use crate::path::{AbsPath, RelPath};
use crate::world::sys::conditional_replace::temporary_name;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::state_files::dir::{self, UNFINISHED_PREFIX};
use crate::world::sys::state_files::file;
use crate::world::sys::tree_listing::{EntrySelection, TreeListing};
use crate::world::sys::upper_layer::make_readable;

/// How many names are read at a time; a directory may hold any number.
const NAMES_READ_MAX: usize = 10_000;

/// The number of random digits in the name of a directory that is removed.
const HIDDEN_NAME_DIGITS: usize = 16;

/// Removes `path` with everything in it, if it exists. No other process may write to it.
pub(crate) fn remove(path: &AbsPath) -> Result<()> {
    match try_remove(path) {
        Ok(()) | Err(FileSystemError::Missing) => Ok(()),
        Err(error) => {
            let message = format!("cannot remove `{path}`: {error}");
            Err(Error::new(ErrorKind::Io, message))
        }
    }
}

/// Removes the directory `path` like [`remove`], but under a hidden name: it vanishes as a whole. If
/// the process is killed meanwhile, the rest is swept later.
pub(crate) fn discard(path: &AbsPath) -> Result<()> {
    let is_directory = file::is_directory(path)?;
    let Some(parent) = path.parent().filter(|_| is_directory) else {
        return remove(path);
    };
    // Locked, so that no other process sweeps it at the same time.
    let _lock = dir::try_lock_at_once(path)?;
    let hidden_path = dir::unused_path(&parent, UNFINISHED_PREFIX, HIDDEN_NAME_DIGITS)?;
    dir::move_if_exists(path, &hidden_path)?;
    remove(&hidden_path)
}

fn try_remove(path: &AbsPath) -> std::result::Result<(), FileSystemError> {
    let parent = DirectoryHandle::open_own(&path.parent().ok_or(FileSystemError::IsDirectory)?)?;
    let name = path
        .as_path()
        .file_name()
        .ok_or(FileSystemError::IsDirectory)?;
    let rel = child_path(name)?;
    if parent.meta(&rel)?.kind != FileKind::Directory {
        return parent.unlink(name);
    }
    make_readable(&parent, &rel)?;
    empty(&parent.dir(&rel)?)?;
    parent.remove_dir(name)
}

/// Removes everything in `dir`, which no other process may write to.
pub(crate) fn empty(dir: &DirectoryHandle) -> std::result::Result<(), FileSystemError> {
    loop {
        let entries = dir.entries_up_to(NAMES_READ_MAX)?;
        if entries.is_empty() {
            return Ok(());
        }
        for entry in entries {
            if entry.kind == FileKind::Directory {
                remove_directory(dir, &entry.name)?;
            } else {
                dir.unlink(&entry.name)?;
            }
        }
    }
}

/// Removes the directory `name` of `dir`; its subdirectories are moved up into `dir`, unless they
/// are empty.
fn remove_directory(
    dir: &DirectoryHandle,
    name: &OsStr,
) -> std::result::Result<(), FileSystemError> {
    if dir.remove_dir(name).is_ok() {
        return Ok(());
    }
    let rel = child_path(name)?;
    make_readable(dir, &rel)?;
    let inner = dir.dir(&rel)?;
    loop {
        let entries = inner.entries_up_to(NAMES_READ_MAX)?;
        for entry in &entries {
            if entry.kind != FileKind::Directory {
                inner.unlink(&entry.name)?;
            } else if inner.remove_dir(&entry.name).is_err() {
                // A directory has to be writable to be moved: its `..` changes.
                make_readable(&inner, &child_path(&entry.name)?)?;
                inner.rename_new(&entry.name, dir, &temporary_name())?;
            }
        }
        match dir.remove_dir(name) {
            // It had more entries than are read at a time.
            Err(_) if !entries.is_empty() => {}
            remove_result => return remove_result,
        }
    }
}

fn child_path(name: &OsStr) -> std::result::Result<RelPath, FileSystemError> {
    RelPath::default()
        .child(name)
        .ok_or(FileSystemError::Missing)
}

/// Lets the owner read all files in `root`, and change the names in all of its directories. No
/// symlink is followed. What cannot be opened stays as it is: its later use reports the error.
pub(crate) fn make_accessible(root: &AbsPath) -> std::result::Result<(), FileSystemError> {
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
