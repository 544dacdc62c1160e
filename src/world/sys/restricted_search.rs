//! Searches for the settings of the machine that this user can read and others cannot
//! ([`RestrictedFiles`]), on a thread of its own, while helpers are started.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::{self, JoinHandle};

use parking_lot::Mutex;
use rustix::fs::{
    Access, AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags, accessat, open, statx,
};
use rustix::io::Errno;

use crate::path::AbsPath;
use crate::sandbox_policy::{RestrictedFiles, SETTINGS_DIRECTORY};

/// What all users may do with a file that is not secret: read it; with such a directory, search it,
/// too. Each has the bit that a mode has for others.
const FILE_ACCESS: &[Access] = &[Access::READ_OK];
const DIRECTORY_ACCESS: &[Access] = &[Access::READ_OK, Access::EXEC_OK];

/// What is read about each entry.
const ENTRY_METADATA: StatxFlags = StatxFlags::TYPE
    .union(StatxFlags::MODE)
    .union(StatxFlags::NLINK);

/// The size of the buffer into which names are read, in bytes: enough for most directories at once.
const LISTING_BYTES: usize = 32 * 1024;

/// The most entries that are examined.
const ENTRIES_MAX: usize = 200_000;

/// A search whose result is needed later.
#[derive(Debug, Default)]
pub(crate) struct RestrictedFilesSearch {
    thread: Mutex<Option<JoinHandle<RestrictedFiles>>>,
    result: OnceLock<RestrictedFiles>,
}

impl RestrictedFilesSearch {
    /// Creates one that hides nothing: for commands that are massgen's own.
    pub(crate) fn without_search() -> Self {
        Self {
            thread: Mutex::new(None),
            result: OnceLock::from(RestrictedFiles::new(Ok(Vec::new()))),
        }
    }

    /// Begins it.
    pub(crate) fn start(&self) {
        let builder = thread::Builder::new().name("settings".to_owned());
        // If no thread can be started, `wait` searches.
        let thread = builder.spawn(find_restricted_files).ok();
        *self.thread.lock() = thread;
    }

    /// Waits for the result and returns it.
    pub(crate) fn wait(&self) -> &RestrictedFiles {
        self.result.get_or_init(|| {
            let mut thread = self.thread.lock();
            let search_result = thread.take().and_then(|thread| thread.join().ok());
            search_result.unwrap_or_else(find_restricted_files)
        })
    }
}

/// Finds everything that this process can read as its owner, through a group or as root, and that
/// others cannot.
pub(crate) fn find_restricted_files() -> RestrictedFiles {
    let paths = search_settings().map(|paths| paths.iter().filter_map(AbsPath::new).collect());
    RestrictedFiles::new(paths.map_err(|error: io::Error| error.to_string()))
}

fn search_settings() -> io::Result<Vec<PathBuf>> {
    let mut restricted_paths = Vec::new();
    let mut entries_left = ENTRIES_MAX;
    let mut listing = vec![MaybeUninit::uninit(); LISTING_BYTES];
    let mut directories = vec![PathBuf::from(SETTINGS_DIRECTORY)];
    while let Some(directory) = directories.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = match open(&directory, flags, Mode::empty()) {
            // What this process cannot read, commands cannot read either.
            Err(Errno::NOENT | Errno::ACCESS | Errno::PERM) => continue,
            handle => handle?,
        };
        let mut entries = RawDir::new(&handle, &mut listing);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                // The directory was removed: it has no more entries.
                Err(Errno::NOENT) => break,
                entry => entry?,
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            entries_left = entries_left.checked_sub(1).ok_or_else(limit_error)?;
            // A link restricts nothing by itself, and on some machines most entries are links.
            if entry.file_type() == FileType::Symlink {
                continue;
            }
            let meta = match statx(&handle, name, AtFlags::SYMLINK_NOFOLLOW, ENTRY_METADATA) {
                Err(Errno::NOENT | Errno::ACCESS | Errno::PERM) => continue,
                meta => meta?,
            };
            let mode = u32::from(meta.stx_mode);
            let kind = FileType::from_raw_mode(mode);
            let is_directory = kind == FileType::Directory;
            let needed_access = if is_directory {
                DIRECTORY_ACCESS
            } else {
                FILE_ACCESS
            };
            let is_own = |access: &Access| {
                mode & access.bits() == 0
                    && accessat(&handle, name, *access, AtFlags::empty()).is_ok()
            };
            let is_restricted = kind != FileType::Symlink && needed_access.iter().any(is_own);
            if is_directory || is_restricted {
                let path = directory.join(OsStr::from_bytes(name.to_bytes()));
                if is_restricted {
                    // Nothing can be mounted over it.
                    if meta.stx_nlink == 0 {
                        return Err(deleted_error(&path));
                    }
                    restricted_paths.push(path.clone());
                }
                if is_directory {
                    directories.push(path);
                }
            }
        }
    }
    Ok(restricted_paths)
}

fn deleted_error(path: &Path) -> io::Error {
    let path = path.display();
    io::Error::other(format!(
        "`{path}` cannot be hidden: the file that is mounted there was deleted"
    ))
}

fn limit_error() -> io::Error {
    io::Error::other(format!("it holds more than {ENTRIES_MAX} entries"))
}
