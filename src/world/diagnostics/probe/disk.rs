//! Probes the disk: which features the file system of massgen's state directory really supports,
//! and whether directories for configs are readable.

use std::path::Path;
use std::{io, result};

use crate::error::Result;
use crate::mentions::LookupResult;
use crate::path::AbsPath;
use crate::world::io::files::inspect;
use crate::world::sys::file_system_features;
use crate::world::sys::state_files::dir::{
    self, DirectoryAudience, DirectoryCreation, StagingDirectory,
};
use crate::world::sys::state_files::file;

/// A feature that is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystemFeature {
    /// Writing a file and reading it back.
    Write,
    /// Flushing it and its directory to the disk (fsync).
    Sync,
    /// Replacing another file atomically (rename).
    Rename,
    /// Creating an unnamed file and linking it afterwards (`O_TMPFILE`).
    UnnamedFile,
    /// Giving a file a second name (hard link).
    HardLink,
    /// Copying a file so that it shares its blocks with the original (reflink).
    SharedCopy,
    /// Locking a file against other processes (flock).
    Lock,
}

/// A test in a directory.
type FeatureTest = fn(&Path) -> io::Result<()>;

/// All tests in order; each may use the files of earlier ones.
const FEATURE_TESTS: &[(FileSystemFeature, FeatureTest)] = &[
    (FileSystemFeature::Write, file_system_features::write),
    (FileSystemFeature::Sync, file_system_features::sync),
    (FileSystemFeature::Rename, file_system_features::rename),
    (
        FileSystemFeature::UnnamedFile,
        file_system_features::unnamed_file,
    ),
    (FileSystemFeature::HardLink, file_system_features::hard_link),
    (
        FileSystemFeature::SharedCopy,
        file_system_features::shared_copy,
    ),
    (FileSystemFeature::Lock, file_system_features::lock),
];

/// Capabilities of a file system.
#[derive(Clone, Debug)]
pub struct DiskProbe {
    /// The tested features, each with the system's error message if it does not work.
    pub features: Vec<(FileSystemFeature, Option<String>)>,
    /// Free space, if the system reports it.
    pub free_space: Option<FreeSpace>,
}

/// Free space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that the user may still use.
    pub free_bytes: u64,
    /// Number of files that can still be created; `None` if the file system has no such limit.
    pub free_files: Option<u64>,
    /// Name of the file system type.
    pub kind: &'static str,
}

/// File system types by magic number (statfs(2)).
const FILE_SYSTEM_NAMES: &[(i64, &str)] = &[
    (0xef53, "ext4"),
    (0x9123_683e, "btrfs"),
    (0x5846_5342, "xfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlayfs"),
    (0x6573_5546, "fuse"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb"),
    (0x0102_1997, "9p"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0xf15f, "ecryptfs"),
];

/// Tests the file system in the state directory `dir`. Nothing is left there; a `dir` that did not
/// exist is removed again, but not the directories above it.
///
/// # Errors
/// `dir` is a symlink, cannot be created, or nothing can be created in it.
pub fn probe_disk(dir: &AbsPath) -> Result<DiskProbe> {
    if file::is_link(dir)? {
        let error = io::Error::other("it is a symlink");
        return Err(
            crate::error::Error::io(format!("cannot use `{dir}`"), error)
                .with_hint("remove the symlink: a run would write to its target"),
        );
    }
    if let Some(parent) = dir.parent() {
        dir::create_all(&parent, DirectoryAudience::Umask)?;
    }
    let creation = dir::create(dir)?;
    let disk = probe_inside(dir);
    if creation == DirectoryCreation::Created {
        dir::remove_empty(dir);
    }
    disk
}

fn probe_inside(dir: &AbsPath) -> Result<DiskProbe> {
    let staging = StagingDirectory::new(dir)?;
    let directory = staging.path().as_path();
    let failure = |test: FeatureTest| test(directory).err().map(|error| error.to_string());
    let features = FEATURE_TESTS
        .iter()
        .map(|(feature, test)| (*feature, failure(*test)));
    Ok(DiskProbe {
        features: features.collect(),
        free_space: free_space(dir).ok(),
    })
}

fn free_space(dir: &AbsPath) -> io::Result<FreeSpace> {
    let file_system_features::FileSystemSpace {
        free_bytes,
        files,
        magic,
        ..
    } = file_system_features::file_system_space(dir)?;
    let known_name = FILE_SYSTEM_NAMES
        .iter()
        .find(|(number, _)| *number == magic);
    Ok(FreeSpace {
        free_bytes,
        free_files: files.map(|files| files.free),
        kind: known_name.map_or("unknown", |(_, name)| name),
    })
}

/// Checks whether a directory for configs can be used; a missing one can.
///
/// # Errors
/// The reason why it cannot be used.
pub fn check_config_dir(dir: &AbsPath) -> result::Result<(), &'static str> {
    match inspect(dir) {
        LookupResult::Directory | LookupResult::Missing => Ok(()),
        LookupResult::File => Err("it is a file"),
        LookupResult::Unreadable => Err("it cannot be read"),
    }
}
