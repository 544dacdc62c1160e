//! Slots: names in massgen's own directories under which whole files, symlinks and directories are
//! staged, either before they are moved into the user's tree or after they were moved out of it. A
//! slot is filled once.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd;

use rustix::fs::{
    AtFlags, Mode, OFlags, StatxFlags, chmod, fchmod, fchown, futimens, openat, statx, utimensat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use crate::path::RelPath;
use crate::world::sys::content::{FileContent, copy};
use crate::world::sys::dir::{DirectoryHandle, proc_path};
use crate::world::sys::file_kind::FileKind;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::{FileMetadata, modification_timestamps, nanoseconds};

/// The attributes of a file apart from its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileAttributes {
    /// Its permission bits.
    pub(crate) mode: Mode,
    /// Its modification time, in nanoseconds since 1970; the current time if `None`.
    pub(crate) modified_ns: Option<i128>,
    /// Its owner and group. Only root may give files away; for other users, the file belongs to the
    /// writer.
    pub(crate) owner: Option<(Uid, Gid)>,
}

impl FileAttributes {
    /// Takes all attributes of another file.
    fn from_metadata(meta: &FileMetadata) -> Self {
        Self {
            mode: meta.mode & Mode::from_raw_mode(0o7777),
            modified_ns: Some(meta.version.modified_ns),
            owner: Some((meta.owner, meta.group)),
        }
    }
}

/// Creates the file `name` from the first `size_bytes` of `content`.
pub(crate) fn create_from_content(
    dir: &DirectoryHandle,
    name: &OsStr,
    content: &FileContent,
    size_bytes: u64,
    attributes: &FileAttributes,
) -> Result<FileMetadata, FileSystemError> {
    let file = create_file(dir, name)?;
    copy(content, &file, size_bytes)?;
    apply_attributes(&file, attributes)
}

/// Creates the file `name` with the content `bytes`.
pub(crate) fn create_from_bytes(
    dir: &DirectoryHandle,
    name: &OsStr,
    bytes: &[u8],
    attributes: &FileAttributes,
) -> Result<FileMetadata, FileSystemError> {
    let mut file = create_file(dir, name)?;
    file.write_all(bytes)?;
    apply_attributes(&file, attributes)
}

/// Copies the file, symlink or directory `name` of `from` into `to` under the same name, with all
/// its attributes. A directory is copied without its content.
pub(crate) fn duplicate(
    from: &DirectoryHandle,
    to: &DirectoryHandle,
    name: &OsStr,
) -> Result<(), FileSystemError> {
    let rel = RelPath::default()
        .child(name)
        .ok_or(FileSystemError::Missing)?;
    let meta = FileMetadata::from_name(from, name)?;
    match meta.kind {
        FileKind::File => {
            let (content, meta) = from.open_file(&rel)?;
            let size_bytes = meta.version.size_bytes;
            let attributes = FileAttributes::from_metadata(&meta);
            create_from_content(to, name, &content, size_bytes, &attributes).map(drop)
        }
        FileKind::Link => {
            to.symlink(name, &from.link_target(&rel)?)?;
            set_times(to, name, meta.version.modified_ns)
        }
        FileKind::Directory => {
            make_dir(to, name, meta.mode)?;
            set_times(to, name, meta.version.modified_ns)
        }
        kind @ (FileKind::Fifo | FileKind::Socket | FileKind::Device) => {
            Err(FileSystemError::NotRegular(kind))
        }
    }
}

/// Creates the directory `name` with these permission bits, whatever the umask is.
pub(crate) fn make_dir(
    dir: &DirectoryHandle,
    name: &OsStr,
    mode: Mode,
) -> Result<(), FileSystemError> {
    rustix::fs::mkdirat(dir, name, Mode::RWXU)?;
    set_dir_mode(dir, name, mode)
}

/// Sets the permission bits of the directory `name`.
pub(crate) fn set_dir_mode(
    dir: &DirectoryHandle,
    name: &OsStr,
    mode: Mode,
) -> Result<(), FileSystemError> {
    let rel = RelPath::default()
        .child(name)
        .ok_or(FileSystemError::Missing)?;
    let handle = dir.dir(&rel)?;
    Ok(chmod(
        proc_path(&handle),
        mode & Mode::from_raw_mode(0o7777),
    )?)
}

/// Returns whether a rename between the two directories is atomic: they are on the same file system
/// and the same mount.
pub(crate) fn is_same_mount(
    one: &DirectoryHandle,
    other: &DirectoryHandle,
) -> Result<bool, FileSystemError> {
    let mount = |dir: &DirectoryHandle| -> Result<(u32, u32, u64), FileSystemError> {
        let stat = statx(
            dir,
            "",
            AtFlags::EMPTY_PATH,
            StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
        )?;
        Ok((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_mnt_id))
    };
    Ok(mount(one)? == mount(other)?)
}

/// Returns the inode number of a file or directory and its birth time, in nanoseconds since 1970,
/// where the file system records it. No other file on the machine has both.
pub(crate) fn birth_identity(handle: impl AsFd) -> Result<(u64, i64), FileSystemError> {
    let stat = statx(
        handle,
        "",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME,
    )?;
    let birth_time = stat.stx_btime;
    let birth_ns = nanoseconds(birth_time);
    Ok((stat.stx_ino, i64::try_from(birth_ns).unwrap_or_default()))
}

fn create_file(dir: &DirectoryHandle, name: &OsStr) -> Result<File, FileSystemError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(
        dir,
        name,
        flags,
        Mode::RUSR | Mode::WUSR,
    )?))
}

fn apply_attributes(
    file: &File,
    attributes: &FileAttributes,
) -> Result<FileMetadata, FileSystemError> {
    // Before the mode: a change of the owner clears the setuid and setgid bits.
    if let Some((owner, group)) = attributes.owner {
        match fchown(file, Some(owner), Some(group)) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    fchmod(file, attributes.mode)?;
    if let Some(modified_ns) = attributes.modified_ns {
        futimens(file, &modification_timestamps(modified_ns)?)?;
    }
    FileMetadata::from_handle(file)
}

/// Sets the modification time of the symlink or directory `name`.
fn set_times(
    dir: &DirectoryHandle,
    name: &OsStr,
    modified_ns: i128,
) -> Result<(), FileSystemError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(utimensat(
        dir,
        name,
        &modification_timestamps(modified_ns)?,
        flags,
    )?)
}
