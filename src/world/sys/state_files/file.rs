//! Owns massgen's own files and links one by one: reading within a limit, replacing in one step, and
//! adding to the end.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is where the disk is"
)]

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::sys::state_files::{file_error, random_digits};

/// The bits of a file's mode by which other users may read or change it.
const OTHERS: u32 = 0o066;
/// The bit of a file's mode by which everybody may change it.
const EVERYBODY_WRITES: u32 = 0o002;
/// The user id of root.
const ROOT: u32 = 0;

/// How many digits make a made-up name differ from all others.
const UNIQUE_DIGITS: usize = 8;

/// What a file that is written must survive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileDurability {
    /// The end of the process.
    Process,
    /// A loss of power too.
    Power,
}

/// An open file that is read from its beginning.
pub(crate) type FileReader = BufReader<File>;

/// What `path` leads to, links followed.
pub(crate) fn kind(path: &AbsPath) -> io::Result<fs::FileType> {
    fs::metadata(path.as_path()).map(|metadata| metadata.file_type())
}

/// Why a file is no place for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretExposure {
    /// Its mode lets other users read or change it.
    OpenToOthers,
    /// Another user owns it, and may read and change it at any time.
    OfAnotherUser,
}

/// Reads the secret at `path`, which may also be a pipe: `Ok(Ok(None))` if it is longer than
/// `bytes_max`. What the look at its mode and owner was about is what is read.
pub(crate) fn read_secret_capped(
    path: &AbsPath,
    bytes_max: u64,
) -> io::Result<std::result::Result<Option<Vec<u8>>, SecretExposure>> {
    let file = File::open(path.as_path())?;
    let found = file.metadata()?;
    let exposure = find_exposure(&found, OTHERS, &[geteuid().as_raw()]);
    match exposure.filter(|_| found.is_file()) {
        Some(exposure) => Ok(Err(exposure)),
        None => read_to_limit(file, bytes_max).map(Ok),
    }
}

/// As [`read_regular_capped`], of a file that is believed because it is the user's own: one that another
/// user owns, but for root, or that everybody may change, is not read.
pub(crate) fn read_own_capped(
    path: &AbsPath,
    bytes_max: u64,
) -> io::Result<std::result::Result<Option<Vec<u8>>, SecretExposure>> {
    let file = open_regular(path)?;
    match find_exposure(
        &file.metadata()?,
        EVERYBODY_WRITES,
        &[geteuid().as_raw(), ROOT],
    ) {
        Some(exposure) => Ok(Err(exposure)),
        None => read_to_limit(file, bytes_max).map(Ok),
    }
}

/// Whether a file has one of the `forbidden` bits of its mode, or an owner who is none of `owners`.
fn find_exposure(found: &fs::Metadata, forbidden: u32, owners: &[u32]) -> Option<SecretExposure> {
    if found.permissions().mode() & forbidden != 0 {
        Some(SecretExposure::OpenToOthers)
    } else if owners.contains(&found.uid()) {
        None
    } else {
        Some(SecretExposure::OfAnotherUser)
    }
}

/// Whether anything stands at `path`, also a link that leads nowhere.
pub(crate) fn exists(path: &AbsPath) -> bool {
    fs::symlink_metadata(path.as_path()).is_ok()
}

/// Whether `path` itself is a link.
pub(crate) fn is_link(path: &AbsPath) -> bool {
    fs::symlink_metadata(path.as_path()).is_ok_and(|found| found.is_symlink())
}

/// Whether `path` itself is a directory: a link would lead wherever whoever made it wanted.
pub(crate) fn is_directory(path: &AbsPath) -> bool {
    fs::symlink_metadata(path.as_path()).is_ok_and(|found| found.is_dir())
}

/// Whether the process may read `path`.
pub(crate) fn is_readable(path: &AbsPath) -> bool {
    rustix::fs::access(path.as_path(), rustix::fs::Access::READ_OK).is_ok()
}

/// Whether the process may write to `path`.
pub(crate) fn is_writable(path: &AbsPath) -> bool {
    rustix::fs::access(path.as_path(), rustix::fs::Access::WRITE_OK).is_ok()
}

/// Opens the regular file at `path` for reading from the beginning.
pub(crate) fn open(path: &AbsPath) -> io::Result<FileReader> {
    open_regular(path).map(BufReader::new)
}

/// Reads all of `path` if it has at most `bytes_max` bytes; `None` if it has more.
pub(crate) fn read_capped(path: &AbsPath, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    read_to_limit(File::open(path.as_path())?, bytes_max)
}

/// Whether a process holds `path`, which it does as long as it writes to it; an unreadable file is
/// held by nobody.
pub(crate) fn is_locked(path: &AbsPath) -> bool {
    let tried = open_regular(path).map(|file| file.try_lock_shared());
    matches!(tried, Ok(Err(TryLockError::WouldBlock)))
}

/// Whether the regular file at `path` begins with `head`; `None` if nothing is there.
pub(crate) fn begins_with(path: &AbsPath, head: &[u8]) -> io::Result<Option<bool>> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut beginning = Vec::with_capacity(head.len());
    let bytes_max = u64::try_from(head.len()).unwrap_or(u64::MAX);
    file.take(bytes_max).read_to_end(&mut beginning)?;
    Ok(Some(beginning == head))
}

/// The last bytes of the regular file at `path`, at most `bytes_max`.
pub(crate) fn read_end(path: &AbsPath, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_to_limit(file: File, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = file
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let fits = u64::try_from(read).is_ok_and(|read| read <= bytes_max);
    Ok(fits.then_some(bytes))
}

/// As [`read_capped`], of a regular file: a pipe that nobody writes to is never waited for.
pub(crate) fn read_regular_capped(path: &AbsPath, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    read_to_limit(open_regular(path)?, bytes_max)
}

fn open_regular(path: &AbsPath) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(open_flag(OFlags::NONBLOCK))
        .open(path.as_path())?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        let why = "it is a pipe, a socket or a device, not a file";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    Ok(file)
}

/// Puts `bytes` at `path` in one step: a reader sees the old file or the new one, never a part.
pub(crate) fn replace(path: &AbsPath, bytes: &[u8], durability: FileDurability) -> Result<()> {
    write_with(path, bytes, durability, Permissions::from_mode(0o600))
        .map_err(|error| file_error("write", path.as_path(), error))
}

/// Puts `bytes` at a path that the user named. A regular file is replaced in one step and keeps its
/// mode; what is none, such as `/dev/stdout` or a link to a missing file, is written to.
pub(crate) fn write_for_user(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    let failed = |error| file_error("write", path.as_path(), error);
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
    write_with(&target, bytes, FileDurability::Power, permissions).map_err(failed)
}

/// Says what [`write_for_user`] would say of `path`, as far as that can be known before.
pub(crate) fn expect_writable_for_user(path: &AbsPath) -> Result<()> {
    let failed = |error| file_error("write", path.as_path(), error);
    let real = match fs::metadata(path.as_path()) {
        Ok(metadata) if metadata.is_dir() => return Err(failed(ErrorKind::IsADirectory.into())),
        Ok(metadata) if metadata.is_file() => fs::canonicalize(path.as_path()).map_err(failed)?,
        Err(_) if fs::symlink_metadata(path.as_path()).is_err() => path.as_path().to_owned(),
        Ok(_) | Err(_) => return Ok(()),
    };
    let parent = real.parent().unwrap_or(Path::new("/"));
    rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).map_err(|error| failed(error.into()))
}

/// `permissions` are those of the file; a new file's are lowered by the umask.
fn write_with(
    path: &AbsPath,
    bytes: &[u8],
    durability: FileDurability,
    permissions: Permissions,
) -> io::Result<()> {
    let parent = path.as_path().parent().unwrap_or(Path::new("/"));
    let mut temp = tempfile::Builder::new()
        .prefix(".massgen-")
        .permissions(permissions)
        .tempfile_in(parent)
        .map_err(without_path)?;
    temp.write_all(bytes)?;
    if let FileDurability::Power = durability {
        temp.as_file().sync_all()?;
    }
    temp.persist(path.as_path())
        .map(drop)
        .map_err(|error| error.error)
}

/// What the system said, without the made-up name that the error also tells.
fn without_path(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(std::error::Error::source);
    let system = inner.and_then(|inner| inner.downcast_ref::<io::Error>()?.raw_os_error());
    system.map_or(error, io::Error::from_raw_os_error)
}

/// Adds all of `bytes` to the end of `path`, or nothing; it is made if it is missing. A link there is
/// refused.
pub(crate) fn append(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    let failed = |error| file_error("write", path.as_path(), error);
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(open_flag(OFlags::NOFOLLOW))
        .open(path.as_path())
        .map_err(failed)?;
    let len = file.metadata().map_err(failed)?.len();
    file.write_all(bytes).map_err(|error| {
        drop(file.set_len(len));
        failed(error)
    })
}

fn open_flag(flag: OFlags) -> i32 {
    i32::try_from(flag.bits()).unwrap_or(0)
}

/// A file that only grows, by whole pieces: a piece that did not fit is taken back.
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
            .map_err(|error| file_error("make", path.as_path(), error))
            .map(|file| Self { path, file, len: 0 })
    }

    /// Opens the file `path`, which was made before, to go on after its first `len` bytes. What
    /// follows them was not written whole, and goes.
    pub(crate) fn reopen(path: AbsPath, len: u64) -> Result<Self> {
        let opened = OpenOptions::new()
            .append(true)
            .custom_flags(open_flag(OFlags::NOFOLLOW))
            .open(path.as_path())
            .and_then(|file| file.set_len(len).map(|()| file));
        opened
            .map_err(|error| file_error("write", path.as_path(), error))
            .map(|file| Self { path, file, len })
    }

    /// Returns once all that was added is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let synced = self.file.sync_all();
        synced.map_err(|error| file_error("write", self.path.as_path(), error))
    }

    /// Opens the file at `path`, which is held from now on, to write on at its end. A link there is
    /// refused, and so is a file that another process holds.
    pub(crate) fn open_locked(path: AbsPath) -> Result<Self> {
        let failed = |error| file_error("write", path.as_path(), error);
        let file = OpenOptions::new()
            .append(true)
            .custom_flags(open_flag(OFlags::NOFOLLOW))
            .open(path.as_path())
            .map_err(failed)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(failed(ErrorKind::ResourceBusy.into()));
        }
        let len = file.metadata().map_err(failed)?.len();
        Ok(Self { path, file, len })
    }

    /// How many bytes it has.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Cuts off all that follows the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<()> {
        let cut = self.file.set_len(len);
        cut.map_err(|error| file_error("shorten", self.path.as_path(), error))?;
        self.len = len;
        Ok(())
    }

    /// Holds the file as long as it is open, where the file system can do that.
    pub(crate) fn lock(&self) {
        drop(self.file.lock());
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
                Err(file_error("write", self.path.as_path(), error))
            }
        }
    }
}

/// Lets `link` lead to `target` (relative to the link's directory) in one step. Only a link is
/// ever replaced: anything else that stands there is left alone and an error.
pub(crate) fn replace_link(link: &AbsPath, target: &Path) -> Result<()> {
    let failed = |error| file_error("make the link", link.as_path(), error);
    if let Ok(metadata) = fs::symlink_metadata(link.as_path())
        && !metadata.file_type().is_symlink()
    {
        return Err(Error::io(
            format!("`{link}` is not a link that massgen made"),
            io::Error::from(ErrorKind::AlreadyExists),
        )
        .with_hint("move it away, or name another directory in the config"));
    }
    let parent = link.as_path().parent().unwrap_or(Path::new("/"));
    let temp = parent.join(format!(".massgen-{}", random_digits(UNIQUE_DIGITS)));
    std::os::unix::fs::symlink(target, &temp).map_err(failed)?;
    fs::rename(&temp, link.as_path()).map_err(|error| {
        drop(fs::remove_file(&temp));
        failed(error)
    })
}
