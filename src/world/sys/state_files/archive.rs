//! Packs one of massgen's own directories into an archive. Symlinks are packed as symlinks, and
//! pipes, sockets and devices are left out. A file that is being written is packed with the size
//! that it had when it was opened.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "only world::sys touches files"
)]

use std::fs::{self, DirEntry, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::fs::OFlags;
use tar::{Builder, EntryType, Header};

use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::sys::dir::DirectoryHandle;
use crate::world::sys::file_system_error::FileSystemError;
use crate::world::sys::staged_file::{PlacementDurability, ReplacePolicy, StagedFile};
use crate::world::sys::state_files::file_error;

/// The most entries of a directory that is packed.
const ENTRIES_MAX: usize = 1_000_000;
/// The most nested directories: those of a workspace, and those around it.
const DEPTH_MAX: usize = 80;

/// Packs the content of `dir` under the directory `name` of a new archive (`tar`, then `gzip`) at
/// `to`, sorted by name. Returns the number of files. A file at `to` is never replaced, and a killed
/// process leaves nothing there.
pub(crate) fn pack(dir: &AbsPath, name: &str, to: &AbsPath) -> Result<usize> {
    let write_error =
        |error: FileSystemError| Error::new(ErrorKind::Io, format!("cannot write `{to}`: {error}"));
    let parent = to.parent().unwrap_or_else(AbsPath::root);
    let parent = DirectoryHandle::open_own(&parent).map_err(write_error)?;
    let archive = StagedFile::new_private(&parent).map_err(write_error)?;
    let file = archive.as_fd().try_clone_to_owned().map(File::from);
    let file = file.map_err(|error| file_error("write", to.as_path(), error))?;
    let files = write_archive(&file, dir, name)?;
    let target = to.as_path().file_name().unwrap_or_default();
    match archive.place_at(target, ReplacePolicy::Nothing, PlacementDurability::Synced) {
        Ok(_) => Ok(files),
        Err(FileSystemError::Exists) => {
            let message = format!("`{to}` already exists");
            Err(Error::new(ErrorKind::Usage, message).with_hint("choose another file with `-o`"))
        }
        Err(error) => Err(write_error(error)),
    }
}

/// Writes the archive to `file`.
fn write_archive(file: &File, dir: &AbsPath, name: &str) -> Result<usize> {
    let mut writer = ArchiveWriter {
        archive: Builder::new(GzEncoder::new(file, Compression::default())),
        file_count: 0,
        entry_count: 0,
    };
    let append_result = writer.append_directory(dir.as_path(), Path::new(name), 0);
    let ArchiveWriter {
        archive,
        file_count,
        ..
    } = writer;
    append_result
        .and_then(|()| archive.into_inner())
        .and_then(GzEncoder::finish)
        .map(|_| file_count)
        .map_err(|error| file_error("pack", dir.as_path(), error))
}

struct ArchiveWriter<W: Write> {
    archive: Builder<W>,
    file_count: usize,
    entry_count: usize,
}

impl<W: Write> ArchiveWriter<W> {
    fn append_directory(&mut self, from: &Path, to: &Path, depth: usize) -> io::Result<()> {
        if depth > DEPTH_MAX {
            let excess = format!("more than {DEPTH_MAX} directories in each other");
            return Err(io::Error::other(excess));
        }
        let entries: io::Result<Vec<DirEntry>> = fs::read_dir(from)?.collect();
        let mut paths: Vec<PathBuf> = entries?.iter().map(DirEntry::path).collect();
        paths.sort_unstable();
        self.entry_count = self.entry_count.saturating_add(paths.len());
        if self.entry_count > ENTRIES_MAX {
            let excess = format!("more than {ENTRIES_MAX} entries");
            return Err(io::Error::other(excess));
        }
        for path in paths {
            let Some(name) = path.file_name() else {
                continue;
            };
            let to = to.join(name);
            let metadata = fs::symlink_metadata(&path)?;
            if metadata.is_dir() {
                let mut header = header(&metadata, EntryType::Directory, 0o700);
                self.archive.append_data(&mut header, &to, io::empty())?;
                self.append_directory(&path, &to, depth.saturating_add(1))?;
            } else if metadata.is_symlink() {
                let mut header = header(&metadata, EntryType::Symlink, 0o777);
                let target = fs::read_link(&path)?;
                self.archive.append_link(&mut header, &to, target)?;
            } else if metadata.is_file() {
                self.append_file(&path, &to)?;
            }
        }
        Ok(())
    }

    fn append_file(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(no_follow)
            .open(from)?;
        let metadata = file.metadata()?;
        let mode = 0o600 | (metadata.mode() & 0o100);
        let mut header = header(&metadata, EntryType::Regular, mode);
        header.set_size(metadata.len());
        header.set_cksum();
        // The header contains the size: exactly that many bytes must follow.
        let content = File::take(file, metadata.len()).chain(io::repeat(0));
        self.archive
            .append_data(&mut header, to, content.take(metadata.len()))?;
        self.file_count = self.file_count.saturating_add(1);
        Ok(())
    }
}

/// Creates the header of an entry: its kind and time, and nothing about the user who packed it.
fn header(metadata: &Metadata, kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    header
}
