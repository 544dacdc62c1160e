//! massgen's own files and symlinks, one at a time: reads within a limit, replaces atomically, and
//! appends.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only world::sys touches files"
)]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};
use crate::path::AbsPath;
use crate::world::sys::state_files::dir::UNFINISHED_PREFIX;
use crate::world::sys::state_files::exclusive_lock::{
    CHECKS_TIME_MAX, FORK_TIME_MAX, RETRY_PAUSE, try_lock_exclusive,
};
use crate::world::sys::state_files::sync::sync_name_of;
use crate::world::sys::state_files::{file_error, found, random_digits};

/// The mode bits by which other users may read or change a file.
const OTHERS_ACCESS: u32 = 0o066;
/// The mode bits by which users other than the owner may change a file.
const OTHERS_WRITE: u32 = 0o022;
/// The mode bit by which all users may change a file.
const WORLD_WRITABLE: u32 = 0o002;
/// The mode bits of permissions, without setuid, setgid and the sticky bit.
const PERMISSION_BITS: u32 = 0o777;
/// The user id of root.
const ROOT: u32 = 0;

/// Where the system names the open files of the process itself.
const OWN_DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];
/// Where the system names the output streams of the process itself.
const OWN_OUTPUT_STREAMS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];

/// How many digits make a random name unique.
const UNIQUE_DIGITS: usize = 8;

/// An open file that is read from its beginning.
pub(crate) type FileReader = BufReader<File>;

/// Why a file must not hold a secret, or cannot be trusted as the user's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretExposure {
    /// Its mode lets other users read or change it.
    OpenToOthers,
    /// Another user owns it, and may read and change it at any time.
    OfAnotherUser,
}

/// Returns the type of the file at `path`, after following symlinks; `None` if nothing exists there.
pub(crate) fn kind(path: &AbsPath) -> Result<Option<fs::FileType>> {
    let metadata = found(path, fs::metadata(path.as_path()))?;
    Ok(metadata.map(|metadata| metadata.file_type()))
}

/// Returns the size in bytes of the regular file at `path`, after following symlinks; `None` if
/// there is none.
pub(crate) fn regular_size(path: &AbsPath) -> Result<Option<u64>> {
    let metadata = found(path, fs::metadata(path.as_path()))?;
    let file = metadata.filter(fs::Metadata::is_file);
    Ok(file.map(|metadata| metadata.len()))
}

/// Reads the secret at `path`: `Ok(Ok(None))` if it is longer than `bytes_max`. Pipes are treated
/// as by [`read_capped`]. The file whose mode and owner are checked is the one that is read.
pub(crate) fn read_secret_capped(
    path: &AbsPath,
    bytes_max: u64,
) -> io::Result<std::result::Result<Option<Vec<u8>>, SecretExposure>> {
    let file = open_named(path)?;
    let metadata = file.metadata()?;
    let exposure = find_exposure(&metadata, OTHERS_ACCESS, &[geteuid().as_raw()]);
    match exposure.filter(|_| metadata.is_file()) {
        Some(exposure) => Ok(Err(exposure)),
        None => read_open_capped(file, bytes_max).map(Ok),
    }
}

/// Like [`read_regular_capped`], for a file that is trusted because it is the user's own: it is not
/// read if it belongs to a user other than this one and root, or if all users may change it.
pub(crate) fn read_own_capped(
    path: &AbsPath,
    bytes_max: u64,
) -> io::Result<std::result::Result<Option<Vec<u8>>, SecretExposure>> {
    let file = open_regular(path)?;
    let owners = [geteuid().as_raw(), ROOT];
    match find_exposure(&file.metadata()?, WORLD_WRITABLE, &owners) {
        Some(exposure) => Ok(Err(exposure)),
        None => read_open_capped(file, bytes_max).map(Ok),
    }
}

/// Returns whether root owns what exists at `path` itself and no one else may write to it; `None` if
/// nothing exists there. A symlink may lead to what others write.
pub(crate) fn is_of_root_alone(path: &AbsPath) -> Result<Option<bool>> {
    let metadata = found(path, fs::symlink_metadata(path.as_path()))?;
    Ok(metadata.map(|metadata| {
        !metadata.is_symlink() && find_exposure(&metadata, OTHERS_WRITE, &[ROOT]).is_none()
    }))
}

/// Checks whether a file has one of the `forbidden` mode bits, or an owner who is not in `owners`.
fn find_exposure(
    metadata: &fs::Metadata,
    forbidden: u32,
    owners: &[u32],
) -> Option<SecretExposure> {
    if metadata.permissions().mode() & forbidden != 0 {
        Some(SecretExposure::OpenToOthers)
    } else if owners.contains(&metadata.uid()) {
        None
    } else {
        Some(SecretExposure::OfAnotherUser)
    }
}

/// Lets `edit` change a temporary file with `text` that only the user can read. Returns its text
/// then.
pub(crate) fn edit_temporary(
    text: &str,
    edit: impl FnOnce(&AbsPath) -> io::Result<()>,
) -> io::Result<String> {
    let dir = tempfile::Builder::new().prefix("massgen-").tempdir()?;
    let path = AbsPath::new(dir.path().join("prompt.md")).ok_or(io::ErrorKind::InvalidFilename)?;
    fs::write(path.as_path(), text)?;
    edit(&path)?;
    fs::read_to_string(path.as_path())
}

/// Returns the type of what exists at `path` itself, such as a dangling symlink; `None` if nothing
/// does.
fn link_kind(path: &AbsPath) -> Result<Option<fs::FileType>> {
    let metadata = found(path, fs::symlink_metadata(path.as_path()))?;
    Ok(metadata.map(|metadata| metadata.file_type()))
}

/// Returns whether anything exists at `path`, including a dangling symlink.
pub(crate) fn exists(path: &AbsPath) -> Result<bool> {
    link_kind(path).map(|kind| kind.is_some())
}

/// Returns whether `path` itself is a symlink.
pub(crate) fn is_link(path: &AbsPath) -> Result<bool> {
    link_kind(path).map(|kind| kind.is_some_and(|kind| kind.is_symlink()))
}

/// Returns whether `path` itself is a directory: a symlink could lead anywhere.
pub(crate) fn is_directory(path: &AbsPath) -> Result<bool> {
    link_kind(path).map(|kind| kind.is_some_and(|kind| kind.is_dir()))
}

/// Returns whether the user may list the directory `path` and open what is in it.
pub(crate) fn is_accessible(path: &AbsPath) -> Result<bool> {
    let access = rustix::fs::Access::READ_OK | rustix::fs::Access::EXEC_OK;
    match rustix::fs::access(path.as_path(), access) {
        Ok(()) => Ok(true),
        Err(Errno::ACCESS) => Ok(false),
        Err(errno) => Err(file_error("look at", path.as_path(), errno.into())),
    }
}

/// Returns whether the process may read `path`.
pub(crate) fn is_readable(path: &AbsPath) -> bool {
    rustix::fs::access(path.as_path(), rustix::fs::Access::READ_OK).is_ok()
}

/// Returns whether the process may write to `path`.
pub(crate) fn is_writable(path: &AbsPath) -> bool {
    rustix::fs::access(path.as_path(), rustix::fs::Access::WRITE_OK).is_ok()
}

/// Opens the regular file at `path` for reading from the beginning.
pub(crate) fn open(path: &AbsPath) -> io::Result<FileReader> {
    open_regular(path).map(BufReader::new)
}

/// Reads all of `path` if it has at most `bytes_max` bytes; `None` if it has more. A named pipe is
/// an error, because it would block until something writes to it; a pipe that the process was
/// given, as `/dev/stdin` or by the shell as `/dev/fd/63`, is read to its end.
pub(crate) fn read_capped(path: &AbsPath, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    read_open_capped(open_named(path)?, bytes_max)
}

/// Opens a path that the user named, to read from it; as with [`read_capped`], a named pipe is an
/// error.
pub(crate) fn open_named(path: &AbsPath) -> io::Result<File> {
    if !is_own_descriptor(path) {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(open_flag(OFlags::NONBLOCK))
            .open(path.as_path())?;
        let kind = file.metadata()?.file_type();
        if kind.is_fifo() {
            return Err(named_pipe_error());
        }
        if kind.is_file() {
            return Ok(file);
        }
    }
    File::open(path.as_path())
}

fn named_pipe_error() -> io::Error {
    let reason = "it is a named pipe, not a file";
    io::Error::new(ErrorKind::InvalidInput, reason)
}

/// Returns whether `path` names an open file of the process itself.
fn is_own_descriptor(path: &AbsPath) -> bool {
    let path = path.as_path();
    path == Path::new("/dev/stdin") || OWN_DESCRIPTORS.iter().any(|dir| path.starts_with(dir))
}

/// Returns whether `path` names a file that the process has open, or one of its output streams.
fn is_own_output(path: &AbsPath) -> bool {
    let is_stream = |stream: &&str| path.as_path() == Path::new(*stream);
    is_own_descriptor(path) || OWN_OUTPUT_STREAMS.iter().any(is_stream)
}

/// Returns whether a process locks `path`, as it does while it writes to it; what is not a regular
/// file is not locked. No process that tries to lock it meanwhile fails.
///
/// # Errors
/// It cannot be opened.
pub(crate) fn is_locked(path: &AbsPath) -> Result<bool> {
    let lock_result = open_if_regular(path)?.map(|file| file.try_lock_shared());
    Ok(matches!(lock_result, Some(Err(TryLockError::WouldBlock))))
}

/// Returns whether the regular file at `path` begins with `head`; `None` if it does not exist.
pub(crate) fn begins_with(path: &AbsPath, head: &[u8]) -> io::Result<Option<bool>> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        open_result => open_result?,
    };
    let mut first_bytes = Vec::with_capacity(head.len());
    let bytes_max = u64::try_from(head.len()).unwrap_or(u64::MAX);
    file.take(bytes_max).read_to_end(&mut first_bytes)?;
    Ok(Some(first_bytes == head))
}

/// Returns the last bytes of the regular file at `path`, at most `bytes_max`.
pub(crate) fn read_end(path: &AbsPath, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut file = open_regular(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(bytes_max)))?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads all of `file` if it has at most `bytes_max` bytes; `None` if it has more.
pub(super) fn read_open_capped(file: File, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let count = file
        .take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    let fits = u64::try_from(count).is_ok_and(|count| count <= bytes_max);
    Ok(fits.then_some(bytes))
}

/// Like [`read_capped`], but only for a regular file: a pipe without a writer would block.
pub(crate) fn read_regular_capped(path: &AbsPath, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    read_open_capped(open_regular(path)?, bytes_max)
}

/// Reads all of the file at `path`; `None` if none exists, if it is not a regular file, or if it has
/// more than `bytes_max` bytes.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_if_regular(path: &AbsPath, bytes_max: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open_if_regular(path)? else {
        return Ok(None);
    };
    read_open_capped(file, bytes_max).map_err(|error| file_error("read", path.as_path(), error))
}

fn open_if_regular(path: &AbsPath) -> Result<Option<File>> {
    match fs::metadata(path.as_path()) {
        Ok(metadata) if metadata.is_file() => found(path, open_regular(path)),
        Ok(_) => Ok(None),
        // A symlink to itself leads to nothing.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => Ok(None),
        Err(error) => found(path, Err(error)),
    }
}

fn open_regular(path: &AbsPath) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(open_flag(OFlags::NONBLOCK))
        .open(path.as_path())?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if !metadata.is_file() {
        let reason = "it is a pipe, a socket or a device, not a file";
        return Err(io::Error::new(ErrorKind::InvalidInput, reason));
    }
    Ok(file)
}

/// Writes `bytes` to `path`: a reader sees the old file or the new one, never a part. When this
/// returns, the new one survives a power failure.
pub(crate) fn replace(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    let write = || {
        let temp = write_temporary(path, bytes, NewFileMode::Umask(0o600))?;
        temp.as_file().sync_all()?;
        move_into_place(temp, path)?;
        sync_name_of(path.as_path())
    };
    write().map_err(|error| file_error("write", path.as_path(), error))
}

/// Like [`replace`], for a file that is worth nothing after a power failure, that can be made again,
/// or that is synchronized later with others: until then, a power failure can empty it.
pub(crate) fn replace_unsynced(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    write_temporary(path, bytes, NewFileMode::Umask(0o600))
        .and_then(|temp| move_into_place(temp, path))
        .map_err(|error| file_error("write", path.as_path(), error))
}

/// Writes `bytes` to a path that the user named. A regular file is replaced atomically and keeps
/// its permissions; anything else, such as `/dev/stdout` or a dangling symlink, is written to
/// directly. A named pipe is an error, because it would block until something reads from it.
pub(crate) fn write_for_user(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    let failed = |error| unwritable_output(path, error);
    let (target, mode) = match fs::metadata(path.as_path()) {
        Ok(metadata) if metadata.is_file() => {
            let real = fs::canonicalize(path.as_path()).map_err(failed)?;
            (path.join(real), NewFileMode::Replaced(metadata))
        }
        Err(_) if fs::symlink_metadata(path.as_path()).is_err() => {
            (path.clone(), NewFileMode::Umask(0o666))
        }
        Ok(metadata) if is_refused_pipe(path, &metadata) => {
            return Err(failed(named_pipe_error()));
        }
        Ok(_) | Err(_) => return write_directly(path, bytes).map_err(failed),
    };
    let temp = write_temporary(&target, bytes, mode).map_err(failed)?;
    temp.as_file().sync_all().map_err(failed)?;
    move_into_place(temp, &target).map_err(failed)
}

/// Writes to something other than a regular file, or through a dangling symlink.
fn write_directly(path: &AbsPath, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    if is_own_output(path) {
        return options.open(path.as_path())?.write_all(bytes);
    }
    // A pipe may have replaced it since it was checked: opening that must not block either.
    options.custom_flags(open_flag(OFlags::NONBLOCK));
    let mut file = options.open(path.as_path())?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(named_pipe_error());
    }
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    file.write_all(bytes)
}

/// Returns whether `path` is a named pipe that the process did not get when it was started.
fn is_refused_pipe(path: &AbsPath, metadata: &fs::Metadata) -> bool {
    metadata.file_type().is_fifo() && !is_own_output(path)
}

/// Reports that the user's output file `path` cannot be written.
fn unwritable_output(path: &AbsPath, error: io::Error) -> Error {
    let is_pipe = error.kind() == ErrorKind::InvalidInput;
    let failure = file_error("write", path.as_path(), error);
    if is_pipe {
        failure.with_hint("name a file, or `/dev/stdout` to pass the output to another program")
    } else {
        failure
    }
}

/// Reports the error that [`write_for_user`] would return for `path`, as far as it can be
/// predicted.
pub(crate) fn expect_writable_for_user(path: &AbsPath) -> Result<()> {
    let failed = |error| unwritable_output(path, error);
    let real = match fs::metadata(path.as_path()) {
        Ok(metadata) if metadata.is_dir() => return Err(failed(ErrorKind::IsADirectory.into())),
        Ok(metadata) if metadata.is_file() => fs::canonicalize(path.as_path()).map_err(failed)?,
        Ok(metadata) if is_refused_pipe(path, &metadata) => {
            return Err(failed(named_pipe_error()));
        }
        Err(_) if fs::symlink_metadata(path.as_path()).is_err() => path.as_path().to_owned(),
        Ok(_) | Err(_) => return Ok(()),
    };
    let parent = real.parent().unwrap_or(Path::new("/"));
    rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).map_err(|error| failed(error.into()))
}

/// Where the mode of a written file comes from.
enum NewFileMode {
    /// It is this one, reduced by the umask.
    Umask(u32),
    /// The permissions are those of the replaced file, which has this metadata.
    Replaced(fs::Metadata),
}

/// Writes `bytes` to a temporary file that has this mode and can be moved to `path`.
fn write_temporary(path: &AbsPath, bytes: &[u8], mode: NewFileMode) -> io::Result<NamedTempFile> {
    let mut options = OpenOptions::new();
    options.write(true).mode(match &mode {
        NewFileMode::Umask(bits) => *bits,
        NewFileMode::Replaced(metadata) => metadata.mode() & PERMISSION_BITS,
    });
    let mut temp = create_temporary(path, &mut options)?;
    temp.write_all(bytes)?;
    if let NewFileMode::Replaced(metadata) = mode {
        keep_permissions(temp.as_file(), &metadata);
    }
    Ok(temp)
}

fn move_into_place(temp: NamedTempFile, path: &AbsPath) -> io::Result<()> {
    let persist_result = temp.persist(path.as_path());
    persist_result.map(drop).map_err(|error| error.error)
}

/// Gives `file` the permissions of the file that it replaces, whatever the umask is, unless they
/// would apply to another owner or group. A file system that refuses this must not cost the
/// content.
fn keep_permissions(file: &File, replaced: &fs::Metadata) {
    let owners = |metadata: &fs::Metadata| (metadata.uid(), metadata.gid());
    if file
        .metadata()
        .is_ok_and(|metadata| owners(&metadata) == owners(replaced))
    {
        let permissions = fs::Permissions::from_mode(replaced.mode() & PERMISSION_BITS);
        file.set_permissions(permissions).unwrap_or_default();
    }
}

/// Creates a temporary file that can be moved to `path`. An error is the system's, without the
/// random name.
pub(super) fn create_temporary(
    path: &AbsPath,
    options: &mut OpenOptions,
) -> io::Result<NamedTempFile> {
    let parent = path.as_path().parent().unwrap_or(Path::new("/"));
    tempfile::Builder::new()
        .prefix(UNFINISHED_PREFIX)
        .make_in(parent, |temporary| options.create_new(true).open(temporary))
}

/// Opens `path` to append to it; a missing file is created, and a symlink is refused.
pub(crate) fn open_to_append(path: &AbsPath) -> Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(open_flag(OFlags::NOFOLLOW))
        .open(path.as_path())
        .map_err(|error| file_error("write", path.as_path(), error))
}

/// Appends all of `bytes` to `path`, or nothing; a missing file is created. A symlink is refused.
pub(crate) fn append(path: &AbsPath, bytes: &[u8]) -> Result<()> {
    let failed = |error| file_error("write", path.as_path(), error);
    let mut file = open_to_append(path)?;
    let len = file.metadata().map_err(failed)?.len();
    file.write_all(bytes).map_err(|error| {
        drop(file.set_len(len));
        failed(error)
    })
}

fn open_flag(flag: OFlags) -> i32 {
    i32::try_from(flag.bits()).unwrap_or(0)
}

/// A file that only grows, by whole pieces: a partly written piece is rolled back.
#[derive(Debug)]
pub(crate) struct Appender {
    path: AbsPath,
    file: File,
    len: u64,
}

impl Appender {
    /// Creates the file `path`; it must not exist.
    pub(crate) fn create(path: AbsPath) -> Result<Self> {
        OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(path.as_path())
            .map_err(|error| file_error("make", path.as_path(), error))
            .map(|file| Self { path, file, len: 0 })
    }

    /// Opens the existing file `path` to continue after its first `len` bytes. Anything after them
    /// was not written completely, and is removed.
    pub(crate) fn reopen(path: AbsPath, len: u64) -> Result<Self> {
        OpenOptions::new()
            .append(true)
            .custom_flags(open_flag(OFlags::NOFOLLOW))
            .open(path.as_path())
            .and_then(|file| file.set_len(len).map(|()| file))
            .map_err(|error| file_error("write", path.as_path(), error))
            .map(|file| Self { path, file, len })
    }

    /// Waits until everything that was appended is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let sync_result = self.file.sync_all();
        sync_result.map_err(|error| file_error("write", self.path.as_path(), error))
    }

    /// Returns another handle to the file, by which another thread can [`Self::sync`] it.
    pub(crate) fn duplicate(&self) -> Result<Self> {
        let duplicate_result = self.file.try_clone();
        let failed = |error| file_error("open", self.path.as_path(), error);
        Ok(Self {
            path: self.path.clone(),
            file: duplicate_result.map_err(failed)?,
            len: self.len,
        })
    }

    /// Creates the file `path`, which must not exist, and locks it as long as it is open, where the
    /// file system supports locks. Others see it unlocked only where no file can be moved without
    /// replacing another.
    pub(crate) fn create_locked(path: AbsPath) -> Result<Self> {
        let failed = |error| file_error("make", path.as_path(), error);
        let mut options = OpenOptions::new();
        options.append(true).mode(0o600);
        let temp = create_temporary(&path, &mut options).map_err(failed)?;
        drop(temp.as_file().try_lock());
        match temp.persist_noclobber(path.as_path()) {
            Ok(file) => Ok(Self { path, file, len: 0 }),
            Err(persist_error) if persist_error.error.kind() == ErrorKind::AlreadyExists => {
                Err(failed(persist_error.error))
            }
            Err(_) => {
                let created = Self::create(path)?;
                drop(created.file.lock());
                Ok(created)
            }
        }
    }

    /// Opens and locks the existing file at `path` to append to it. A symlink is refused, and so is
    /// a file that another process has locked for longer than [`FORK_TIME_MAX`].
    pub(crate) fn open_locked(path: AbsPath) -> Result<Self> {
        let failed = |error| file_error("write", path.as_path(), error);
        let file = OpenOptions::new()
            .append(true)
            .custom_flags(open_flag(OFlags::NOFOLLOW))
            .open(path.as_path())
            .map_err(failed)?;
        let start_time = Instant::now();
        while let Err(TryLockError::WouldBlock) = try_lock_exclusive(&file, CHECKS_TIME_MAX) {
            if start_time.elapsed() >= FORK_TIME_MAX {
                return Err(failed(ErrorKind::ResourceBusy.into()));
            }
            sleep(RETRY_PAUSE);
        }
        let len = file.metadata().map_err(failed)?.len();
        Ok(Self { path, file, len })
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Truncates the file to its first `len` bytes.
    pub(crate) fn truncate(&mut self, len: u64) -> Result<()> {
        let truncate_result = self.file.set_len(len);
        truncate_result.map_err(|error| file_error("shorten", self.path.as_path(), error))?;
        self.len = len;
        Ok(())
    }

    /// Appends all of `piece`, or nothing of it.
    pub(crate) fn append(&mut self, piece: &[u8]) -> Result<()> {
        match self.file.write_all(piece) {
            Ok(()) => {
                let piece_len = u64::try_from(piece.len()).unwrap_or(u64::MAX);
                self.len = self.len.saturating_add(piece_len);
                Ok(())
            }
            Err(error) => {
                // Truncating a file needs no space; if even that fails, the reader of the file
                // detects the torn piece itself.
                drop(self.file.set_len(self.len));
                Err(file_error("write", self.path.as_path(), error))
            }
        }
    }
}

/// Points the symlink `link` to `target` (relative to the link's directory) atomically. Only a
/// symlink is ever replaced: anything else is left alone and reported as an error.
pub(crate) fn replace_link(link: &AbsPath, target: &Path) -> Result<()> {
    let failed = |error| file_error("create the symlink", link.as_path(), error);
    if let Ok(metadata) = fs::symlink_metadata(link.as_path())
        && !metadata.file_type().is_symlink()
    {
        return Err(Error::io(
            format!("`{link}` is not a symlink created by massgen"),
            io::Error::from(ErrorKind::AlreadyExists),
        )
        .with_hint("move it away, or set another directory in the config"));
    }
    let parent = link.as_path().parent().unwrap_or(Path::new("/"));
    let temp = parent.join(format!(
        "{UNFINISHED_PREFIX}{}",
        random_digits(UNIQUE_DIGITS)
    ));
    std::os::unix::fs::symlink(target, &temp).map_err(failed)?;
    fs::rename(&temp, link.as_path()).map_err(|error| {
        drop(fs::remove_file(&temp));
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file_and_not_the_temporary_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = AbsPath::new(dir.path().join("missing/log")).unwrap();
        let replace_result = replace(&path, b"text");
        let create_result = Appender::create_locked(path.clone()).map(drop);
        for (action, result) in [("write", replace_result), ("make", create_result)] {
            let text = format!("{:#}", result.unwrap_err());
            assert!(
                text.contains(&format!("cannot {action} `{path}`")),
                "{text}"
            );
            assert!(!text.contains(".massgen-"), "{text}");
        }
    }

    #[test]
    fn a_file_that_is_replaced_for_the_user_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = AbsPath::new(dir.path().join("answer")).unwrap();
        let mode = || fs::metadata(path.as_path()).unwrap().mode();
        write_for_user(&path, b"new").unwrap();
        for bits in [0o600, 0o640, 0o664, 0o666] {
            fs::set_permissions(path.as_path(), fs::Permissions::from_mode(bits)).unwrap();
            write_for_user(&path, b"replaced").unwrap();
            assert_eq!(mode() & PERMISSION_BITS, bits, "{bits:o}");
        }
    }
}
