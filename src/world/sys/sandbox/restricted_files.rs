//! Finds the settings of the machine that only their owner and group can read. To a command that
//! root starts they would be readable: root is their owner.
#![expect(clippy::disallowed_methods, reason = "this is where the disk is")]

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::sandbox_policy::SandboxPolicy;

/// Where the machine's settings are.
pub(crate) const SETTINGS: &str = "/etc";

/// What all users may do with a file that is not secret: read it; with such a directory, search it,
/// too.
const READ: u32 = 0o4;
const READ_AND_PASS: u32 = 0o5;

/// The most entries that are examined.
const ENTRIES_MAX: usize = 200_000;

/// The settings that are closed to other users, as they were when they were searched.
#[derive(Debug)]
pub(crate) struct RestrictedFiles {
    /// A directory comes before its content. Empty for a process that is not root: its commands
    /// cannot read them anyway.
    paths: io::Result<Vec<PathBuf>>,
}

impl RestrictedFiles {
    /// Finds everything that only its owner and its group can read.
    pub(crate) fn find() -> Self {
        let is_root = geteuid().is_root();
        Self {
            paths: if is_root {
                find_restricted()
            } else {
                Ok(Vec::new())
            },
        }
    }

    /// Returns what is hidden from a command with this `policy`. Paths that the user opened
    /// are left out, and those on the way there.
    pub(crate) fn hidden_from(&self, policy: &SandboxPolicy) -> io::Result<Vec<&Path>> {
        let paths = match &self.paths {
            Ok(paths) => paths,
            Err(error) => return Err(io::Error::new(error.kind(), error.to_string())),
        };
        let roots: Vec<&Path> = policy
            .open
            .iter()
            .map(|opening| opening.path.as_path())
            .collect();
        let is_open = |path: &Path| {
            let leads = |root: &&Path| path.starts_with(root) || root.starts_with(path);
            roots.iter().any(leads)
        };
        let closed = paths.iter().map(PathBuf::as_path);
        Ok(closed.filter(|path| !is_open(path)).collect())
    }
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn find_restricted() -> io::Result<Vec<PathBuf>> {
    let mut restricted = Vec::new();
    let mut entries_left = ENTRIES_MAX;
    let mut directories = vec![PathBuf::from(SETTINGS)];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // The root user of a namespace reads no more than its user outside; nor do commands.
            Err(error) if is_denied(&error) && restricted.contains(&directory) => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            entries_left = entries_left.checked_sub(1).ok_or_else(limit_error)?;
            // A link restricts nothing by itself, and on some machines most entries are links.
            if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
                continue;
            }
            let path = entry.path();
            let meta = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                meta => meta?,
            };
            let wanted = if meta.is_dir() { READ_AND_PASS } else { READ };
            if meta.is_dir() {
                directories.push(path.clone());
            }
            if !meta.is_symlink() && meta.mode() & wanted != wanted {
                restricted.push(path);
            }
        }
    }
    Ok(restricted)
}

fn limit_error() -> io::Error {
    io::Error::other(format!("it holds more than {ENTRIES_MAX} entries"))
}
