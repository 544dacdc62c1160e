//! Waits until files, directories and whole trees are on the disk, so that they survive a power
//! failure. The names of new directories are on the disk with the first file in them that is: the
//! journals of Linux file systems keep that order.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only world::sys touches files"
)]

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::path::AbsPath;
use crate::world::sys::state_files::file_error;

/// Maximum number of files of a tree that are synchronized one by one; for more, the whole file
/// system is synchronized at once, which is faster.
const FILES_MAX: usize = 64;

/// Waits until the names in the directory `path` are on the disk.
pub(crate) fn sync_directory(path: &AbsPath) -> Result<()> {
    sync_names(path.as_path()).map_err(|error| file_error("write", path.as_path(), error))
}

/// Waits until the name of `path` in its directory is on the disk.
pub(super) fn sync_name_of(path: &Path) -> io::Result<()> {
    sync_names(path.parent().unwrap_or(Path::new("/")))
}

fn sync_names(directory: &Path) -> io::Result<()> {
    match File::open(directory)?.sync_all() {
        // Some network file systems cannot do that: there, the server keeps names.
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        sync_result => sync_result,
    }
}

/// Waits until everything in the directory `path` is on the disk. What is removed or replaced
/// meanwhile is left out.
pub(crate) fn sync_tree(path: &AbsPath) -> Result<()> {
    let mut tree = UnsyncedTree::default();
    let sync_result = match tree.list(path.as_path()) {
        Ok(()) if tree.files.len() <= FILES_MAX => tree.sync(),
        Ok(()) | Err(_) => {
            File::open(path.as_path()).and_then(|directory| Ok(rustix::fs::syncfs(directory)?))
        }
    };
    sync_result.map_err(|error| file_error("write", path.as_path(), error))
}

/// What a tree consists of.
#[derive(Default)]
struct UnsyncedTree {
    files: Vec<PathBuf>,
    /// Each directory precedes those in it.
    directories: Vec<PathBuf>,
}

impl UnsyncedTree {
    /// Adds `directory` and what is in it; stops after more than [`FILES_MAX`] files.
    fn list(&mut self, directory: &Path) -> io::Result<()> {
        self.directories.push(directory.to_owned());
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let kind = match entry.file_type() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                kind => kind?,
            };
            if kind.is_dir() {
                self.list(&entry.path())?;
            } else if kind.is_file() {
                self.files.push(entry.path());
            }
            if self.files.len().max(self.directories.len()) > FILES_MAX {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        for path in self.files.iter().chain(self.directories.iter().rev()) {
            match File::open(path) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                open_result => open_result?.sync_all()?,
            }
        }
        Ok(())
    }
}
