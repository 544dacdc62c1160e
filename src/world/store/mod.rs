//! The state that massgen keeps on disk under `.massgen`: workspaces, snapshots, sessions and
//! records. Nothing that massgen did not create is ever emptied or replaced here.

use crate::config::storage_path::STATE_DIR;
use crate::error::{Error, ErrorKind, Result};
use crate::path::AbsPath;
use crate::world::store::project_directory::STATE_DIR_VARIABLE;
use crate::world::sys::state_files::dir::{
    self, DirectoryAudience, DirectoryCreation, StagingDirectory,
};
use crate::world::sys::state_files::file;

pub(in crate::world) mod directory_seal;
pub mod redact;
pub(crate) mod stream_redactor;
pub mod json_line;
pub mod diagnostic_log;
mod log_line;
pub mod event_log;
pub mod project_directory;
pub mod naming;
pub mod records;
pub mod delivery_names;
pub mod runs;
pub mod pipelines;
pub mod pipeline_log;
pub mod sandboxes;
pub mod tail;
pub mod snapshot;
pub mod workspace;
pub mod memory;
pub mod paid_media;
pub mod sessions;
pub mod prune;
pub mod input_history;
pub mod approvals;
pub mod batches;

/// Creates massgen's state directory (`.massgen`) if it does not exist, accessible to the user
/// alone and with a `.gitignore` that keeps it out of the user's repository. An existing one is not
/// changed.
///
/// A symlink on the path from there to one of `paths` is an error: a repository can contain one,
/// and massgen would write to its target. To use a directory elsewhere, name it in the config.
pub fn prepare_state_dir<'p>(
    dir: &AbsPath,
    paths: impl IntoIterator<Item = &'p AbsPath>,
) -> Result<()> {
    reject_symlinks(dir, paths)?;
    let with_state_dir_hint = |error: Error| {
        error.with_hint(format!(
            "to store state in a directory of yours: {STATE_DIR_VARIABLE}=DIR massgen …"
        ))
    };
    if let Some(parent) = dir.parent() {
        dir::create_all(&parent, DirectoryAudience::Umask).map_err(with_state_dir_hint)?;
    }
    if dir::create(dir).map_err(with_state_dir_hint)? == DirectoryCreation::Created {
        file::replace_unsynced(&dir.join(".gitignore"), b"*\n")?;
    } else if !dir::has_trusted_owner(dir)? {
        let message = format!("`{dir}` belongs to another user, who could change what is in it");
        return Err(with_state_dir_hint(Error::new(
            ErrorKind::Environment,
            message,
        )));
    }
    Ok(())
}

/// Refuses a symlink on the path from the state directory `dir` to any of `paths`, where something
/// is about to be created or removed.
pub fn reject_symlinks<'p>(
    dir: &AbsPath,
    paths: impl IntoIterator<Item = &'p AbsPath>,
) -> Result<()> {
    reject_symlink(dir)?;
    for path in paths {
        let rel_path = path.as_path().strip_prefix(dir.as_path());
        let mut current = dir.clone();
        for name in rel_path.iter().flat_map(|below| below.iter()) {
            current = current.join(name);
            reject_symlink(&current)?;
        }
    }
    Ok(())
}

/// Refuses a symlink on the path to `path` from the innermost state directory around it. A
/// repository can contain one, and a listing of `path` would show files from elsewhere.
pub fn reject_symlinks_to(path: &AbsPath) -> Result<()> {
    let mut state = Some(path.clone());
    while let Some(dir) = state {
        if dir
            .as_path()
            .file_name()
            .is_some_and(|name| name == STATE_DIR)
        {
            return reject_symlinks(&dir, [path]);
        }
        state = dir.parent();
    }
    Ok(())
}

/// Returns those of `directories` that exist.
fn existing_directories<T>(
    directories: impl IntoIterator<Item = T>,
    exists: impl Fn(&T) -> Result<bool>,
) -> Result<Vec<T>> {
    let existing = directories.into_iter().filter_map(|directory| {
        let exists = exists(&directory);
        exists.map(|exists| exists.then_some(directory)).transpose()
    });
    existing.collect()
}

fn reject_symlink(path: &AbsPath) -> Result<()> {
    if file::is_link(path)? {
        Err(Error::new(
            ErrorKind::Environment,
            format!("`{path}` is a symlink, and massgen would write to its target"),
        )
        .with_hint("remove the symlink, or set the intended directory in the config"))
    } else {
        Ok(())
    }
}

/// A directory that is removed on drop.
#[derive(Debug)]
pub struct ScratchDir(StagingDirectory);

impl ScratchDir {
    /// Creates one inside `parent`, which is created if needed; its name starts with `prefix`.
    pub fn make(parent: &AbsPath, prefix: &str) -> Result<Self> {
        dir::create_all(parent, DirectoryAudience::User)?;
        StagingDirectory::with_prefix(parent, prefix).map(Self)
    }

    /// Returns its path.
    pub fn path(&self) -> &AbsPath {
        self.0.path()
    }

    /// Keeps the directory and returns its path.
    pub fn keep(self) -> AbsPath {
        self.0.keep()
    }
}
