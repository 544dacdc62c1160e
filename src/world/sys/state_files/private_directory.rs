//! A private directory of the user, in a parent directory where only that user can create or rename
//! entries. The parent is opened without following symlinks, and everything in it beneath its
//! handle and without crossing mount points, so no other user can have written what is read.
#![expect(clippy::disallowed_types, reason = "only world::sys touches files")]

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, renameat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::path::AbsPath;
use crate::world::sys::state_files::file::read_open_capped;
use crate::world::sys::state_files::random_digits;

/// The mode bits of other users, who must not access the directory or a file in it.
const OTHERS_ACCESS: Mode = Mode::RWXG.union(Mode::RWXO);
/// The mode bits by which other users could write to the directory that contains it. Where there
/// is an access control list, the bit of the group stands for all whom it names.
const OTHERS_WRITE: Mode = Mode::WGRP.union(Mode::WOTH);
/// How many digits make the name of a temporary file unique.
const UNIQUE_DIGITS: usize = 8;

/// A handle on the private directory.
#[derive(Debug)]
pub(crate) struct PrivateDirectory(OwnedFd);

impl PrivateDirectory {
    /// Opens the directory `name` in `parent`. It is an error if another user owns one of them, may
    /// write to `parent`, or may access `name` at all.
    pub(crate) fn open(parent: &AbsPath, name: &str) -> io::Result<Self> {
        Self::open_in(&open_parent(parent)?, name)
    }

    /// Like [`PrivateDirectory::open`], but creates the directory if it is missing.
    pub(crate) fn open_or_create(parent: &AbsPath, name: &str) -> io::Result<Self> {
        let parent = open_parent(parent)?;
        match mkdirat(&parent, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open_in(&parent, name),
            Err(errno) => Err(errno.into()),
        }
    }

    fn open_in(parent: &OwnedFd, name: &str) -> io::Result<Self> {
        let directory = open_beneath(parent, name, OFlags::PATH)?;
        expect_own(&directory, FileType::Directory, OTHERS_ACCESS)?;
        Ok(Self(directory))
    }

    /// Reads the file `name` in it; `None` if it has more than `bytes_max` bytes. It is an error if
    /// another user owns the file or may access it.
    pub(crate) fn read_capped(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        let file = open_beneath(&self.0, name, OFlags::RDONLY | OFlags::NONBLOCK)?;
        expect_own(&file, FileType::RegularFile, OTHERS_ACCESS)?;
        read_open_capped(File::from(file), bytes_max)
    }

    /// Writes `bytes` to the file `name` in it atomically. Whatever has that name is replaced, a
    /// symlink too.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let temporary = format!(".{name}-{}", random_digits(UNIQUE_DIGITS));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.0, &temporary, flags, Mode::RUSR | Mode::WUSR)?);
        let write_result = file.write_all(bytes);
        let result = write_result.and_then(|()| Ok(renameat(&self.0, &temporary, &self.0, name)?));
        if result.is_err() {
            unlinkat(&self.0, &temporary, AtFlags::empty()).unwrap_or_default();
        }
        result
    }
}

fn open_parent(path: &AbsPath) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent = openat2(CWD, path.as_path(), flags, Mode::empty(), resolve)?;
    expect_own(&parent, FileType::Directory, OTHERS_WRITE)?;
    Ok(parent)
}

fn open_beneath(directory: &OwnedFd, name: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let flags = flags | OFlags::CLOEXEC;
    Ok(openat2(directory, name, flags, Mode::empty(), resolve)?)
}

/// Checks that something is of this `kind`, belongs to the user, and has none of the `forbidden`
/// mode bits.
fn expect_own(handle: impl AsFd, kind: FileType, forbidden: Mode) -> io::Result<()> {
    let stat = fstat(handle)?;
    let is_own = stat.st_uid == geteuid().as_raw();
    let is_kind = FileType::from_raw_mode(stat.st_mode) == kind;
    if is_own && is_kind && !Mode::from_raw_mode(stat.st_mode).intersects(forbidden) {
        Ok(())
    } else {
        Err(ErrorKind::PermissionDenied.into())
    }
}

#[cfg(test)]
mod tests {
    #![expect(
        clippy::disallowed_methods,
        reason = "tests look at the disk themselves"
    )]

    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::path::PathBuf;

    use rustix::process::geteuid;
    use tempfile::TempDir;

    use crate::path::AbsPath;
    use crate::world::sys::state_files::private_directory::PrivateDirectory;

    const DIRECTORY: &str = "own";
    const FILE: &str = "facts";
    const BYTES_MAX: u64 = 64;
    /// A user other than the one that runs the tests.
    const STRANGER: u32 = 65_533;

    struct Parent(TempDir);

    impl Parent {
        /// A directory in which the file has been written.
        fn new() -> Self {
            let parent = Self(tempfile::tempdir().unwrap());
            let directory = PrivateDirectory::open_or_create(&parent.path(), DIRECTORY).unwrap();
            directory.replace(FILE, b"known").unwrap();
            assert_eq!(parent.read(), Some(b"known".to_vec()));
            parent
        }

        fn path(&self) -> AbsPath {
            AbsPath::new(self.0.path().canonicalize().unwrap()).unwrap()
        }

        fn directory(&self) -> PathBuf {
            self.0.path().join(DIRECTORY)
        }

        fn file(&self) -> PathBuf {
            self.directory().join(FILE)
        }

        fn read(&self) -> Option<Vec<u8>> {
            let directory = PrivateDirectory::open(&self.path(), DIRECTORY).ok()?;
            directory.read_capped(FILE, BYTES_MAX).ok().flatten()
        }

        fn is_writable(&self) -> bool {
            let directory = PrivateDirectory::open_or_create(&self.path(), DIRECTORY);
            directory.is_ok_and(|directory| directory.replace(FILE, b"new").is_ok())
        }
    }

    fn set_mode(path: impl AsRef<std::path::Path>, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_private_directory_and_its_files_are_for_the_user_alone() {
        let parent = Parent::new();
        for path in [parent.directory(), parent.file()] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
        let names = fs::read_dir(parent.directory()).unwrap();
        assert_eq!(names.count(), 1, "a temporary file was left");
        fs::write(parent.file(), vec![b'x'; 65]).unwrap();
        assert_eq!(parent.read(), None, "longer than the limit");
    }

    #[test]
    fn a_parent_in_which_others_may_create_is_refused() {
        for mode in [0o777, 0o1777, 0o770, 0o702] {
            let parent = Parent::new();
            set_mode(parent.0.path(), mode);
            assert_eq!(parent.read(), None, "{mode:o}");
            assert!(!parent.is_writable(), "{mode:o}");
            set_mode(parent.0.path(), 0o755);
            assert_eq!(parent.read(), Some(b"known".to_vec()), "{mode:o}");
        }
    }

    #[test]
    fn private_paths_that_others_can_access_are_refused() {
        for mode in [0o755, 0o701, 0o710, 0o707] {
            let parent = Parent::new();
            set_mode(parent.directory(), mode);
            assert_eq!(parent.read(), None, "{mode:o}");
            assert!(!parent.is_writable(), "{mode:o}");
        }
        for mode in [0o604, 0o640, 0o602, 0o660] {
            let parent = Parent::new();
            set_mode(parent.file(), mode);
            assert_eq!(parent.read(), None, "{mode:o}");
        }
    }

    #[test]
    fn symlinks_are_not_followed() {
        let parent = Parent::new();
        let elsewhere = tempfile::tempdir().unwrap();
        let moved = elsewhere.path().join("moved");
        fs::rename(parent.file(), &moved).unwrap();
        symlink(&moved, parent.file()).unwrap();
        assert_eq!(parent.read(), None);
        assert!(parent.is_writable(), "the symlink itself is replaced");
        assert_eq!(fs::read(&moved).unwrap(), b"known");
        assert_eq!(parent.read(), Some(b"new".to_vec()));

        fs::remove_dir_all(parent.directory()).unwrap();
        fs::rename(&moved, elsewhere.path().join(FILE)).unwrap();
        set_mode(elsewhere.path(), 0o700);
        symlink(elsewhere.path(), parent.directory()).unwrap();
        assert_eq!(parent.read(), None);
        assert!(!parent.is_writable());
        fs::remove_file(parent.directory()).unwrap();
        fs::rename(elsewhere.path(), parent.directory()).unwrap();
        assert_eq!(parent.read(), Some(b"known".to_vec()));

        let beside = Parent::new();
        let link = beside.path().join("link");
        symlink(beside.path().as_path(), link.as_path()).unwrap();
        assert!(PrivateDirectory::open(&link, DIRECTORY).is_err());
        assert!(PrivateDirectory::open(&beside.path(), DIRECTORY).is_ok());
    }

    #[test]
    fn private_paths_of_the_wrong_kind_are_refused() {
        let parent = Parent::new();
        fs::remove_file(parent.file()).unwrap();
        fs::create_dir(parent.file()).unwrap();
        assert_eq!(parent.read(), None);
        assert!(!parent.is_writable());
        fs::remove_dir_all(parent.directory()).unwrap();
        assert_eq!(parent.read(), None, "it is missing");
        fs::write(parent.directory(), "").unwrap();
        set_mode(parent.directory(), 0o600);
        assert_eq!(parent.read(), None);
        assert!(!parent.is_writable());
    }

    #[test]
    fn private_directories_of_other_users_are_refused() {
        if !geteuid().is_root() {
            return;
        }
        let of_stranger: [fn(&Parent) -> PathBuf; 3] = [
            |parent| parent.0.path().to_owned(),
            Parent::directory,
            Parent::file,
        ];
        for path in of_stranger {
            let parent = Parent::new();
            let path = path(&parent);
            chown(&path, Some(STRANGER), None).unwrap();
            assert_eq!(parent.read(), None, "{}", path.display());
            chown(&path, Some(0), None).unwrap();
            assert_eq!(parent.read(), Some(b"known".to_vec()));
        }
    }
}
