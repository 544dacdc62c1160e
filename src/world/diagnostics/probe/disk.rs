//! Owns the look at the disk: what the file system under massgen's state directory can really do,
//! and whether the directories of configs can be read.

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

/// What is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystemFeature {
    /// A file is written and read back.
    Write,
    /// It is brought to the disk (fsync), with the directory that holds it.
    Sync,
    /// It replaces another in one step.
    Rename,
    /// A file without a name is made and then named (`O_TMPFILE`).
    UnnamedFile,
    /// A file gets a second name.
    HardLink,
    /// A copy shares its blocks with the original (reflink).
    SharedCopy,
    /// A file is held against other processes (flock).
    Lock,
}

/// A trial in a directory.
type FeatureTest = fn(&Path) -> io::Result<()>;

/// All trials; each may use what those before it have left.
const TRIALS: &[(FileSystemFeature, FeatureTest)] = &[
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

/// What a file system can do.
#[derive(Clone, Debug)]
pub struct DiskProbe {
    /// What was tried, with the system's words where it did not work.
    pub tried: Vec<(FileSystemFeature, Option<String>)>,
    /// How much room there is, where the system tells.
    pub room: Option<FreeSpace>,
}

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Bytes that the user may still fill.
    pub free_bytes: u64,
    /// Files that may still be made; `None` where the file system has no such limit.
    pub free_files: Option<u64>,
    /// The name of the kind of file system.
    pub kind: &'static str,
}

/// The kinds of file systems by their numbers (statfs(2)).
const KINDS: &[(i64, &str)] = &[
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

/// Tries the file system inside the state directory `dir`. Nothing is left there; a `dir` that was
/// not there goes again.
///
/// # Errors
/// `dir` is a link, cannot be made, or nothing can be made in it.
pub fn probe_disk(dir: &AbsPath) -> Result<DiskProbe> {
    if file::is_link(dir) {
        let error = io::Error::other("it is a symbolic link");
        return Err(
            crate::error::Error::io(format!("cannot use `{dir}`"), error)
                .with_hint("remove the link: a run would write where it leads"),
        );
    }
    if let Some(parent) = dir.parent() {
        dir::create_all(&parent, DirectoryAudience::Umask)?;
    }
    let made = dir::create(dir)?;
    let disk = probe_inside(dir);
    if made == DirectoryCreation::Created {
        dir::remove_empty(dir);
    }
    disk
}

fn probe_inside(dir: &AbsPath) -> Result<DiskProbe> {
    let stage = StagingDirectory::new(dir)?;
    let place = stage.path().as_path();
    let fault = |trial: FeatureTest| trial(place).err().map(|error| error.to_string());
    let tried = TRIALS
        .iter()
        .map(|(ability, trial)| (*ability, fault(*trial)));
    Ok(DiskProbe {
        tried: tried.collect(),
        room: free_space(dir).ok(),
    })
}

fn free_space(dir: &AbsPath) -> io::Result<FreeSpace> {
    let file_system_features::FileSystemSpace {
        free_bytes,
        files,
        magic,
    } = file_system_features::file_system_space(dir)?;
    let kind = KINDS.iter().find(|(number, _)| *number == magic);
    Ok(FreeSpace {
        free_bytes,
        free_files: files.map(|files| files.free),
        kind: kind.map_or("unknown", |(_, kind)| kind),
    })
}

/// Why a directory that may hold configs cannot be used; nothing where there is none.
pub fn unusable_reason(dir: &AbsPath) -> result::Result<(), &'static str> {
    match inspect(dir) {
        LookupResult::Directory | LookupResult::Missing => Ok(()),
        LookupResult::File => Err("it is a file"),
        LookupResult::Unreadable => Err("it cannot be read"),
    }
}
