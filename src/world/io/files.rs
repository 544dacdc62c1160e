//! Access to the files that the command line and the config name: reads them up to a limit,
//! determines what a path leads to, and writes the `--output-file`. Agents' calls never come here:
//! they pass the gate.

use std::io::{self, ErrorKind as IoKind};

use crate::error::{Error, ErrorKind, Result};
use crate::mentions::LookupResult;
use crate::path::{AbsPath, RelPath};
use crate::text::name_spelling::{is_spelling_of, may_be_respelled};
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::process;
use crate::world::sys::state_files::file::SecretExposure;
use crate::world::sys::state_files::{self, dir, file};

/// The most entries of a directory among which another spelling of a name is looked for.
const SPELLED_NAMES_MAX: usize = 10_000;

/// Determines what `path` leads to.
pub fn inspect(path: &AbsPath) -> LookupResult {
    match file::kind(path) {
        Ok(None) => LookupResult::Missing,
        Ok(Some(kind)) if !file::is_readable(path) || !(kind.is_file() || kind.is_dir()) => {
            LookupResult::Unreadable
        }
        Ok(Some(kind)) if kind.is_dir() => LookupResult::Directory,
        Ok(Some(_)) => LookupResult::File,
        Err(_) => LookupResult::Unreadable,
    }
}

/// Returns the path that `path` means if nothing is there: each missing name on the way is that of the
/// only entry that it is another spelling of.
pub fn existing_spelling(path: &AbsPath) -> Option<AbsPath> {
    if !may_be_respelled(&path.to_string()) {
        return None;
    }
    let root = DirectoryHandle::open_root().ok()?;
    let below = respelled_below(&root, &path.below(&AbsPath::root())?)?;
    Some(AbsPath::root().join(below.as_path()))
}

/// Returns the path in `dir` that `written` means if nothing is there: each missing name on the way
/// is that of the only entry that it is another spelling of.
pub(in crate::world) fn respelled_below(
    dir: &DirectoryHandle,
    written: &RelPath,
) -> Option<RelPath> {
    let is_missing = |place: &RelPath| matches!(dir.meta(place), Err(FileSystemError::Missing));
    if !is_missing(written) {
        return None;
    }
    let mut place = RelPath::default();
    for name in written.names() {
        let exact = place.child(name)?;
        let text = name.to_string_lossy();
        let meant = || {
            let entries = dir
                .dir(&place)
                .ok()?
                .entries_up_to(SPELLED_NAMES_MAX)
                .ok()?;
            let names = entries.into_iter().map(|entry| entry.name);
            let mut meant = names.filter(|entry| is_spelling_of(&text, entry));
            let only = meant.next()?;
            meant.next().is_none().then(|| place.child(&only))?
        };
        let spelled = is_missing(&exact).then(meant).flatten();
        place = spelled.unwrap_or(exact);
    }
    (place != *written).then_some(place)
}

/// Returns the first of `candidates` that leads to a file.
pub fn first_file(candidates: &[AbsPath]) -> Option<&AbsPath> {
    let mut candidates = candidates.iter();
    candidates.find(|path| inspect(path) == LookupResult::File)
}

/// Finds the program `name` as a sandbox with this `PATH` does: in its directories, or else in those
/// of the system.
pub fn find_in_search_path(name: &str, search_path: &str) -> Option<AbsPath> {
    process::find_as_sandbox(name, search_path)
}

/// Returns `path` with all symlinks followed.
pub fn real_path(path: &AbsPath) -> Result<AbsPath> {
    dir::resolve(path).map(|real| real.to_abs())
}

/// Returns the names in the directory `path`, sorted; none if it cannot be read.
pub fn file_names(path: &AbsPath) -> Vec<String> {
    let mut names = dir::names(path).unwrap_or_default();
    names.sort_unstable();
    names
}

/// Reads `path`, which may also be a pipe that the process was given, such as `/dev/stdin`; `None`
/// if nothing is there. A named pipe and more than `bytes_max` bytes are errors.
pub fn read_capped(path: &AbsPath, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    check_named_read(path, bytes_max, file::read_capped(path, bytes_max))
}

/// Like [`check_read`], with a hint about named pipes.
fn check_named_read(
    path: &AbsPath,
    bytes_max: u64,
    read_result: io::Result<Option<Vec<u8>>>,
) -> Result<Option<Vec<u8>>> {
    let is_pipe = matches!(&read_result, Err(error) if error.kind() == IoKind::InvalidInput);
    check_read(path, bytes_max, read_result).map_err(|error| {
        if is_pipe {
            error.with_hint("name a file, or pass the output of a command as `/dev/stdin`")
        } else {
            error
        }
    })
}

/// Like [`read_capped`], for a file with a secret: it is an error if another user owns it or can
/// read or change it.
pub fn read_secret(path: &AbsPath, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let exposure_error = |reason: &str| {
        let message = format!("`{path}` contains a secret, and {reason}");
        Error::new(ErrorKind::Config, message)
    };
    match file::read_secret_capped(path, bytes_max) {
        Ok(Ok(bytes)) => check_read(path, bytes_max, Ok(bytes)),
        Ok(Err(SecretExposure::OpenToOthers)) => {
            Err(exposure_error("other users may read or change it")
                .with_hint(format!("chmod 600 '{path}'")))
        }
        Ok(Err(SecretExposure::OfAnotherUser)) => Err(exposure_error("another user owns it")
            .with_hint("copy it, so that you own the file, and use the copy")),
        Err(error) => check_named_read(path, bytes_max, Err(error)),
    }
}

/// Like [`read_regular_file`], for a file that is trusted because the user owns it: it is an error
/// if another user owns it or it is world-writable.
pub fn read_own(path: &AbsPath, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let exposure_error = |reason: &str| Error::new(ErrorKind::Config, format!("{reason} `{path}`"));
    match file::read_own_capped(path, bytes_max) {
        Ok(Ok(bytes)) => check_read(path, bytes_max, Ok(bytes)),
        Ok(Err(SecretExposure::OpenToOthers)) => {
            Err(exposure_error("every user may change").with_hint(format!("chmod o-w '{path}'")))
        }
        Ok(Err(SecretExposure::OfAnotherUser)) => {
            Err(exposure_error("another user owns").with_hint("replace it by a file that you own"))
        }
        Err(error) => check_read(path, bytes_max, Err(error)),
    }
}

/// Reads the file of the administrator at `path`; `None` if it or its directory does not exist.
///
/// # Errors
/// One of them belongs to a user other than root, can be written by others or is a symlink, among
/// other errors.
pub fn read_of_root(path: &AbsPath, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    for place in path.parent().iter().chain([path]) {
        match file::is_of_root_alone(place)? {
            None => return Ok(None),
            Some(true) => {}
            Some(false) => {
                let message = format!("`{place}` is not root's alone");
                let hint = format!(
                    "expected no symlink, the owner root, and no one else who may write: \
                     chown root: '{place}'; chmod go-w '{place}'"
                );
                return Err(Error::new(ErrorKind::Config, message).with_hint(hint));
            }
        }
    }
    read_regular_file(path, bytes_max)
}

/// Like [`read_capped`], for a file that was discovered and not named by the user: a pipe is an
/// error, because reading it could block massgen forever.
pub fn read_regular_file(path: &AbsPath, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    check_read(path, bytes_max, file::read_regular_capped(path, bytes_max))
}

/// Returns the sorted names of the directories in `path`, and of the symlinks, which may lead to
/// one; `None` if `path` does not exist. Names that start with `.` are left out. More than
/// `count_max` entries are an error.
pub fn subdirectory_names(path: &AbsPath, count_max: usize) -> Result<Option<Vec<String>>> {
    if file::kind(path)?.is_none() {
        return Ok(None);
    }
    let mut names = dir::first_names(path, count_max.saturating_add(1))?;
    if names.len() > count_max {
        let message = format!("`{path}` has more than {count_max} entries");
        return Err(Error::new(ErrorKind::Config, message)
            .with_hint("use a directory that contains only skills"));
    }
    names.retain(|name| {
        !name.starts_with('.') && {
            let path = path.join(name);
            // One that cannot be looked at is reported when it is read.
            !matches!(
                (file::is_directory(&path), file::is_link(&path)),
                (Ok(false), Ok(false))
            )
        }
    });
    names.sort();
    Ok(Some(names))
}

fn check_read(
    path: &AbsPath,
    bytes_max: u64,
    read_result: io::Result<Option<Vec<u8>>>,
) -> Result<Option<Vec<u8>>> {
    match read_result {
        Ok(Some(bytes)) => Ok(Some(bytes)),
        Ok(None) => Err(
            Error::io(format!("cannot read `{path}`"), IoKind::FileTooLarge.into())
                .with_hint(format!("expected a file of at most {bytes_max} bytes")),
        ),
        Err(error) if state_files::is_missing(error.kind()) => Ok(None),
        Err(error) => Err(state_files::file_error("read", path.as_path(), error)),
    }
}

/// Refuses an output file that could not be written, before money is spent on its content.
pub fn expect_output_file(path: &AbsPath) -> Result<()> {
    file::expect_writable_for_user(path)
}

/// Writes the answer to `--output-file` atomically. An existing file is replaced; a named pipe is
/// an error.
pub fn write_output_file(path: &AbsPath, text: &str) -> Result<()> {
    file::write_for_user(path, text.as_bytes())
}
