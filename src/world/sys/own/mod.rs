//! Owns the file operations on massgen's own files: state, logs, sessions, and the few files that
//! the command line names. Agents' paths never come here: they are opened beneath a grant.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is where the disk is"
)]

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use tempfile::TempDir;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::path::{AbsPath, RealPath};

mod content;
pub(crate) mod tree;

/// How many digits make a made-up name differ from all others.
const UNIQUE_DIGITS: usize = 8;

/// How often a made-up name is tried before giving up.
const UNIQUE_TRIES_MAX: u32 = 16;

/// Who may enter a directory that is made.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Audience {
    /// The user alone.
    User,
    /// Whoever the user's umask lets in.
    Umask,
}

/// What a file that is written must survive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Durability {
    /// The end of the process.
    Process,
    /// A loss of power too.
    Power,
}

/// An open file that is read from its beginning.
pub(crate) type Reader = BufReader<File>;

/// Says that `doing` failed at `path`, and what to do about it where that is known.
pub(crate) fn fault(doing: &str, path: &Path, error: io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Some("the disk or the quota is full: free some space".to_owned())
        }
        ErrorKind::PermissionDenied => Some(format!(
            "check who may read and write `{}`",
            path.parent().unwrap_or(path).display()
        )),
        ErrorKind::ReadOnlyFilesystem => {
            Some("the file system is mounted read-only: choose another directory".to_owned())
        }
        ErrorKind::NotADirectory => {
            Some("a file stands where a directory is expected: move it away".to_owned())
        }
        ErrorKind::NotFound => Some("check that the directory exists".to_owned()),
        _ => None,
    };
    let fault = Error::io(format!("cannot {doing} `{}`", path.display()), error);
    match hint {
        Some(hint) => fault.hint(hint),
        None => fault,
    }
}

/// Makes `path` and every directory above it that is missing.
pub(crate) fn create_dirs(path: &AbsPath, audience: Audience) -> Result<()> {
    let mode = match audience {
        Audience::User => 0o700,
        Audience::Umask => 0o777,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path.as_path())
        .map_err(|error| fault("make the directory", path.as_path(), error))
}

/// Whether a directory was made or stood there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// It is new and ours.
    Now,
    /// Someone made it before.
    Before,
}

/// Makes the directory `path`, whose parent exists, for the user alone.
pub(crate) fn create_dir(path: &AbsPath) -> Result<Made> {
    match DirBuilder::new().mode(0o700).create(path.as_path()) {
        Ok(()) => Ok(Made::Now),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(Made::Before),
        Err(error) => Err(fault("make the directory", path.as_path(), error)),
    }
}

/// Makes a directory that nobody else has: `stem`, `_` and random digits, inside `parent`.
pub(crate) fn create_unique_dir(parent: &AbsPath, stem: &str, digits: usize) -> Result<AbsPath> {
    create_dirs(parent, Audience::User)?;
    for _ in 0..UNIQUE_TRIES_MAX {
        let path = parent.join(format!("{stem}_{}", random_digits(digits)));
        if create_dir(&path)? == Made::Now {
            return Ok(path);
        }
    }
    Err(Error::io(
        format!("cannot find a free name for `{stem}` in `{parent}`"),
        io::Error::from(ErrorKind::AlreadyExists),
    )
    .hint("remove what is no longer needed there"))
}

fn random_digits(digits: usize) -> String {
    let mut text = Uuid::new_v4().simple().to_string();
    text.truncate(digits);
    text
}

/// The directory `path` as the kernel knows it.
pub(crate) fn real_dir(path: &AbsPath) -> Result<RealPath> {
    fs::canonicalize(path.as_path())
        .map(RealPath::vouch)
        .map_err(|error| fault("follow", path.as_path(), error))
}

/// What `path` leads to, links followed.
pub(crate) fn file_type(path: &AbsPath) -> io::Result<fs::FileType> {
    fs::metadata(path.as_path()).map(|metadata| metadata.file_type())
}

/// Whether the process may read `path`.
pub(crate) fn is_readable(path: &AbsPath) -> bool {
    rustix::fs::access(path.as_path(), rustix::fs::Access::READ_OK).is_ok()
}

/// Opens `path` for reading from the beginning.
pub(crate) fn open(path: &AbsPath) -> io::Result<Reader> {
    File::open(path.as_path()).map(BufReader::new)
}

/// Reads all of `path` if it has at most `bytes_max` bytes; `None` if it has more.
pub(crate) fn read_capped(path: &AbsPath, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = File::open(path.as_path())?
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let fits = u64::try_from(read).is_ok_and(|read| read <= bytes_max);
    Ok(fits.then_some(bytes))
}

/// Puts `bytes` at `path` in one step: a reader sees the old file or the new one, never a part.
pub(crate) fn write_atomic(path: &AbsPath, bytes: &[u8], durability: Durability) -> Result<()> {
    replace(path, bytes, durability, Permissions::from_mode(0o600))
        .map_err(|error| fault("write", path.as_path(), error))
}

/// Puts `bytes` at a path that the user named. A regular file is replaced in one step and keeps its
/// mode; what is none, such as `/dev/stdout` or a link to a missing file, is written to.
pub(crate) fn write_for_user(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    let failed = |error| fault("write", path.as_path(), error);
    let (target, permissions) = match fs::metadata(path.as_path()) {
        Ok(metadata) if metadata.is_file() => {
            let real = fs::canonicalize(path.as_path()).map_err(failed)?;
            (path.join(real), metadata.permissions())
        }
        Err(_) if fs::symlink_metadata(path.as_path()).is_err() => {
            (path.clone(), Permissions::from_mode(0o666))
        }
        Ok(_) | Err(_) => {
            return OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(path.as_path())
                .and_then(|mut file| file.write_all(bytes))
                .map_err(failed);
        }
    };
    replace(&target, bytes, Durability::Power, permissions).map_err(failed)
}

/// `permissions` are those of the file; a new file's are lowered by the umask.
fn replace(
    path: &AbsPath,
    bytes: &[u8],
    durability: Durability,
    permissions: Permissions,
) -> io::Result<()> {
    let parent = path.as_path().parent().unwrap_or(Path::new("/"));
    let mut temp = tempfile::Builder::new()
        .prefix(".massgen-")
        .permissions(permissions)
        .tempfile_in(parent)?;
    temp.write_all(bytes)?;
    if let Durability::Power = durability {
        temp.as_file().sync_all()?;
    }
    temp.persist(path.as_path())
        .map(drop)
        .map_err(|error| error.error)
}

/// Adds `bytes` to the end of `path`, which is made if it is missing. A link there is refused.
pub(crate) fn append(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(path.as_path())
        .and_then(|mut file| file.write_all(bytes))
        .map_err(|error| fault("write", path.as_path(), error))
}

fn no_follow() -> i32 {
    i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0)
}

/// A new file that only grows, by whole pieces: a piece that did not fit is taken back.
#[derive(Debug)]
pub(crate) struct Appender {
    path: AbsPath,
    file: File,
    len: u64,
}

impl Appender {
    /// Makes the file `path`; it is an error if anything stands there.
    pub(crate) fn create(path: AbsPath) -> Result<Self> {
        OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path.as_path())
            .map_err(|error| fault("make", path.as_path(), error))
            .map(|file| Self { path, file, len: 0 })
    }

    /// Adds all of `piece`, or nothing of it.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<()> {
        match self.file.write_all(piece) {
            Ok(()) => {
                let added = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                self.len = self.len.saturating_add(added);
                Ok(())
            }
            Err(error) => {
                // Making a file shorter needs no space; if even that fails, the reader of the file
                // finds the torn piece by itself.
                drop(self.file.set_len(self.len));
                Err(fault("write", self.path.as_path(), error))
            }
        }
    }
}

/// Lets `link` lead to `target` (relative to the link's directory) in one step. Only a link is
/// ever replaced: anything else that stands there is left alone and an error.
pub(crate) fn point_link(link: &AbsPath, target: &Path) -> Result<()> {
    let failed = |error| fault("make the link", link.as_path(), error);
    if let Ok(metadata) = fs::symlink_metadata(link.as_path())
        && !metadata.file_type().is_symlink()
    {
        return Err(Error::io(
            format!("`{link}` is not a link that massgen made"),
            io::Error::from(ErrorKind::AlreadyExists),
        )
        .hint("move it away, or name another directory in the config"));
    }
    let parent = link.as_path().parent().unwrap_or(Path::new("/"));
    let temp = parent.join(format!(".massgen-{}", random_digits(UNIQUE_DIGITS)));
    std::os::unix::fs::symlink(target, &temp).map_err(failed)?;
    fs::rename(&temp, link.as_path()).map_err(|error| {
        drop(fs::remove_file(&temp));
        failed(error)
    })
}

/// Moves `from` to `to` in one step; the only thing it can replace is an empty directory.
pub(crate) fn move_dir(from: &AbsPath, to: &AbsPath) -> Result<()> {
    fs::rename(from.as_path(), to.as_path())
        .map_err(|error| fault("move into place", to.as_path(), error))
}

/// Removes `path` if it is an empty directory; whatever else it is stays.
pub(crate) fn remove_empty_dir(path: &AbsPath) {
    drop(fs::remove_dir(path.as_path()));
}

/// A directory in the making. It is removed with all that is in it unless it is published.
#[derive(Debug)]
pub(crate) struct Stage {
    dir: TempDir,
    path: AbsPath,
}

impl Stage {
    /// Makes an empty directory inside `parent`, under a hidden name that nobody can foresee.
    pub(crate) fn new(parent: &AbsPath) -> Result<Self> {
        let failed = |error| fault("make a directory in", parent.as_path(), error);
        let dir = tempfile::Builder::new()
            .prefix(".massgen-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent.as_path())
            .map_err(failed)?;
        let path = parent.join(dir.path());
        Ok(Self { dir, path })
    }

    /// Where it is while it is being made.
    pub(crate) fn path(&self) -> &AbsPath {
        &self.path
    }

    /// Shows it as `to` in one step. An existing `to` is an error, unless it is an empty directory.
    pub(crate) fn publish(mut self, to: &AbsPath) -> Result<()> {
        move_dir(&self.path, to)?;
        self.dir.disable_cleanup(true);
        Ok(())
    }
}

/// Holds a directory so that no other run of massgen takes it; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

/// What came of the try to hold a directory.
#[derive(Debug)]
pub(crate) enum Hold {
    /// It is ours.
    Held(DirLock),
    /// Another run, or another agent of this one, has it.
    Taken,
    /// The file system cannot tell.
    Unsupported,
}

/// Tries to hold the directory `path`; nothing is written into it.
pub(crate) fn hold_dir(path: &AbsPath) -> Result<Hold> {
    let file = File::open(path.as_path()).map_err(|error| fault("open", path.as_path(), error))?;
    Ok(match file.try_lock() {
        Ok(()) => Hold::Held(DirLock { _file: file }),
        Err(TryLockError::WouldBlock) => Hold::Taken,
        Err(TryLockError::Error(_)) => Hold::Unsupported,
    })
}
