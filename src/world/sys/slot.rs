//! Owns the names in massgen's own directories under which whole files, links and directories wait:
//! to be put into the user's tree, or because they were taken out of it. A name is filled once.

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
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::meta::{FileKind, FileMetadata, SECOND_NS, modified_at};

/// What a file is to look like beside its content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileAttributes {
    /// Its permission bits.
    pub(crate) mode: Mode,
    /// When its content last changed, in nanoseconds since 1970; the present if it is not said.
    pub(crate) modified_ns: Option<i128>,
    /// Whose it is. Only root may give files away; for everybody else it becomes the writer's own.
    pub(crate) owner: Option<(Uid, Gid)>,
}

impl FileAttributes {
    /// Those of another file, all of them.
    pub(crate) fn from_metadata(meta: &FileMetadata) -> Self {
        Self {
            mode: meta.mode & Mode::from_raw_mode(0o7777),
            modified_ns: Some(meta.version.modified_ns),
            owner: Some((meta.owner, meta.group)),
        }
    }
}

/// Makes the file `name` of the first `size_bytes` of `content`.
pub(crate) fn create_from_content(
    dir: &DirectoryHandle,
    name: &OsStr,
    (content, size_bytes): (&FileContent, u64),
    looks: &FileAttributes,
) -> Result<FileMetadata, FileSystemError> {
    let file = create_file(dir, name)?;
    copy(content, &file, size_bytes)?;
    apply_attributes(&file, looks)
}

/// Makes the file `name` of `bytes`.
pub(crate) fn create_from_bytes(
    dir: &DirectoryHandle,
    name: &OsStr,
    bytes: &[u8],
    looks: &FileAttributes,
) -> Result<FileMetadata, FileSystemError> {
    let mut file = create_file(dir, name)?;
    file.write_all(bytes)?;
    apply_attributes(&file, looks)
}

/// Copies the file, link or directory `name` of `from` into `to` under the same name, with all that it
/// looks like. A directory is copied without what is in it.
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
            let source = (&content, meta.version.size_bytes);
            create_from_content(to, name, source, &FileAttributes::from_metadata(&meta)).map(drop)
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

/// Makes the directory `name` with these permission bits, whatever the umask says.
pub(crate) fn make_dir(
    dir: &DirectoryHandle,
    name: &OsStr,
    mode: Mode,
) -> Result<(), FileSystemError> {
    rustix::fs::mkdirat(dir, name, Mode::RWXU)?;
    set_dir_mode(dir, name, mode)
}

/// Gives the directory `name` these permission bits.
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

/// Whether names can be moved between two directories in one step: they are on the same file system,
/// mounted at the same place.
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

/// When the file or directory was made, in nanoseconds since 1970, where the file system knows, and
/// its number there. No other one of the machine has both.
pub(crate) fn birth_identity(handle: impl AsFd) -> Result<(u64, i64), FileSystemError> {
    let stat = statx(
        handle,
        "",
        AtFlags::EMPTY_PATH,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME,
    )?;
    let born = stat.stx_btime;
    let born_ns = i128::from(born.tv_sec) * SECOND_NS + i128::from(born.tv_nsec);
    Ok((stat.stx_ino, i64::try_from(born_ns).unwrap_or_default()))
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

fn apply_attributes(file: &File, looks: &FileAttributes) -> Result<FileMetadata, FileSystemError> {
    if let Some((owner, group)) = looks.owner {
        match fchown(file, Some(owner), Some(group)) {
            Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    fchmod(file, looks.mode)?;
    if let Some(modified_ns) = looks.modified_ns {
        futimens(file, &modified_at(modified_ns)?)?;
    }
    FileMetadata::from_handle(file)
}

/// Says when the link or directory `name` last changed.
fn set_times(
    dir: &DirectoryHandle,
    name: &OsStr,
    modified_ns: i128,
) -> Result<(), FileSystemError> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    Ok(utimensat(dir, name, &modified_at(modified_ns)?, flags)?)
}
